"""What can be restored of the sink of these settings, what cannot come back as it was (reported before anything is written), and how
is it written? One source partition after the other, from where an earlier run stopped, counted as they go.

How far an earlier run came, its transactions say: each commits, with its records, to a consumer group how many records the restore has
written and which was the last. Nothing in the target topic is believed, for whoever may write to it can forge that. Each record carries a
header with its place in the bucket and the id of the restore that wrote it: for people, and to notice a restore whose progress is gone.
"""

from __future__ import annotations

import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from string import Template
from typing import Any, Final, Protocol

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.history import read_history
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.plain_reader import PlainReader
from kafka_s3.kafka.producing import ProducerProgress, SendWithProgress, sending_in_transactions
from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.objects.block_gzip_form import Lines
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.restore.files import (
    FileTable,
    Headers,
    PlannedFiles,
    RestoreSelection,
    RowReading,
    StoredFile,
    logged_files,
    named_files,
)
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.conversion import block_gzip_of
from kafka_s3.run.wiring.pipeline import is_block_gzip, object_names, state_paths
from kafka_s3.store.store import ObjectStore

ORIGIN: Final = "kafka_s3.origin"
"""The header's name. Its value: the restore's id/topic/partition/first offset of the file/row in it/a checksum of the file's directory."""
OWN: Final = "kafka-s3-restore-"
"""Begins the names of consumer groups and of transactions."""

ISOLATION: Final = "isolation.level"
LOOK_AGAIN_S: Final = 0.1
SHOWN_PARTITIONS: Final = 5
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


@dataclass(frozen=True, slots=True)
class OtherRecords:
    """Records of a target topic-partition that this restore did not write: how many, and the first and last of their offsets."""

    count: int = 0
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        return f"{self.count:,} records (offsets {self.first} to {self.last})"


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
    for number, file in files.files_at(int(parts[3])):
        if origin_mark(parts[0], file, row) == mark and file.wants(row):
            return Position(number, row)
    return None


def other_records(kafka: KafkaRecords, target: TopicPartition, files: PlannedFiles) -> OtherRecords:
    """Count the records of a target for which no progress of a restore is known.

    Raises ConfigError when some are marked as records of these files, KafkaUnavailable when no broker leads the target.
    """
    starts, heads = kafka.starts([target]), kafka.heads([target])
    if target not in starts or target not in heads:
        raise KafkaUnavailable(f"No broker answers for {target} (no leader, or deleted). Call again when one does.")
    records = OtherRecords()
    for batch in kafka.batches(target, starts[target], until=heads[target]):
        offsets = batch.column("offset")
        if len(offsets):
            first = offsets[0].as_py() if records.first is None else records.first
            records = OtherRecords(records.count + len(offsets), first, offsets[-1].as_py())
        for headers in batch.column("headers"):
            if _marked(headers.as_py() or (), files):
                marked = f"has records that are marked ({ORIGIN}) as those to be restored"
                why = "that was forgotten (offsets.retention.minutes), or another producer wrote them"
                rule = f"{marked}, but Kafka knows of no progress of it: {why}."
                raise ConfigError([Problem("--to-topic", target.topic, rule, "Choose another topic.")])
    return records


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
    """What is to come back of one source partition, to which target, and from where on.

    `before` is what the target holds: how far earlier runs of this restore came, or records of others, after which it writes only if it
    `appends`. `records` are those of the log in all, None where only names are known.
    """

    source: TopicPartition
    target: TopicPartition
    files: PlannedFiles
    appends: bool = False
    before: RestoreState | OtherRecords = OtherRecords()
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
        return self.before.count if isinstance(self.before, RestoreState) else 0

    @property
    def others(self) -> OtherRecords | None:
        """The records of others that were there when the restore began; None when it goes on, which does not count them again."""
        return self.before if isinstance(self.before, OtherRecords) else None

    def document(self) -> dict[str, Any]:
        """For programs; bytes are those of the objects."""
        return {
            "source": str(self.source), "target": str(self.target), "files": len(self.files), "records": self.records,
            "bytes": self.files.size,
            "first_offset": self.files[0].first_offset, "already_there": self.already_there, "written": self.written,
            "other_records": asdict(self.others) if self.others else None,
        }  # fmt: skip


def partitions_to(
    files: Mapping[TopicPartition, PlannedFiles], to_topic: str, *, append: bool
) -> list[PartitionRestore]:
    """Return each source partition with its target. Raises ConfigError when two topics would be mixed."""
    topics = {tp.topic for tp in files}
    found = []
    for tp, own in files.items():
        name = Template(to_topic).safe_substitute(topic=tp.topic)
        found.append(PartitionRestore(tp, TopicPartition(name, tp.partition), own, append))
    if len({partition.target.topic for partition in found}) < len(topics):
        names = ", ".join(sorted(topics))
        remedy = "Write ${topic} into it, or choose one with --topic."
        raise ConfigError([Problem("--to-topic", to_topic, f"would mix {names}.", remedy)])
    return found


def with_states(planned: Sequence[PartitionRestore], target: TargetCluster) -> list[PartitionRestore]:
    """Return the partitions with what their targets hold.

    Raises ConfigError when a target has too few partitions, or holds records of others after which nothing is to be written.
    """
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
        found.append(replace(partition, before=_look_at_target(target, partition, topic.id)))
    check_others(found)
    return found


def check_others(planned: Iterable[PartitionRestore]) -> None:
    """Raises ConfigError when targets hold records of others, and the restore is not to append to them."""
    refused = [one for one in planned if one.others and one.others.count and not one.appends]
    if not refused:
        return
    shown = ", ".join(f"{partition.target} has {partition.others}" for partition in refused[:SHOWN_PARTITIONS])
    more = f", and {len(refused) - SHOWN_PARTITIONS:,} more partitions" if len(refused) > SHOWN_PARTITIONS else ""
    rule = f"holds records that this restore did not write: {shown}{more}."
    remedy = "Choose another topic, or write after them with --append."
    raise ConfigError([Problem("--to-topic", refused[0].target.topic, rule, remedy)])


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


def _look_at_target(target: TargetCluster, partition: PartitionRestore, topic_id: str) -> RestoreState | OtherRecords:
    """Return how far earlier runs came, or, when none has written to this topic (or it was deleted since), which records it holds.

    Raises ConfigError when they began elsewhere, or their last record is not among these files: then it is not the work of this call.
    """
    files, progress = partition.files, target.progress(partition.group, partition.target)
    there, first, last = [*(progress.note.split(" ") if progress else ()), "", "", ""][:3]
    if progress is None or there != topic_id:
        return other_records(target, partition.target, files)
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
        partition = replace(partition, before=_look_at_target(target, partition, topic_id))
        check_others([partition])
        state = partition.before
        if isinstance(state, OtherRecords):
            state = RestoreState(secrets.token_hex(8), 0, Position(0, -1))
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


AS_THEY_WERE: Final = frozenset({"string", "bytes"})
"""Converters whose values come back byte for byte, whatever the format."""


@dataclass
class FileStatistics:
    """What the files of a plan have kept of their records, counted as they go by: topic-partition by topic-partition, in order."""

    files: int = 0
    with_key: int = 0
    with_headers: int = 0
    timed: int = 0
    overlapping: bool = False
    formats: set[str] = field(default_factory=set)
    _of: TopicPartition | None = None
    _end: int = -1

    def add(self, file: StoredFile) -> None:
        """Counts a file."""
        self.files += 1
        self.with_key += Role.KEY in file.parts
        self.with_headers += Role.HEADER in file.parts
        self.timed += file.timestamp is not None
        if Role.VALUE in file.parts:
            self.formats.add(file.parts[Role.VALUE].format)
        if file.last_offset is not None:
            end = self._end if self._of == file.topic_partition else -1
            self.overlapping |= file.first_offset <= end
            self._of, self._end = file.topic_partition, max(end, file.last_offset)


def losses(settings: Settings, files: FileStatistics) -> list[str]:
    """A sentence for each thing that the objects did not keep."""
    notes = [_values(settings, form) for form in sorted(files.formats)]
    if not settings.flag("record.metadata.enable"):
        notes += _envelopes(settings, files)
    if settings.names("transforms"):
        notes.append("Values are those behind the transforms, not those that were consumed.")
    if files.overlapping:
        order = "order holds within a directory, and between objects by their first offsets"
        notes.append(f"Directories overlap in their offsets, and objects do not say each record's: {order}.")
    return [text for text in notes if text]


def _values(settings: Settings, form: str) -> str:
    converter = settings.text("value.converter")
    ours = "values come back as JSON of their fields, not in the form that was consumed"
    if form == "block_gzip":
        lines = isinstance(block_gzip_of(settings).framing, Lines)
        text = "A line feed at the end of a value does not come back. " if lines else ""
        return f"{text}Null values come back empty."
    if form in ("avro", "parquet") and converter not in AS_THEY_WERE:
        return f"{form} objects of {converter} values: {ours}."
    if form == "json" and converter not in AS_THEY_WERE:
        if converter == "json" and not settings.flag("value.converter.schemas.enable"):
            return "Values come back as the JSON that was written: the same document, blanks and the form of numbers as in the object."
        return f"json objects of {converter} values: {ours}; schemas in the values are not there any more."
    return ""


def _envelopes(settings: Settings, files: FileStatistics) -> list[str]:
    notes, of_all = [], f"of {files.files:,} files"
    if files.with_key < files.files and not block_gzip_of(settings).stores_keys:
        without = f"{files.files - files.with_key:,} {of_all} were written without keys"
        notes.append(f"{without} (store.kafka.keys): null keys come back.")
    elif files.with_key and settings.text("key.converter") not in AS_THEY_WERE:
        notes.append(f"Keys of {settings.text('key.converter')} come back as the text or JSON that was written.")
    if files.with_headers < files.files:
        without = f"{files.files - files.with_headers:,} {of_all} were written without headers"
        notes.append(f"{without} (store.kafka.headers).")
    if files.with_headers:
        notes.append("Values of headers come back as text.")
    if files.timed < files.files:
        several = f"{files.files - files.timed:,} {of_all} hold records of several times, or do not say"
        now = "those records get the time at which they are written back"
        notes.append(f"{several}: {now} (record.metadata.enable keeps each one's).")
    return notes


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What would be written, and what of it would not be as it was."""

    partitions: tuple[PartitionRestore, ...]
    notes: tuple[str, ...]


def reading_of(settings: Settings) -> RowReading:
    """How the objects of these settings are read back."""
    return RowReading(
        settings.text("format.bytearray.separator").encode(),
        block_gzip_of(settings).framing,
        settings.text("value.converter"),
        settings.text("key.converter"),
        settings.flag("record.metadata.enable"),
    )


def target_of(settings: Settings) -> KafkaTarget:
    """The cluster of these settings."""
    return KafkaTarget(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def plan_of(
    settings: Settings,
    store: ObjectStore,
    target: TargetCluster,
    *,
    to_topic: str,
    selection: RestoreSelection,
    by_name: bool,
    append: bool,
) -> RestorePlan:
    """Plan a restore. Raises ConfigError when nothing is there to be restored, or the target does not fit.

    With `append` it writes after the records that others wrote to the target.
    """
    letters: Mapping[TopicPartition, int] = {}
    if by_name:
        found = _by_name(settings, store, selection)
    else:
        found, letters = logged_files(read_history(store, state_paths(settings)), selection.wants)
    partitions = found.topic_partitions()
    if not partitions:
        remedy = "Name topics that it has." if by_name else "For objects of another writer take --by-name."
        raise ConfigError([Problem("sink", settings.name, "has no such objects.", remedy)])
    chosen, statistics, whole = _chosen(found, filter(selection.wants, partitions), selection)
    planned = with_states(partitions_to(chosen, to_topic, append=append), target)
    notes = losses(settings, statistics)
    if whole:
        over = f"{whole:,} objects reach over the ends of the range and come back whole"
        notes.append(f"{over}: they do not say each record's place.")
    way = "are in no object and do not come back; kafka-s3 dead-letters replay writes them to objects"
    left = [(tp, number) for tp, number in sorted(letters.items()) if number > 0 and tp in chosen]
    notes += [f"{number:,} dead letters of {tp} {way}." for tp, number in left]
    own = {one.target.topic for one in planned if _consumes(settings, one.target.topic)}
    notes += [f"The sink consumes {name}: it will write these records to objects once more." for name in sorted(own)]
    others = [partition for partition in planned if partition.others and partition.others.count]
    notes += [f"{one.target} has {one.others} of others: the restored ones come after them." for one in others]
    return RestorePlan(tuple(planned), tuple(notes))


def _chosen(
    found: FileTable, partitions: Iterable[TopicPartition], selection: RestoreSelection
) -> tuple[dict[TopicPartition, PlannedFiles], FileStatistics, int]:
    """The wanted files, what they kept of their records, and how many are whole though only a part of them is meant."""
    chosen: dict[TopicPartition, PlannedFiles] = {}
    statistics, whole = FileStatistics(), 0
    for tp in partitions:
        own = found.plan(tp)
        for file in found.of(tp):
            cut, is_whole = selection.cut(file)
            whole += is_whole
            if cut is not None and (Role.VALUE in cut.parts or Role.KEY in cut.parts):
                own.append(cut)
                statistics.add(cut)
        if len(own):
            chosen[tp] = own
    return chosen, statistics, whole


def _consumes(settings: Settings, topic: str) -> bool:
    return topic in settings.names("topics") or re.fullmatch(settings.text("topics.regex"), topic) is not None


def _by_name(settings: Settings, store: ObjectStore, selection: RestoreSelection) -> FileTable:
    if selection.by_time:
        rule = "needs the commit log: names say nothing of times."
        raise ConfigError([Problem("--since", None, rule, "Choose offsets.")])
    topics: Sequence[str] = sorted(selection.topics or settings.names("topics"))
    if not topics:
        raise ConfigError([Problem("--topic", None, "is needed with --by-name and topics.regex.", "Name the topics.")])
    prefix = settings.text("block.gzip.prefix") if is_block_gzip(settings) else None
    extension = settings.text("format.bytearray.extension")
    return named_files(store, object_names(settings), topics, prefix=prefix, bytes_extension=extension)
