"""Without tolerance a topic-partition stops at a bad record; the files that close before it are committed, as in the original."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.model.errors import PartitionsStopped, RecordError
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, STATE, TIME, TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World

OTHER = TopicPartition("orders", 1)
PARQUET = "io.confluent.connect.s3.format.parquet.ParquetFormat"


def plain(n: int) -> bytes:
    return json.dumps({"n": n, "d": n % 2, "t": START_MS}).encode()


def enveloped(n: int, *, version: int | None = 1) -> bytes:
    fields = [{"field": "n", "type": "int32"}, {"field": "to", "type": "string"}]
    schema = {"type": "struct", "version": version, "fields": fields}
    return json.dumps({"schema": schema, "payload": {"n": n, "to": "AB"[n % 2]}}).encode()


ENVELOPES = {"value.converter.schemas.enable": "true"}
BACKWARD = {**ENVELOPES, "schema.compatibility": "BACKWARD"}
TO_TOPICS = {
    "transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.ExtractTopic$Value", "transforms.t.field": "to",
}  # fmt: skip
BY_FIELD_TIME = {**TIME, "timestamp.extractor": "RecordField", "timestamp.field": "t"}
TEXT = json.dumps({"schema": {"type": "string"}, "payload": "x"}).encode()
KINDS: dict[str, tuple[dict[str, str], Any, bytes | None]] = {
    "converter": ({}, plain, b"{oops"),
    "null value": ({"behavior.on.null.values": "fail"}, plain, None),
    "timestamp": (BY_FIELD_TIME, plain, b'{"n": 1}'),
    "partitioner": ({**FIELD, "partition.field.schemaless": "true"}, plain, b'{"n": 1, "d": {}}'),
    "format": ({**ENVELOPES, "format.class": PARQUET}, enveloped, TEXT),
    "writer": (BACKWARD, enveloped, enveloped(1, version=None)),
    "writer of several topics": ({**BACKWARD, **TO_TOPICS}, enveloped, enveloped(1, version=None)),
    "transform": ({**ENVELOPES, **TO_TOPICS}, enveloped, TEXT),
}


def records(make: Any, count: int, bad: Mapping[int, bytes | None]) -> list[MemoryRecord]:
    return [MemoryRecord(n, START_MS, None, bad[n] if n in bad else make(n)) for n in range(count)]


def world_of(config: Mapping[str, str], some: Sequence[MemoryRecord], *, batch_size: int = 10_000) -> World:
    world = World(config, batch_size=batch_size)
    world.kafka.records[ORDERS] = list(some)
    world.start()
    return world


def read_all(world: World) -> None:
    world.sink.poll()
    world.sink.drain()


def data(world: World) -> dict[str, bytes]:
    return {key: content for key, content in world.store.objects.items() if not key.startswith(STATE)}


@pytest.mark.parametrize("batch_size", [1, 4, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_files_that_close_before_a_bad_record_are_committed_whatever_is_wrong_with_it(
    kind: str, batch_size: int
) -> None:
    more, make, bad = KINDS[kind]
    config = {"flush.size": "3", **more}
    short = world_of(config, records(make, 7, {}))
    short.sink.poll_and_commit()
    assert short.frontier() in (5, 6)
    stopped = world_of(config, records(make, 12, {7: bad}), batch_size=batch_size)
    words = f"orders-0 offset 7, .*The next offset of orders-0 is {short.frontier()}: all files that closed"
    with pytest.raises(RecordError, match=words):
        stopped.sink.poll_and_commit()
    assert (data(stopped), stopped.frontier()) == (data(short), short.frontier())

    stopped.kafka.records[ORDERS] = records(make, 12, {})
    stopped.start().poll_and_commit()
    whole = world_of(config, records(make, 12, {}))
    whole.sink.poll_and_commit()
    assert (data(stopped), stopped.frontier()) == (data(whole), whole.frontier())
    assert stopped.store.uploads == {}


@settings(max_examples=examples(40))
@given(
    st.lists(st.sampled_from(["good", "bad", "null"]), min_size=1, max_size=14),
    st.integers(1, 5),
    st.sampled_from([1, 3, 10_000]),
)
def test_every_record_before_the_stop_is_accounted_for_and_boundaries_stay_once_it_is_mended(
    kinds: list[str], flush_size: int, batch_size: int
) -> None:
    """Null values are reported as dead letters also without tolerance, before and after the stop."""
    config = {
        "flush.size": str(flush_size), "behavior.on.null.values": "ignore", "errors.deadletterqueue.topic.name": "dlq",
    }  # fmt: skip
    sent = {"good": lambda n: plain(n), "bad": lambda _: b"{oops", "null": lambda _: None}
    some = [MemoryRecord(n, START_MS, None, sent[kind](n)) for n, kind in enumerate(kinds)]
    mended = [
        MemoryRecord(n, START_MS, None, sent["null" if kind == "null" else "good"](n)) for n, kind in enumerate(kinds)
    ]
    world, whole = world_of(config, some, batch_size=batch_size), world_of(config, mended)
    read_all(whole)
    if "bad" in kinds:
        with pytest.raises(RecordError):
            read_all(world)
        stop = kinds.index("bad")
        assert world.frontier() <= stop
        written = {n for numbers in world.numbers().values() for n in numbers}
        assert written == {n for n in range(world.frontier()) if kinds[n] == "good"}
        world.kafka.records[ORDERS] = mended
        world.start()
    read_all(world)
    assert data(world) == data(whole)
    for one in (world, whole):
        one.sink.drain(close=Reason.FLUSH_NOW)
    assert data(world) == data(whole)
    assert (world.frontier(), world.log().load().totals) == (whole.frontier(), whole.log().load().totals)
    nulls = [n for n, kind in enumerate(kinds) if kind == "null"]
    assert [message.origin[2] for message in world.kafka.produced.get("dlq", ()) if message.value is None] == nulls


def test_the_files_of_the_others_close_and_the_open_tail_before_the_record_stays_open() -> None:
    world = World({"flush.size": "3", "errors.stop.scope": "partition"}, topics=(ORDERS, OTHER))
    world.kafka.records[ORDERS] = records(plain, 5, {4: b"{oops"})
    world.add(range(4), tp=OTHER)
    world.start()
    world.sink.poll_and_commit()
    assert sorted(map(len, world.numbers().values())) == [3, 3]
    assert (world.frontier(ORDERS), world.frontier(OTHER)) == (3, 3)
    world.sink.try_drain(close=Reason.FLUSH_NOW)
    assert (world.frontier(ORDERS), world.frontier(OTHER)) == (3, 4)
    with pytest.raises(PartitionsStopped, match="offset 4, stage VALUE_CONVERTER"):
        world.sink.end()


def test_a_record_that_is_skipped_by_hand_leaves_the_boundaries_before_it() -> None:
    """The operator starts with tolerance: the record becomes a dead letter, and the file that it stopped goes on."""
    world = world_of({"flush.size": "3"}, records(plain, 12, {7: b"{oops"}))
    with pytest.raises(RecordError):
        world.sink.poll_and_commit()
    world.settings = World({"flush.size": "3", **TOLERANT}).settings
    world.start().poll_and_commit()
    assert list(world.numbers().values()) == [[0, 1, 2], [3, 4, 5], [6, 8, 9]]
    assert world.log().load().totals.dead_letters == 1
