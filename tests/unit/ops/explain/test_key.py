"""Where does an object come from, and what does `explain` answer for one that no entry claims?"""

from __future__ import annotations

import pytest

from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Role
from kafka_s3.ops.explain.answer import Answer, Outcome
from kafka_s3.ops.explain.inquiry import explain
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TIME
from tests.support.memory_world import ORDERS, START_MS, World

FIRST = "topics/orders/partition=0/orders+0+0000000000.json"


def drained(**config: str) -> World:
    world = World({"flush.size": "3", **config})
    for offset in range(6):
        value = f'{{"n": {offset}}}'.encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, b"key", value))
    world.start()
    world.sink.poll()
    world.sink.drain()
    return world


def asked(world: World, key: str) -> Answer:
    return explain(world.settings, key, store=world.store, kafka=None)


def test_an_object_with_its_entry_by_key_and_by_address() -> None:
    world = drained()
    answer = asked(world, FIRST)
    assert (answer.outcome, answer.accounts[0].files[0].records) == (Outcome.OBJECT, 3)
    assert "3 records, offsets 0 to 2 of orders-0" in answer.text
    assert asked(world, f"s3://bucket/{FIRST}") == answer
    with pytest.raises(ConfigError, match="is not in this sink's bucket bucket"):
        asked(world, f"s3://other/{FIRST}")


def test_a_sidecar_names_the_object_that_it_goes_with() -> None:
    world = drained(**{
        "store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    })  # fmt: skip
    (key,) = {
        file.key for entry in world.entries() for file in entry.files if file.role is Role.KEY and not file.first_offset
    }
    answer = asked(world, key)
    assert "the keys of 3 records" in answer.text
    assert [file.key for file in answer.accounts[0].files] == [key, FIRST]


def test_an_object_that_was_removed_or_overwritten_says_so() -> None:
    world = drained()
    world.store.put(FIRST, b"short")
    assert "overwritten: it has 5 bytes" in (asked(world, FIRST).objects or {})[FIRST].bucket
    world.store.delete(FIRST)
    assert "missing" in (asked(world, FIRST).objects or {})[FIRST].bucket


def test_what_no_entry_claims_is_unknown_with_what_its_name_says() -> None:
    world = drained()
    stranger = "topics/orders/partition=0/orders+0+0000000100.json"
    world.store.put(stranger, b"{}\n")
    answer = asked(world, stranger)
    assert answer.outcome is Outcome.UNKNOWN
    assert "before the sink took over" in answer.text
    assert "topic orders, partition 0 from offset 100 on" in answer.text
    assert "there is no such object" in asked(world, "topics/none").text
    assert asked(world, f"{STATE}orders/commits/{0:020d}.json").outcome is Outcome.STATE


def test_half_of_a_records_name_is_answered_with_the_whole_form() -> None:
    answer = asked(drained(), "orders:0")
    assert (answer.outcome, "TOPIC:PARTITION:OFFSET" in answer.text) == (Outcome.UNKNOWN, True)


def test_a_done_marker_is_the_sinks_own() -> None:
    world = drained(**TIME, **{"done.marker.name": "_SUCCESS"})
    world.now += 3_600_000
    world.sink.poll_and_commit()
    answer = asked(world, "topics/orders/h=10/_SUCCESS")
    assert (answer.outcome, "its directory is complete" in answer.text) == (Outcome.STATE, True)
    assert asked(world, "topics/orders/h=11/_SUCCESS").outcome is Outcome.UNKNOWN
