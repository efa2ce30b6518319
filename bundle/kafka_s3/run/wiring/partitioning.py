"""Which partitioner and which timestamp extractor does a configuration stand for?"""

from __future__ import annotations

import time
from datetime import UTC
from typing import Final

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    FIELD_PARTITIONERS,
    PARTITIONER_GROUP,
    PATTERN_PARTITIONERS,
)
from kafka_s3.connect.config.plugins import make
from kafka_s3.connect.config.rules import rotates_by_time
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.joda.pattern import Pattern
from kafka_s3.connect.joda.zones import zone
from kafka_s3.engine.task.partitioning.partitioners import (
    Affix,
    DefaultPartitioner,
    DirectoryForm,
    FieldAndTimePartitioner,
    FieldPartitioner,
    HeaderPartitioner,
    KeyPartitioner,
    Lookalikes,
    Partitioner,
    Registered,
    SchemaDirectory,
    Schemaless,
    TimePartitioner,
    TombstoneDirectory,
)
from kafka_s3.engine.task.partitioning.timestamps import (
    Plausible,
    RecordField,
    RecordTimestamp,
    TimestampExtractor,
    TimeUnit,
    Wallclock,
)
from kafka_s3.engine.task.rotation import OFF
from kafka_s3.model.files import Role

HOUR_MS: Final = 3_600_000
TIME_PARTITIONERS: Final = {
    "hourly": (HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd{d}'hour'=HH"),
    "daily": (24 * HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd"),
    "time": (OFF, ""),
    "field_and_time": (OFF, ""),
}


def directory(settings: Settings) -> tuple[int, str]:
    """How long the time is that a time partitioner's directory stands for, ms, and how the directory is named."""
    name = settings.text("partitioner.class")
    if name in PATTERN_PARTITIONERS:
        return settings.number("partition.duration.ms"), settings.text("path.format")
    return TIME_PARTITIONERS[name]


def uses_time(settings: Settings) -> bool:
    """Whether directories are made of times."""
    return settings.text("partitioner.class") in TIME_PARTITIONERS


def _needs_times(settings: Settings) -> bool:
    """Whether rotation or the directories look at the records' times: a plugin says for itself whether it does."""
    return rotates_by_time(settings) or _chosen_partitioner(settings).uses_time


def fields(settings: Settings) -> list[tuple[str, ...]]:
    """The paths that extractor and partitioner look at."""
    names: list[str] = []
    if settings.text("partitioner.class") in FIELD_PARTITIONERS:
        names += settings.names("partition.field.name")
    if _needs_times(settings) and settings.text("timestamp.extractor") == "RecordField":
        names.append(settings.text("timestamp.field"))
    return [tuple(name.split(".")) for name in names]


def extractor(settings: Settings) -> TimestampExtractor | None:
    """Where the records' times come from, None where nothing asks for them."""
    if settings.text("format.class") == BLOCK_GZIP_FORMAT:
        return RecordTimestamp() if settings.number("block.gzip.file.interval.ms") > 0 else None
    if not _needs_times(settings):
        return None
    match settings.text("timestamp.extractor"):
        case "Record":
            found: TimestampExtractor = RecordTimestamp()
        case "RecordField":
            found = _record_field(settings)
        case _:
            return Wallclock()
    return Plausible(found, rejects=settings.text("behavior.on.implausible.timestamps") == "reject")


def _record_field(settings: Settings) -> RecordField:
    pattern = settings.text("timestamp.field.format")
    return RecordField(
        settings.text("timestamp.field").split("."),
        default_zone=UTC,
        unit=TimeUnit(settings.text("timestamp.field.unit")),
        pattern=SimpleDates(pattern, now_ms=time.time_ns() // 1_000_000) if pattern else None,
    )


def partitioner(settings: Settings) -> Partitioner:
    """The partitioner within the directories of schema names and tombstones."""
    found = _chosen_partitioner(settings)
    affix = Affix(settings.text("s3.schema.partition.affix.type"))
    if affix is not Affix.NONE:
        found = SchemaDirectory(found, affix, settings.text("directory.delim"))
    return TombstoneDirectory(found, settings.text("tombstone.encoded.partition")) if writes_nulls(settings) else found


def _chosen_partitioner(settings: Settings) -> Partitioner:
    delimiter, encoding = settings.text("directory.delim"), settings.text("partition.value.encoding")
    match settings.text("partitioner.class"):
        case "default":
            return DefaultPartitioner()
        case "field":
            schemaless = Schemaless.REFUSE if settings.strict else Schemaless.LOOK_UP
            return FieldPartitioner(
                settings.names("partition.field.name"),
                delimiter=delimiter,
                schemaless=schemaless,
                encoding=encoding,
                lookalikes=_lookalikes(settings),
            )
        case "header":
            return HeaderPartitioner(settings.names("partition.header.name"), delimiter=delimiter, encoding=encoding)
        case "key":
            return KeyPartitioner(settings.names("partition.key.field"), delimiter=delimiter, encoding=encoding)
        case "field_and_time":
            return _field_and_time(settings, delimiter, encoding)
        case name if name in TIME_PARTITIONERS:
            return _time_partitioner(settings, delimiter)
        case name:
            own: Partitioner = make(PARTITIONER_GROUP, "partitioner.class", name, settings)
            return Registered(own)


def _field_and_time(settings: Settings, delimiter: str, encoding: str) -> Partitioner:
    """As the plugin: fields of schemaless values, too, and a slash between fields whatever `directory.delim` says."""
    fields = FieldPartitioner(
        settings.names("partition.field.name"),
        delimiter="/",
        schemaless=Schemaless.LOOK_UP,
        encoding=encoding,
        directories=DirectoryForm.NAMED if settings.flag("partition.field.format.path") else DirectoryForm.BARE,
        lookalikes=_lookalikes(settings),
    )
    return FieldAndTimePartitioner(fields, _time_partitioner(settings, delimiter), delimiter=delimiter)


def _lookalikes(settings: Settings) -> Lookalikes:
    """Tables have an object in one partition only, so that no two values may share it; the original has no tables."""
    has_tables = settings.flag("delta.enable") or settings.flag("iceberg.enable")
    return Lookalikes.APART if has_tables and not settings.strict else Lookalikes.SHARED


def _time_partitioner(settings: Settings, delimiter: str) -> TimePartitioner:
    return TimePartitioner(bucket_names(settings, delimiter))


def bucket_names(settings: Settings, delimiter: str) -> BucketNames:
    """The names of a time partitioner's directories."""
    duration, path = directory(settings)
    where, by_pattern = zone(settings.text("timezone")), settings.text("partitioner.class") in PATTERN_PARTITIONERS
    pattern = Pattern(
        path.removesuffix(delimiter) if by_pattern else path.format(d=delimiter),
        locale=settings.text("locale"),
        zone=where,
    )
    return BucketNames(pattern, duration_ms=duration, zone=where)


def placed_by(settings: Settings) -> frozenset[Role]:
    """What the partitioner looks at beside the value."""
    return {"header": frozenset({Role.HEADER}), "key": frozenset({Role.KEY})}.get(
        settings.text("partitioner.class"), frozenset()
    )


def writes_nulls(settings: Settings) -> bool:
    """Whether keys of null values are stored."""
    return settings.text("behavior.on.null.values").lower() == "write"
