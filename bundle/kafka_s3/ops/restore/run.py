"""How are the records written? One source partition after the other, from where an earlier run stopped, counted as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from string import Template
from typing import Any, Protocol

from kafka_s3.kafka.producing import ProducerProgress, SendWithProgress
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.restore.file_table import PlannedFiles
from kafka_s3.ops.restore.position import (
    ORIGIN,
    Begun,
    Position,
    begun_anew,
    begun_of,
    check_unmarked,
    group_of,
    note_of,
    origin,
    unmarked,
)
from kafka_s3.ops.restore.stored import StoredFile
from kafka_s3.ops.restore.values import RowReading
from kafka_s3.store.store import ObjectStore


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
