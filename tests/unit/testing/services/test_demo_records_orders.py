from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kafka_s3_testing.services.demo_records import DAY_START, DAYS, END, DemoRecord, demo_records

COUNT = 6_000


@pytest.fixture(scope="module")
def records() -> list[DemoRecord]:
    return list(demo_records(COUNT, seed=7))


def test_the_same_seed_gives_the_same_records() -> None:
    once, again, other = (list(demo_records(300, seed=seed)) for seed in (7, 7, 8))
    assert once == again
    assert once != other


def test_two_topics_of_three_partitions_share_the_records(records: list[DemoRecord]) -> None:
    counts = Counter((r.topic, r.partition) for r in records)
    assert sorted(counts) == [(topic, partition) for topic in ("orders", "payments") for partition in range(3)]
    assert sum(counts.values()) == COUNT
    assert min(counts.values()) > COUNT / 10


def test_a_key_is_always_in_the_same_partition(records: list[DemoRecord]) -> None:
    homes = {(r.message.key, r.partition) for r in records}
    assert len(homes) == len({key for key, _ in homes})


def test_values_are_json_of_a_realistic_size_with_the_event_time(records: list[DemoRecord]) -> None:
    for record in records:
        if not record.malformed:
            value = json.loads(record.message.value)
            assert 140 <= len(record.message.value) <= 300
            assert value["order_id"].encode() == record.message.key
            assert datetime.fromisoformat(value["created_at"]).timestamp() * 1000 == record.message.timestamp


def test_event_times_go_through_the_days_in_order_but_for_a_few_late_records(records: list[DemoRecord]) -> None:
    times = [r.message.timestamp for r in records]
    start = DAY_START.timestamp() * 1000
    end = END.timestamp() * 1000
    assert start - 40 * 60_000 <= min(times)
    assert max(times) < end
    assert max(times) > end - 60_000
    late = sum(later < earlier - 30_000 for earlier, later in pairwise(times))
    assert 0.001 * COUNT < late < 0.01 * COUNT
    assert len({datetime.fromtimestamp(ms / 1000, UTC).date() for ms in times}) == DAYS


def test_broken_records_are_few_and_none_of_them_is_an_order(records: list[DemoRecord]) -> None:
    broken = [r for r in records if r.malformed]
    assert len(broken) == COUNT * 0.0005
    for record in broken:
        with pytest.raises((ValueError, KeyError)):
            json.loads(record.message.value)["created_at"]


def test_even_a_short_run_has_broken_records_and_none_if_none_are_wanted() -> None:
    assert sum(r.malformed for r in demo_records(50)) == 3
    assert sum(r.malformed for r in demo_records(50, malformed=0)) == 0
    assert list(demo_records(0)) == []
