"""Is every record that Kafka ever had exactly once where it belongs? Judged without a line of the product's code.

A `Witness` looks at a topic as often as it is asked and remembers what it saw, so that it still knows the records that Kafka has lost
since. Its account takes the objects of the default partitioner apart: the name says the first offset, the lines must be the records that
follow in Kafka, but for those that are dead letters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.bucket import Bucket

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Witness:
    """What Kafka had of a topic whenever it was looked at, as a consumer of committed records sees it. `heads` are of the last look."""

    servers: str
    topic: str
    partitions: int = 1
    seen: dict[Place, bytes | None] = field(default_factory=dict)
    now: dict[Place, bytes | None] = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)

    def poll(self) -> Witness:
        """Reads the whole topic."""
        consumer = Consumer({
            "bootstrap.servers": self.servers, "group.id": "witness", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": "read_committed", "auto.offset.reset": "error", "fetch.wait.max.ms": 20,
        })  # fmt: skip
        self.now = {}
        try:
            for partition in range(self.partitions):
                low, _ = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=20)
                consumer.assign([TopicPartition(self.topic, partition, low)])
                self._read(consumer, partition)
        finally:
            consumer.close()
        self.seen |= self.now
        return self

    def _read(self, consumer: Consumer, partition: int) -> None:
        while True:
            message = consumer.poll(20)
            assert message is not None, f"{self.topic}-{partition} does not answer"
            if message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF:
                self.heads[partition] = message.offset()
                return
            assert message.error() is None, message.error()
            self.now[partition, message.offset()] = message.value()

    def offsets(self, partition: int = 0) -> list[int]:
        """The offsets of all records ever seen."""
        return sorted(offset for place, offset in self.seen if place == partition)

    def holes(self, partition: int = 0) -> list[int]:
        """The offsets below the head at which Kafka has no record now."""
        return [offset for offset in range(self.heads[partition]) if (partition, offset) not in self.now]


@dataclass(frozen=True)
class Account:
    """Where the records of a topic are: in objects, in dead letter files, or in gaps of the log, each as partition and offset."""

    written: list[Place]
    dead: list[Place]
    gaps: set[Place]


def account(bucket: Bucket, sink: str, witness: Witness) -> Account:
    """Takes every object of the topic apart; fails where one does not hold what Kafka had from its first offset on."""
    dead = [(line["partition"], line["offset"]) for line in bucket.dead_letters(sink) if line["topic"] == witness.topic]
    written: list[Place] = []
    for key, rows in bucket.contents().items():
        if key.startswith(f"topics/{witness.topic}/"):
            _, partition, start = key.rpartition("/")[2].removesuffix(".json").rsplit("+", 2)
            written += _taken_apart(witness, key, int(partition), int(start), rows, dead=set(dead))
    gaps = {
        (gap["partition"], offset)
        for entry in bucket.entries(sink)
        for gap in entry["gaps"]
        if gap["topic"] == witness.topic
        for offset in range(gap["from"], gap["to"] + 1)
    }
    return Account(sorted(written), sorted(dead), gaps)


def _taken_apart(
    witness: Witness, key: str, partition: int, start: int, rows: list[dict[str, Any]], *, dead: set[Place]
) -> list[Place]:
    live = [(partition, offset) for offset in witness.offsets(partition) if offset >= start]
    places = [place for place in live if place not in dead][: len(rows)]
    assert places, f"{key} is empty or starts behind Kafka's last record"
    assert places[0] == (partition, start), f"{key} is named after an offset that is not its first record's"
    assert rows == [json.loads(witness.seen[place] or b"") for place in places], f"{key} is not what Kafka has there"
    return places


def assert_exactly_once(bucket: Bucket, sink: str, witness: Witness) -> Account:
    """Every record that was ever seen is in one object, one dead letter file or one gap; what Kafka still has is in no gap."""
    found = account(bucket, sink, witness)
    assert len(found.written) == len(set(found.written)), "a record is in two objects, or twice in one"
    assert len(found.dead) == len(set(found.dead)), "a record is a dead letter twice"
    assert not set(found.written) & set(found.dead)
    assert not found.gaps & {*found.written, *found.dead, *witness.now}
    assert {*found.written, *found.dead} | found.gaps >= witness.seen.keys()
    assert {*found.written, *found.dead} <= witness.seen.keys()
    return found
