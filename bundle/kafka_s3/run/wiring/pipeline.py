"""Which objects does a configuration stand for? The composition: settings in, pipeline, rules and followers out.

`make_pipeline` is called in every worker process; everything it makes is free of Spark and Kafka.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from kafka_s3 import __version__
from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT, FIELD_PARTITIONERS, FORMAT_GROUP
from kafka_s3.connect.config.plugins import make
from kafka_s3.connect.config.rules import rotates_by_time
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps, routes
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.naming.keys import (
    CONNECT_DIRECTORY,
    BlockNames,
    ConnectNames,
    DateLayout,
    ObjectNames,
    RoutedNames,
    TemplateNames,
    connect_template,
)
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.compatibility import Compatibility
from kafka_s3.connect.transforms.classes import has_targets_apart
from kafka_s3.engine.control.stored_settings import NotedSettings
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.loop.planner import Readiness
from kafka_s3.engine.open_files.file_encoders import SchemaRules
from kafka_s3.engine.task.dead_letters import ErrorPolicy
from kafka_s3.engine.task.partitioning.partitioners import InsideOnly
from kafka_s3.engine.task.partitioning.timestamps import Wallclock
from kafka_s3.engine.task.rotation import OFF, RotationRules
from kafka_s3.engine.task.table_guard.columns import Evolution, Mode, written_columns, written_iceberg_columns
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.files import Reason, Role
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.block_gzip import block_gzip_format
from kafka_s3.objects.format import Format, sidecar
from kafka_s3.objects.parquet import parquet_format
from kafka_s3.objects.text import byte_array_format, json_format
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.conversion import (
    block_gzip_of,
    inflated_columns,
    names_schemas,
    reads_envelopes,
    record_converters,
)
from kafka_s3.run.wiring.partitioning import directory, extractor, fields, partitioner, uses_time, writes_nulls
from kafka_s3.store.s3 import S3Store

if TYPE_CHECKING:
    from kafka_s3.kafka.reader.settings import ReadScope


def make_pipeline(settings: Settings) -> Pipeline:
    """The worker's pipeline of a validated configuration."""
    naming, formats = object_names(settings), formats_of(settings)
    extension = max((form.extension for form in formats.values()), key=len)
    return Pipeline(
        converter=record_converters(settings, fields=fields(settings)),
        extractor=extractor(settings),
        partitioner=InsideOnly(partitioner(settings), naming, extension, settings.text("state.prefix")),
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
        evolution=evolution_of(settings),
        routed=_routed_naming(settings),
        dead_letter_ratio=float(settings.text("errors.deadletter.max.ratio")),
        fingerprint=fingerprint(settings),
        inflates=inflated_columns(settings),
    )


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """What Spark's tasks need of a configuration: it is shipped to workers, secrets inside, and never in Spark's configuration.

    Plans of the same settings are equal, so that a worker keeps what it has made for one. `scope` is how much is read of each record,
    `tasks_max` how many tasks may run at once.
    """

    settings: Settings = field(repr=False)
    scope: ReadScope
    timeout_s: float
    tasks_max: int

    def make_tools(self) -> tuple[Pipeline, S3Store]:
        """The pipeline, and the bucket."""
        return make_pipeline(self.settings), S3Store(store_options(self.settings))

    @property
    def _identity(self) -> tuple[object, ...]:
        return tuple(sorted(self.settings.source.items())), tuple(sorted(self.settings.worker.items()))

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same settings."""
        if not isinstance(other, TaskPlan):
            return NotImplemented
        return self._identity == other._identity and self.settings.values == other.settings.values

    def __hash__(self) -> int:
        return hash(self._identity)


def task_plan(settings: Settings) -> TaskPlan:
    """The plan of resolved settings."""
    timeout_s, tasks_max = settings.number("task.timeout.ms") / 1000, settings.number("tasks.max")
    return TaskPlan(settings, read_scope(settings), timeout_s, tasks_max)


def read_scope(settings: Settings) -> ReadScope:
    """How much of each record is read: keys and headers where they are stored, or where a record may become a dead letter.

    Without tolerance a reporter makes dead letters, too: of null values, and of the record at which the sink stops.
    """
    from kafka_s3.kafka.reader.settings import ReadScope  # loads confluent_kafka, for those that read from Kafka only

    tolerant = settings.text("errors.tolerance") == "all"
    if tolerant or has_reporter(settings) or reads_envelopes(settings):
        return ReadScope.ENVELOPES
    return ReadScope.SCHEMA_NAMES if names_schemas(settings) else ReadScope.VALUES


def _routed_naming(settings: Settings) -> Callable[[str], ObjectNames] | None:
    """How objects of a topic are called that a transform chose; None where none changes topics."""
    names = object_names(settings)
    if not routes(settings) or isinstance(names, BlockNames):
        return None
    steps, by_name = configured_steps(settings).steps, not settings.text("topics.regex")
    apart = by_name and has_targets_apart(steps, settings.names("topics"))
    return partial(RoutedNames, names, keeps_source=not apart)


def fingerprint(settings: Settings) -> str:
    """A text that is another one for another configuration or version; secrets do not go into it."""
    text = json.dumps([__version__, settings.masked_choices()])  # sorted; the defaults are the version's
    return hashlib.sha256(text.encode()).hexdigest()


def evolution_of(settings: Settings) -> Evolution | None:
    """How the sink's tables follow their records, None where it has no tables."""
    if not settings.flag("delta.enable") and not settings.flag("iceberg.enable"):
        return None
    by_field = settings.text("partitioner.class") in FIELD_PARTITIONERS
    fields = frozenset(settings.names("partition.field.name")) if by_field else frozenset[str]()
    mode = Mode(settings.text(mode_key_of(settings)))
    alone = settings.flag("iceberg.enable") and not settings.flag("delta.enable")
    # a Delta table has no column for a field under a newer name before one is added: `rescue` keeps the value for it
    renames = alone or (settings.flag("iceberg.enable") and mode is not Mode.RESCUE)
    return Evolution(mode, fields, renames)


def mode_key_of(settings: Settings) -> str:
    """The key that says how tables follow: where both formats are on, both keys say the same."""
    return f"{'delta' if settings.flag('delta.enable') else 'iceberg'}.schema.evolution.mode"


COMPANIONS = {
    Role.KEY: ("store.kafka.keys", "keys.format.class"),
    Role.HEADER: ("store.kafka.headers", "headers.format.class"),
}


def formats_of(settings: Settings) -> dict[Role, Format]:
    """The formats by role, in the order in which the objects of a file are completed."""
    formats = {Role.VALUE: _named(settings.text("format.class"), settings)}
    if settings.flag("delta.enable") or settings.flag("iceberg.enable"):
        columns = written_columns if settings.flag("delta.enable") else written_iceberg_columns
        formats[Role.VALUE] = replace(formats[Role.VALUE], columns=columns)
    for role, (switch, key) in COMPANIONS.items():
        if settings.flag(switch):
            formats[role] = sidecar(_named(settings.text(key), settings), role)
    return formats


def _named(name: str, settings: Settings) -> Format:
    level = settings.number("s3.compression.level") if settings.text("s3.compression.type") == "gzip" else None
    match name:
        case "json":
            return json_format(gzip_level=level, decimals=settings.text("json.decimal.format").upper())
        case "parquet":
            return parquet_format(
                settings.text("parquet.codec"), avro_options(settings), with_ids=settings.flag("iceberg.enable")
            )
        case "avro":
            return avro_format(settings.text("avro.codec"), avro_options(settings))
        case "bytearray":
            separator = settings.text("format.bytearray.separator").encode()
            return byte_array_format(
                extension=settings.text("format.bytearray.extension"), separator=separator, gzip_level=level
            )
        case "block_gzip":
            return block_gzip_format(block_gzip_of(settings))
    made: Format = make(FORMAT_GROUP, "format.class", name, settings)
    return made


def avro_options(settings: Settings) -> AvroOptions:
    """How Connect schemas are mapped to Avro in objects."""
    return AvroOptions(
        enhanced=settings.flag("enhanced.avro.schema.support"),
        meta_data=settings.flag("connect.meta.data"),
        optional_map_keys=settings.flag("allow.optional.map.keys"),
    )


def object_names(settings: Settings) -> BlockNames | TemplateNames | ConnectNames:
    """How the data objects of a configuration are called, and their keys read back."""
    if is_block_gzip(settings):
        return block_names(settings)
    name, folder = settings.text("object.name.template"), settings.text("directory.template")
    if not name and not folder:
        return connect_names(settings)
    return TemplateNames(
        settings.text("topics.dir"),
        folder or CONNECT_DIRECTORY,
        name or connect_template(settings.text("file.delim")),
        settings.number("filename.offset.zero.pad.width"),
        routed=routes(settings),
    )


def connect_names(settings: Settings) -> ConnectNames:
    """How the connector names its objects."""
    return ConnectNames(
        settings.text("topics.dir"),
        settings.text("directory.delim"),
        settings.text("file.delim"),
        settings.number("filename.offset.zero.pad.width"),
        tables=settings.flag("delta.enable"),
    )


def is_block_gzip(settings: Settings) -> bool:
    """Whether objects are Block-GZIP, with names and a rotation of their own."""
    return settings.text("format.class") == BLOCK_GZIP_FORMAT


def resumes_at_pointer(settings: Settings) -> bool:
    """Whether the bucket says where the sink begins, as in the original Block-GZIP sink, and not the consumer group (SEMANTICS B5)."""
    return is_block_gzip(settings) and settings.text("block.gzip.dialect") == "original"


def block_names(settings: Settings) -> BlockNames:
    """How a Block-GZIP sink names its objects."""
    zone = UTC if settings.text("block.gzip.zone") == "UTC" else None
    return BlockNames(settings.text("block.gzip.prefix"), DateLayout(settings.text("block.gzip.layout")), zone)


def noted_settings(settings: Settings, *, epoch: int, at_ms: int) -> NotedSettings:
    """What a start notes of the settings in effect."""
    shown = settings.masked()
    return NotedSettings(epoch, at_ms, __version__, shown, tuple(key for key in shown if settings.given(key)))


def state_paths(settings: Settings) -> StatePaths:
    """Where the sink keeps its log."""
    return StatePaths(settings.text("state.prefix"), settings.name)


def rotation_rules(settings: Settings) -> RotationRules:
    """The rotation settings."""
    by_time = uses_time(settings)
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
        interval_ms=settings.number("rotate.interval.ms") if rotates_by_time(settings) else OFF,
        # directories that are no times change with every record: the change says nothing about time
        on_partition_change=by_time and settings.flag("rotate.file.on.partition.change"),
        schedule_ms=settings.number("rotate.schedule.interval.ms"),
        zone=_zone(settings),
        max_open_files=settings.number("partitioner.max.open.files"),
        tombstones=settings.text("tombstone.encoded.partition") if writes_nulls(settings) else None,
    )


def readiness(settings: Settings) -> Readiness:
    """How eagerly the planner reads; strict examines every delivery at once, as the original does."""
    by_time = rotates_by_time(settings) or is_block_gzip(settings)
    check_ms = 0 if settings.strict else settings.number("tail.check.interval.ms")
    rules = rotation_rules(settings)
    keeps = settings.flag("tail.state.enable")
    return Readiness(
        rules,
        by_record_time=by_time and rules.interval_ms > 0,
        wall_clock=isinstance(extractor(settings), Wallclock),
        check_ms=check_ms,
        directory_ms=max(directory(settings)[0], 1) if uses_time(settings) else 1,
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


def _zone(settings: Settings) -> tzinfo | None:
    name = settings.text("timezone")
    return zone(name) if name else None
