"""A start is refused when another writer has written the topics that the sink would begin with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_s3.model.errors import KafkaUnavailable, SourceError
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring import first_start
from kafka_s3.run.wiring.first_start import find_earlier_writer
from kafka_s3.store.faults import Fault, FaultyStore
from tests.support.configurations import BLOCK_GZIP
from tests.support.memory_world import ORDERS, World, settings_of

GROUP = "connect-orders"
PAYMENTS = TopicPartition("payments", 0)
OBJECT = "topics/orders/partition=0/orders+0+0000000100.json"


def refusal(world: World, warnings: list[str] | None = None) -> str:
    """What a start of the world's sink is refused with, blank if it is not."""
    warn = (warnings if warnings is not None else []).append
    problem = find_earlier_writer(world.settings, world.kafka, world.store, warn=warn)
    return "" if problem is None else str(problem)


def written_by_sink(world: World) -> World:
    """The world after a sink has written its topics."""
    world.add(range(6))
    sink = world.start()
    sink.poll()
    sink.drain(close=Reason.FLUSH_NOW)
    return world


def test_a_sink_of_a_topic_that_nobody_has_written_starts() -> None:
    world = World({"flush.size": "3"})
    world.add(range(5))
    world.kafka.commit_group("connect-another", {ORDERS: 3})
    world.store.put("topics/orders/_SUCCESS", b"")
    world.store.put("topics/orders_old/partition=0/orders_old+0+0000000000.json", b"{}")
    assert refusal(world) == ""


def test_offsets_of_the_connectors_group_refuse_the_start_and_name_both_ways_on() -> None:
    world = World({"flush.size": "3"})
    world.add(range(5))
    world.kafka.commit_group(GROUP, {ORDERS: 3})
    text = refusal(world)
    for words in (
        "behavior.on.earlier.writer ('fail')",
        "consumer group connect-orders has committed orders-0 at 3",
        "`kafka-s3 migrate CONFIG --apply`",
        "`kafka-s3 run CONFIG --set behavior.on.earlier.writer=ignore`",
    ):
        assert words in text, text


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({}, OBJECT),
        ({}, "topics/orders/year=2024/orders+3+0000000100.snappy.parquet"),
        ({"filename.offset.zero.pad.width": "15"}, OBJECT),
        ({"object.name.template": "${partition}_${offset}"}, "topics/orders/partition=0/0_0000000100.json"),
        ({"object.name.template": "${partition}_${offset}"}, OBJECT),
        (
            {
                "transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
                "transforms.r.regex": "(.*)", "transforms.r.replacement": "shop_$1",
            },
            "topics/shop_orders/partition=0/shop_orders+0+0000000100.json",
        ),
        (BLOCK_GZIP, "2024-01-15/orders-00000-000000000100.gz"),
    ],
    ids=["ours", "another format", "other padding", "template", "before the template", "routed", "Block-GZIP"],
)  # fmt: skip
def test_an_object_of_this_sinks_form_refuses_the_start_and_is_named(config: dict[str, str], key: str) -> None:
    world = World({"flush.size": "3", **config})
    world.store.put(key, b"{}")
    assert f"s3://bucket/{key} is an object of this sink's form" in refusal(world)


def test_a_renamed_sink_is_refused_and_the_sink_that_wrote_is_named() -> None:
    world = written_by_sink(World({"flush.size": "3"}))
    world.settings = settings_of({"flush.size": "3", "name": "shop"})
    text = refusal(world)
    assert "sink orders of this bucket has read there" in text
    assert "call it orders again" in text
    assert "`kafka-s3 migrate CONFIG --group connect-orders --apply`" in text


def test_the_option_and_a_position_set_by_hand_let_the_sink_begin() -> None:
    world = World({"flush.size": "3", "behavior.on.earlier.writer": "ignore"})
    world.store.put(OBJECT, b"{}")
    assert refusal(world) == ""
    world.start()
    world.settings = settings_of({"flush.size": "3"})
    assert refusal(world) == ""


def test_a_log_that_knows_all_topics_asks_neither_group_nor_folder() -> None:
    world = written_by_sink(World({"flush.size": "3"}))
    store, kafka = FaultyStore(world.store), Refusing(world, SourceError("not to be asked"))
    assert find_earlier_writer(world.settings, kafka, store, warn=pytest.fail) is None  # type: ignore[arg-type]
    assert all(key.startswith("_kafka_s3/orders/") for _, key in store.calls)


def test_a_topic_that_is_new_to_an_existing_log_is_looked_at_and_no_other() -> None:
    world = written_by_sink(World({"flush.size": "3"}))
    world.kafka.create(PAYMENTS)
    world.settings = settings_of({"flush.size": "3", "topics": "orders,payments"})
    assert refusal(world) == ""
    world.kafka.commit_group(GROUP, {PAYMENTS: 7})
    assert "refuses to begin with payments: " in refusal(world)


def test_a_first_start_that_came_no_further_than_its_claim_is_still_a_first_start() -> None:
    world = World({"flush.size": "3"}, topics=())
    world.start()
    assert next(entry.kind for entry in world.entries()) == "epoch"
    world.kafka.create(ORDERS)
    world.store.put(OBJECT, b"{}")
    assert OBJECT in refusal(world)


def test_the_original_block_gzip_sink_goes_on_at_its_pointer_and_is_not_refused() -> None:
    world = World({**BLOCK_GZIP, "block.gzip.dialect": "original"})
    world.store.put("2024-01-15/orders-00000-000000000100.gz", b"")
    world.kafka.commit_group(GROUP, {ORDERS: 3})
    assert refusal(world) == ""


def test_a_driver_of_the_same_sink_that_begins_meanwhile_is_no_other_writer() -> None:
    """Two processes are started at once; what one writes after the other has read the log is their own."""
    world = World({"flush.size": "3"})
    store = FaultyStore(
        world.store, [Fault("list", lambda _: written_by_sink(world), matches=lambda key: key == "topics/orders/")]
    )
    assert find_earlier_writer(world.settings, world.kafka, store, warn=pytest.fail) is None
    assert world.objects()


class Refusing:
    """A cluster that refuses what is asked of groups."""

    def __init__(self, world: World, error: SourceError) -> None:
        self.describe, self.topic_names, self.error = world.kafka.describe, world.kafka.topic_names, error

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        raise self.error


def test_a_group_that_may_not_be_asked_is_a_warning_and_the_folders_are_looked_at_all_the_same() -> None:
    world, warnings = World({"flush.size": "3"}), list[str]()
    kafka = Refusing(world, SourceError("Kafka did not read the offsets: GROUP_AUTHORIZATION_FAILED."))
    assert find_earlier_writer(world.settings, kafka, world.store, warn=warnings.append) is None  # type: ignore[arg-type]
    assert ["Grant DESCRIBE on group connect-orders" in text for text in warnings] == [True]
    world.store.put(OBJECT, b"{}")
    assert find_earlier_writer(world.settings, kafka, world.store, warn=warnings.append) is not None  # type: ignore[arg-type]


def test_brokers_that_do_not_answer_for_the_group_end_the_start() -> None:
    world = World({"flush.size": "3"})
    kafka = Refusing(world, KafkaUnavailable("no coordinator"))
    with pytest.raises(KafkaUnavailable):
        find_earlier_writer(world.settings, kafka, world.store, warn=pytest.fail)  # type: ignore[arg-type]


def test_a_listing_ends_at_the_first_object_and_after_so_many_keys_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "READ_KEYS", 10)
    world = World({"flush.size": "3"})
    for n in range(10):
        world.store.put(f"topics/orders/_delta_log/{n:020d}.json", b"{}")
    world.store.put(OBJECT, b"{}")
    assert refusal(world) == ""
    world.store.delete(f"topics/orders/_delta_log/{0:020d}.json")
    assert OBJECT in refusal(world)
