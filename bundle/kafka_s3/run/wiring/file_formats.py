"""Which formats does a configuration stand for? One per role: values, and keys and headers where they are stored."""

from __future__ import annotations

from dataclasses import replace

from kafka_s3.connect.config.classes import FORMAT_GROUP
from kafka_s3.connect.config.plugins import make
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.engine.task.table_guard.columns import written_columns
from kafka_s3.model.files import Role
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.block_gzip import block_gzip_format
from kafka_s3.objects.block_gzip_form import block_gzip_of
from kafka_s3.objects.format import Format, sidecar
from kafka_s3.objects.parquet import parquet_format
from kafka_s3.objects.text import byte_array_format, json_format

COMPANIONS = {
    Role.KEY: ("store.kafka.keys", "keys.format.class"),
    Role.HEADER: ("store.kafka.headers", "headers.format.class"),
}


def formats_of(settings: Settings) -> dict[Role, Format]:
    """The formats by role, in the order in which the objects of a file are completed."""
    formats = {Role.VALUE: _named(settings.text("format.class"), settings)}
    if settings.flag("delta.enable"):
        formats[Role.VALUE] = replace(formats[Role.VALUE], columns=written_columns)
    for role, (switch, key) in COMPANIONS.items():
        if settings.flag(switch):
            formats[role] = sidecar(_named(settings.text(key), settings), role)
    return formats


def avro_options(settings: Settings) -> AvroOptions:
    """How Connect schemas are mapped to Avro in objects."""
    return AvroOptions(
        enhanced=settings.flag("enhanced.avro.schema.support"),
        meta_data=settings.flag("connect.meta.data"),
        optional_map_keys=settings.flag("allow.optional.map.keys"),
    )


def _named(name: str, settings: Settings) -> Format:
    level = settings.number("s3.compression.level") if settings.text("s3.compression.type") == "gzip" else None
    match name:
        case "json":
            return json_format(gzip_level=level, decimals=settings.text("json.decimal.format").upper())
        case "parquet":
            return parquet_format(settings.text("parquet.codec"), avro_options(settings))
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
