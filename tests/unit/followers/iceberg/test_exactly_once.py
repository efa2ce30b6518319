"""Is every record in the Iceberg table once, whoever dies, loses an answer or commits beside another driver?

Drivers take turns at their calls of the store and of the catalog's database; which one is next, and what becomes of its call, is drawn from
a seed. They share one catalog. In the end one driver works all off, and the table must hold what the log counts, record by record.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import Fenced
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from tests.support.deaths import Died
from tests.support.iceberg_world import IcebergWorld
from tests.support.interleaving import Fate, Interleaving, Process, closing
from tests.support.memory_world import START_MS
from tests.support.rewriting import ask_for_compaction

MOST_DRIVERS = 3
SEEDS = 4
COMPACTED_SEEDS = 2
NIGHTLY_SEEDS = 404
_turn = threading.local()


def _statement(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
    """Between the metadata file of a commit and its line in the database, others may commit."""
    process: Process | None = getattr(_turn, "process", None)
    if (
        process is None
        or "iceberg_tables" not in statement
        or statement.lstrip().upper().startswith(("SELECT", "CREATE", "PRAGMA"))
    ):
        return
    process.pause()
    if process._fate in (Fate.DIES_BEFORE, Fate.REFUSED):
        _strike(process, process._fate is Fate.DIES_BEFORE)
    _turn.written = True


def _committed(_: Session) -> None:
    """A commit whose answer is lost, or whose driver dies of it."""
    process: Process | None = getattr(_turn, "process", None)
    if process is None or not getattr(_turn, "written", False):
        return
    _turn.written = False
    if process._fate in (Fate.DIES_AFTER, Fate.ANSWER_LOST):
        _strike(process, process._fate is Fate.DIES_AFTER)


def _strike(process: Process, dies: bool) -> None:
    if dies:
        process.dead = True
        raise Died
    raise OperationalError("told to fail", None, Exception("told to fail"))


def _reading_footer(process: Process) -> bool:
    """Whether a driver has read its table's state, and is about to plan the next commit."""
    return bool(process.store.calls) and process.store.calls[-1][0] == "get_range"


@pytest.fixture(autouse=True)
def _turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for where in ("engine.log.log.PUBLISH_THREADS", "followers.delta.planner.THREADS", "followers.delta.guard.THREADS",
        "followers.delta.follower.THREADS", "engine.loop.rewrites.THREADS", "followers.compaction.FETCHES",
    ):  # fmt: skip
        monkeypatch.setattr(f"kafka_s3.{where}", 1)
    event.listen(Engine, "before_cursor_execute", _statement)
    event.listen(Session, "after_commit", _committed)
    yield
    event.remove(Engine, "before_cursor_execute", _statement)
    event.remove(Session, "after_commit", _committed)


class Case:
    """What happens under one seed, and what must be true afterwards."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.run = Interleaving(seed, mishap=0.0)
        self.world = IcebergWorld(folder, flush__size="3")
        self.sent = 0
        self.drivers: list[Process] = []

    def play(self) -> None:
        draw = self.run.draw
        with closing(self.run):
            self.run.mishap = draw.choice([0.0, 0.01, 0.03, 0.06])
            self._records()
            self._driver()
            for _ in range(draw.randint(6, 14)):
                for _ in range(draw.choice([1, 5, 20, 60])):
                    self.run.one_turn()
                events = [self._records, self._records, self._time, self._overtaken, self._overtaken, self._driver]
                draw.choice([*events, self._kill])()
            self.run.mishap = 0.0
            self._drained()
            self.run.to_the_end()
            assert self.run.unexpected() == []
        self._judge()

    def _records(self) -> None:
        more = self.run.draw.randint(1, 9)
        later = {"later": 1} if self.run.draw.random() < 0.3 else {}
        self.world.add(*({"n": n, **later} for n in range(self.sent, self.sent + more)))
        self.sent += more

    def _time(self) -> None:
        self.world.now += 61_000

    def _kill(self) -> None:
        if living := self.run.living():
            self.run.draw.choice(living).die()

    def _overtaken(self) -> None:
        """One driver sleeps wherever it is, most often on its way into the table, while another takes over and goes far."""
        self._records()
        sleeper = self._driver()
        while not sleeper.ended and not _reading_footer(sleeper):
            sleeper.turn()
        for _ in range(self.run.draw.randint(0, 8)):
            if not sleeper.ended:
                sleeper.turn()
        driver = self._driver()
        for _ in range(self.run.draw.choice([60, 120, 240])):
            if not driver.ended:
                driver.turn()

    def _driver(self, *, last: bool = False) -> Process:
        running = [driver for driver in self.drivers if not driver.ended]
        if len(running) >= MOST_DRIVERS and not last:
            self.run.draw.choice(running).die()

        def work(process: Process) -> None:
            _turn.process = process
            sink = self._sink(process)
            sink.open()
            for _ in range(10):
                sink.poll_and_commit()
                process.pause()
            if last:
                self.world.now += 61_000
                sink.poll()
                sink.drain(close=Reason.FLUSH_NOW)

        process = self.run.start(self.world.store, work)
        self.drivers.append(process)
        return process

    def _sink(self, process: Process) -> Sink:
        world = self.world
        pipeline = replace(make_pipeline(world.settings), threads=1)
        kafka = replace(world.kafka, store=process.store, pipeline=lambda: pipeline)
        return build_sink(world.settings, kafka, source=kafka, store=process.store, clock_ms=lambda: world.now)

    def _drained(self) -> None:
        for _ in range(MOST_DRIVERS + 2):
            last = self._driver(last=True)
            self.run.until(lambda: last.ended)  # noqa: B023 - called at once
            if not isinstance(last.error, Fenced):
                break
        assert last.error is None, last.error

    def _judge(self) -> None:
        assert isinstance(self.world.store, MemoryStore)
        files = live_objects(self.world.log().entries())
        assert Counter(row["n"] for row in self.world.rows()) == Counter(range(self.sent))
        assert self.world.log().load().totals.written == self.sent
        held = [task.file.file_path for task in self.world.table().scan().plan_files()]
        assert sorted(held) == sorted(f"s3://bucket/{key}" for key in files)
        entries = [
            int(one.summary.additional_properties["kafka-s3.entry"])
            for one in self.world.table().metadata.snapshots
            if one.summary is not None
        ]
        assert entries == sorted(set(entries)), "an entry came twice, or out of order"


class CompactedCase(Case):
    """As that; somebody compacts meanwhile, and originals are deleted soon."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.world.configure(rewrite__grace__ms="30000")

    def _time(self) -> None:
        super()._time()
        target = self.run.draw.choice([700, 1100, 1 << 20])  # large ones are refused where files have other columns

        def ask(process: Process) -> None:
            ask_for_compaction(self.world, process.store, target=target)

        self.run.start(self.world.store, ask)

    def _drained(self) -> None:
        for _ in range(3):
            self._time()
            super()._drained()
        self._time()
        self.run.to_the_end()
        for _ in range(3):
            super()._drained()

    def _judge(self) -> None:
        super()._judge()
        assert isinstance(self.world.store, MemoryStore)
        there = {f"s3://bucket/{key}" for key in self.world.store.objects if key.endswith(".parquet")}
        held = {task.file.file_path for task in self.world.table().scan().plan_files()}
        assert held <= there
        assert self.world.log().load().replaced == {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_interleaving_of_drivers_puts_a_record_into_the_table_twice_or_not_at_all(seed: int, tmp_path: Path) -> None:
    Case(seed, tmp_path).play()


@pytest.mark.parametrize("seed", range(COMPACTED_SEEDS))
def test_no_interleaving_of_drivers_and_compactions_does(seed: int, tmp_path: Path) -> None:
    CompactedCase(seed, tmp_path).play()


def test_schedules_of_compactions_do_swap(tmp_path: Path) -> None:
    case = CompactedCase(1, tmp_path)
    case.play()
    swaps = [snapshot for snapshot in case.world.table().metadata.snapshots if _operation(snapshot) == "replace"]
    assert len(swaps) > 1


def _operation(snapshot: Snapshot) -> str:
    return "" if snapshot.summary is None else snapshot.summary.operation.value


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(SEEDS, NIGHTLY_SEEDS, 20))
def test_no_interleaving_of_many_more_does(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + 20, NIGHTLY_SEEDS)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (CompactedCase if seed % 2 else Case)(seed, folder).play()


def test_runs_begin_at_a_time_of_their_own(tmp_path: Path) -> None:
    """The clock of a table never goes back, also where the sink's is behind that of the catalog."""
    world = IcebergWorld(tmp_path)
    for n in range(0, 6, 2):
        world.add({"n": n}, {"n": n + 1})
        world.run()
    times = [one.timestamp_ms for one in world.table().metadata.snapshots]
    assert times == sorted(times)
    assert times[0] >= START_MS
