"""Which objects hold the records that are wanted back? By the commit log, or by the names of objects without one."""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from kafka_s3.connect.naming.keys import parse_data_key
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.rewrites import UNPUBLISHED
from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import ROLES, DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.readers import StoredObject
from kafka_s3.ops.restore.values import StoredFile
from kafka_s3.ops.verify.layout import ObjectLayout
from kafka_s3.store.store import ObjectInfo, ObjectStore


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

    def of(self, file: StoredFile) -> tuple[StoredFile | None, bool]:
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
        return (
            times and first and (self.last is None or (file.last_offset is not None and file.last_offset <= self.last))
        )

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


CACHE_KIB: Final = 16 << 10
"""What of the database is in memory at most; the rest is in a file that goes with the process."""
_TABLES: Final = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;
CREATE TABLE told (id INTEGER PRIMARY KEY, topic TEXT, partition INT, directory TEXT, first INT, last INT, until INT, rest BLOB);
CREATE INDEX told_place ON told (topic, partition, directory, first);
CREATE INDEX told_first ON told (topic, partition, first);
CREATE TABLE planned (plan INT, number INT, first INT, wanted INT, bytes INT, file BLOB, PRIMARY KEY (plan, number)) WITHOUT ROWID;
CREATE INDEX planned_first ON planned (plan, first);
BEGIN;
"""
_OF: Final = "topic = ? AND partition = ?"


class _Database(sqlite3.Connection):
    """A temporary database. Raises LocalDiskError where the disk takes no more of it."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError as error:
            raise LocalDiskError(
                f"The plan's temporary file cannot grow: {error}. Make room there, have SQLITE_TMPDIR or TMPDIR name a larger disk, or "
                "restore one topic at a time."
            ) from error


class FileTable:
    """Files by topic-partition. Their temporary space is given back with the table and all that was planned of it.

    Every method raises LocalDiskError where the disk is full, and so do those of `PlannedFiles`.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, factory=_Database)  # no name: a file that nobody else sees
        self._db.executescript(f"PRAGMA cache_size = -{CACHE_KIB};{_TABLES}")
        self._plans = count()

    def add(self, file: StoredFile) -> None:
        """Takes a file in."""
        self._db.execute(
            "INSERT INTO told (topic, partition, directory, first, last, until, rest) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*file.topic_partition, file.directory, file.first_offset, file.last_offset, file.until, _rest(file)),
        )

    def add_object(self, file: StoredFile) -> None:
        """Takes a file of one object in, or the object to the file of its directory and first offset, if there is one."""
        tp = file.topic_partition
        place = (*tp, file.directory, file.first_offset)
        found = self._db.execute(
            f"SELECT id, rest FROM told WHERE {_OF} AND directory = ? AND first = ?", place
        ).fetchone()
        if found is None:
            self.add(file)
            return
        records, low, high, parts = marshal.loads(found[1])
        merged = {one[0]: one for one in (*parts, *_parts(file))}
        rest = marshal.dumps((records, low, high, list(merged.values())))
        self._db.execute("UPDATE told SET rest = ? WHERE id = ?", (rest, found[0]))

    def forget_topic(self, topic: str) -> None:
        """Its files so far are of another topic of that name."""
        self._db.execute("DELETE FROM told WHERE topic = ?", (topic,))

    def forget(self, tp: TopicPartition, first: int, *, last: int) -> None:
        """The files of these offsets, both included, never appeared."""
        self._db.execute(f"DELETE FROM told WHERE {_OF} AND first = ? AND last = ?", (*tp, first, last))

    def cut_at(self, tp: TopicPartition, offset: int) -> None:
        """What is at or behind the offset is not wanted of the files so far: the n-th row is at the first offset and n, or later."""
        self._db.execute(f"DELETE FROM told WHERE {_OF} AND first >= ?", (*tp, offset))
        self._db.execute(
            f"UPDATE told SET until = min(? - first, coalesce(until, ? - first)) WHERE {_OF} AND last >= ?",
            (offset, offset, *tp, offset),
        )

    def cut_apart(self) -> None:
        """Of files of one directory that overlap, the earlier one ends where the later begins."""
        self._db.execute(
            "UPDATE told SET until = (SELECT min(later.first) FROM told AS later WHERE later.topic = told.topic AND "
            "later.partition = told.partition AND later.directory = told.directory AND later.first > told.first) - first"
        )

    def topic_partitions(self) -> list[TopicPartition]:
        """Those with files, in order."""
        rows = self._db.execute("SELECT DISTINCT topic, partition FROM told ORDER BY topic, partition")
        return [TopicPartition(*row) for row in rows]

    def of(self, tp: TopicPartition) -> Iterator[StoredFile]:
        """A topic-partition's files by first offset and directory."""
        query = f"SELECT directory, first, last, until, rest FROM told WHERE {_OF} ORDER BY first, directory"
        for directory, first, last, until, rest in self._db.execute(query, tp):
            yield _unpacked(tp, directory, first, last, 0, until, rest)

    def plan(self, tp: TopicPartition) -> PlannedFiles:
        """An empty list of a topic-partition's files."""
        return PlannedFiles(self._db, next(self._plans), tp)


class PlannedFiles:
    """Files of one topic-partition in order, each with its number."""

    def __init__(self, db: sqlite3.Connection, plan: int, tp: TopicPartition) -> None:
        self._db, self._plan, self._tp, self._count = db, plan, tp, 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> StoredFile:
        (found,) = self._db.execute(
            "SELECT file FROM planned WHERE plan = ? AND number = ?", (self._plan, number)
        ).fetchone()
        return self._file(found)

    def append(self, file: StoredFile) -> None:
        """Puts a file behind the others."""
        size = sum(part.size for part in file.parts.values())
        packed = marshal.dumps(
            (file.directory, file.first_offset, file.last_offset, file.skip, file.until, _rest(file))
        )
        row = (self._plan, self._count, file.first_offset, file.wanted, size, packed)
        self._db.execute("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?)", row)
        self._count += 1

    def since(self, number: int) -> Iterator[tuple[int, StoredFile]]:
        """The files from a number on, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND number >= ? ORDER BY number"
        for found, packed in self._db.execute(query, (self._plan, number)):
            yield found, self._file(packed)

    def at(self, first_offset: int) -> Iterator[tuple[int, StoredFile]]:
        """The files with that first offset, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND first = ?"
        for found, packed in self._db.execute(query, (self._plan, first_offset)):
            yield found, self._file(packed)

    def records(self, until: int | None = None) -> int | None:
        """How many records are wanted of the files before a number (None: of all); None where a file does not say."""
        end = self._count if until is None else until
        query = "SELECT count(*) - count(wanted), coalesce(sum(wanted), 0) FROM planned WHERE plan = ? AND number < ?"
        unknown, known = self._db.execute(query, (self._plan, end)).fetchone()
        return None if unknown else known

    @property
    def size(self) -> int:
        """The bytes of all objects."""
        (found,) = self._db.execute(
            "SELECT coalesce(sum(bytes), 0) FROM planned WHERE plan = ?", (self._plan,)
        ).fetchone()
        return int(found)

    def _file(self, packed: bytes) -> StoredFile:
        directory, first, last, skip, until, rest = marshal.loads(packed)
        return _unpacked(self._tp, directory, first, last, skip, until, rest)


def _parts(file: StoredFile) -> list[tuple[str, str, int, str]]:
    return [(role.value, part.key, part.size, part.format) for role, part in file.parts.items()]


def _rest(file: StoredFile) -> bytes:
    """What nobody asks the database for."""
    return marshal.dumps((file.records, file.min_timestamp, file.max_timestamp, _parts(file)))


def _unpacked(
    tp: TopicPartition, directory: str, first: int, last: int | None, skip: int, until: int | None, rest: bytes
) -> StoredFile:
    records, low, high, parts = marshal.loads(rest)
    objects = {ROLES[role]: StoredObject(*one) for role, *one in parts}
    return StoredFile(tp, first, directory, objects, records, last, low, high, skip, until)


_INFIX = {".keys.": Role.KEY, ".headers.": Role.HEADER}
_FORMATS = {".json": "json", ".json.gz": "json", ".avro": "avro", ".parquet": "parquet"}


def logged_files(entries: Iterable[CommitEntry], wants: Callable[[TopicPartition], bool]) -> FileTable:
    """The files that the log counts of the topic-partitions that are wanted.

    Each record is in one of them: what was read again, or was of a topic before it was recreated, is left out.
    """
    walk = _Walk(wants)
    for entry in entries:
        walk.step(entry)
    return walk.files


class _Walk:
    """Goes through the log; `files` are those that stand."""

    def __init__(self, wants: Callable[[TopicPartition], bool]) -> None:
        self._wants = wants
        self.files = FileTable()
        self._frontier: dict[TopicPartition, int] = {}
        self._ids: dict[str, str] = {}

    def step(self, entry: CommitEntry) -> None:
        for topic, new in entry.topic_ids.items():
            if new and self._ids.get(topic, new) != new:
                self.files.forget_topic(topic)
            self._ids[topic] = new or self._ids.get(topic, "")
        for tp, progress in entry.progress.items():
            if entry.kind is not EntryKind.DATA and progress.frontier < self._frontier.get(tp, 0):
                self.files.cut_at(tp, progress.frontier)
            self._frontier[tp] = progress.frontier
        for gap in entry.gaps:
            if gap.cause == UNPUBLISHED:
                self.files.forget(TopicPartition(gap.topic, gap.partition), gap.first, last=gap.last)
        for file in _grouped(file for file in entry.files if self._wants(file.topic_partition)):
            self.files.add(file)


def _grouped(files: Iterable[DataFile]) -> Iterator[StoredFile]:
    """The files of an entry, each with its objects. Where a transform routes records, only the folder tells files apart."""
    groups: dict[tuple[TopicPartition, str, str, int], StoredFile] = {}
    for file in files:
        if file.role in (Role.DEAD_LETTER, Role.INDEX, Role.POINTER):
            continue
        folder = file.key.rpartition("/")[0]
        place = (file.topic_partition, folder, file.encoded_partition, file.first_offset)
        found = groups.get(place) or StoredFile(
            file.topic_partition, file.first_offset, folder, {}, file.records, file.last_offset, file.min_timestamp,
            file.max_timestamp,
        )  # fmt: skip
        groups[place] = replace(
            found, parts={**found.parts, file.role: StoredObject(file.key, file.bytes, file.format)}
        )
    yield from groups.values()


def named_files(
    store: ObjectStore, layout: ObjectLayout, topics: Iterable[str], *, prefix: str | None, bytes_extension: str
) -> FileTable:
    """The files that objects' names tell of, without any log; `prefix` is a Block-GZIP sink's, None for the connector's names.

    Of files of one folder that overlap, the earlier one ends where the later begins. `bytes_extension` is format.bytearray.extension.
    """
    found = FileTable()
    for topic in topics:
        for info in store.list(layout.prefix(topic)):
            named = None if layout.foreign(info.key, topic) else layout.named(info.key, topic)
            part = _part(info, prefix, bytes_extension) if named is not None else None
            if named is None or part is None:
                continue
            role, told = part
            folder = "" if prefix is not None else info.key.rpartition("/")[0]
            found.add_object(StoredFile(named.topic_partition, named.offset, folder, {role: told}))
    found.cut_apart()
    return found


def _part(info: ObjectInfo, prefix: str | None, bytes_extension: str) -> tuple[Role, StoredObject] | None:
    """What an object is by its name; None for indexes and strangers. A Block-GZIP file of a later day takes the place of an earlier."""
    if prefix is not None:
        data = parse_data_key(info.key, prefix)
        return (Role.VALUE, StoredObject(info.key, info.size, "block_gzip")) if data else None
    name = info.key.rpartition("/")[2]
    role = next((role for infix, role in _INFIX.items() if infix in name), Role.VALUE)
    ends = {**_FORMATS, bytes_extension: "bytearray", f"{bytes_extension}.gz": "bytearray"}
    longest = max((end for end in ends if name.endswith(end)), key=len, default=None)
    return None if longest is None else (role, StoredObject(info.key, info.size, ends[longest]))
