"""Objects are called as the original calls them (SEMANTICS A4)."""

from __future__ import annotations

import pytest

from kafka_s3.connect.naming.keys import Naming
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.offsets import TopicPartition

EVENTS = TopicPartition("events", 0)


@pytest.mark.parametrize(
    ("naming", "directory", "offset", "key"),
    [
        (
            Naming("topics", "/", "+", 10),
            "year=2024/month=01",
            0,
            "topics/events/year=2024/month=01/events+0+0000000000.json",
        ),
        (
            Naming("topics", "/", "+", 10),
            "partition=0",
            12345678901,
            "topics/events/partition=0/events+0+12345678901.json",
        ),
        (Naming("topics", "/", "+", 1), "partition=0", 7, "topics/events/partition=0/events+0+7.json"),
        (Naming("", "/", "+", 10), "d=", 7, "events/d=/events+0+0000000007.json"),
        (Naming("  ", "/", "+", 10), "d=", 7, "events/d=/events+0+0000000007.json"),
        (Naming("a/b/", "/", "+", 2), "d=x y%", 7, "a/b//events/d=x y%/events+0+07.json"),
        (Naming("topics", "_", "-", 4), "d=x", 7, "topics_events_d=x_events-0-0007.json"),
    ],
)
def test_the_key_of_a_file(naming: Naming, directory: str, offset: int, key: str) -> None:
    assert naming.key(EVENTS, directory, offset=offset, extension=".json") == key


def test_the_state_lies_below_the_prefix_and_sorts_by_version() -> None:
    paths = StatePaths("/_kafka_s3/", "orders")

    assert paths.root == "_kafka_s3/orders/"
    assert sorted(map(paths.commit, [10, 9, 100])) == [paths.commit(9), paths.commit(10), paths.commit(100)]
    assert paths.checkpoint(99) == "_kafka_s3/orders/checkpoints/00000000000000000099.json"
    assert paths.dead_letters(EVENTS, 7) == "_kafka_s3/orders/dead-letters/events/events+0+0000000007.jsonl.gz"
