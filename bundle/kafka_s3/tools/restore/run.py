"""How are the records written? One source partition after the other, from where an earlier run stopped, counted as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from string import Template
from typing import Any, Protocol

from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tools.kafka_records import KafkaRecords
from kafka_s3.tools.restore.file_table import PlannedFiles
from kafka_s3.tools.restore.position import ORIGIN, Position, last_position, origin
from kafka_s3.tools.restore.values import RowReading


class OrderedSend(Protocol):
    """Hands a message to a producer of which only the first messages count, whatever ends it."""

    def __call__(self, topic: str, message: Message, *, partition: int = -1) -> None:
        """Sends one message. Raises KafkaUnavailable."""
        ...


class TargetCluster(KafkaRecords, Protocol):
    """The cluster that is written to. What is read of it is what counts: records of transactions that are committed."""

    def create_topic(self, name: str, *, partitions: int) -> None:
        """Creates a topic."""
        ...

    def sending(self, target: TopicPartition) -> AbstractContextManager[OrderedSend]:
        """A way to send to a topic-partition; leaving it waits until all is acknowledged. Raises KafkaUnavailable, SourceError.

        It is the only one: what an earlier one has on its way never arrives from here on.
        """
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """What is to come back of one source partition, to which target, and from where on: `done` is the last record that is there already.

    `records` are those of the log in all, None where only names are known; `there` are those that an earlier run has written.
    """

    source: TopicPartition
    target: TopicPartition
    files: PlannedFiles
    done: Position | None = None
    written: int = 0

    @property
    def records(self) -> int | None:
        """How many records are wanted."""
        return self.files.records()

    @property
    def there(self) -> int | None:
        """How many of them are there already."""
        if self.done is None:
            return 0
        before = self.files.records(until=self.done.file)
        return None if before is None else before + self.done.row + 1 - self.files[self.done.file].skip

    @property
    def whole(self) -> bool:
        """Whether as many records were written as the log counts."""
        return self.records is None or self.there is None or self.records == self.there + self.written

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
        found.append(replace(share, done=last_position(target, share.target, share.files)))
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
    for share in planned:
        done.append(_restored(share, store, reading, target))
        tell(done[-1])
    return done


def _restored(share: Share, store: ObjectStore, reading: RowReading, target: TargetCluster) -> Share:
    count = 0
    with target.sending(share.target) as send:
        # looked up again: what an earlier run had on its way may have come since the plan was made, and nothing comes any more
        share = replace(share, done=last_position(target, share.target, share.files))
        for message in _messages(share, store, reading):
            send(share.target.topic, message, partition=share.target.partition)
            count += 1
    return replace(share, written=count)


def _messages(share: Share, store: ObjectStore, reading: RowReading) -> Iterator[Message]:
    """What is to be written, each record with its origin."""
    begin = Position(0, -1) if share.done is None else share.done
    for number, file in share.files.since(begin.file):
        skip = max(file.skip, begin.row + 1) if number == begin.file else file.skip
        wanted = replace(file, skip=skip)
        if wanted.wanted == 0:
            continue
        for row, message in enumerate(reading.messages(store, wanted), skip):
            yield replace(message, headers=(*message.headers, (ORIGIN, origin(file, row))))
