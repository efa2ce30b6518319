"""Which objects does a configuration stand for? The composition: settings in, pipeline, rules and followers out.

`make_pipeline` is called in every worker process; everything it makes is free of Spark and Kafka.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, tzinfo
from functools import partial
from typing import Final

from kafka_s3 import __version__
from kafka_s3.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.config.settings import Settings
from kafka_s3.config.transforms import routes
from kafka_s3.delta.columns import Evolution, Mode
from kafka_s3.driver.planner import Readiness
from kafka_s3.model.files import Reason
from kafka_s3.naming.block_gzip import BlockNames, DateLayout, UploadNames
from kafka_s3.naming.joda import Pattern, zone
from kafka_s3.naming.joda.buckets import BucketNames
from kafka_s3.naming.keys import Naming, ObjectNames, OfTopic
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.schemas.compatibility import Compatibility
from kafka_s3.task.directories import Affix, InsideOnly, SchemaDirectory, TombstoneDirectory
from kafka_s3.task.error_policy import ErrorPolicy
from kafka_s3.task.partitioners import (
    DefaultPartitioner,
    FieldPartitioner,
    Partitioner,
    Schemaless,
    TimePartitioner,
    custom,
)
from kafka_s3.task.rotation import OFF, RotationRules
from kafka_s3.task.schema_changes import SchemaRules
from kafka_s3.task.timestamps import RecordField, RecordTimestamp, TimestampExtractor, Wallclock
from kafka_s3.task.worker import Pipeline
from kafka_s3.transforms.classes import has_targets_apart
from kafka_s3.wiring.conversion import record_converters
from kafka_s3.wiring.file_formats import formats_of

HOUR_MS: Final = 3_600_000
TIME_PARTITIONERS: Final = {
    "hourly": (HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd{d}'hour'=HH"),
    "daily": (24 * HOUR_MS, "'year'=YYYY{d}'month'=MM{d}'day'=dd"),
    "time": (OFF, ""),
}


def make_pipeline(settings: Settings) -> Pipeline:
    """The worker's pipeline of a validated configuration."""
    naming, formats = _naming(settings), formats_of(settings)
    routed = None
    if routes(settings):
        routed = partial(OfTopic, connect_names(settings), keeps_source=not has_targets_apart(settings))
    extension = max((form.extension for form in formats.values()), key=len)
    return Pipeline(
        converter=record_converters(settings, fields=_fields(settings)),
        extractor=_extractor(settings),
        partitioner=InsideOnly(_partitioner(settings), naming, extension, settings.text("state.prefix")),
        rules=rotation_rules(settings),
        naming=naming,
        state=state_paths(settings),
        formats=formats,
        schemas=SchemaRules(
            Compatibility.named(settings.text("schema.compatibility")), settings.flag("schema.compatibility.unify")
        ),
        policy=error_policy(settings),
        part_size=settings.number("s3.part.size"),
        memory=settings.number("writer.memory.bytes"),
        threads=settings.number("s3.upload.threads"),
        evolution=_evolution(settings) if settings.flag("delta.enable") else None,
        routed=routed,
        dead_letter_ratio=float(settings.text("errors.deadletter.max.ratio")),
        fingerprint=fingerprint(settings),
    )


def fingerprint(settings: Settings) -> str:
    """A text that is another one for another configuration or version; secrets do not go into it."""
    text = json.dumps([__version__, settings.masked()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _evolution(settings: Settings) -> Evolution:
    by_field = settings.text("partitioner.class") == "field"
    fields = frozenset(settings.names("partition.field.name")) if by_field else frozenset[str]()
    return Evolution(Mode(settings.text("delta.schema.evolution.mode")), fields)


def _naming(settings: Settings) -> ObjectNames:
    if is_block_gzip(settings):
        zone = UTC if settings.text("block.gzip.zone") == "UTC" else None
        return UploadNames(block_names(settings), zone)
    return connect_names(settings)


def connect_names(settings: Settings) -> Naming:
    """How the connector names its objects."""
    return Naming(
        settings.text("topics.dir"),
        settings.text("directory.delim"),
        settings.text("file.delim"),
        settings.number("filename.offset.zero.pad.width"),
    )


def is_block_gzip(settings: Settings) -> bool:
    """Whether objects are Block-GZIP, with names and a rotation of their own."""
    return settings.text("format.class") == BLOCK_GZIP_FORMAT


def block_names(settings: Settings) -> BlockNames:
    """How a Block-GZIP sink names its objects."""
    return BlockNames(settings.text("block.gzip.prefix"), DateLayout(settings.text("block.gzip.layout")))


def state_paths(settings: Settings) -> StatePaths:
    """Where the sink keeps its log."""
    return StatePaths(settings.text("state.prefix"), settings.name)


def rotation_rules(settings: Settings) -> RotationRules:
    """The rotation settings; `rotate.interval.ms` acts under a time partitioner only."""
    by_time = _uses_time(settings)
    if is_block_gzip(settings):
        return RotationRules(
            flush_bytes=settings.number("flush.bytes"),
            idle_ms=settings.number("flush.idle.ms"),
            interval_ms=settings.number("block.gzip.file.interval.ms"),
            on_partition_change=False,
            schedule_ms=settings.number("rotate.schedule.interval.ms"),
            schedule_reason=Reason.OFFSET_FLUSH,
            zone=_zone(settings),
        )
    return RotationRules(
        flush_size=settings.number("flush.size") if settings.given("flush.size") else OFF,
        flush_bytes=settings.number("flush.bytes"),
        idle_ms=settings.number("flush.idle.ms"),
        interval_ms=settings.number("rotate.interval.ms") if by_time else OFF,
        on_partition_change=settings.flag("rotate.file.on.partition.change"),
        schedule_ms=settings.number("rotate.schedule.interval.ms"),
        zone=_zone(settings),
        max_open_files=settings.number("partitioner.max.open.files"),
        tombstones=settings.text("tombstone.encoded.partition") if _writes_nulls(settings) else None,
    )


def readiness(settings: Settings) -> Readiness:
    """How eagerly the planner reads; strict examines every delivery at once, as the original does."""
    by_time = _uses_time(settings) or is_block_gzip(settings)
    check_ms = 0 if settings.strict else settings.number("tail.check.interval.ms")
    rules = rotation_rules(settings)
    keeps = settings.flag("tail.state.enable")
    return Readiness(
        rules,
        by_record_time=by_time and rules.interval_ms > 0,
        wall_clock=isinstance(_extractor(settings), Wallclock),
        check_ms=check_ms,
        directory_ms=max(_directory(settings)[0], 1) if _uses_time(settings) else 1,
        worth_records=settings.number("tail.read.records") if keeps else 0,
        worth_bytes=settings.number("tail.read.bytes") if keeps else 0,
    )


def error_policy(settings: Settings) -> ErrorPolicy:
    """The error policy."""
    return ErrorPolicy(
        tolerant=settings.text("errors.tolerance") == "all",
        reporter=has_reporter(settings),
        nulls=settings.text("behavior.on.null.values").lower(),
        report_nulls=settings.flag("report.null.values.to.dlq"),
        strict=settings.strict,
    )


def has_reporter(settings: Settings) -> bool:
    """Whether the original's sink could skip a record (SEMANTICS A9.1)."""
    return bool(settings.text("errors.deadletterqueue.topic.name")) or settings.flag("errors.log.enable")


def _writes_nulls(settings: Settings) -> bool:
    return settings.text("behavior.on.null.values").lower() == "write"


def _directory(settings: Settings) -> tuple[int, str]:
    """How long the time is that a time partitioner's directory stands for, ms, and how the directory is named."""
    name = settings.text("partitioner.class")
    if name == "time":
        return settings.number("partition.duration.ms"), settings.text("path.format")
    return TIME_PARTITIONERS[name]


def _uses_time(settings: Settings) -> bool:
    return settings.text("partitioner.class") in TIME_PARTITIONERS


def _zone(settings: Settings) -> tzinfo | None:
    name = settings.text("timezone")
    return zone(name) if name else None


def _fields(settings: Settings) -> list[tuple[str, ...]]:
    """The paths that extractor and partitioner look at."""
    names: list[str] = []
    if settings.text("partitioner.class") == "field":
        names += settings.names("partition.field.name")
    if _uses_time(settings) and settings.text("timestamp.extractor") == "RecordField":
        names.append(settings.text("timestamp.field"))
    return [tuple(name.split(".")) for name in names]


def _extractor(settings: Settings) -> TimestampExtractor | None:
    if is_block_gzip(settings):
        return RecordTimestamp() if settings.number("block.gzip.file.interval.ms") > 0 else None
    if not _uses_time(settings):
        return None
    match settings.text("timestamp.extractor"):
        case "Record":
            return RecordTimestamp()
        case "RecordField":
            return RecordField(settings.text("timestamp.field").split("."), default_zone=UTC)
        case _:
            return Wallclock()


def _partitioner(settings: Settings) -> Partitioner:
    """The partitioner within the directories of schema names and tombstones."""
    found = _chosen_partitioner(settings)
    affix = Affix(settings.text("s3.schema.partition.affix.type"))
    if affix is not Affix.NONE:
        found = SchemaDirectory(found, affix, settings.text("directory.delim"))
    return TombstoneDirectory(found, settings.text("tombstone.encoded.partition")) if _writes_nulls(settings) else found


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
    duration, path = _directory(settings)
    where = zone(settings.text("timezone"))
    pattern = Pattern(
        path.format(d=delimiter) if name != "time" else path.removesuffix(delimiter),
        locale=settings.text("locale"),
        zone=where,
    )
    return TimePartitioner(BucketNames(pattern, duration_ms=duration, zone=where))
