"""What is there to restore of the sink of these settings, and what of it cannot come back as it was? Said before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.history import read_history
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Lines
from kafka_s3.ops.restore.files import FileTable, PlannedFiles, RestoreSelection, logged_files, named_files
from kafka_s3.ops.restore.run import KafkaTarget, PartitionRestore, TargetCluster, partitions_to, with_states
from kafka_s3.ops.restore.values import RowReading, StoredFile
from kafka_s3.run.wiring.clients import consumer_properties
from kafka_s3.run.wiring.conversion import block_gzip_of
from kafka_s3.run.wiring.pipeline import is_block_gzip, object_names, state_paths
from kafka_s3.store.store import ObjectStore

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
) -> RestorePlan:
    """The plan of a restore. Raises ConfigError where nothing is there to be restored, or the target does not fit."""
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
    planned = partitions_to(chosen, to_topic)
    notes = losses(settings, statistics)
    if whole:
        over = f"{whole:,} objects reach over the ends of the range and come back whole"
        notes.append(f"{over}: they do not say each record's place.")
    way = "are in no object and do not come back; kafka-s3 dead-letters replay writes them to objects"
    left = [(tp, number) for tp, number in sorted(letters.items()) if number > 0 and tp in chosen]
    notes += [f"{number:,} dead letters of {tp} {way}." for tp, number in left]
    own = {one.target.topic for one in planned if _consumes(settings, one.target.topic)}
    notes += [f"The sink consumes {name}: it will write these records to objects once more." for name in sorted(own)]
    return RestorePlan(tuple(with_states(planned, target)), tuple(notes))


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
