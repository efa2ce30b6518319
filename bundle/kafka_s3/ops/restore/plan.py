"""What is there to restore of the sink of these settings, and what writes it? The composition."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.history import read_history
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader.whole_records import WholeRecords
from kafka_s3.kafka.transactions import ProducerProgress, SendWithProgress, sending_in_transactions
from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Lines, block_gzip_of
from kafka_s3.ops.restore.files import FileTable, PlannedFiles, RestoreSelection, logged_files, named_files
from kafka_s3.ops.restore.run import OWN, Share, TargetCluster, located, shares
from kafka_s3.ops.restore.values import StoredFile
from kafka_s3.ops.verify.layout import object_layout
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.pipeline import is_block_gzip, state_paths
from kafka_s3.store.store import ObjectStore

AS_THEY_WERE: Final = frozenset({"string", "bytes"})
"""Converters whose values come back byte for byte, whatever the format."""


@dataclass
class Kept:
    """What the files of a plan have kept of their records, counted as they go by: topic-partition by topic-partition, in order."""

    files: int = 0
    with_key: int = 0
    with_headers: int = 0
    timed: int = 0
    overlapping: bool = False
    formats: set[str] = field(default_factory=set)
    _of: TopicPartition | None = None
    _end: int = -1

    def take(self, file: StoredFile) -> None:
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


def losses(settings: Settings, kept: Kept) -> list[str]:
    """A sentence for each thing that the objects did not keep."""
    told = [_values(settings, form) for form in sorted(kept.formats)]
    if not settings.flag("record.metadata.enable"):
        told += _envelopes(settings, kept)
    if settings.names("transforms"):
        told.append("Values are those behind the transforms, not those that were consumed.")
    if kept.overlapping:
        told.append(
            "Directories overlap in their offsets, and objects do not say each record's: order holds within a directory, and between "
            "objects by their first offsets."
        )
    return [text for text in told if text]


def _values(settings: Settings, form: str) -> str:
    converter, ours = (
        settings.text("value.converter"),
        "values come back as JSON of their fields, not in the form that was consumed",
    )
    if form == "block_gzip":
        text = (
            "A line feed at the end of a value does not come back."
            if isinstance(block_gzip_of(settings).framing, Lines)
            else ""
        )
        return f"{text} Null values come back empty.".strip()
    if form in ("avro", "parquet") and converter not in AS_THEY_WERE:
        return f"{form} objects of {converter} values: {ours}."
    if form == "json" and converter not in AS_THEY_WERE:
        if converter == "json" and not settings.flag("value.converter.schemas.enable"):
            return "Values come back as the JSON that was written: the same document, blanks and the form of numbers as in the object."
        return f"json objects of {converter} values: {ours}; schemas in the values are not there any more."
    return ""


def _envelopes(settings: Settings, kept: Kept) -> list[str]:
    told = []
    if kept.with_key < kept.files and not block_gzip_of(settings).stores_keys:
        told.append(
            f"{kept.files - kept.with_key:,} of {kept.files:,} files were written without keys (store.kafka.keys): null keys come back."
        )
    elif kept.with_key and settings.text("key.converter") not in AS_THEY_WERE:
        told.append(f"Keys of {settings.text('key.converter')} come back as the text or JSON that was written.")
    if kept.with_headers < kept.files:
        told.append(
            f"{kept.files - kept.with_headers:,} of {kept.files:,} files were written without headers (store.kafka.headers)."
        )
    if kept.with_headers:
        told.append("Values of headers come back as text.")
    if kept.timed < kept.files:
        told.append(
            f"{kept.files - kept.timed:,} of {kept.files:,} files hold records of several times, or do not say: those records get the "
            "time at which they are written back (record.metadata.enable keeps each one's)."
        )
    return told


ISOLATION: Final = "isolation.level"
LOOK_AGAIN_S: Final = 0.1
BROKERS_CHOICE: Final = -1
"""The number of replicas that leaves it to the brokers (default.replication.factor)."""


class RealTarget(WholeRecords):
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
                raise KafkaUnavailable(
                    f"Another producer's transaction is open in {target}: what is behind it cannot be read. Call again when it has ended, "
                    "or end it (kafka-transactions.sh abort)."
                )
            time.sleep(LOOK_AGAIN_S)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What would be written, and what of it would not be as it was."""

    shares: tuple[Share, ...]
    notes: tuple[str, ...]


def target_of(settings: Settings) -> RealTarget:
    """The cluster of these settings."""
    return RealTarget(settings.text("kafka.bootstrap.servers"), properties=consumer_properties(settings))


def plan_of(
    settings: Settings,
    store: ObjectStore,
    target: TargetCluster,
    *,
    to_topic: str,
    selection: RestoreSelection,
    by_name: bool,
) -> RestorePlan:
    """The plan of a restore. Raises ConfigError where nothing is there to be restored, or the target does not fit."""
    found = (
        _by_name(settings, store, selection)
        if by_name
        else logged_files((e for _, e in read_history(store, state_paths(settings))), selection.wants)
    )
    places = found.topic_partitions()
    if not places:
        remedy = "Name topics that it has." if by_name else "For objects of another writer take --by-name."
        raise ConfigError([Problem("sink", settings.name, "has no such objects.", remedy)])
    chosen, kept, whole = _chosen(found, filter(selection.wants, places), selection)
    planned = shares(chosen, to_topic)
    notes = losses(settings, kept)
    if whole:
        notes.append(
            f"{whole:,} objects reach over the ends of the range and come back whole: they do not say each record's place."
        )
    notes += [] if by_name else _open_letters(settings, store, chosen)
    own = {share.target.topic for share in planned if _consumes(settings, share.target.topic)}
    notes += [f"The sink consumes {name}: it will write these records to objects once more." for name in sorted(own)]
    return RestorePlan(tuple(located(planned, target)), tuple(notes))


def _chosen(
    found: FileTable, places: Iterable[TopicPartition], selection: RestoreSelection
) -> tuple[dict[TopicPartition, PlannedFiles], Kept, int]:
    """The wanted files, what they kept of their records, and how many are whole though only a part of them is meant."""
    chosen: dict[TopicPartition, PlannedFiles] = {}
    kept, whole = Kept(), 0
    for tp in places:
        own = found.plan(tp)
        for file in found.of(tp):
            cut, is_whole = selection.of(file)
            whole += is_whole
            if cut is not None and (Role.VALUE in cut.parts or Role.KEY in cut.parts):
                own.append(cut)
                kept.take(cut)
        if len(own):
            chosen[tp] = own
    return chosen, kept, whole


def _consumes(settings: Settings, topic: str) -> bool:
    return topic in settings.names("topics") or re.fullmatch(settings.text("topics.regex"), topic) is not None


def _by_name(settings: Settings, store: ObjectStore, selection: RestoreSelection) -> FileTable:
    if selection.by_time:
        raise ConfigError(
            [Problem("--since", None, "needs the commit log: names say nothing of times.", "Choose offsets.")]
        )
    topics: Sequence[str] = sorted(selection.topics or settings.names("topics"))
    if not topics:
        raise ConfigError([Problem("--topic", None, "is needed with --by-name and topics.regex.", "Name the topics.")])
    prefix = settings.text("block.gzip.prefix") if is_block_gzip(settings) else None
    extension = settings.text("format.bytearray.extension")
    return named_files(store, object_layout(settings), topics, prefix=prefix, bytes_extension=extension)


def _open_letters(settings: Settings, store: ObjectStore, chosen: Collection[TopicPartition]) -> list[str]:
    counts: dict[TopicPartition, int] = {}
    for _, entry in read_history(store, state_paths(settings)):
        for tp, count in entry.dead_letters.items():
            counts[tp] = counts.get(tp, 0) + count.count
    way = "are in no object and do not come back; kafka-s3 dead-letters replay writes them to objects"
    return [
        f"{count:,} dead letters of {tp} {way}." for tp, count in sorted(counts.items()) if count > 0 and tp in chosen
    ]
