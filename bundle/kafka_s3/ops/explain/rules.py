"""Why was a file closed, and why does it lie in its directory? The rules of the configuration, in sentences with its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.run.wiring.partitioning import directory, uses_time
from kafka_s3.run.wiring.pipeline import is_block_gzip

_CLOSED: Final[Mapping[Reason, str]] = {
    Reason.FLUSH_SIZE: "so many records of its Kafka partition were open",
    Reason.FLUSH_BYTES: "so many encoded bytes were open",
    Reason.FLUSH_IDLE: "for so long no record came",
    Reason.ROTATE_INTERVAL: "the next record's time was so far behind the first one's",
    Reason.OFFSET_FLUSH: "Connect's flush was due by the clock",
    Reason.ROTATE_SCHEDULE: "the schedule's mark was reached by the clock",
    Reason.MAX_OPEN_FILES: "a record of one more directory came",
}
_OTHERS: Final[Mapping[Reason, str]] = {
    Reason.PARTITION_CHANGE: "partition.change: with rotate.interval.ms, a record of another directory closes the files before it",
    Reason.SCHEMA: "schema: the next record's schema could not go into the open file",
    Reason.FLUSH_NOW: "flush.now: what was open was closed by hand (kafka-s3 flush, or --flush)",
    Reason.LOST_OFFSETS: "behavior.on.lost.offsets: what follows was no longer in Kafka; the file holds what was read before",
    Reason.DEAD_LETTER: "dead_letter: each task closes its own file of dead letters",
}
_SETTING: Final[Mapping[Reason, str]] = {Reason.ROTATE_INTERVAL: "block.gzip.file.interval.ms"}


def why_closed(file: DataFile, settings: Settings) -> str:
    """The rotation rule that closed a file, with the value that its key has in these settings."""
    if file.reason in _OTHERS:
        return _OTHERS[file.reason]
    key = _SETTING.get(file.reason, str(file.reason)) if is_block_gzip(settings) else str(file.reason)
    value = settings.masked().get(key)
    return f"{key}{'' if value is None else f'={value}'}: {_CLOSED[file.reason]}"


def why_here(file: DataFile, settings: Settings) -> str:
    """What named a file's directory; empty for dead letters, whose place is fixed."""
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
