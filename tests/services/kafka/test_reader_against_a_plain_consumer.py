"""Does the reader inside a task give record for record what a plain consumer sees, whatever the log has been through?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kafka_s3.connect.converters.converter import SCHEMA_NAME, VALUE_SCHEMA
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.reader import messages, reader, settings
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.kafka.reader.settings import ReadScope
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3_testing.services.kafka import EmbeddedKafka
from tests.support.kafka_scenes import COMPACTED, Scene, Seen
from tests.support.waiting import eventually

FEW, MANY = 3, 300
RANGES_OF_A_TOPIC = 3


@dataclass
class Case:
    """One seed's topic, read in some ranges, in one isolation, with batches and fetches of any size."""

    servers: str
    scene: Scene
    draw: random.Random
    isolation: str

    def judge(self) -> None:
        places = [TopicPartition(self.scene.topic, number) for number in range(self.scene.partitions)]
        heads = KafkaBrokers(self.servers, properties={"isolation.level": self.isolation}).heads(places)
        seen = {tp: self.scene.seen(tp.partition, head, self.isolation) for tp, head in heads.items()}
        for _ in range(RANGES_OF_A_TOPIC):
            self._compare(
                seen, [self._range(tp, head) for tp, head in self.draw.sample(sorted(heads.items()), len(heads))]
            )

    def _range(self, tp: TopicPartition, head: int) -> OffsetRange:
        whole = self.draw.random() < 0.3
        start, until = (0, head) if whole else sorted(self.draw.choices(range(head + 1), k=2))
        return OffsetRange(tp, start, until)

    def _compare(self, seen: dict[TopicPartition, list[Seen]], ranges: Sequence[OffsetRange]) -> None:
        part = self.draw.choice(list(ReadScope))
        properties = {
            "isolation.level": self.isolation, "max.partition.fetch.bytes": str(self.draw.choice([100, 5_000, 1 << 20])),
        }  # fmt: skip
        for wanted, found in RangeReader(self.servers, properties, part).read_ranges(ranges):
            rows = [row for batch in found for row in batch.to_pylist()]
            there = [one for one in seen[wanted.topic_partition] if wanted.start <= one.offset < wanted.until]
            assert rows == [as_row(one, part) for one in there], wanted


def as_row(seen: Seen, part: ReadScope) -> dict[str, Any]:
    """What the reader has to give of a record."""
    row = {
        "offset": seen.offset, "timestamp": seen.timestamp, "timestamp_type": seen.timestamp_type, "value": seen.value,
    }  # fmt: skip
    if part is ReadScope.ENVELOPES:
        row |= {"key": seen.key, "headers": [{"key": name, "value": value} for name, value in seen.headers]}
    elif part is ReadScope.SCHEMA_NAMES:
        row[SCHEMA_NAME] = next((value for name, value in reversed(seen.headers) if name == VALUE_SCHEMA), None)
    return row


@pytest.fixture
def play(kafka: EmbeddedKafka, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Plays one seed; batches are so small that their bounds cut the records everywhere."""

    def play(seed: int) -> None:
        draw = random.Random(seed)
        rows = draw.choice([1, 3, 50, messages.ROWS])
        monkeypatch.setattr(messages, "ROWS", rows)
        monkeypatch.setattr(reader, "ROWS", rows)
        monkeypatch.setattr(messages, "BYTES", draw.choice([1, 2_000, 100_000]))
        monkeypatch.setattr(reader, "AT_A_TIME", draw.choice([1, 2, 32]))
        monkeypatch.setattr(reader, "LONG_AT_A_TIME", draw.choice([1, 2, 4]))
        monkeypatch.setattr(settings, "MOST_RECORDS", draw.choice([32, 200, settings.MOST_RECORDS]))
        scene = Scene(kafka.bootstrap_servers, topic("scene", partitions := draw.randint(1, 5)), partitions, draw)
        isolation = draw.choice(["read_committed", "read_uncommitted"])
        with scene.produced(draw.randint(1, 6)):
            Case(kafka.bootstrap_servers, scene, draw, isolation).judge()

    return play


@pytest.mark.parametrize("seed", range(FEW))
def test_a_task_reads_what_a_plain_consumer_sees(seed: int, play: Callable[[int], None]) -> None:
    play(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(FEW, MANY))
def test_a_task_reads_what_a_plain_consumer_sees_of_many_logs(seed: int, play: Callable[[int], None]) -> None:
    play(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_a_task_reads_what_compaction_has_left(seed: int, kafka: EmbeddedKafka, topic: Callable[..., str]) -> None:
    draw = random.Random(seed)
    scene = Scene(kafka.bootstrap_servers, topic("compacted", config=COMPACTED), 1, draw, keyed=True)
    with scene.produced(6):
        (head,) = KafkaBrokers(kafka.bootstrap_servers).heads([TopicPartition(scene.topic, 0)]).values()
        before: list[Seen] = []

        def settled() -> bool:
            """Something was compacted away, and nothing more since the last look."""
            nonlocal before
            last, before = before, scene.seen(0, head, "read_committed")
            return len(before) < head and before == last

        eventually(settled)
        Case(kafka.bootstrap_servers, scene, draw, "read_committed").judge()
