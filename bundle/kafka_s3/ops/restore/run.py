"""How are the records written? One source partition after the other, from where an earlier run stopped, counted as they go.

How far an earlier run came, its transactions say: each commits, with its records, to a consumer group how many records the restore has
written and which was the last. Nothing in the target topic is believed, for whoever may write to it can forge that. Each record carries a
header with its place in the bucket and the id of the restore that wrote it: for people, and to notice a restore whose progress is gone.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from string import Template
from typing import Any, Final, Protocol

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.kafka.producing import ProducerProgress, SendWithProgress, sending_in_transactions
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

ISOLATION: Final = "isolation.level"
LOOK_AGAIN_S: Final = 0.1
BROKERS_CHOICE: Final = -1
"""The number of replicas that leaves it to the brokers (default.replication.factor)."""


@dataclass(frozen=True, slots=True)
class Position:
    """A record in the order of a source partition: the number of its file, and its row in it."""

    file: int
    row: int


@dataclass(frozen=True, slots=True)
class RestoreState:
    """A restore of one source partition: its id, how many records it has written, and the last of them."""

    id: str
    count: int
    last: Position


def new_restore() -> RestoreState:
    """A restore that has written nothing."""
    return RestoreState(secrets.token_hex(8), 0, Position(0, -1))


def origin_mark(restore: str, file: StoredFile, row: int) -> str:
    """The mark of a row of a file."""
    tp = file.topic_partition
    return f"{restore}/{tp.topic}/{tp.partition}/{file.first_offset}/{row}/{zlib.crc32(file.folder.encode()):08x}"


def unmarked(headers: Headers) -> Headers:
    """The headers without marks of earlier restores."""
    return tuple(header for header in headers if header[0] != ORIGIN)


def progress_note(restore: str, topic_id: str, files: PlannedFiles, mark: str) -> str:
    """What is committed beside the count of records: the id of the target topic, the first mark of the restore, and the last."""
    return f"{topic_id} {origin_mark(restore, files[0], files[0].skip)} {mark}"


def marked_position(mark: str, files: PlannedFiles) -> Position | None:
    """Which record of these files a mark means; None: none of them."""
    parts = mark.split("/")
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts[3:5]):
        return None
    row = int(parts[4])
    for number, file in files.at(int(parts[3])):
        if origin_mark(parts[0], file, row) == mark and file.skip <= row and (file.until is None or row < file.until):
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
                marked = f"has records that are marked ({ORIGIN}) as those to be restored"
                why = "that was forgotten (offsets.retention.minutes), or another producer wrote them"
                rule = f"{marked}, but Kafka knows of no progress of it: {why}."
                raise ConfigError([Problem("--to-topic", target.topic, rule, "Choose another topic.")])


def _marked(headers: Sequence[dict[str, object]], files: PlannedFiles) -> bool:
    marks = [header["value"] for header in headers if header["key"] == ORIGIN]
    return any(isinstance(mark, bytes) and marked_position(mark.decode("ascii", "replace"), files) for mark in marks)


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


class KafkaTarget(PlainReader):
    """A real cluster that is written to; only committed records of it are read, whatever the sink itself reads."""

    def __init__(self, bootstrap_servers: str, *, properties: Mapping[str, str]) -> None:
        super().__init__(bootstrap_servers, properties={**properties, ISOLATION: "read_committed"})
        self._writer = KafkaBrokers(bootstrap_servers, properties={**properties, ISOLATION: "read_uncommitted"})

    def create_topic(self, name: str, *, partitions: int) -> None:
        """Creates a topic with the brokers' own number of replicas."""
        self._writer.create_topic(name, partitions=partitions, replication=BROKERS_CHOICE)

    def progress(self, group: str, target: TopicPartition) -> ProducerProgress | None:
        """What transactions have committed to a group. Raises KafkaUnavailable, SourceError."""
        found = self._writer.group_progress(group, [target]).get(target)
        return None if found is None else ProducerProgress(*found)

    @contextmanager
    def sending(self, target: TopicPartition, group: str) -> Iterator[SendWithProgress]:
        """Transactions under a name of the target's own. Raises KafkaUnavailable, also while others' records of it cannot be read yet."""
        with sending_in_transactions(self._writer.clients, f"{OWN}{target}", group=group) as send:
            self._wait_for_others(target)
            yield send

    def _wait_for_others(self, target: TopicPartition) -> None:
        """Behind another producer's open transaction nobody sees what is committed."""
        end, deadline = self._writer.heads([target]).get(target, 0), time.monotonic() + self._writer.clients.seconds
        while self.heads([target]).get(target, end) < end:
            if time.monotonic() > deadline:
                what = f"Another producer's transaction is open in {target}: what is behind it cannot be read"
                raise KafkaUnavailable(
                    f"{what}. Call again when it has ended, or end it (kafka-transactions.sh abort)."
                )
            time.sleep(LOOK_AGAIN_S)


@dataclass(frozen=True, slots=True)
class PartitionRestore:
    """What is to come back of one source partition, to which target, and from where on: `state` is what earlier runs have written.

    `records` are those of the log in all, None where only names are known.
    """

    source: TopicPartition
    target: TopicPartition
    files: PlannedFiles
    state: RestoreState | None = None
    written: int = 0

    @property
    def group(self) -> str:
        """The consumer group that keeps the progress."""
        return f"{OWN}{self.source}-to-{self.target}"

    @property
    def records(self) -> int | None:
        """How many records are wanted."""
        return self.files.records()

    @property
    def already_there(self) -> int:
        """How many of them earlier runs have written."""
        return 0 if self.state is None else self.state.count

    def document(self) -> dict[str, Any]:
        """For programs; bytes are those of the objects."""
        return {
            "source": str(self.source), "target": str(self.target), "files": len(self.files), "records": self.records,
            "bytes": self.files.size,
            "first_offset": self.files[0].first_offset, "already_there": self.already_there, "written": self.written,
        }  # fmt: skip


def partitions_to(files: Mapping[TopicPartition, PlannedFiles], to_topic: str) -> list[PartitionRestore]:
    """Each source partition with its target. Raises ConfigError where two topics would be mixed, or the name is not Kafka's."""
    topics = {tp.topic for tp in files}
    found = []
    for tp, own in files.items():
        name = Template(to_topic).safe_substitute(topic=tp.topic)
        found.append(PartitionRestore(tp, TopicPartition(name, tp.partition), own))
    if len({partition.target.topic for partition in found}) < len(topics):
        names = ", ".join(sorted(topics))
        remedy = "Write ${topic} into it, or choose one with --topic."
        raise ConfigError([Problem("--to-topic", to_topic, f"would mix {names}.", remedy)])
    return found


def with_states(planned: Sequence[PartitionRestore], target: TargetCluster) -> list[PartitionRestore]:
    """The partitions with how far earlier runs came. Raises ConfigError where a target has too few partitions."""
    topics = target.describe(sorted({partition.target.topic for partition in planned}))
    found = []
    for partition in planned:
        topic = topics.get(partition.target.topic)
        if topic is None:
            found.append(partition)
            continue
        if partition.target.partition not in topic.partitions:
            rule = f"has {len(topic.partitions)} partitions, and {partition.source} needs partition {partition.target.partition}."
            raise ConfigError([Problem("--to-topic", topic.name, rule, "Add partitions, or choose another topic.")])
        found.append(replace(partition, state=_earlier_state(target, partition, topic.id)))
    return found


def restore(
    planned: Sequence[PartitionRestore],
    *,
    store: ObjectStore,
    reading: RowReading,
    target: TargetCluster,
    notify: Callable[[PartitionRestore], None],
) -> list[PartitionRestore]:
    """Writes what is not there yet; `notify` is called with each partition as it is done.

    Raises SourceError, ObjectUnreadable, StorageError: what is written stays, and the same call goes on behind it.
    """
    names = {partition.target.topic for partition in planned}
    there = target.describe(sorted(names))
    for name in sorted(names - there.keys()):
        target.create_topic(name, partitions=1 + max(s.target.partition for s in planned if s.target.topic == name))
    done = []
    ids = {name: topic.id for name, topic in target.describe(sorted(names)).items()}
    for partition in planned:
        done.append(_restored(partition, ids.get(partition.target.topic, ""), store, reading, target))
        notify(done[-1])
    return done


def _earlier_state(target: TargetCluster, partition: PartitionRestore, topic_id: str) -> RestoreState | None:
    """What earlier runs have written of a partition; None where that is nothing, or was to a topic that was deleted since.

    Raises ConfigError where they began elsewhere, or their last record is not among these files: then it is not the work of this call.
    """
    files, progress = partition.files, target.progress(partition.group, partition.target)
    there, first, last = [*(progress.note.split(" ") if progress else ()), "", "", ""][:3]
    if progress is None or there != topic_id:
        check_unmarked(target, partition.target, files)
        return None
    restore_id, position = first.partition("/")[0], marked_position(last, files)
    if first != origin_mark(restore_id, files[0], files[0].skip) or position is None:
        begin = "/".join(first.split("/")[1:4])
        rule = f"holds {progress.written:,} records of a restore that began at {begin} (topic/partition/offset), not where this one would."
        remedy = "Choose the same range as before, or another topic."
        raise ConfigError([Problem("--to-topic", partition.target.topic, rule, remedy)])
    return RestoreState(restore_id, progress.written, position)


def _restored(
    partition: PartitionRestore, topic_id: str, store: ObjectStore, reading: RowReading, target: TargetCluster
) -> PartitionRestore:
    written = 0
    with target.sending(partition.target, partition.group) as send:
        # looked up again: what an earlier run had on its way may have come since the plan was made, and nothing comes any more
        partition = replace(partition, state=_earlier_state(target, partition, topic_id))
        state = partition.state or new_restore()
        for file, row, message in _messages(partition, state.last, store, reading):
            written += 1
            mark = origin_mark(state.id, file, row)
            marked = replace(message, headers=(*unmarked(message.headers), (ORIGIN, mark.encode())))
            progress = ProducerProgress(state.count + written, progress_note(state.id, topic_id, partition.files, mark))
            send(partition.target.topic, marked, partition=partition.target.partition, progress=progress)
    return replace(partition, written=written)


def _messages(
    partition: PartitionRestore, begin: Position, store: ObjectStore, reading: RowReading
) -> Iterator[tuple[StoredFile, int, Message]]:
    """What is to be written, each record with its file and its row in it."""
    for number, file in partition.files.since(begin.file):
        skip = max(file.skip, begin.row + 1) if number == begin.file else file.skip
        wanted = replace(file, skip=skip)
        if wanted.wanted == 0:
            continue
        for row, message in enumerate(reading.messages(store, wanted), skip):
            yield file, row, message
