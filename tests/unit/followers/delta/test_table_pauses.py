"""When a table that does not follow is tried again: beside the others, which go on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.follower import PATIENCE_MS, EntryFiles, FollowingTables
from kafka_s3.model.errors import TableError, TableRefused, TableUnavailable
from kafka_s3.model.offsets import TopicPartition
from tests.support.memory_world import ORDERS, World

ITEMS = TopicPartition("items", 0)


@dataclass
class Writer:
    """Takes entries of all topics but one."""

    error: TableError
    now_ms: int = 0
    tries: list[int] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    def begin(self, topics: Sequence[str]) -> None:
        pass

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        if topic == "orders":
            self.tries.append(self.now_ms)
            raise self.error
        self.taken += [topic] * len(entries)


def run(writer: Writer, *, polls: int, every_ms: int) -> list[int]:
    """Commit an entry of both topics now and then, call the follower at each poll, and return the pauses between tries of `orders`."""
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}
    world = World({"flush.size": "1", "topics": "orders,items", **parquet}, topics=(ORDERS, ITEMS))
    tables = FollowingTables("tables", writer, world.store, key="followers/tables", clock_ms=lambda: writer.now_ms)
    world.start()
    for number in range(polls):
        if number % 100 == 0:
            world.add([number], tp=ORDERS)
            world.add([number], tp=ITEMS)
            world.sink.poll_and_commit()
        if number % 100 == 0 or tables.due:
            log = world.log()
            log.load()
            with suppress(TableError):
                tables.catch_up(log)
        writer.now_ms += every_ms
    return [after - before for before, after in zip(writer.tries, writer.tries[1:], strict=False)]


def test_a_table_that_does_not_answer_is_tried_at_once_and_then_after_pauses_up_to_a_minute() -> None:
    writer = Writer(TableUnavailable("no answer"))
    pauses = run(writer, polls=300, every_ms=1_000)
    assert pauses[0] == 1_000
    assert 10_000 < max(pauses) <= 60_000
    assert len(writer.tries) < 20
    assert writer.taken == ["items"] * 3


def test_a_table_that_refuses_is_tried_once_a_minute() -> None:
    writer = Writer(TableRefused("has constraints"))
    assert set(run(writer, polls=300, every_ms=1_000)) == {PATIENCE_MS}
    assert writer.taken == ["items"] * 3
