"""How many ranges of a task are fetched together?"""

from __future__ import annotations

from collections import deque

import pytest

from kafka_s3.kafka.reader import settings
from kafka_s3.kafka.reader.reader import AT_A_TIME, LONG_AT_A_TIME, RangeReader
from kafka_s3.kafka.reader.settings import Weight, note_weight
from kafka_s3.model.offsets import OffsetRange, TopicPartition

SHORT, LONG = 3125, 3126
"""Of records of 500 bytes, 3125 may wait of each of 32."""


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_known", {})
    note_weight("brokers", "orders", Weight.of_fetch(held=55_000, records=110, fetched=16_500))
    note_weight("brokers", "images", Weight.of_fetch(held=4 << 20, records=1, fetched=4 << 20))


def waves(*lengths: int, topic: str = "orders") -> list[list[int]]:
    """The lengths of the ranges, wave by wave."""
    waiting = deque(OffsetRange(TopicPartition(topic, n), 7, 7 + length) for n, length in enumerate(lengths))
    reader, found = RangeReader("brokers", {}), list[list[int]]()
    while waiting:
        wave, _ = reader._wave(waiting)
        found.append([wanted.until - wanted.start for wanted in wave])
    return found


def test_short_ranges_are_fetched_many_together_and_long_ones_a_few() -> None:
    assert waves(*[SHORT] * (AT_A_TIME + 1)) == [[SHORT] * AT_A_TIME, [SHORT]]
    assert waves(*[LONG] * (LONG_AT_A_TIME + 1)) == [[LONG] * LONG_AT_A_TIME, [LONG]]


def test_one_that_is_long_is_among_a_few_whatever_the_others_are() -> None:
    assert waves(SHORT, LONG, 1, 1, 1) == [[SHORT, LONG, 1, 1], [1]]
    assert waves(*[1] * 5, LONG, 1) == [[1] * 5, [LONG, 1]]


def test_of_topics_whose_records_are_large_or_not_known_each_is_read_alone() -> None:
    assert waves(1, 1, topic="images") == waves(1, 1, topic="new") == [[1], [1]]
