"""Open files that are kept between tasks, where size decides: the blocks of Block-GZIP, and files that close by `flush.bytes`."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafka_s3.engine.task.rotation import SIZE_CHECK_EVERY
from kafka_s3.model.files import Reason
from kafka_s3.objects.block_gzip_form import parse_index
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World, pieces

TEXTS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
RAW = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
BLOCKS = {
    "format.class": "block_gzip", "rotate.schedule.interval.ms": "100000000", "timezone": "UTC", "block.gzip.block.size": "60",
}  # fmt: skip
BLOCK_FORMS = {
    "lines": {**BLOCKS, **TEXTS, "block.gzip.dialect": "original"},
    "texts": {**BLOCKS, **RAW},
    "texts with keys": {**BLOCKS, **RAW, "block.gzip.key.delimiter": "=", "key.converter": RAW["value.converter"]},
    "binary": {**BLOCKS, **RAW, "block.gzip.format": "binary", "block.gzip.include.keys": "true", "key.converter": RAW["value.converter"]},
}  # fmt: skip
FORMAT = "io.confluent.connect.s3.format."
SIZES = {
    "json": {"format.class": FORMAT + "json.JsonFormat"},
    "json, gzip": {"format.class": FORMAT + "json.JsonFormat", "s3.compression.type": "gzip"},
    "avro": {"format.class": FORMAT + "avro.AvroFormat"},
    "parquet": {"format.class": FORMAT + "parquet.ParquetFormat"},
}
ROW = {"type": "struct", "fields": [{"field": "n", "type": "int32"}, {"field": "pad", "type": "string"}]}
CUTS = st.lists(st.integers(0, 10_000), max_size=8)
PARTS = st.sampled_from([16, 200, 5_242_880])
common = settings(
    max_examples=examples(40),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def divided(config: dict[str, str], values: list[bytes | None], cuts: Iterable[int], part_size: int) -> World:
    """A sink that looks after each piece of the topic, and closes what is open at the end."""
    world = World({**config, "tail.read.records": "1"})
    world.kafka.pipeline = lambda: replace(make_pipeline(world.settings), part_size=part_size)
    world.start()
    for first, until in pieces(len(values), cuts):
        for offset in range(first, until):
            world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, b"k%d" % offset, values[offset]))
        world.now += 1000
        world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert not [key for key in world.store.objects if key.startswith(f"{STATE}orders/open/")]
    assert not world.store.uploads
    return world


def data(world: World) -> dict[str, bytes]:
    return {key: content for key, content in world.store.objects.items() if not key.startswith(STATE)}


def in_blocks(key: str, content: bytes) -> Any:
    """What an object of a Block-GZIP sink says: records of an index by block, else the bytes within."""
    if key.endswith(".index.json"):
        blocks = parse_index(content, key).blocks
        return [(block.first_record_offset, block.num_records, block.byte_length_uncompressed) for block in blocks]
    return gzip.decompress(content) if key.endswith(".gz") else content


@common
@given(
    lengths=st.lists(st.one_of(st.none(), st.integers(1, 90)), min_size=1, max_size=60),
    form=st.sampled_from(sorted(BLOCK_FORMS)),
    cuts=CUTS,
    part_size=PARTS,
)
def test_blocks_hold_the_same_records_however_a_topic_is_divided(
    lengths: list[int | None], form: str, cuts: list[int], part_size: int
) -> None:
    values = [None if length is None else b"%02d" % (length % 100) * length for length in lengths]
    config = {**BLOCK_FORMS[form], "behavior.on.null.values": "ignore", "report.null.values.to.dlq": "false"}

    parts, whole = divided(config, values, cuts, part_size), divided(config, values, (), part_size)

    found = {key: in_blocks(key, content) for key, content in data(parts).items()}
    assert found == {key: in_blocks(key, content) for key, content in data(whole).items()}
    for key, content in data(parts).items():
        if key.endswith(".index.json"):  # the index tells the places in this very object
            assert parse_index(content, key).byte_length == len(data(parts)[key.replace(".index.json", ".gz")])


def enveloped(payload: dict[str, Any]) -> bytes:
    return json.dumps({"schema": ROW, "payload": payload}).encode()


def rows_of(key: str, content: bytes) -> list[Any]:
    if key.endswith(".avro"):
        return list(fastavro.reader(io.BytesIO(content)))
    if key.endswith(".parquet"):
        found: list[Any] = pq.read_table(io.BytesIO(content)).to_pylist()
        return found
    return [json.loads(line) for line in (gzip.decompress(content) if key.endswith(".gz") else content).splitlines()]


@common
@given(
    form=st.sampled_from(sorted(SIZES)),
    pads=st.lists(st.integers(0, 60), min_size=1, max_size=20),
    limit=st.sampled_from([2000, 5000, 12_000]),
    cuts=CUTS,
    part_size=PARTS,
)
def test_files_close_by_size_however_a_topic_is_divided(
    form: str, pads: list[int], limit: int, cuts: list[int], part_size: int
) -> None:
    values: list[bytes | None] = [
        enveloped({"n": n, "pad": "x" * pads[n % len(pads)]}) for n in range(5 * SIZE_CHECK_EVERY + 7)
    ]
    config = {**SIZES[form], "value.converter.schemas.enable": "true", "flush.bytes": str(limit)}

    parts = divided(config, values, cuts, part_size)

    files = [file for entry in parts.entries() for file in entry.files]
    found = data(parts)
    assert [row["n"] for file in files for row in rows_of(file.key, found[file.key])] == list(range(len(values)))
    assert all(file.records % SIZE_CHECK_EVERY == 0 for file in files if file.reason is Reason.FLUSH_BYTES)
    if form == "json":  # what is not compressed has its size at once
        assert found == data(divided(config, values, (), part_size))
