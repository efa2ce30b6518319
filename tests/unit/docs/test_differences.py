"""Where the sink is kinder than the original, and that `compatibility.strict=true` takes that back (docs/differences.md)."""

from __future__ import annotations

import io
import json
import random
import re
import time
import zlib

import pyarrow.parquet as pq
import pytest

from kafka_s3.model.deflate import DEFAULT_LEVEL, GZIP, packer
from kafka_s3.model.errors import RecordError
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.repository import ROOT

STRICT = {"compatibility.strict": "true"}
TEXT_AS_KEY = {"key.converter": "org.apache.kafka.connect.json.JsonConverter"}
BY_FIELD = {**TIME, "timestamp.extractor": "RecordField", "timestamp.field": "at"}
KEYS = {
    "store.kafka.keys": "true",
    "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
}
TOMBSTONES = TopicPartition("tombstones", 0)


def worked(config: dict[str, str], *records: tuple[bytes | None, bytes]) -> World:
    """A sink that has worked off records, given as key and value."""
    world = World({"flush.size": "1", **config})
    for offset, (key, value) in enumerate(records):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, key, value))
    world.start()
    world.sink.poll_and_commit()
    return world


def dead(world: World) -> int:
    return world.log().load().totals.dead_letters


def test_a_record_without_the_timestamp_field_is_a_dead_letter_and_stops_under_strict() -> None:
    records = [(None, b'{"n": 0}'), (None, json.dumps({"n": 1, "at": START_MS}).encode())]
    world = worked({**BY_FIELD, **TOLERANT}, *records)
    assert (list(world.numbers().values()), dead(world)) == ([[1]], 1)
    with pytest.raises(RecordError, match=r"--set compatibility\.strict=false"):
        worked({**BY_FIELD, **TOLERANT, **STRICT}, *records)


def test_tolerance_alone_takes_what_the_sink_rejects_and_under_strict_needs_a_reporter() -> None:
    tolerant = {**KEYS, "errors.tolerance": "all"}
    keyless = (None, b'{"n": 0}')
    assert dead(worked(tolerant, keyless)) == 1
    with pytest.raises(RecordError, match=r"--set errors\.log\.enable=true"):
        worked({**tolerant, **STRICT}, keyless)
    assert dead(worked({**tolerant, **STRICT, "errors.log.enable": "true"}, keyless)) == 1


def test_a_key_that_nobody_reads_may_be_anything_and_under_strict_must_be_what_its_converter_reads() -> None:
    record = (b"{no json", b'{"n": 0}')
    world = worked({**TEXT_AS_KEY, **TOLERANT}, record)
    assert (list(world.numbers().values()), dead(world)) == ([[0]], 0)
    world = worked({**TEXT_AS_KEY, **TOLERANT, **STRICT}, record)
    assert (world.numbers(), dead(world)) == ({}, 1)


def test_schemaless_fields_are_directories_and_under_strict_are_refused() -> None:
    record = (None, b'{"n": 0, "d": "x"}')
    assert list(worked({**FIELD, **TOLERANT}, record).numbers()) == ["topics/orders/d=x/orders+0+0000000000.json"]
    world = worked({**FIELD, **TOLERANT, **STRICT}, record)
    assert (world.numbers(), dead(world)) == ({}, 1)


@pytest.mark.parametrize("nulls", [{}, {"behavior.on.null.values": "write", **KEYS}])
def test_a_topic_called_tombstones_is_an_ordinary_topic(nulls: dict[str, str]) -> None:
    world = World({"topics": "tombstones", "flush.size": "1", **nulls}, topics=[TOMBSTONES])
    world.kafka.add(TOMBSTONES, MemoryRecord(0, START_MS, b"k", b'{"n": 0}'))
    world.start()
    world.sink.poll_and_commit()
    assert world.objects()["topics/tombstones/partition=0/tombstones+0+0000000000.json"] == [{"n": 0}]


def test_a_record_that_is_not_written_sets_no_base_time() -> None:
    """The original would count the hour from the record without a key, and close the file before the last one."""
    world = World({**TIME, **KEYS, **TOLERANT, **STRICT, "timestamp.extractor": "Record", "path.format": "'d'=dd", "flush.size": "2",
                   "rotate.interval.ms": "3600000"})  # fmt: skip
    for offset, (key, minute) in enumerate([(None, 0), (b"k", 30), (b"k", 65)]):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS + minute * 60_000, key, b'{"n": %d}' % offset))
    world.start()
    world.sink.poll_and_commit()
    (file,) = [file for entry in world.entries() for file in entry.files if file.role is Role.VALUE]
    assert (file.first_offset, file.last_offset, dead(world)) == (1, 2, 1)


def test_the_schedule_is_looked_at_before_the_presence_of_a_schema() -> None:
    """The original would close the file for the schema, write one record, and only then see that the mark has passed."""
    schedule = {"rotate.schedule.interval.ms": "900000", "timezone": "UTC", "value.converter.schemas.enable": "true"}
    world = World({**schedule, **STRICT, "flush.size": "2"})
    world.start()
    schema = {"type": "struct", "fields": [{"field": "n", "type": "int64"}]}
    for offset, given in enumerate([schema, None, None]):
        if offset == 1:
            world.sink.poll_and_commit()
            world.now += 20 * 60_000
        value = json.dumps({"schema": given, "payload": {"n": offset}}).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    world.sink.poll_and_commit()
    assert list(world.numbers().values()) == [[0], [1, 2]]


def test_a_time_in_text_without_an_offset_is_utc_wherever_the_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        world = worked({**BY_FIELD, **STRICT}, (None, b'{"n": 0, "at": "2024-01-15T10:30:00"}'))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [key for key in world.numbers() if "10" in key.split("/")[-2]]


def test_lists_in_parquet_have_three_levels() -> None:
    items = {"field": "tags", "type": "array", "items": {"type": "string"}}
    document = {"schema": {"type": "struct", "fields": [items]}, "payload": {"tags": ["a", "b"]}}
    parquet = {
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "value.converter.schemas.enable": "true",
    }
    world = worked({**parquet, **STRICT}, (None, json.dumps(document).encode()))
    (key,) = [key for key in world.store.objects if key.endswith(".parquet")]
    file = pq.ParquetFile(io.BytesIO(world.store.get(key)))
    assert file.schema.column(0).path == "tags.list.element"
    assert file.read().to_pylist() == [{"tags": ["a", "b"]}]


def test_gzip_of_ordinary_records_is_as_much_larger_as_the_page_says_and_of_repeated_ones_more() -> None:
    """The page's sample of repeated records is not here; lines that are all the same cost the most."""
    chance = random.Random(1)
    words = ["DE", "FR", "US", "JP"]
    orders = [
        {
            "id": n,
            "customer": f"c-{chance.randrange(10_000)}",
            "amount": chance.randrange(10**6) / 100,
            "country": chance.choice(words),
        }
        for n in range(20_000)
    ]
    ordinary, same = (
        b"".join(json.dumps(one).encode() + b"\n" for one in ones) for ones in (orders, orders[:1] * 20_000)
    )

    def larger(data: bytes) -> float:
        ours = packer(DEFAULT_LEVEL, frame=GZIP)
        theirs = zlib.compressobj(6, zlib.DEFLATED, GZIP)
        sizes = [len(one.compress(data) + one.flush()) for one in (ours, theirs)]
        return sizes[0] / sizes[1] - 1

    page = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
    (least, most) = re.search(r"ordinary records (\d+) to (\d+) % larger", page).groups()  # type: ignore[union-attr]
    assert int(least) <= larger(ordinary) * 100 <= int(most)
    assert larger(same) * 100 > int(most)
    assert "records that repeat word for word up to about twice" in page
