"""Which objects hold the records that are wanted back, in which order? By the commit log, or by the names of objects without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from kafka_s3.commit.entry import CommitEntry, EntryKind
from kafka_s3.commit.log import UNPUBLISHED
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.block_gzip import parse_data_key
from kafka_s3.storage.store import ObjectInfo, ObjectStore
from kafka_s3.tools.verify.layout import ObjectLayout

_INFIX = {".keys.": Role.KEY, ".headers.": Role.HEADER}
_FORMATS = {".json": "json", ".json.gz": "json", ".avro": "avro", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a file: its key, size in bytes and format."""

    key: str
    size: int
    format: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The records of one file: an object of values, and those of keys and headers beside it; without values they are tombstones.

    `records` None: nothing but the object itself knows. Rows `[skip, until)` are wanted (None: to the end). `timestamp` is that of all its
    records, epoch ms, None where they have different ones, or where it is not known.
    """

    topic_partition: TopicPartition
    first_offset: int
    directory: str
    parts: dict[Role, StoredObject] = field(default_factory=dict)
    records: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    skip: int = 0
    until: int | None = None

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
        """Whether its records fill its offsets, so that each row's offset is known."""
        return self.last_offset is not None and self.records == self.last_offset - self.first_offset + 1

    @property
    def wanted(self) -> int | None:
        """How many rows are wanted, None where that is not known before it is read."""
        end = self.records if self.until is None else self.until
        return None if end is None else max(end - self.skip, 0)

    def before(self, offset: int) -> StoredFile:
        """Without the rows that are surely at or behind an offset: the n-th is at the first offset and n, or later."""
        most = max(offset - self.first_offset, 0)
        if self.last_offset is not None and self.last_offset < offset:
            return self
        return replace(self, until=most if self.until is None else min(most, self.until))


def logged_files(
    entries: Iterable[CommitEntry], wants: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, list[StoredFile]]:
    """The files that the log counts of the topic-partitions that are wanted, in memory at about 1 KiB each.

    Each record is in one of them: what was read again, or was of a topic before it was recreated, is left out.
    """
    walk = _Walk(wants)
    for entry in entries:
        walk.step(entry)
    return {tp: sorted(files, key=_order) for tp, files in sorted(walk.files.items()) if files}


class _Walk:
    """Goes through the log; `files` are those that stand."""

    def __init__(self, wants: Callable[[TopicPartition], bool]) -> None:
        self._wants = wants
        self.files: dict[TopicPartition, list[StoredFile]] = {}
        self._frontier: dict[TopicPartition, int] = {}
        self._ids: dict[str, str] = {}

    def step(self, entry: CommitEntry) -> None:
        for topic, new in entry.topic_ids.items():
            if new and self._ids.get(topic, new) != new:
                for tp in [tp for tp in self.files if tp.topic == topic]:
                    self.files[tp] = []
            self._ids[topic] = new or self._ids.get(topic, "")
        for tp, progress in entry.progress.items():
            if entry.kind is not EntryKind.DATA and progress.frontier < self._frontier.get(tp, 0):
                held = [file for file in self.files.get(tp, ()) if file.first_offset < progress.frontier]
                self.files[tp] = [file.before(progress.frontier) for file in held]
            self._frontier[tp] = progress.frontier
        for gap in entry.gaps:
            if gap.cause == UNPUBLISHED:
                tp = TopicPartition(gap.topic, gap.partition)
                ends = (gap.first, gap.last)
                self.files[tp] = [f for f in self.files.get(tp, ()) if (f.first_offset, f.last_offset) != ends]
        for file in _grouped(file for file in entry.files if self._wants(file.topic_partition)):
            self.files.setdefault(file.topic_partition, []).append(file)


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
) -> dict[TopicPartition, list[StoredFile]]:
    """The files that objects' names tell of, without any log; `prefix` is a Block-GZIP sink's, None for the connector's names.

    Of files of one folder that overlap, the earlier one ends where the later begins. `bytes_extension` is format.bytearray.extension.
    """
    found: dict[TopicPartition, dict[tuple[str, int], StoredFile]] = {}
    for topic in topics:
        for info in store.list(layout.prefix(topic)):
            named = None if layout.foreign(info.key, topic) else layout.named(info.key, topic)
            part = _part(info, prefix, bytes_extension) if named is not None else None
            if named is None or part is None:
                continue
            role, told = part
            folder = "" if prefix is not None else info.key.rpartition("/")[0]
            own = found.setdefault(named.topic_partition, {})
            file = own.get((folder, named.offset)) or StoredFile(named.topic_partition, named.offset, folder)
            own[folder, named.offset] = replace(file, parts={**file.parts, role: told})
    return {tp: _apart(files.values()) for tp, files in sorted(found.items())}


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


def _apart(files: Iterable[StoredFile]) -> list[StoredFile]:
    cut = []
    for _, folder in groupby(
        sorted(files, key=lambda one: (one.directory, one.first_offset)), key=lambda one: one.directory
    ):
        own = list(folder)
        cut += [one.before(own[at + 1].first_offset) if at + 1 < len(own) else one for at, one in enumerate(own)]
    return sorted((file for file in cut if Role.VALUE in file.parts or Role.KEY in file.parts), key=_order)


def _order(file: StoredFile) -> tuple[int, str]:
    return file.first_offset, file.directory
