"""Records that go to other topics: names, rotation, offsets, and what a crash leaves."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.model.errors import SinkError, StorageError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_testing.faults import Fault
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World

KAFKA = "org.apache.kafka.connect.transforms."
BY_FIELD = {
    "flush.size": "2",
    "transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.ExtractTopic$Value", "transforms.t.field": "to",
}  # fmt: skip


def put(world: World, place: TopicPartition, offset: int, value: dict[str, Any]) -> None:
    world.kafka.add(place, MemoryRecord(offset, START_MS + offset, None, json.dumps(value).encode(), ()))


def objects(world: World) -> dict[str, list[dict[str, Any]]]:
    """The rows of each object."""
    found = {key: content for key, content in world.store.objects.items() if key.startswith("topics/")}
    return {key: [json.loads(line) for line in content.splitlines()] for key, content in found.items()}


def test_a_renamed_topic_has_the_names_and_the_rotation_of_the_new_one() -> None:
    world = World({
        "flush.size": "3", "transforms": "t", "transforms.t.type": f"{KAFKA}RegexRouter",
        "transforms.t.regex": "(.*)s", "transforms.t.replacement": "new_$1",
    })  # fmt: skip
    for offset in range(7):
        put(world, ORDERS, offset, {"a": offset})
    world.start().poll_and_commit()
    assert sorted(objects(world)) == [
        "topics/new_order/partition=0/new_order+0+0000000000.json",
        "topics/new_order/partition=0/new_order+0+0000000003.json",
    ]
    assert world.kafka.groups["connect-orders"] == {ORDERS: 6}


def test_all_targets_close_at_the_record_at_which_one_has_to() -> None:
    world = World(BY_FIELD)
    for offset, target in enumerate("ABBAAB"):
        put(world, ORDERS, offset, {"to": target, "n": offset})
    world.start().poll_and_commit()
    rows = {key: [row["n"] for row in rows] for key, rows in objects(world).items()}
    assert rows == {
        "topics/A/partition=0/A+0+0000000000.json": [0],
        "topics/B/partition=0/B+0+0000000001.json": [1, 2],
        "topics/A/partition=0/A+0+0000000003.json": [3, 4],
    }
    assert world.kafka.groups["connect-orders"] == {ORDERS: 5}


@settings(max_examples=examples(25))
@given(targets=st.lists(st.sampled_from("ABC"), min_size=1, max_size=14), at=st.integers(1, 6), batch=st.integers(1, 5))
def test_records_of_several_targets_are_each_in_one_object_whatever_fails(
    targets: list[str], at: int, batch: int
) -> None:
    world = World(BY_FIELD, batch_size=batch)
    for offset, target in enumerate(targets):
        put(world, ORDERS, offset, {"to": target, "n": offset})

    def broken(key: str) -> None:
        raise StorageError("injected")

    with contextlib.suppress(SinkError):
        world.start([Fault("complete_upload", broken, nth=at)]).poll_and_commit()
    world.start().poll_and_commit()
    written = sorted(row["n"] for rows in objects(world).values() for row in rows)
    assert written == list(range(world.kafka.groups.get("connect-orders", {}).get(ORDERS, 0)))
    assert all(f"topics/{row['to']}/" in key for key, rows in objects(world).items() for row in rows)
    assert len(targets) - len(written) <= 3


def test_two_topics_that_go_to_one_do_not_overwrite_each_other() -> None:
    places = [TopicPartition("orders-dc1", 0), TopicPartition("orders-dc2", 0)]
    world = World({
        "flush.size": "1", "topics": "orders-dc1,orders-dc2", "transforms": "t", "transforms.t.type": f"{KAFKA}RegexRouter",
        "transforms.t.regex": "(.*)-dc.", "transforms.t.replacement": "$1",
    }, topics=places)  # fmt: skip
    for place in places:
        put(world, place, 0, {"from": place.topic})
    world.start().poll_and_commit()
    assert objects(world) == {
        "topics/orders/partition=0/orders-dc1+0+0000000000.json": [{"from": "orders-dc1"}],
        "topics/orders/partition=0/orders-dc2+0+0000000000.json": [{"from": "orders-dc2"}],
    }
