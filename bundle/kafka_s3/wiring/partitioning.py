"""Which partitioner and which timestamp extractor does a configuration stand for?"""

from __future__ import annotations

import time
from datetime import UTC
from typing import Final

from kafka_s3.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.config.settings import Settings
from kafka_s3.java.simple_dates import SimpleDates
from kafka_s3.naming.joda import Pattern, zone
from kafka_s3.naming.joda.buckets import BucketNames
from kafka_s3.task.directories import Affix, SchemaDirectory, TombstoneDirectory
from kafka_s3.task.partitioners import (
    DefaultPartitioner,
    FieldPartitioner,
    Partitioner,
    Schemaless,
    TimePartitioner,
    custom,
)
from kafka_s3.task.plausible_times import Plausible
from kafka_s3.task.rotation import OFF
from kafka_s3.task.time_units import TimeUnit
from kafka_s3.task.timestamps import RecordField, RecordTimestamp, TimestampExtractor, Wallclock

HOUR_MS: Final = 3_600_000
TIME_PARTITIONERS: Final = {
    "hourly": (HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd{d}'hour'=HH"),
    "daily": (24 * HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd"),
    "time": (OFF, ""),
}


def directory(settings: Settings) -> tuple[int, str]:
    """How long the time is that a time partitioner's directory stands for, ms, and how the directory is named."""
    name = settings.text("partitioner.class")
    if name == "time":
        return settings.number("partition.duration.ms"), settings.text("path.format")
    return TIME_PARTITIONERS[name]


def uses_time(settings: Settings) -> bool:
    """Whether directories are made of times."""
    return settings.text("partitioner.class") in TIME_PARTITIONERS


def fields(settings: Settings) -> list[tuple[str, ...]]:
    """The paths that extractor and partitioner look at."""
    names: list[str] = []
    if settings.text("partitioner.class") == "field":
        names += settings.names("partition.field.name")
    if uses_time(settings) and settings.text("timestamp.extractor") == "RecordField":
        names.append(settings.text("timestamp.field"))
    return [tuple(name.split(".")) for name in names]


def extractor(settings: Settings) -> TimestampExtractor | None:
    """Where the records' times come from, None where nothing asks for them."""
    if settings.text("format.class") == BLOCK_GZIP_FORMAT:
        return RecordTimestamp() if settings.number("block.gzip.file.interval.ms") > 0 else None
    if not uses_time(settings):
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
    name, delimiter = settings.text("partitioner.class"), settings.text("directory.delim")
    if name == "default":
        return DefaultPartitioner()
    if name == "field":
        return FieldPartitioner(
            settings.names("partition.field.name"),
            delimiter=delimiter,
            schemaless=Schemaless.REFUSE if settings.strict else Schemaless.LOOK_UP,
            encoding=settings.text("partition.value.encoding"),
        )
    if name not in TIME_PARTITIONERS:
        return custom(name, settings)
    duration, path = directory(settings)
    where = zone(settings.text("timezone"))
    pattern = Pattern(
        path.format(d=delimiter) if name != "time" else path.removesuffix(delimiter),
        locale=settings.text("locale"),
        zone=where,
    )
    return TimePartitioner(BucketNames(pattern, duration_ms=duration, zone=where))


def writes_nulls(settings: Settings) -> bool:
    """Whether keys of null values are stored."""
    return settings.text("behavior.on.null.values").lower() == "write"
