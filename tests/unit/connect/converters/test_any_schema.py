"""Whatever a record's schema and value are: it is written or a dead letter, its neighbours too, and no task ends with an error."""

from __future__ import annotations

from random import Random

import pytest

from kafka_s3.model.files import Reason
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.schema_scenes import SchemaScene

FORMATS = ("json.JsonFormat", "avro.AvroFormat", "parquet.ParquetFormat")
COMPATIBILITY = ("NONE", "BACKWARD", "FULL")
ON = {
    **TOLERANT, "value.converter.schemas.enable": "true", "behavior.on.null.values": "ignore", "flush.size": "4",
    "errors.deadletterqueue.context.headers.enable": "true",
}  # fmt: skip
KEPT = {"tail.read.records": "1", "tail.check.interval.ms": "0"}
FEW, MANY, CHUNK = 40, 3040, 100


def play(seed: int) -> None:
    draw = Random(seed)
    config = {
        **ON, "format.class": f"io.confluent.connect.s3.format.{draw.choice(FORMATS)}", "schema.compatibility": draw.choice(COMPATIBILITY),
        **draw.choice([{}, KEPT]),
    }  # fmt: skip
    scene, count = SchemaScene(draw), draw.choice((1, 5, 12))
    world = World(config, batch_size=draw.choice((1, 3, 100)))
    world.start()
    for offset in range(count):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, scene.record()))
        if draw.random() < 0.3:
            assert world.sink.poll_and_commit()
    assert world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert (world.frontier(), sum(entry.totals.read for entry in world.entries())) == (count, count)


@pytest.mark.parametrize("seed", range(FEW))
def test_a_record_of_any_schema_ends_no_task(seed: int) -> None:
    play(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(FEW, MANY, CHUNK))
def test_a_record_of_any_of_many_schemas_ends_no_task(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            play(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
