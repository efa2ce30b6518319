"""How are the records written? One source partition after the other, from where an earlier run stopped, counted as they go."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from string import Template
from typing import Any, Final, Protocol

from kafka_s3.kafka.transactions import ProducerProgress, SendWithProgress
from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.restore.files import PlannedFiles
from kafka_s3.ops.restore.values import Headers, RowReading, StoredFile
from kafka_s3.store.store import ObjectStore

ORIGIN: Final = "kafka_s3.origin"
"""The header's name. Its value: the restore's id/topic/partition/first offset of the file/row in it/a checksum of the file's directory."""
OWN: Final = "kafka-s3-restore-"
"""Begins the names of consumer groups and of transactions."""


@dataclass(frozen=True, slots=True)
class Position:
    """A record in the order of a source partition: the number of its file, and its row in it."""

    file: int
    row: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A restore of one source partition: its id, how many records it has written, and the last of them."""

    id: str
    count: int
    last: Position


def begun_anew() -> Begun:
    """A restore that has written nothing."""
    return Begun(secrets.token_hex(8), 0, Position(0, -1))


def group_of(source: TopicPartition, target: TopicPartition) -> str:
    """The consumer group that keeps the progress from one partition to the other."""
    return f"{OWN}{source}-to-{target}"


def origin(restore: str, file: StoredFile, row: int) -> str:
    """The mark of a row of a file."""
    tp = file.topic_partition
    return f"{restore}/{tp.topic}/{tp.partition}/{file.first_offset}/{row}/{zlib.crc32(file.directory.encode()):08x}"


def unmarked(headers: Headers) -> Headers:
    """The headers without marks of earlier restores."""
    return tuple(header for header in headers if header[0] != ORIGIN)


def note_of(restore: str, topic_id: str, files: PlannedFiles, mark: str) -> str:
    """What is committed beside the count of records: the id of the target topic, the first mark of the restore, and the last."""
    return f"{topic_id} {origin(restore, files[0], files[0].skip)} {mark}"


def begun_of(progress: ProducerProgress, files: PlannedFiles, *, target: TopicPartition, topic_id: str) -> Begun | None:
    """The restore that has committed this; None where it was to a topic that was deleted since.

    Raises ConfigError where it began elsewhere, or its last record is not among these files: then it is not the work of this call.
    """
    there, first, last = [*progress.note.split(" "), "", "", ""][:3]
    if there != topic_id:
        return None
    restore = first.partition("/")[0]
    position = position_of(last, files)
    if first != origin(restore, files[0], files[0].skip) or position is None:
        begun = "/".join(first.split("/")[1:4])
        rule = f"holds {progress.written:,} records of a restore that began at {begun} (topic/partition/offset), not where this one would."
        raise ConfigError(
            [Problem("--to-topic", target.topic, rule, "Choose the same range as before, or another topic.")]
        )
    return Begun(restore, progress.written, position)


def position_of(mark: str, files: PlannedFiles) -> Position | None:
    """Which record of these files a mark means; None: none of them."""
    parts = mark.split("/")
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts[3:5]):
        return None
    row = int(parts[4])
    for number, file in files.at(int(parts[3])):
        if origin(parts[0], file, row) == mark and file.skip <= row and (file.until is None or row < file.until):
            return Position(number, row)
    return None


def check_unmarked(kafka: KafkaRecords, target: TopicPartition, files: PlannedFiles) -> None:
    """Raises ConfigError where the target has marks of these files, though no progress of a restore is known; KafkaUnavailable where no
    broker leads the target.
    """
    starts, heads = kafka.starts([target]), kafka.heads([target])
    if target not in starts or target not in heads:
        raise KafkaUnavailable(f"No broker answers for {target} (no leader, or deleted). Call again when one does.")
    for batch in kafka.batches(target, starts[target], until=heads[target]):
        for headers in batch.column("headers"):
            if _marked(headers.as_py() or (), files):
                rule = (
                    f"has records that are marked ({ORIGIN}) as those to be restored, but Kafka knows of no progress of it: that was "
                    "forgotten (offsets.retention.minutes), or another producer wrote them."
                )
                raise ConfigError([Problem("--to-topic", target.topic, rule, "Choose another topic.")])


def _marked(headers: Sequence[dict[str, object]], files: PlannedFiles) -> bool:
    marks = [header["value"] for header in headers if header["key"] == ORIGIN]
    return any(isinstance(mark, bytes) and position_of(mark.decode("ascii", "replace"), files) for mark in marks)


class TargetCluster(KafkaRecords, Protocol):
    """The cluster that is written to. What is read of it is what counts: records of transactions that are committed."""

    def create_topic(self, name: str, *, partitions: int) -> None:
        """Creates a topic."""
        ...

    def progress(self, group: str, target: TopicPartition) -> ProducerProgress | None:
        """What was committed to a group with the messages that count. Raises KafkaUnavailable, SourceError."""
        ...

    def sending(self, target: TopicPartition, group: str) -> AbstractContextManager[SendWithProgress]:
        """A way to send to a topic-partition; leaving it waits until all is acknowledged. Raises KafkaUnavailable, SourceError.

        The messages that count are the first ones, whatever ends it, and their progress is committed to the group with them.
        It is the only one: what an earlier one has on its way never arrives from here on.
        """
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """What is to come back of one source partition, to which target, and from where on: `begun` is what earlier runs have written.

    `records` are those of the log in all, None where only names are known.
    """

    source: TopicPartition
    target: TopicPartition
    files: PlannedFiles
    begun: Begun | None = None
    written: int = 0

    @property
    def records(self) -> int | None:
        """How many records are wanted."""
        return self.files.records()

    @property
    def there(self) -> int:
        """How many of them earlier runs have written."""
        return 0 if self.begun is None else self.begun.count

    @property
    def whole(self) -> bool:
        """Whether as many records were written as the log counts."""
        return self.records is None or self.records == self.there + self.written

    def document(self) -> dict[str, Any]:
        """For programs; bytes are those of the objects."""
        return {
            "source": str(self.source), "target": str(self.target), "files": len(self.files), "records": self.records,
            "bytes": self.files.size,
            "first_offset": self.files[0].first_offset, "already_there": self.there, "written": self.written,
        }  # fmt: skip


def shares(files: Mapping[TopicPartition, PlannedFiles], to_topic: str) -> list[Share]:
    """Each source partition with its target. Raises ConfigError where two topics would be mixed, or the name is not Kafka's."""
    topics = {tp.topic for tp in files}
    found = []
    for tp, own in files.items():
        name = Template(to_topic).safe_substitute(topic=tp.topic)
        found.append(Share(tp, TopicPartition(name, tp.partition), own))
    if len({share.target.topic for share in found}) < len(topics):
        names = ", ".join(sorted(topics))
        raise ConfigError(
            [
                Problem(
                    "--to-topic", to_topic, f"would mix {names}.", "Write ${topic} into it, or choose one with --topic."
                )
            ]
        )
    return found


def located(planned: Sequence[Share], target: TargetCluster) -> list[Share]:
    """The shares with how far earlier runs came. Raises ConfigError where a target has too few partitions."""
    topics = target.describe(sorted({share.target.topic for share in planned}))
    found = []
    for share in planned:
        topic = topics.get(share.target.topic)
        if topic is None:
            found.append(share)
            continue
        if share.target.partition not in topic.partitions:
            rule = (
                f"has {len(topic.partitions)} partitions, and {share.source} needs partition {share.target.partition}."
            )
            raise ConfigError([Problem("--to-topic", topic.name, rule, "Add partitions, or choose another topic.")])
        found.append(replace(share, begun=_begun(target, share, topic.id)))
    return found


def restore(
    planned: Sequence[Share],
    *,
    store: ObjectStore,
    reading: RowReading,
    target: TargetCluster,
    tell: Callable[[Share], None],
) -> list[Share]:
    """Writes what is not there yet; `tell` hears of each share as it is done.

    Raises SourceError, ObjectUnreadable, StorageError: what is written stays, and the same call goes on behind it.
    """
    names = {share.target.topic for share in planned}
    there = target.describe(sorted(names))
    for name in sorted(names - there.keys()):
        target.create_topic(name, partitions=1 + max(s.target.partition for s in planned if s.target.topic == name))
    done = []
    ids = {name: topic.id for name, topic in target.describe(sorted(names)).items()}
    for share in planned:
        done.append(_restored(share, ids.get(share.target.topic, ""), store, reading, target))
        tell(done[-1])
    return done


def _begun(target: TargetCluster, share: Share, topic_id: str) -> Begun | None:
    """What earlier runs have written of a share. Raises ConfigError where that is not the work of this call, or is not known any more."""
    progress = target.progress(group_of(share.source, share.target), share.target)
    begun = None if progress is None else begun_of(progress, share.files, target=share.target, topic_id=topic_id)
    if begun is None:
        check_unmarked(target, share.target, share.files)
    return begun


def _restored(share: Share, topic_id: str, store: ObjectStore, reading: RowReading, target: TargetCluster) -> Share:
    written = 0
    with target.sending(share.target, group_of(share.source, share.target)) as send:
        # looked up again: what an earlier run had on its way may have come since the plan was made, and nothing comes any more
        share = replace(share, begun=_begun(target, share, topic_id))
        begun = share.begun or begun_anew()
        for file, row, message in _messages(share, begun.last, store, reading):
            written += 1
            mark = origin(begun.id, file, row)
            marked = replace(message, headers=(*unmarked(message.headers), (ORIGIN, mark.encode())))
            progress = ProducerProgress(begun.count + written, note_of(begun.id, topic_id, share.files, mark))
            send(share.target.topic, marked, partition=share.target.partition, progress=progress)
    return replace(share, written=written)


def _messages(
    share: Share, begin: Position, store: ObjectStore, reading: RowReading
) -> Iterator[tuple[StoredFile, int, Message]]:
    """What is to be written, each record with its file and its row in it."""
    for number, file in share.files.since(begin.file):
        skip = max(file.skip, begin.row + 1) if number == begin.file else file.skip
        wanted = replace(file, skip=skip)
        if wanted.wanted == 0:
            continue
        for row, message in enumerate(reading.messages(store, wanted), skip):
            yield file, row, message
