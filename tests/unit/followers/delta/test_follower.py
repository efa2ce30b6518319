"""A table that cannot follow holds neither the others nor the sink, whatever is the matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.follower import EntryFiles, FollowingTables
from kafka_s3.model.errors import TableError
from kafka_s3.model.offsets import TopicPartition
from tests.support.memory_world import START_MS, World

PARQUET = "io.confluent.connect.s3.format.parquet.ParquetFormat"


@dataclass
class Tables:
    """Notes the entries that each topic's table took; that of the `broken` topic raises what nobody foresaw."""

    broken: str
    taken: dict[str, list[int]] = field(default_factory=dict)

    def begin(self, topics: Sequence[str]) -> None:
        pass

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        if topic == self.broken:
            raise OverflowError("date value out of range")
        self.taken.setdefault(topic, []).extend(one.version for one in entries)


def test_an_unforeseen_error_holds_one_table_and_the_others_follow() -> None:
    topics = [TopicPartition("a", 0), TopicPartition("b", 0)]
    config = {"topics": "a,b", "flush.size": "1", "format.class": PARQUET, "value.schema.inference": "true"}
    world = World(config, topics=topics)
    world.start()
    for tp in topics:
        world.add([0], tp=tp)
    assert world.sink.poll_and_commit()
    tables = Tables("a")
    follower = FollowingTables("Tables", tables, world.store, key="positions", clock_ms=lambda: world.now)
    with pytest.raises(TableError, match="OverflowError, which is not an error of the product's own"):
        follower.catch_up(world.sink.log)
    assert tables.taken == {"b": [2]}
    assert [problem.partition(":")[0] for problem in follower.problems] == [
        "the table of a does not follow since 2024-01-15T10"
    ]

    tables.broken = ""
    world.now = START_MS + 60_000
    follower.catch_up(world.sink.log)
    assert (tables.taken, list(follower.problems)) == ({"b": [2], "a": [2]}, [])
