"""A sink in memory that keeps a file open between two rounds, and what readers see of an object however it came to be."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq

from kafka_s3.run.wiring.pipeline import make_pipeline
from tests.support.configurations import STATE
from tests.support.memory_world import World, rows

CONFIG: Final = {"flush.size": "100", "tail.read.records": "1"}


OPEN: Final = f"{STATE}orders/open/"


def states(world: World) -> list[str]:
    """The keys of the states of open files in the bucket."""
    return [key for key in world.store.objects if key.startswith(OPEN)]


def world_with_open_files(config: Mapping[str, str] = CONFIG) -> World:
    """Four records in an open file, two parts of which are sent."""
    world = World({**CONFIG, **config})
    world.kafka.pipeline = lambda: replace(make_pipeline(world.settings), part_size=16)
    world.start()
    world.add(range(4))
    world.sink.poll_and_commit()
    return world


def content(key: str, data: bytes) -> Any:
    """Schema and records of Parquet and Avro, lines of compressed text, the very bytes of other text."""
    if key.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(data))
        return table.schema.remove_metadata(), table.to_pylist()
    if key.endswith(".avro"):
        reader = fastavro.reader(io.BytesIO(data))
        return reader.writer_schema, list(reader)
    return rows(key, data) if key.endswith(".gz") else data
