"""Tables that Spark writes get every record once, whoever dies, stalls or comes late; tables with names keep their registrations.

Spark's part is played by a catalog in memory, which leaves out repeated transactions; tests/services/spark has the same on delta-spark.
"""

from __future__ import annotations

import json

import pytest

from kafka_s3.connect.naming.table_names import TableName, TableNames, fault, normal_location
from kafka_s3.engine.log.dead_letters import LetterSelection
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.task.table_guard.columns import TableColumns
from kafka_s3.followers.delta.copying import Append
from kafka_s3.followers.progress import read_positions
from kafka_s3.model.errors import ConfigError, Fenced, RecordError, TableRefused, TableUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import iso_time
from kafka_s3.ops.replay import make_replay
from kafka_s3.run.wiring.delta import position_key
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore, Moment
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord, MemoryTables
from tests.support.deaths import Died, strikes
from tests.support.delta_world import PARQUET
from tests.support.memory_world import ORDERS, START_MS, settings_of
from tests.support.observers import Warnings
from tests.support.rewriting import ask_for_compaction

SPARK = {"delta.writer": "spark", "delta.table.name": "main.raw.${topic}"}
OTHER = TopicPartition("refunds", 0)


class CopyWorld:
    """A sink in memory, with tables in memory."""

    def __init__(self, **config: str) -> None:
        self.now = START_MS
        self.store = MemoryStore(lambda: self.now)
        self.tables = MemoryTables(self.store)
        self.config = {**PARQUET, **SPARK, **config}
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        self.kafka.create(ORDERS)
        self.configure()

    def configure(self, **config: str) -> None:
        self.config |= config
        self.settings = settings_of(self.config)

    def start(self, plan: tuple[Fault, ...] = ()) -> Sink:
        store = FaultyStore(self.store, plan)
        self.kafka.store = store
        self.warnings = Warnings()
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=store, clock_ms=lambda: self.now, observer=self.warnings,
            spark=self.tables,
        )  # fmt: skip
        self.sink.open()
        return self.sink

    def run(self, plan: tuple[Fault, ...] = ()) -> Sink:
        sink = self.start(plan)
        assert sink.poll_and_commit()
        return sink

    def add(self, *numbers: int, tp: TopicPartition = ORDERS, **more: object) -> None:
        self.kafka.create(tp)
        for n in numbers:
            value = json.dumps({"n": n, **more}).encode()
            self.kafka.add(tp, MemoryRecord(len(self.kafka.records[tp]), START_MS, None, value))

    def log_of_three_entries(self) -> None:
        """Written before there was a table."""
        self.configure(**{"delta.enable": "false"})
        for n in range(3):
            self.add(n)
            self.start()
            self.sink.poll_and_commit()
            self.sink.drain(close=Reason.FLUSH_NOW)
        self.configure(**{"delta.enable": "true"})

    def numbers(self, name: str = "main.raw.orders") -> list[int]:
        return [row["n"] for row in self.tables.tables[name].rows]

    def log_state(self) -> LogState:
        return CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now).load()

    def appends(self) -> list[Append]:
        return self.tables.tables["main.raw.orders"].appends


@pytest.fixture
def world() -> CopyWorld:
    return CopyWorld()


def test_the_log_of_before_is_one_append_and_each_later_entry_another(world: CopyWorld) -> None:
    world.log_of_three_entries()
    last = world.start().log.state.version
    world.add(3, 4)
    assert world.sink.poll_and_commit()
    world.add(5, 6)
    assert world.sink.poll_and_commit()
    assert world.numbers() == list(range(7))
    notes = [json.loads(append.note) for append in world.appends()]
    assert [note["offsets"] for note in notes] == [{"orders-0": [[a, b]]} for a, b in ((0, 2), (3, 4), (5, 6))]
    assert [append.position for append in world.appends()] == [last, last + 1, last + 2]
    assert {append.app for append in world.appends()} == {"kafka-s3-orders"}


STEPS, PLACE = "followers/delta-spark/", "followers/delta-spark-"


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize("lost", [False, True], ids=["", "and the places are lost"])
def test_whoever_dies_appends_nothing_twice(
    world: CopyWorld, batch: int, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_s3.followers.delta.follower.BATCH", batch)
    world.log_of_three_entries()

    def dying(_: Append) -> None:
        raise Died

    def die(*plan: Fault) -> None:
        with pytest.raises(Died):
            world.start(plan)
        if lost:
            for key in [key for key in world.store.objects if PLACE in key]:
                world.store.delete(key)

    die(strikes("put_new", STEPS, Moment.BEFORE))
    die(strikes("put_new", STEPS, Moment.AFTER))
    world.tables.before = dying
    die()
    world.tables.before, world.tables.after = lambda _: None, dying
    die()
    world.tables.after = lambda _: None
    die(strikes("put", STEPS, Moment.BEFORE))
    die(strikes("put", STEPS, Moment.AFTER))
    world.add(3, 4)
    with pytest.raises(Died):
        world.run((strikes("put", PLACE, Moment.BEFORE),))
    world.add(5, 6)
    world.run()
    assert world.numbers() == list(range(7))


def test_a_driver_that_stalls_appends_nothing_beside_its_successor(world: CopyWorld) -> None:
    world.log_of_three_entries()
    stalled: list[Append] = []

    def takeover(append: Append) -> None:
        """The successor takes what is there and more, while the first is about to append."""
        world.tables.before = lambda _: None
        stalled.append(append)
        world.add(3, 4)
        world.run()

    world.tables.before = takeover
    with pytest.raises(Fenced):
        world.start()
    assert [append.position for append in stalled] == [world.appends()[0].position]
    assert world.numbers() == list(range(5))


def test_where_another_writer_is_in_the_way_it_is_tried_again(world: CopyWorld) -> None:
    def once(_: Append) -> None:
        world.tables.before = lambda _: None
        raise TableUnavailable("another writer was in the way")

    world.tables.before = once
    world.add(0, 1)
    world.run()
    assert (world.numbers(), world.warnings.texts) == ([0, 1], [])


def test_a_table_that_refuses_catches_up_and_holds_up_no_other(world: CopyWorld) -> None:
    world.configure(topics="orders,refunds")
    world.kafka.create(OTHER)
    world.add(0, 1)
    world.run()
    world.tables.refuses = {"main.raw.orders"}
    world.add(2, 3)
    world.add(7, 8, tp=OTHER)
    assert world.sink.poll_and_commit()
    assert world.numbers("main.raw.refunds") == [7, 8]
    [warning] = world.warnings.texts
    assert warning.startswith("Delta tables: main.raw.orders refuses.")
    world.tables.refuses = set()
    world.now += 60_001
    world.add(4, 5)
    assert world.sink.poll_and_commit()
    assert world.numbers() == [0, 1, 2, 3, 4, 5]


def test_a_table_that_refuses_is_a_problem_with_why_and_since_when_until_it_has_caught_up(world: CopyWorld) -> None:
    """Between two tries nothing was warned of, and the sink was RUNNING, while half of the rows were missing."""
    since_ms = world.now
    key = position_key(world.settings)
    world.run()
    world.tables.refuses = {"main.raw.orders"}
    for minute in range(3):
        world.now = since_ms + minute * 30_000
        world.add(2 * minute, 2 * minute + 1)
        assert world.sink.poll_and_commit()
        (problem,) = world.sink.followers.problems
        assert problem.startswith(
            f"Delta tables: the table of orders does not follow since {iso_time(since_ms, 'seconds')}: main.raw.orders refuses."
        )
        noted = read_positions(world.store, key)
        assert noted.held["orders"].since_ms == since_ms
        assert noted.position_of("orders") == 1
    world.start()  # a restart knows since when
    assert read_positions(world.store, key).held["orders"].since_ms == since_ms
    world.tables.refuses = set()
    world.now += 60_001
    assert world.sink.poll_and_commit()
    assert world.sink.followers.problems == ()
    assert read_positions(world.store, key).held == {}


def test_a_table_that_was_dropped_is_made_again_from_the_whole_log(world: CopyWorld) -> None:
    world.add(0, 1)
    world.run()
    del world.tables.tables["main.raw.orders"]
    world.add(2, 3)
    assert world.sink.poll_and_commit()
    assert world.numbers() == [0, 1, 2, 3]


def test_a_table_with_entries_of_another_log_of_the_sink_is_refused(world: CopyWorld) -> None:
    world.add(0, 1)
    world.run()
    for key in [key for key in world.store.objects if STEPS in key or PLACE in key]:
        world.store.delete(key)
    world.start()
    [warning] = world.warnings.texts
    assert "main.raw.orders holds entries of sink orders already" in warning
    assert "Set another delta.table.name, or drop the table" in warning
    assert world.numbers() == [0, 1]


def test_another_name_is_another_table_with_the_whole_log(world: CopyWorld) -> None:
    world.add(0, 1)
    world.run()
    world.configure(**{"delta.table.name": "main.raw.others"})
    world.start()
    assert world.numbers("main.raw.others") == [0, 1]


def test_replayed_letters_keep_to_the_columns_that_were_noted(world: CopyWorld) -> None:
    world.configure(**{"errors.tolerance": "all", "flush.size": "1"})
    world.add(0)
    world.run()
    world.kafka.add(ORDERS, MemoryRecord(1, START_MS, None, b'{"n": "one"}'))
    assert world.sink.poll_and_commit()
    outcome, entry = make_replay(world.settings, world.store, clock_ms=lambda: world.now).run(LetterSelection())
    assert entry is None
    [letter] = outcome.failed
    assert letter.message == "The table cannot hold the value: column n is text, in the table long."


def test_new_columns_stop_the_sink_until_the_table_has_them(world: CopyWorld) -> None:
    world.configure(**{"delta.schema.evolution.mode": "failOnNewColumns"})
    world.add(0, 1)
    world.run()
    world.add(2, 3, more="a")
    with pytest.raises(RecordError, match=r"ALTER TABLE `main`\.`raw`\.`orders` ADD COLUMNS"):
        world.sink.poll_and_commit()
    table = world.tables.tables["main.raw.orders"]
    table.columns = TableColumns({**table.columns.fields, **TableColumns.of({"more": "string"}).fields})
    world.run()
    assert [row.get("more") for row in table.rows] == [None, None, "a", "a"]


def test_without_spark_such_tables_are_refused_at_the_start(world: CopyWorld) -> None:
    world.tables = None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"delta\.writer .*needs a Spark that knows Delta"):
        world.start()


def test_two_topics_never_share_a_name() -> None:
    names = TableNames("main.raw.t_${topic}")
    assert names.of("a.b-c") == TableName(("main", "raw", "t_a_b_c"))
    assert names.of("a.b-c").sql == "`main`.`raw`.`t_a_b_c`"
    with pytest.raises(TableRefused, match=r"Topics a\.b-c and A_b_c would share the table main\.raw\.t_A_b_c"):
        names.of("A_b_c")


def test_a_quote_in_a_name_is_data() -> None:
    assert TableName(("a`b", "c; DROP TABLE d")).sql == "`a``b`.`c; DROP TABLE d`"


@pytest.mark.parametrize("name", ["orders", "a.b.c.d", "a..b", "a b.c", "a.b/c", "a.`b`", "main.${env}.x", "main.raw."])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert fault(name)


@pytest.mark.parametrize(
    ("one", "same"),
    [("s3://b/a b/c/", "s3a://b/a%20b/c"), ("file:/tmp/x", "file:///tmp/x"), ("dbfs:/x", "dbfs:/x/")],
)
def test_locations_are_compared_whatever_their_spelling(one: str, same: str) -> None:
    assert normal_location(one) == normal_location(same)
    assert normal_location(one) != normal_location(same + "2")


def test_a_compaction_appends_nothing_and_its_originals_wait_for_the_copy() -> None:
    world = CopyWorld(**{"rewrite.grace.ms": "1000"})
    world.start()
    for n in range(0, 6, 2):
        world.add(n, n + 1)
        assert world.sink.poll_and_commit()
    ask_for_compaction(world, world.store)
    world.sink.rewrites.look()
    assert world.sink.poll_and_commit()
    appended = len(world.appends())
    world.now += 61_000
    assert world.sink.poll_and_commit()
    world.add(6, 7)
    assert world.sink.poll_and_commit()
    assert world.numbers() == list(range(8))
    assert len(world.appends()) == appended + 1
    assert world.log_state().replaced == {}


def test_a_copy_that_is_begun_behind_a_compaction_reads_what_took_the_place_of_others() -> None:
    world = CopyWorld(**{"rewrite.grace.ms": "1000", "delta.enable": "false"})
    world.start()
    for n in range(0, 6, 2):
        world.add(n, n + 1)
        assert world.sink.poll_and_commit()
    ask_for_compaction(world, world.store)
    world.sink.rewrites.look()
    assert world.sink.poll_and_commit()
    world.now += 61_000
    assert world.sink.poll_and_commit()
    assert world.log_state().replaced == {}
    world.configure(**{"delta.enable": "true"})
    world.add(6, 7)
    world.run()
    assert sorted(world.numbers()) == list(range(8))
    assert world.warnings.texts == []
