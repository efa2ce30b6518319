"""Which objects hold the records that are wanted back, and what do their rows mean in Kafka? By the commit log, or by the names of objects
without one; value, key, headers and time as far as the objects kept them.
"""

from __future__ import annotations

import base64
import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import Any, Final

from kafka_s3.connect.converters.whole_records import FIELD, bytes_of_text
from kafka_s3.connect.naming.keys import (
    DataKeys,
    ObjectKey,
    last_of_rewritten,
    read_block_key,
    rewrite_of,
    slices_of_rewritten,
)
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import NONE, UNPUBLISHED, LogFold, Replacement, Segment, erased_after
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.engine.log.spill import TemporaryDatabase
from kafka_s3.model.files import ROLES, DataFile, Role
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.objects.block_gzip_form import Framing
from kafka_s3.objects.readers import ObjectUnreadable, StoredObject, rows_of
from kafka_s3.store.store import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The records of one file: an object of values, and those of keys and headers beside it; without values they are tombstones.

    `records` None: nothing but the object itself knows. Rows `[skip, until)` are wanted (None: to the end). `timestamp` is that of all its
    records, epoch ms, None where they have different ones, or where it is not known. `in_order`: as their offsets are.

    Where the objects hold other topic-partitions, too, these are its rows alone, and `place` says how many of the objects' come before
    them, and how many there are. `erased` are the offsets in its range that it lacks because their records were erased.
    """

    topic_partition: TopicPartition
    first_offset: int
    folder: str
    parts: dict[Role, StoredObject] = field(default_factory=dict)
    records: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    skip: int = 0
    until: int | None = None
    in_order: bool = True
    place: tuple[int, int] | None = None
    erased: OffsetSet = field(default_factory=OffsetSet)

    @property
    def name(self) -> str:
        """The key by which it is called: that of its values, or of its keys."""
        return self.parts[Role.VALUE if Role.VALUE in self.parts else Role.KEY].key

    @property
    def timestamp(self) -> int | None:
        """The time of all its records."""
        return self.min_timestamp if self.min_timestamp == self.max_timestamp else None

    @property
    def dense(self) -> bool:
        """Whether its records fill its offsets in their order, so that each row's offset is known."""
        return (
            self.in_order and self.last_offset is not None and self.records == self.last_offset - self.first_offset + 1
        )

    @property
    def wanted(self) -> int | None:
        """How many rows are wanted, None where that is not known before it is read."""
        end = self.records if self.until is None else self.until
        return None if end is None else max(end - self.skip, 0)

    def wants(self, row: int) -> bool:
        inside = self.place is None or self.records is None or row < self.records
        return inside and self.skip <= row and (self.until is None or row < self.until)

    def before(self, offset: int) -> StoredFile:
        """Without the rows that are surely at or behind an offset: the n-th is at the first offset and n, or later."""
        most = max(offset - self.first_offset, 0)
        if self.last_offset is not None and self.last_offset < offset:
            return self
        return replace(self, until=most if self.until is None else min(most, self.until))


Headers = tuple[tuple[str, bytes | None], ...]
REPLACEMENT: Final = "\ufffd".encode()
_WRAPPER: Final = {Role.KEY: "key", Role.HEADER: "headers"}
_END: Final = object()


@dataclass(frozen=True, slots=True)
class RowReading:
    """How rows of a sink's objects are read back. Converters are named as in the configuration's checked settings.

    `metadata`: values carry the struct `_kafka` (record.metadata.enable), which says key, headers and time of each record.
    """

    separator: bytes
    framing: Framing
    value_converter: str
    key_converter: str
    header_converter: str
    metadata: bool

    def lacks_bytes(self, message: Message) -> bool:
        """Return whether a record holds U+FFFD in what was stored as text, which may stand for bytes that were not UTF-8."""
        texts = [message.value] if self.value_converter == "string" else []
        texts += [message.key] if self.key_converter == "string" else []
        if self.metadata or self.header_converter != "bytes":
            texts += [value for _, value in message.headers]
        return any(REPLACEMENT in text for text in texts if text is not None)

    def messages(self, store: ObjectStore, file: StoredFile) -> Iterator[Message]:
        """The wanted records of a file, in order: sorted rows in that of the offsets that their metadata have, if they have some.

        Raises ObjectUnreadable, also where sidecars or the log count others; StorageError.
        """
        rows = self._rows(store, file)
        if self.metadata and not file.in_order:
            rows = iter(sorted(rows, key=lambda found: _offset(found[Role.VALUE])))
        before, _ = file.place or (0, 0)
        for row, found in enumerate(rows, -before):
            if file.wants(row):
                yield self._message(file, found, row)

    def _rows(self, store: ObjectStore, file: StoredFile) -> Iterator[dict[Role, Any]]:
        columns = {
            role: rows_of(store, part, separator=self.separator, framing=self.framing)
            for role, part in file.parts.items()
        }
        for row in count():
            found = {role: next(rows, _END) for role, rows in columns.items()}
            ended = [role for role, one in found.items() if one is _END]
            if ended:
                counted = file.records if file.place is None else file.place[1]
                if len(ended) < len(found) or counted not in (None, row):
                    raise ObjectUnreadable(
                        f"{file.name} and what lies beside it hold {row} records, {counted or 'its sidecars'} are counted. "
                        "kafka-s3 verify says what is wrong."
                    )
                return
            yield found

    def _message(self, file: StoredFile, found: dict[Role, Any], row: int) -> Message:
        row_value, part = found.get(Role.VALUE), file.parts.get(Role.VALUE)
        key: bytes | None = None
        headers: Headers = ()
        time = file.timestamp
        if isinstance(row_value, tuple):  # Block-GZIP with keys
            key, row_value = row_value
        if self.metadata and part is not None:
            row_value, kept = _metadata(json.loads(row_value) if isinstance(row_value, bytes) else row_value)
            if kept is not None:
                key, time = self._key(kept.get("key")), kept.get("timestamp")
                headers = _headers(kept.get("headers"), bytes_of_text)
        as_json = part is not None and part.format == "json"
        value = in_kafka(row_value, self.value_converter if as_json else "")
        if Role.KEY in found:
            sidecar = file.parts[Role.KEY]
            key = in_kafka(
                _inner(found[Role.KEY], Role.KEY, sidecar.format),
                self.key_converter if sidecar.format == "json" else "",
            )
        if Role.HEADER in found:
            rows = _inner(found[Role.HEADER], Role.HEADER, file.parts[Role.HEADER].format)
            headers = _headers(rows, _bytes_of_base64 if self.header_converter == "bytes" else str.encode)
        origin = (file.topic_partition.topic, file.topic_partition.partition, file.first_offset + row)
        return Message(key, value, headers, time, origin)

    def _key(self, kept: Any) -> bytes | None:
        if isinstance(kept, str):
            return bytes_of_text(kept) if self.key_converter == "string" else base64.b64decode(kept)
        return in_kafka(kept, "")


def in_kafka(row: Any, converter: str) -> bytes | None:
    """The bytes of a row: texts and bytes as they are, JSON lines as the converter had them, everything else as JSON.

    Half a surrogate pair is `?`, as Java's encoder has it.
    """
    if isinstance(row, bytes) and converter in ("string", "bytes"):  # a JSON string holds the text, or its base64 form
        text = json.loads(row)
        if isinstance(text, str):
            return text.encode(errors="replace") if converter == "string" else base64.b64decode(text)
    if row is None or isinstance(row, bytes):
        return row
    return row.encode(errors="replace") if isinstance(row, str) else dumps(plain(row)).encode()


def plain(value: Any) -> Any:
    """A value of Parquet in JSON's terms: bytes as base64, pairs of a map with texts for keys as an object."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            texts = all(isinstance(name, str) for name, _ in value)
            return {name: plain(one) for name, one in value} if texts else [[plain(a), plain(b)] for a, b in value]
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, int | float | str | Decimal) else str(value)


def _metadata(value: Any) -> tuple[Any, dict[str, Any] | None]:
    if not isinstance(value, dict) or FIELD not in value:
        return value, None
    return {name: one for name, one in value.items() if name != FIELD}, value[FIELD]


def _offset(value: Any) -> int:
    """The offset in the metadata of a record; of one without any, one before all others."""
    kept = _metadata(value)[1]
    return -1 if kept is None else int(kept["offset"])


def _inner(row: Any, role: Role, form: str) -> Any:
    """The key or the headers in the record that some formats put around them."""
    if form == "json" and role is Role.HEADER:
        row = json.loads(row)
    return row[_WRAPPER[role]] if isinstance(row, dict) and set(row) == {_WRAPPER[role]} else row


def _headers(rows: Any, read: Callable[[str], bytes]) -> Headers:
    return tuple((one["key"], None if one["value"] is None else read(one["value"])) for one in rows or ())


def _bytes_of_base64(text: str) -> bytes:
    """Return the bytes of a header that ByteArrayConverter read; a text that is not base64 is one of an earlier converter."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode()


@dataclass(frozen=True, slots=True)
class RestoreSelection:
    """None is all. Offsets are inclusive; `since_ms` (included) and `until_ms` (excluded) are times of records, epoch ms."""

    topics: frozenset[str] | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether times are asked for, which only a log knows of objects."""
        return self.since_ms is not None or self.until_ms is not None

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether records of a topic-partition are wanted at all."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and self.partition in (None, partition)

    def cut(self, file: StoredFile) -> tuple[StoredFile | None, bool]:
        """What is wanted of a file, None for nothing; and whether it is whole though only a part of it is meant."""
        if not self._meets(file):
            return None, False
        cut = self._cut(file)
        return (cut if cut.wanted != 0 else None), cut is file and not self._holds(file)

    def _meets(self, file: StoredFile) -> bool:
        end = file.last_offset
        if end is None and file.until is not None:
            end = file.first_offset + file.until - 1
        return (
            (self.last is None or file.first_offset <= self.last)
            and (self.first is None or end is None or end >= self.first)
            and (self.since_ms is None or file.max_timestamp is None or file.max_timestamp >= self.since_ms)
            and (self.until_ms is None or file.min_timestamp is None or file.min_timestamp < self.until_ms)
        )

    def _holds(self, file: StoredFile) -> bool:
        """Whether all of a file is meant."""
        known = (file.min_timestamp, file.max_timestamp)
        times = not self.by_time or (None not in known and self._has_time(known[0]) and self._has_time(known[1]))
        first = self.first is None or file.first_offset >= self.first
        last = self.last is None or (file.last_offset is not None and file.last_offset <= self.last)
        return times and first and last

    def _has_time(self, ms: int | None) -> bool:
        assert ms is not None
        return (self.since_ms is None or ms >= self.since_ms) and (self.until_ms is None or ms < self.until_ms)

    def _cut(self, file: StoredFile) -> StoredFile:
        """Without the rows outside of the offsets, where each row's offset is known."""
        if not file.dense:
            return file
        skip = max((self.first or 0) - file.first_offset, file.skip)
        cut = file if self.last is None else file.before(self.last + 1)
        return cut if skip == cut.skip else replace(cut, skip=skip)


_TABLES: Final = """
CREATE TABLE files (id INTEGER PRIMARY KEY, topic TEXT, partition INT, directory TEXT, first INT, last INT, until INT, file BLOB,
  key TEXT);
CREATE INDEX files_key ON files (key);
CREATE INDEX files_directory ON files (topic, partition, directory, first);
CREATE INDEX files_first ON files (topic, partition, first);
CREATE TABLE planned (plan INT, number INT, first INT, wanted INT, bytes INT, file BLOB, PRIMARY KEY (plan, number)) WITHOUT ROWID;
CREATE INDEX planned_first ON planned (plan, first);
"""
_OF: Final = "topic = ? AND partition = ?"


class FileTable:
    """The files that log or bucket have, by topic-partition, and those of them that are planned: however many, in little memory.

    Their temporary space is given back with the table and all that was planned of it. Every method raises LocalDiskError where the disk is
    full, and so do those of `PlannedFiles`.
    """

    def __init__(self) -> None:
        self._db = TemporaryDatabase(_TABLES, remedy=", or restore one topic at a time")
        self._plans = count()

    def add(self, file: StoredFile) -> None:
        self._db.execute(
            "INSERT INTO files (topic, partition, directory, first, last, until, file, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *file.topic_partition, file.folder, file.first_offset, file.last_offset, file.until, _packed(file),
                next(part.key for part in file.parts.values()),
            ),
        )  # fmt: skip

    def add_object(self, file: StoredFile) -> None:
        """Takes a file of one object in, or the object to the file of its directory and first offset, if there is one."""
        found = self._db.execute(
            f"SELECT id, file FROM files WHERE {_OF} AND directory = ? AND first = ?",
            (*file.topic_partition, file.folder, file.first_offset),
        ).fetchone()
        if found is None:
            self.add(file)
            return
        known = _unpacked(file.topic_partition, found[1])
        merged = replace(known, parts={**known.parts, **file.parts})
        self._db.execute("UPDATE files SET file = ? WHERE id = ?", (_packed(merged), found[0]))

    def remove(self, tp: TopicPartition, first: int, *, last: int) -> None:
        """The files of these offsets, both included, never appeared."""
        query = f"DELETE FROM files WHERE {_OF} AND first = ? AND (last = ? OR until = ?)"
        self._db.execute(query, (*tp, first, last, last + 1 - first))

    def supersede(self, tp: TopicPartition, directory: str, first: int, *, last: int) -> None:
        """Files of a directory that begin in these offsets, both included, are in another."""
        query = f"DELETE FROM files WHERE {_OF} AND directory = ? AND first BETWEEN ? AND ?"
        self._db.execute(query, (*tp, directory, first, last))

    def replace(self, keys: Iterable[str]) -> Iterator[StoredFile]:
        """Remove the files whose first object has one of these keys, and yield them: their records are in others."""
        for key in keys:
            query = "DELETE FROM files WHERE key = ? RETURNING topic, partition, file"
            for topic, partition, packed in self._db.execute(query, (key,)).fetchall():
                yield _unpacked(TopicPartition(topic, partition), packed)

    def cut_at(self, tp: TopicPartition, offset: int) -> None:
        """Drop rows at or after an offset from the files so far: the n-th row is at the first offset and n, or later."""
        self._db.execute(f"DELETE FROM files WHERE {_OF} AND first >= ?", (*tp, offset))
        query = f"SELECT id, file FROM files WHERE {_OF} AND last >= ?"
        for number, packed in self._db.execute(query, (*tp, offset)).fetchall():
            file = _unpacked(tp, packed)
            rows = offset - file.first_offset - len(file.erased.before(offset))
            self._db.execute("UPDATE files SET until = min(?, coalesce(until, ?)) WHERE id = ?", (rows, rows, number))

    def cut_apart(self) -> None:
        """Of files of one directory that overlap, the earlier one ends where the later begins."""
        self._db.execute(
            "UPDATE files SET until = (SELECT min(later.first) FROM files AS later WHERE later.topic = files.topic AND "
            "later.partition = files.partition AND later.directory = files.directory AND later.first > files.first) - first"
        )

    def topic_partitions(self) -> list[TopicPartition]:
        """Those with files, in order."""
        rows = self._db.execute("SELECT DISTINCT topic, partition FROM files ORDER BY topic, partition")
        return [TopicPartition(*row) for row in rows]

    def of(self, tp: TopicPartition) -> Iterator[StoredFile]:
        """A topic-partition's files by first offset and directory."""
        query = f"SELECT file, until FROM files WHERE {_OF} ORDER BY first, directory"
        for packed, until in self._db.execute(query, tp):
            yield replace(_unpacked(tp, packed), until=until)

    def plan(self, tp: TopicPartition) -> PlannedFiles:
        """An empty list of a topic-partition's files."""
        return PlannedFiles(self._db, next(self._plans), tp)


class PlannedFiles:
    """Files of one topic-partition in order, each with its number."""

    def __init__(self, db: TemporaryDatabase, plan: int, tp: TopicPartition) -> None:
        self._db, self._plan, self._tp, self._count = db, plan, tp, 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> StoredFile:
        (found,) = self._db.execute(
            "SELECT file FROM planned WHERE plan = ? AND number = ?", (self._plan, number)
        ).fetchone()
        return _unpacked(self._tp, found)

    def append(self, file: StoredFile) -> None:
        """Puts a file behind the others."""
        size = sum(part.size for part in file.parts.values())
        row = (self._plan, self._count, file.first_offset, file.wanted, size, _packed(file))
        self._db.execute("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?)", row)
        self._count += 1

    def since(self, number: int) -> Iterator[tuple[int, StoredFile]]:
        """The files from a number on, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND number >= ? ORDER BY number"
        for found, packed in self._db.execute(query, (self._plan, number)):
            yield found, _unpacked(self._tp, packed)

    def files_at(self, first_offset: int) -> Iterator[tuple[int, StoredFile]]:
        """The files with that first offset, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND first = ?"
        for found, packed in self._db.execute(query, (self._plan, first_offset)):
            yield found, _unpacked(self._tp, packed)

    def records(self) -> int | None:
        """How many records are wanted; None where a file does not say."""
        query = "SELECT count(*) - count(wanted), coalesce(sum(wanted), 0) FROM planned WHERE plan = ?"
        unknown, known = self._db.execute(query, (self._plan,)).fetchone()
        return None if unknown else known

    @property
    def size(self) -> int:
        """The bytes of all objects."""
        (found,) = self._db.execute(
            "SELECT coalesce(sum(bytes), 0) FROM planned WHERE plan = ?", (self._plan,)
        ).fetchone()
        return int(found)


def _packed(file: StoredFile) -> bytes:
    parts = [(role.value, part.key, part.size, part.format) for role, part in file.parts.items()]
    return marshal.dumps((
        file.first_offset, file.folder, parts, file.records, file.last_offset, file.min_timestamp, file.max_timestamp, file.skip,
        file.until, file.in_order, file.place, file.erased.ranges,
    ))  # fmt: skip


def _unpacked(tp: TopicPartition, packed: bytes) -> StoredFile:
    first, directory, parts, *plain, erased = marshal.loads(packed)
    objects = {ROLES[role]: StoredObject(*one) for role, *one in parts}
    return replace(StoredFile(tp, first, directory, objects, *plain), erased=OffsetSet(erased))


_INFIX = {".keys.": Role.KEY, ".headers.": Role.HEADER}
_FORMATS = {".json": "json", ".json.gz": "json", ".avro": "avro", ".parquet": "parquet"}


def logged_files(
    entries: Iterable[CommitEntry], wants: Callable[[TopicPartition], bool]
) -> tuple[FileTable, dict[TopicPartition, int]]:
    """The files that the log counts of the topic-partitions that are wanted, and how many dead letters each of these has.

    Each record is in one of them: what was read again, or was of a topic before it was recreated, is left out.
    """
    fold, files, letters = LogFold(), FileTable(), dict[TopicPartition, int]()
    erased: Mapping[TopicPartition, OffsetSet] = {}
    for entry in entries:
        events, lacking = fold.add(entry), dict(entry.erased)
        erased = erased_after(entry, (event for event in events if isinstance(event, Reset)), erased)
        for event in events:
            tp = event.topic_partition
            if not wants(tp):
                continue
            if isinstance(event, Segment):
                for file in _grouped(event.files, erased):
                    files.add(file)
            elif isinstance(event, Replacement):
                for file in files.replace(event.swap.keys):
                    lacking[file.topic_partition] = lacking.get(file.topic_partition, NONE).plus(file.erased)
            elif isinstance(event, Reset) and event.goes_back:
                files.cut_at(tp, event.frontier)
            elif isinstance(event, Gap) and event.cause == UNPUBLISHED:
                files.remove(tp, event.first, last=event.last)
        if entry.kind is EntryKind.REWRITE:  # an object and its sidecars are of several swaps
            slices = (one for file in entry.files for one in file.by_slice)
            for file in _grouped((one for one in slices if wants(one.topic_partition)), lacking):
                files.add(file)
        for tp, found in entry.dead_letters.items():
            letters[tp] = letters.get(tp, 0) + found.count
    return files, letters


def _grouped(objects: Iterable[DataFile], erased: Mapping[TopicPartition, OffsetSet]) -> Iterable[StoredFile]:
    """The files of an entry, each with its objects. Where a transform routes records, only the folder tells files apart."""
    groups: dict[tuple[TopicPartition, str, str, int], StoredFile] = {}
    for file in objects:
        if file.role in (Role.DEAD_LETTER, Role.INDEX, Role.POINTER):
            continue
        folder = file.key.rpartition("/")[0]
        found = groups.setdefault(
            (file.topic_partition, folder, file.encoded_partition, file.first_offset),
            StoredFile(
                file.topic_partition, file.first_offset, folder, {}, file.records, file.last_offset, file.min_timestamp,
                file.max_timestamp, in_order=not file.sorted_by, place=file.place,
                erased=erased.get(file.topic_partition, NONE).since(file.first_offset).before(file.last_offset + 1),
            ),
        )  # fmt: skip
        found.parts[file.role] = StoredObject(file.key, file.bytes, file.format)
    return groups.values()


def named_files(
    store: ObjectStore, layout: DataKeys, topics: Iterable[str], *, prefix: str | None, bytes_extension: str
) -> FileTable:
    """The files that the names of objects say, without any log; `prefix` is a Block-GZIP sink's, None for the connector's names.

    Of files of one folder that overlap, the earlier one ends where the later begins; but one that was made from others takes their place,
    where these are still there. `bytes_extension` is format.bytearray.extension.
    """
    found, merged = FileTable(), dict[tuple[TopicPartition, str, int, int, str], StoredFile]()
    for topic in topics:
        for info in store.list(layout.prefix_of(topic)):
            named = None if layout.is_foreign(info.key, topic) else layout.read(info.key, topic)
            part = _part(info, prefix, bytes_extension) if named is not None else None
            if named is None or part is None:
                continue
            role, stored = part
            folder = "" if prefix is not None else info.key.rpartition("/")[0]
            last = last_of_rewritten(info.key)
            if last is None:
                found.add_object(StoredFile(named.topic_partition, named.offset, folder, {role: stored}))
                continue
            for end, file in _rewritten_files(info.key, named, folder, last):
                about = file.topic_partition, folder, file.first_offset, end, rewrite_of(info.key)
                merged.setdefault(about, file).parts[role] = stored
    for (tp, folder, first, last, _), file in sorted(merged.items(), key=lambda one: one[0][3] - one[0][2]):
        found.supersede(tp, folder, first, last=last)
        found.add(file)
    found.cut_apart()
    return found


def _rewritten_files(key: str, named: ObjectKey, folder: str, last: int) -> Iterator[tuple[int, StoredFile]]:
    """The files of an object that was made from others, each with its last offset. Raises ObjectUnreadable."""
    slices = slices_of_rewritten(key, named)
    if not slices:
        yield last, StoredFile(named.topic_partition, named.offset, folder, {})
    if any(one.records < 0 for one in slices):
        raise ObjectUnreadable(
            f"{key} holds records of several partitions, and its name does not say how many of each. Restore by the log, without --by-name."
        )
    before, whole = 0, sum(one.records for one in slices)
    for one in slices:
        tp = TopicPartition(named.topic_partition.topic, one.partition)
        if one.records:
            file = StoredFile(tp, one.first_offset, folder, {}, one.records, one.last_offset, place=(before, whole))
            yield one.last_offset, file
        before += one.records


def _part(info: ObjectInfo, prefix: str | None, bytes_extension: str) -> tuple[Role, StoredObject] | None:
    """What an object is by its name; None for indexes and strangers. A Block-GZIP file of a later day takes the place of an earlier."""
    if prefix is not None:
        data = read_block_key(info.key, prefix)
        return (Role.VALUE, StoredObject(info.key, info.size, "block_gzip")) if data else None
    name = info.key.rpartition("/")[2]
    role = next((role for infix, role in _INFIX.items() if infix in name), Role.VALUE)
    ends = {**_FORMATS, bytes_extension: "bytearray", f"{bytes_extension}.gz": "bytearray"}
    longest = max((end for end in ends if name.endswith(end)), key=len, default=None)
    return None if longest is None else (role, StoredObject(info.key, info.size, ends[longest]))
