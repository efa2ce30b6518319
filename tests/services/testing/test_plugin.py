"""The same call in memory and through Kafka, Spark and S3 makes the same objects of the same records."""

from __future__ import annotations

import json

from kafka_s3_testing.records import Record
from kafka_s3_testing.services.registry import EmbeddedRegistry
from kafka_s3_testing.sink_run import RunSink
from tests.support.configurations import BASE

SCHEMA = json.dumps({"type": "record", "name": "order", "fields": [{"name": "n", "type": "int"}]})


def test_production_makes_what_memory_makes(
    run_sink: RunSink, run_sink_on_spark: RunSink, schema_registry: EmbeddedRegistry
) -> None:
    """With a registry, keys, several partitions and a bad record."""
    name = "orders-of-the-plugin"
    wire = b"\0" + schema_registry.register(f"{name}-value", SCHEMA).to_bytes(4, "big")
    records = {name: [*(Record(wire + bytes([2 * n]), partition=n % 2) for n in range(5)), Record(b"broken")]}
    config = {
        **BASE, "name": f"{name}-sink", "topics": name, "s3.bucket.name": "orders-lake", "flush.size": "2",
        "value.converter": "io.confluent.connect.avro.AvroConverter", "errors.tolerance": "all",
        "value.converter.schema.registry.url": schema_registry.url, "kafka.bootstrap.servers": "kafka.internal:9092",
    }  # fmt: skip
    del config["value.converter.schemas.enable"]

    real, memory = run_sink_on_spark(config, records), run_sink(config, records)

    assert real.objects == memory.objects
    assert sorted(row["n"] for row in real.table(name).to_pylist()) == [0, 1, 2, 3, 4]
    assert [(one.topic, one.offset, one.value) for one in real.dead_letters] == [(name, 3, b"broken")]
    assert real.dead_letters[0].message == memory.dead_letters[0].message
