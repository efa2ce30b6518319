"""Which paths are measured? Each by a name that does not change, as later figures are compared by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.topics import CONNECT_SCHEMA, JSON, ORDERS_IN_AVRO

CONFLUENT, CONNECT = "io.confluent.connect.", "org.apache.kafka.connect."
OURS, PLAIN_SPARK = "ours", "plain Spark"
READ_ONLY, SINK, NOOP, JSON_BY_SPARK, AVRO_BY_SPARK = "read-only", "sink", "noop", "from_json", "from_avro"
TASKS, SPARK = "tasks", "spark"
BY_SPARK: Final = "-by-spark"
"""Ends the names of our paths under `kafka.reader=spark`."""


@dataclass(frozen=True, slots=True)
class Route:
    """What one path does: its name, the process that runs it, the topic, the work there, who reads, and the sink's own options."""

    name: str
    side: str
    topic: str
    work: str
    reader: str = TASKS
    options: Mapping[str, str] = field(default_factory=dict)


def _sink(name: str, topic: str, form: str, **more: str) -> Route:
    converter = {
        JSON: {"value.converter": f"{CONNECT}json.JsonConverter", "value.converter.schemas.enable": "false"},
        ORDERS_IN_AVRO: {"value.converter": f"{CONFLUENT}avro.AvroConverter"},
    }[topic]
    options = {
        **converter,
        "format.class": f"{CONFLUENT}s3.format.{form}",
        **{key.replace("_", "."): more[key] for key in more},
    }
    return Route(name, OURS, topic, SINK, options=options)


JSON_FORM, AVRO_FORM, PARQUET_FORM = "json.JsonFormat", "avro.AvroFormat", "parquet.ParquetFormat"
BYTES = {"value_converter": f"{CONNECT}converters.ByteArrayConverter", "value_converter_schemas_enable": ""}
ZSTD = {"parquet_codec": "zstd"}
FIELDS = {"partitioner_class": f"{CONFLUENT}storage.partitioner.FieldPartitioner", "partition_field_name": "shelf"}
OUR_ROUTES: Final = (
    Route("read-only", OURS, JSON, READ_ONLY),
    _sink("json-to-json", JSON, JSON_FORM),
    _sink("json-to-json-gzip", JSON, JSON_FORM, s3_compression_type="gzip"),
    _sink("bytes-to-bytes", JSON, "bytearray.ByteArrayFormat", **BYTES),
    _sink("avro-to-avro", ORDERS_IN_AVRO, AVRO_FORM),
    _sink("avro-to-parquet", ORDERS_IN_AVRO, PARQUET_FORM, **ZSTD),
    _sink("json-to-parquet", JSON, PARQUET_FORM, **ZSTD, value_schema=CONNECT_SCHEMA),
    _sink("json-small-files", JSON, JSON_FORM, flush_size="1000"),
    _sink("avro-to-parquet-fields", ORDERS_IN_AVRO, PARQUET_FORM, **ZSTD, **FIELDS),
)
PLAIN_ROUTES: Final = (
    Route("plain-spark-json-to-parquet", PLAIN_SPARK, JSON, JSON_BY_SPARK, SPARK),
    Route("plain-spark-avro-to-parquet", PLAIN_SPARK, ORDERS_IN_AVRO, AVRO_BY_SPARK, SPARK),
    Route("kafka-to-noop", PLAIN_SPARK, JSON, NOOP, SPARK),
)


def routes() -> list[Route]:
    """All paths, in the order in which they take turns."""
    by_spark = [
        Route(route.name + BY_SPARK, route.side, route.topic, route.work, SPARK, route.options) for route in OUR_ROUTES
    ]
    return [*OUR_ROUTES, *PLAIN_ROUTES, *by_spark]
