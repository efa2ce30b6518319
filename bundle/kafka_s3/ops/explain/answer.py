"""What does an explanation consist of? An outcome, a sentence for people, and what each commit entry says, for programs too.

Of each object it says why it was closed and why it lies in its directory, in sentences with the configuration's values, and whether the
bucket has it as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.run.wiring.partitioning import directory, uses_time
from kafka_s3.run.wiring.pipeline import is_block_gzip
from kafka_s3.store.store import ObjectStore, etag_of

_CLOSED: Final[Mapping[Reason, str]] = {
    Reason.FLUSH_SIZE: "this many records of its Kafka partition were open",
    Reason.FLUSH_BYTES: "this many encoded bytes were open",
    Reason.FLUSH_IDLE: "for so long no record came",
    Reason.ROTATE_INTERVAL: "the next record's time was that far behind the first one's",
    Reason.OFFSET_FLUSH: "Connect's flush was due by the clock",
    Reason.ROTATE_SCHEDULE: "the schedule's mark was reached by the clock",
    Reason.MAX_OPEN_FILES: "a record of one more directory came",
}
_OTHERS: Final[Mapping[Reason, str]] = {
    Reason.PARTITION_CHANGE: "partition.change: with rotate.interval.ms, a record of another directory closes the files before it",
    Reason.SCHEMA: "schema: the next record's schema could not go into the open file",
    Reason.FLUSH_NOW: "flush.now: what was open was closed by hand (kafka-s3 flush, or --flush)",
    Reason.LOST_OFFSETS: "behavior.on.lost.offsets: what follows was no longer in Kafka; the file holds what was read before",
    Reason.COMPACTION: "compaction: it was made from objects of its directory that followed one another",
    Reason.ERASURE: "erasure: it was made from another object, without records that were erased",
    Reason.DEAD_LETTER: "dead_letter: each task closes its own file of dead letters",
}
_SETTING: Final[Mapping[Reason, str]] = {Reason.ROTATE_INTERVAL: "block.gzip.file.interval.ms"}


class Outcome(StrEnum):
    """What became of a record, or what an object is. `UNKNOWN`: no entry of the log knows it."""

    OBJECT = "object"
    DEAD_LETTER = "dead letter"
    SKIPPED = "skipped"
    NO_RECORD = "no record"
    GAP = "gap"
    BEFORE_START = "before start"
    OPEN = "open"
    NOT_READ = "not read yet"
    NOT_IN_KAFKA = "not in Kafka yet"
    LOST = "lost"
    REPLACED = "replaced"
    ERASED = "erased"
    STATE = "state"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Account:
    """What one commit entry says. Not `current` where a later entry let Kafka's records be read again, or the topic was recreated."""

    entry: int
    committed_at: str
    outcome: Outcome
    text: str
    files: tuple[DataFile, ...] = ()
    current: bool = True


@dataclass(frozen=True, slots=True)
class ExplainedObject:
    """An object with why it was closed, why it lies where it lies, and what the bucket says of it."""

    file: DataFile
    rule: str
    directory: str
    bucket: str

    def document(self) -> dict[str, Any]:
        """For programs; timestamps are epoch ms, offsets inclusive, `bytes` the object's size. Partition and offsets are those of the first
        of its `slices`, where it has some.
        """
        file = self.file
        slices = {"slices": [asdict(one) for one in file.slices]} if file.slices else {}
        return slices | {
            "key": file.key, "role": file.role.value, "topic": file.topic, "partition": file.partition,
            "first_offset": file.first_offset, "last_offset": file.last_offset, "records": file.records, "bytes": file.bytes,
            "min_timestamp": file.min_timestamp, "max_timestamp": file.max_timestamp, "encoded_partition": file.encoded_partition,
            "schema": file.schema, "format": file.format, "reason": file.reason.value, "rule": self.rule,
            "directory": self.directory, "bucket": self.bucket,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """The explanation of one thing, `about`: the outcome, a sentence, further notes, the entries' accounts and the objects they name."""

    outcome: Outcome
    text: str
    about: str = ""
    notes: tuple[str, ...] = ()
    accounts: tuple[Account, ...] = ()
    objects: Mapping[str, ExplainedObject] | None = None

    def document(self) -> dict[str, Any]:
        """For programs."""
        known = self.objects or {}
        return {
            "about": self.about,
            "outcome": self.outcome.value,
            "text": self.text,
            "notes": list(self.notes),
            "entries": [
                {
                    "entry": one.entry, "committed_at": one.committed_at, "outcome": one.outcome.value, "text": one.text,
                    "stands": one.current, "objects": [known[file.key].document() for file in one.files if file.key in known],
                }
                for one in self.accounts
            ],
        }  # fmt: skip


def object_facts(files: Iterable[DataFile], settings: Settings, store: ObjectStore) -> dict[str, ExplainedObject]:
    """Each object by its key; one HEAD request for each. Raises StorageError."""
    return {
        file.key: ExplainedObject(file, why_closed(file, settings), why_here(file, settings), in_bucket(file, store))
        for file in files
    }


def in_bucket(file: DataFile, store: ObjectStore) -> str:
    """How the bucket has an object. Raises StorageError."""
    info = store.head(file.key)
    if info is None:
        pending = store.upload_exists(file.upload.key, file.upload.id)
        waiting = "not visible yet: the sink completes it when it starts"
        return waiting if pending else "missing: kafka-s3 verify says more"
    if info.size != file.bytes:
        return f"overwritten: it has {info.size} bytes, the log counts {file.bytes}; kafka-s3 verify says more"
    return "as written" if info.etag == etag_of(file.upload.parts) else "of the size that was written"


def why_closed(file: DataFile, settings: Settings) -> str:
    """The rotation rule that closed a file, with the value that its key has in these settings."""
    if file.reason in _OTHERS:
        return _OTHERS[file.reason]
    key = _SETTING.get(file.reason, str(file.reason)) if is_block_gzip(settings) else str(file.reason)
    value = settings.masked().get(key)
    return f"{key}{'' if value is None else f'={value}'}: {_CLOSED[file.reason]}"


def why_here(file: DataFile, settings: Settings) -> str:
    """What named a file's directory; of dead letters their fixed folder."""
    if file.role is Role.DEAD_LETTER:
        return "dead letters lie below the sink's state, by topic"
    if is_block_gzip(settings):
        return f"layout={settings.text('block.gzip.layout')}"
    if settings.text("tombstone.encoded.partition") == file.encoded_partition:
        return "tombstone.encoded.partition: records without a value"
    return by_partitioner(settings)


def by_partitioner(settings: Settings) -> str:
    """How the partitioner of these settings names directories."""
    name, shown = settings.text("partitioner.class"), settings.masked()
    parts = [f"partitioner.class={name}"]
    keys = {
        "field": ("partition.field.name",), "field_and_time": ("partition.field.name",), "header": ("partition.header.name",),
        "key": ("partition.key.field",),
    }.get(name, ())  # fmt: skip
    parts += [f"{key}={shown.get(key, '')}" for key in keys]
    if uses_time(settings):
        length, pattern = directory(settings)
        parts.append(f"path.format={pattern.replace('{d}', settings.text('directory.delim'))}")
        parts += [f"partition.duration.ms={length}", f"timezone={shown.get('timezone', '')}", _time(shown)]
    if name == "default":
        parts.append("the number of the Kafka partition")
    return ", ".join(parts)


def open_rules(settings: Settings) -> str:
    """The rules that can close an open file, with their values."""
    keys = (
        "flush.size", "flush.bytes", "flush.idle.ms", "rotate.interval.ms", "rotate.schedule.interval.ms",
        "block.gzip.file.interval.ms",
    )  # fmt: skip
    values = {key: settings.values.get(key) for key in keys if settings.given(key)}
    return ", ".join(f"{key}={value}" for key, value in values.items() if isinstance(value, int) and value > 0)


def _time(shown: Mapping[str, str]) -> str:
    chosen = shown.get("timestamp.extractor", "")
    field = f" of {shown.get('timestamp.field', '')}" if chosen == "RecordField" else ""
    return f"timestamp.extractor={chosen}{field}"
