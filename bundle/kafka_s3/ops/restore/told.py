"""Which objects hold the records that are wanted back? By the commit log, or by the names of objects without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kafka_s3.connect.naming.keys import DataKeys, read_block_key
from kafka_s3.engine.log.again import UNPUBLISHED
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.readers import StoredObject
from kafka_s3.ops.restore.file_table import FileTable
from kafka_s3.ops.restore.values import StoredFile
from kafka_s3.store.store import ObjectInfo, ObjectStore

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
    store: ObjectStore, layout: DataKeys, topics: Iterable[str], *, prefix: str | None, bytes_extension: str
) -> FileTable:
    """The files that objects' names tell of, without any log; `prefix` is a Block-GZIP sink's, None for the connector's names.

    Of files of one folder that overlap, the earlier one ends where the later begins. `bytes_extension` is format.bytearray.extension.
    """
    found = FileTable()
    for topic in topics:
        for info in store.list(layout.prefix_of(topic)):
            named = None if layout.is_foreign(info.key, topic) else layout.read(info.key, topic)
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
        data = read_block_key(info.key, prefix)
        return (Role.VALUE, StoredObject(info.key, info.size, "block_gzip")) if data else None
    name = info.key.rpartition("/")[2]
    role = next((role for infix, role in _INFIX.items() if infix in name), Role.VALUE)
    ends = {**_FORMATS, bytes_extension: "bytearray", f"{bytes_extension}.gz": "bytearray"}
    longest = max((end for end in ends if name.endswith(end)), key=len, default=None)
    return None if longest is None else (role, StoredObject(info.key, info.size, ends[longest]))
