"""State tables hold the newest value of every key, whoever dies, repeats, is overtaken or comes late.

Spark's part is played by tables in memory; tests/services/state has the same records on delta-spark.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from rich.table import Table

from kafka_s3.cli.status import states_detail, states_document
from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.followers.state import (
    ABANDONED_MS,
    COUNT_EVERY_MS,
    NOTE_EVERY,
    StateMerger,
    StateNote,
    StateNotes,
    state_notes,
)
from kafka_s3.model.errors import ConfigError, StorageError, TableError, TableRefused, TableUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import join_observers
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.reach import unreached
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.run.metrics.sink_metrics import SinkMetrics
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import state_merger
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import START_MS, World
from tests.support.rewriting import ask_for_compaction
from tests.support.state_world import STATE, KeyedRecord, MemoryStates, StateModel, partition_of, random_records
from tests.support.verifying import MemoryCluster

PARTITIONS = [TopicPartition("orders", n) for n in range(3)]
STEPS = (
    "read", "deletions held", "before deletions", "after deletions", "before merge", "after merge", "before replace", "deletions replaced",
    "after replace",
)  # fmt: skip


class StateWorld(World):
    """A sink in memory with a state table, which a merger of its own brings up to date."""

    def __init__(self, **config: str) -> None:
        super().__init__({"flush.size": "3", "name": "orders", **STATE, **config}, topics=PARTITIONS)
        self.tables = MemoryStates(self.log)
        self.model = StateModel(by_time=self.settings.text("state.order.by") == "at")
        self.warnings: list[str] = []
        self.start_again()

    def start_again(self, observer: object = None) -> None:
        """The next driver."""
        self.sink = build_sink(
            self.settings,
            self.kafka,
            source=self.kafka,
            store=self.store,
            clock_ms=lambda: self.now,
            observer=join_observers(observer),
            states=self.tables,
        )
        self.sink.open()

    def merger(self, tables: MemoryStates | None = None) -> StateMerger:
        return state_merger(
            self.settings, self.store, tables or self.tables, clock_ms=lambda: self.now, warn=self.warnings.append
        )

    def take(self, *records: KeyedRecord) -> None:
        """Produces and commits them; files that are not full stay open."""
        for record in records:
            tp = partition_of(record)
            offset = len(self.kafka.records[tp])
            self.kafka.add(tp, MemoryRecord(offset, START_MS, record.key.encode(), record.value()))
            self.model.add(record, offset)
        self.sink.poll_and_commit()

    def flush(self) -> None:
        """Fills every file, with records of a key that no other test record has."""
        for tp in PARTITIONS:
            fill = (KeyedRecord(f"fill{tp.partition}", tp.partition, n, None, False) for n in range(3))
            self.take(*fill)

    def advance(self, by: StateMerger | None = None) -> None:
        log = self.log()
        log.load()
        (by or self.merger()).advance("orders", log)

    def rebuild(self, by: StateMerger | None = None) -> None:
        log = self.log()
        log.load()
        (by or self.merger()).rebuild("orders", log)

    def committed(self) -> dict[str, int]:
        """What the model says of the records that are committed by now."""
        frontier = self.log().load().frontier
        known = [(one, offset) for one, offset in self.model.records if offset < frontier.get(partition_of(one), 0)]
        return StateModel(self.model.by_time, known).rows()

    def rows(self) -> dict[str, int]:
        return self.tables.numbers("main.orders")


QUICK = 20
"""Runs beside every change; the others are for the nightly run."""


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n < QUICK else pytest.mark.nightly) for n in range(240)])
def test_a_table_holds_the_newest_value_of_every_key(seed: int) -> None:
    random, numbers = Random(seed), itertools.count()
    moving = seed % 2 == 0
    world = StateWorld(**({"state.order.by": "at"} if seed % 4 == 0 else {}))
    drivers = [world.merger(), world.merger(world.tables.beside())]
    for _ in range(random.randrange(3, 7)):
        records = random_records(random, count=random.randrange(1, 12), numbers=numbers, partitions=3, moving=moving)
        world.take(*records)
        for _ in range(random.randrange(3)):
            disturbed(world, random, random.sample(drivers, 2))
    world.flush()
    world.tables.step = lambda _: None
    world.now += ABANDONED_MS
    world.advance()
    assert world.rows() == world.committed()
    before = world.rows()
    world.advance()
    world.rebuild()
    assert world.rows() == before


def disturbed(world: StateWorld, random: Random, drivers: list[StateMerger]) -> None:
    """A merge or a rebuild that dies somewhere, or stands still while another driver does its work."""
    where, other = random.choice(STEPS), random.choice(("dies", "is overtaken", "goes on"))
    done: list[str] = []

    def step(at: str) -> None:
        if at != where or done:
            return
        done.append(at)
        if other == "dies":
            raise Died
        if other == "is overtaken":
            attempted(drivers[1], random.choice((world.advance, world.advance, world.rebuild)))

    world.tables.step = step
    attempted(drivers[0], world.rebuild if random.random() < 0.15 else world.advance)
    world.now += random.choice((0, 1000, ABANDONED_MS))


def attempted(driver: StateMerger, work: Callable[[StateMerger], None]) -> None:
    with suppress(Died, TableError):
        work(driver)


def record(
    key: str, number: int = 0, *, at: int | None = None, deleted: bool = False, partition: int = 0
) -> KeyedRecord:
    return KeyedRecord(key, partition, number, at, deleted)


def test_an_older_record_that_comes_late_does_not_raise_the_dead_until_the_retention_is_over() -> None:
    world = StateWorld(**{"state.order.by": "at", "flush.size": "1", "state.delete.retention.ms": "1000"})
    world.take(record("a", 1, at=5))
    world.advance()
    world.take(record("a", 2, at=7, deleted=True))
    world.advance()
    assert world.rows() == {}
    world.take(record("a", 3, at=6, partition=1))
    world.advance()
    assert world.rows() == {}, "it is older than the deletion"
    world.now += 2000
    world.take(record("b", 4, deleted=True))  # what is remembered is looked through with a deletion
    world.advance()
    world.take(record("a", 5, at=6, partition=1))
    world.advance()
    assert world.rows() == {"a": 5}


def test_a_driver_that_was_overtaken_looks_up_deletions_again() -> None:
    world = StateWorld(**{"flush.size": "1"})
    driver, other = world.merger(), world.merger(world.tables.beside())
    world.take(*(record(f"fill{n}", partition=1) for n in range(10)))
    for number in range(3):
        world.take(record("b", number))
        world.advance(driver)
    done: list[str] = []

    def overtake(at: str) -> None:
        if at == "before merge" and not done:
            done.append(at)
            world.take(record("a", 4, deleted=True, partition=1))
            world.advance(other)

    world.tables.step = overtake
    world.take(record("b", 3))
    world.advance(driver)
    assert done
    world.take(record("a", 5))  # its offset is smaller than that of the deletion
    world.advance(driver)
    assert "a" not in world.rows()
    assert world.rows() == world.committed()


def test_whoever_follows_a_process_that_held_deletions_merges_again_from_where_they_are_noted() -> None:
    world = StateWorld(**{"flush.size": "1", **TOLERANT})
    world.take(*(record(f"fill{n}", partition=1) for n in range(20)))
    driver, gone = world.merger(), world.tables.tables

    def merged(*records: KeyedRecord) -> StateNote:
        world.take(*records)
        world.advance(driver)
        return noted(world)

    for number in range(2):
        merged(record("b", number))
    through = merged(record("b", 2)).position
    assert merged(record("a", 3, deleted=True, partition=1)).noted == through
    world.kafka.add(PARTITIONS[2], MemoryRecord(0, START_MS, b"c", b"{broken"))
    assert merged().noted == through < noted(world).position, "an entry with nothing but a dead letter"
    for number in range(NOTE_EVERY - 2):
        assert (merged(record("b", 4 + number)).noted, gone["main.orders"].deleted) == (through, {})
    assert merged(record("b", 20)).deletions is None
    assert set(gone["main.orders"].deleted) == {"a"}

    through = noted(world).position
    merged(record("d", 21, deleted=True, partition=1))
    world.take(record("d", 22))  # its offset is smaller than that of the deletion
    world.advance()  # by somebody else
    assert world.rows() == world.committed()
    assert (noted(world).deletions, set(gone["main.orders"].deleted)) == (None, {"a", "d"})


def test_a_table_that_is_dropped_is_made_again_and_one_with_rows_of_others_is_refused() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1), record("b", 2))
    world.advance()
    world.tables.tables.clear()
    world.advance()
    assert world.rows() == {"a": 1, "b": 2}
    world.store.delete(world.merger().notes._key("orders"))
    with pytest.raises(TableRefused, match=r"main.orders has rows already.*kafka-s3 state rebuild"):
        world.advance()
    world.rebuild()
    assert world.rows() == {"a": 1, "b": 2}


def test_other_rules_ask_for_a_rebuild_and_a_topic_that_was_made_again_is_rebuilt() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1))
    world.advance()
    merger, log = world.merger(), world.log()
    log.load()
    log.state.topic_ids["orders"] = "another"
    note = merger.notes.read("orders")
    assert note is not None
    merger.notes.put("orders", type(note)(**{**_members(note), "topic_id": "one"}))
    assert merger.advance("orders", log).rebuilt
    note = merger.notes.read("orders")
    assert note is not None
    merger.notes.put("orders", type(note)(**{**_members(note), "rules": "state.key=id"}))
    with pytest.raises(TableRefused, match=r"was made with state.key=id; now it is state.key=record key.*rebuild"):
        world.advance()
    world.rebuild()
    world.advance()


def _members(note: Any) -> dict[str, Any]:
    return {name: getattr(note, name) for name in note.__slots__}


def test_records_without_a_key_hold_the_table_or_are_left_out_with_a_warning() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.kafka.add(PARTITIONS[0], MemoryRecord(0, START_MS, None, b'{"n":1}'))
    world.take(record("a", 2, partition=1))
    with pytest.raises(
        TableRefused, match=r"1 records of orders have no record key, for example partition 0 offset 0. Name a key"
    ):
        world.advance()
    tolerant = StateWorld(**{"flush.size": "1", "errors.tolerance": "all"})
    tolerant.kafka.add(PARTITIONS[0], MemoryRecord(0, START_MS, None, b'{"n":1}'))
    tolerant.take(record("a", 2, partition=1))
    tolerant.advance()
    assert tolerant.rows() == {"a": 2}
    assert "they are left out" in tolerant.warnings[0]


def test_a_rebuild_that_died_is_waited_for_and_then_begun_again() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1))

    def die(at: str) -> None:
        if at == "deletions replaced":
            raise Died

    world.tables.step = die
    attempted(world.merger(), world.advance)
    world.tables.step = lambda _: None
    with pytest.raises(TableRefused, match=r"main.orders is being rebuilt since 2024-01-15T10:00:00"):
        world.advance()
    world.now += ABANDONED_MS
    world.advance()
    assert world.rows() == {"a": 1}


def test_a_merge_of_a_table_that_was_rebuilt_meanwhile_notes_nothing() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1))
    world.advance()
    world.take(record("a", 2))
    done: list[str] = []

    def overtake(at: str) -> None:
        if at == "after merge" and not done:
            done.append(at)
            world.rebuild()

    world.tables.step = overtake
    with pytest.raises(TableUnavailable, match="was rebuilt by somebody else meanwhile"):
        world.advance()
    world.advance()
    assert world.rows() == {"a": 2}


def test_tombstones_of_values_with_schemas_are_deletions_too() -> None:
    with_schemas = {"value.converter.schemas.enable": "true", "value.schema.inference": "false"}
    world = StateWorld(**{"flush.size": "3", **with_schemas})
    fields = [{"field": "n", "type": "int64", "optional": False}]
    schema = {"type": "struct", "name": "shop.Order", "optional": False, "fields": fields}
    values = [json.dumps({"schema": schema, "payload": {"n": n}}).encode() for n in range(4)]
    for offset, (key, value) in enumerate(
        [(b"a", values[0]), (b"b", values[1]), (b"a", None), *[(b"c", values[3])] * 3]
    ):
        world.kafka.add(PARTITIONS[0], MemoryRecord(offset, START_MS, key, value))
    world.sink.poll_and_commit()
    world.advance()
    assert world.rows() == {"b": 1, "c": 3}


GRACE_MS = 3_600_000


def rewritten(world: StateWorld) -> None:
    """The sink does what it was asked for, and deletes the originals when their time is over."""
    for _ in range(3):
        world.now += GRACE_MS
        world.sink.rewrites.notice(str(world.now))
        world.sink.poll_and_commit()


def test_what_is_erased_leaves_the_table_and_what_is_left_of_its_key_comes_back() -> None:
    world = StateWorld(**{"flush.size": "1", "rewrite.grace.ms": str(GRACE_MS)})
    world.take(record("a", 1), record("b", 2))
    world.advance()
    world.take(record("a", 3), record("c", 4))
    world.advance()
    subjects, broker = subjects_of(None, "n = 3", None), MemoryCluster(world.kafka)
    work = Forgetting(world.settings, world.store, subjects, lambda: world.now, pytest.fail, broker)
    for request in work.requests(work.search()):
        ask_for_rewrite(world.store, work.log.paths, request)
    rewritten(world)
    places = unreached(world.settings, work.search(), topics=["orders"], now_ms=world.now)
    assert [one.commands for one in places if "State tables, main.${topic}" in one.text] == [
        ("kafka-s3 state rebuild orders",)
    ]
    world.advance()
    assert world.rows() == {"a": 1, "b": 2, "c": 4}
    assert noted(world).changes_a_minute is None, "it was rebuilt"


@pytest.mark.parametrize("retried", [False, True])
def test_a_merge_that_read_what_is_erased_meanwhile_does_not_bring_it_back(retried: bool) -> None:
    """Another driver rebuilds the table before this one's merge, or between two tries of it."""
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1))
    world.advance()
    world.take(record("a", 3))
    done: list[str] = []

    def overtake(at: str) -> None:
        if at == ("before merge" if retried else "read") and not done:
            done.append(at)
            world.rebuild()
            world.tables.tables["main.orders"].rows.pop("a")  # the rebuild found the record erased
            if retried:
                raise TableUnavailable("The table was changed by another writer meanwhile.")

    world.tables.step = overtake
    with pytest.raises(TableUnavailable, match="was rebuilt by somebody else meanwhile"):
        world.advance()
    assert world.rows() == {}


def test_a_table_that_lags_behind_a_compaction_reads_what_it_has_once_more() -> None:
    world = StateWorld(**{"flush.size": "1", "rewrite.grace.ms": str(GRACE_MS)})
    world.take(record("a", 1), record("b", 2))
    world.advance()
    world.take(record("a", 3), record("b", 4, deleted=True))
    assert ask_for_compaction(world, world.store)
    rewritten(world)
    world.advance()
    assert world.rows() == {"a": 3}
    assert noted(world).changed == 2


def test_a_sink_merges_by_time_or_after_so_many_entries() -> None:
    world = running({"state.interval.ms": "60000", "state.interval.entries": "3"})
    world.take(record("a", 1))
    assert not world.tables.tables
    world.now += 60_000
    world.sink.poll_and_commit()
    assert world.rows() == {"a": 1}
    world.take(record("a", 2))
    assert world.rows() == {"a": 1}
    for n in (3, 4):
        world.take(record("a", n))
    assert world.rows() == {"a": 4}


@pytest.mark.parametrize("error", [TableRefused("no"), ValueError("no"), OSError("the JVM is gone")])
def test_a_table_in_trouble_does_not_stop_the_sink_and_follows_when_it_can(error: Exception) -> None:
    world = running({"state.interval.ms": "0"})
    world.take(record("a", 1))

    def refuse(at: str) -> None:
        raise error

    world.tables.step = refuse
    world.take(record("a", 2))
    assert [text for text in world.sink.followers.problems if "the state of orders does not follow" in text]
    world.take(record("a", 3))
    assert world.frontier(PARTITIONS[0]) == 3
    world.tables.step = lambda _: None
    world.now += 60_000
    world.take(record("a", 4))
    assert world.rows() == {"a": 4}
    assert not world.sink.followers.problems


def test_how_far_tables_are_and_since_when_they_lack_an_entry_are_metrics() -> None:
    world = running({"state.interval.ms": "60000"})
    metrics = SinkMetrics("orders", clock_ms=lambda: world.now)
    world.start_again(metrics)

    def gauges() -> dict[str, float]:
        name = "kafka_s3_state_"
        found = (one for one in metrics.samples() if one.instrument.name.startswith(name))
        return {
            one.instrument.name.removeprefix(name): one.value for one in found if isinstance(one.value, float | int)
        }

    world.take(record("a", 1), record("b", 2))
    world.now += 60_000
    world.sink.poll_and_commit()
    first = world.now
    whole = {"keys": 2, "changes_per_minute": 0, "last_merge_timestamp_seconds": first / 1000, "waiting_seconds": 0}
    assert gauges() == {"complete_through_entry": noted(world).position, **whole}
    world.now += 30_000
    world.take(record("a", 3))
    world.now += 20_000
    assert gauges()["waiting_seconds"] == 20
    world.now += 10_000
    world.sink.poll_and_commit()
    assert gauges() == {
        "complete_through_entry": noted(world).position, "keys": 2, "changes_per_minute": 1,
        "last_merge_timestamp_seconds": world.now / 1000, "waiting_seconds": 0,
    }  # fmt: skip


def noted(world: StateWorld) -> StateNote:
    [found] = state_notes(world.store, state_paths(world.settings)).values()
    assert isinstance(found, StateNote)
    return found


def test_rows_are_counted_where_the_merges_of_this_process_do_not_tell_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = StateWorld(**{"flush.size": "1"})
    keeper, log = world.merger(), world.log()
    counted: list[int] = []

    def count(name: TableName) -> int:
        counted.append(len(world.tables.tables[str(name)].rows))
        return counted[-1]

    monkeypatch.setattr(world.tables, "count", count)

    def merged(*records: KeyedRecord, by: StateMerger = keeper) -> int | None:
        world.take(*records)
        log.load()
        with suppress(StorageError):
            by.advance("orders", log)
        return noted(world).rows

    assert (merged(record("a", 1), record("b", 2)), merged(record("a", 3)), counted) == (2, 2, [2])
    assert (merged(record("c", 4)), merged(record("a", 5, deleted=True)), len(counted)) == (3, 2, 1)
    with monkeypatch.context() as patch:
        patch.setattr(StateNotes, "put", refuse)
        assert merged(record("d", 6)) == 2, "merged, and not noted"
    assert (merged(record("e", 7)), len(counted)) == (4, 2)
    assert (merged(record("f", 8), by=world.merger()), len(counted)) == (5, 3)
    assert (merged(record("g", 9)), len(counted)) == (6, 4), "another process had merged"
    world.tables.tables["main.orders"].rows.pop("g")
    assert (merged(record("h", 10)), len(counted)) == (7, 4), "somebody deletes a row"
    world.now += COUNT_EVERY_MS
    assert (merged(record("i", 11)), len(counted)) == (7, 5)


def refuse(*_: object) -> None:
    raise StorageError("The bucket is away.")


def test_what_is_noted_says_keys_and_changes_a_minute_without_the_configuration() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1), record("b", 2))
    world.advance()
    assert (noted(world).name, noted(world).rows, noted(world).changes_a_minute) == ("main.orders", 2, None)
    world.now += 30_000
    world.take(record("a", 3), record("b", 4, deleted=True), record("c", 5, deleted=True))
    world.advance()
    note = noted(world)
    assert (note.rows, note.changes_a_minute, note.position) == (1, 6.0, world.log().load().version)
    [shown] = states_document({"orders": note})
    assert (shown["complete_through"], shown["keys"], shown["held"]) == (note.position, 1, None)
    [table] = states_detail({"orders": replace(note, rebuilding=True)}, world.now + 60_000)
    assert isinstance(table, Table)
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells[2:] == [f"entry {note.position}", "1", "6.0", "being rebuilt, since 1 min ago"]
    [why, _] = states_detail({"orders": replace(note, why="no merge", since_ms=world.now)}, world.now)
    assert "does not follow since" in str(why)


def test_a_note_that_cannot_be_read_is_named_and_status_shows_the_rest() -> None:
    world = StateWorld(**{"flush.size": "1"})
    world.take(record("a", 1))
    world.advance()
    [key] = [one.key for one in world.store.list(state_paths(world.settings).root) if "followers/state-" in one.key]
    world.store.put(key, b"no JSON")
    found = state_notes(world.store, state_paths(world.settings))
    [text] = states_detail(found, world.now)
    assert "How far the state of orders has come cannot be read" in str(text)
    assert "orders" in str(states_document(found))


def running(config: dict[str, str]) -> StateWorld:
    """A world whose sink keeps the table itself."""
    return StateWorld(**{"flush.size": "1", "state.run.on": "sink", **config})


def test_a_sink_that_keeps_tables_without_spark_says_what_to_do() -> None:
    world = running({})
    with pytest.raises(ConfigError, match=r"state.run.on .'sink'.: needs a Spark that knows Delta.*state.run.on=job"):
        build_sink(world.settings, world.kafka, source=world.kafka, store=world.store, clock_ms=lambda: world.now)
