"""Is every record of a topic in the bucket, none twice? Judged from Kafka, the bucket and the commit log's documented form alone.

None of the product's code is used. A record is known by its value, so the values of a topic should differ; where some are alike, their
numbers are compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.support.bucket import Bucket

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Reconciliation:
    """What is wrong between a topic, the bucket and a sink's log. Each member is empty where all is well.

    `missing`: values of Kafka that are in no object; `twice`: values that are there more often than in Kafka; `foreign`: values that Kafka
    does not have. `absent`: objects that the log counts and that are not there; `uncounted`: objects of the topic that no entry counts;
    `miscounted`: objects with other records than the log gives them, by number or by offsets; `unread`: the last offsets of partitions
    whose frontier is not behind them; `gaps`: versions that the log skips.
    """

    records: int = 0
    missing: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    miscounted: list[str] = field(default_factory=list)
    unread: dict[int, int] = field(default_factory=dict)
    gaps: list[int] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, Any]:
        """The members that are not empty, shortened."""
        found = {name: value for name, value in vars(self).items() if name != "records" and value}
        return {name: str(value)[:500] for name, value in found.items()}


def reconcile(
    bucket: Bucket,
    servers: str,
    topic: str,
    *,
    partitions: int,
    sink: str,
    folder: str = "topics",
    value_of: Callable[[bytes], Any] = json.loads,
    rows_of: Callable[[str], list[Any]] | None = None,
) -> Reconciliation:
    """Compares all that Kafka holds of a topic with the objects below `<folder>/<topic>/` and the log of the sink.

    `value_of` is what a record's value should look like in an object, `rows_of` reads an object by its key (default: JSON lines or
    Parquet). Records whose value is null are left out, and so are those that the sink's dead letter files hold.
    """
    kafka = committed_records(servers, topic, partitions)
    dead = {(line["partition"], line["offset"]) for line in bucket.dead_letters(sink) if line["topic"] == topic}
    due = {
        place: canonical(value_of(value)) for place, value in kafka.items() if value is not None and place not in dead
    }
    keys = [key for key in bucket.data_keys() if key.startswith(f"{folder}/{topic}/")]
    objects = {key: [canonical(row) for row in (rows_of or bucket.rows)(key)] for key in keys}
    found = Reconciliation(records=sum(map(len, objects.values())))
    _compare_records(found, due, objects)
    _compare_log(found, bucket.entries(sink), topic, due=due, objects=objects)
    last = {partition: offset for partition, offset in sorted(kafka)}
    frontier = _frontier(bucket.entries(sink), topic)
    found.unread = {p: offset for p, offset in last.items() if frontier.get(p, 0) <= offset}
    return found


def assert_nothing_missing_nothing_twice(
    bucket: Bucket, servers: str, topic: str, *, partitions: int, sink: str, records: int
) -> None:
    """The usual verdict over JSON records; `records` says how many there must be, so that an empty topic does not pass."""
    found = reconcile(bucket, servers, topic, partitions=partitions, sink=sink)
    assert found.wrong == {}
    assert found.records == records


def canonical(value: Any) -> str:
    """A text that is the same for the same value."""
    return json.dumps(value, sort_keys=True, default=str)


def committed_records(servers: str, topic: str, partitions: int) -> dict[Place, bytes | None]:
    """Every record of a topic that a reader of committed records sees; gaps of transactions and compaction are no matter."""
    settings = {
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 20,
    }
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reconciliation", **settings})
    found: dict[Place, bytes | None] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(10)
            assert message is not None, f"{topic} could not be read to its end"
            if message.error() is None:
                found[message.partition(), message.offset()] = message.value()
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    finally:
        consumer.close()
    return found


def _compare_records(found: Reconciliation, due: Mapping[Place, str], objects: Mapping[str, list[str]]) -> None:
    wanted, there = Counter(due.values()), Counter(row for rows in objects.values() for row in rows)
    found.missing = sorted((wanted - there).elements())
    surplus = there - wanted
    found.twice = sorted(value for value in surplus if value in wanted)
    found.foreign = sorted(value for value in surplus if value not in wanted)


def _compare_log(
    found: Reconciliation,
    entries: list[dict[str, Any]],
    topic: str,
    *,
    due: Mapping[Place, str],
    objects: Mapping[str, list[str]],
) -> None:
    files = {file["key"]: file for entry in entries for file in entry["files"] if file["topic"] == topic}
    files = {key: file for key, file in files.items() if file["role"] == "value"}
    found.absent = sorted(files.keys() - objects.keys())
    found.uncounted = sorted(objects.keys() - files.keys())
    for key in files.keys() & objects.keys():
        file, rows = files[key], objects[key]
        inside = {due.get((file["partition"], o)) for o in range(file["first_offset"], file["last_offset"] + 1)}
        if len(rows) != file["records"] or not inside.issuperset(rows):
            found.miscounted.append(key)
    versions = [entry["version"] for entry in entries]
    found.gaps = sorted(set(range(len(versions))) ^ set(versions))


def _frontier(entries: list[dict[str, Any]], topic: str) -> dict[int, int]:
    frontier: dict[int, int] = {}
    for entry in entries:
        frontier |= {int(partition): offset for partition, offset in entry["frontier"].get(topic, {}).items()}
    return frontier
