"""Drivers, their tasks and those of their predecessors that still run take turns at every store call, and die, and get no answer.

Each seed is one interleaving of the real driver, task and commit code over a store in memory: open files that are kept between rounds,
their states deleted, damaged and overtaken, task attempts that were given up and go on, sweeps in between, another configuration.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.dead_letters import read_letters
from kafka_s3.model.errors import Fenced, SinkError, SourceError
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.ops.sweep import sweeper_of
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.store import etag_of
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TIME, TOLERANT
from tests.support.interleaving import Interleaving, Process, closing
from tests.support.memory_world import START_MS, World, rows, settings_of
from tests.support.pending_uploads import OldUploads

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
CONFIG = {
    **TIME,
    **TOLERANT,
    "flush.size": "9",
    "rotate.interval.ms": "7200000",
    "rotate.file.on.partition.change": "false",
    "behavior.on.null.values": "ignore",
    "report.null.values.to.dlq": "false",
    "tail.check.interval.ms": "60000",
    "tail.state.enable": "true",
    "tail.read.records": "1",
    "rewrite.grace.ms": "3600000",
}
CHANGES: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {},
    {},
    {},
    {"flush.size": "4"},
    {"tail.state.enable": "false"},
    {"tail.read.records": "3"},
    {"commit.max.files": "2"},
)
GOOD, BAD, NULL = "good", "bad", "null"
PART_BYTES = 30
DAY_MS = 86_400_000
ATTEMPTS = 4
MOST_DRIVERS = 3
CYCLES = 20
SOME, MANY, CHUNK = 8, 2_508, 100
LAST_FAILS = 1275
"""A topic-partition fails for the moment when the last driver drains, whose file it has to make again."""


@cache
def settings_with(change: int, codec: str) -> Settings:
    return settings_of({**CONFIG, **CHANGES[change], "s3.compression.type": codec})


@cache
def pipeline_with(change: int, codec: str) -> Pipeline:
    return replace(make_pipeline(settings_with(change, codec)), part_size=PART_BYTES, threads=1)


class Engine:
    """Runs each assignment as a task, a process of its own. One that died is tried again; one that was given up may still run."""

    def __init__(self, case: Case, driver: Process, change: int) -> None:
        self.case, self.driver, self.change = case, driver, change

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        reports: dict[int, TaskReport] = {}
        for attempt in range(ATTEMPTS):
            lost = 0.1 if attempt < ATTEMPTS - 1 else 0.0
            tasks = {
                number: self._begun(wanted, reports, number)
                for number, wanted in enumerate(assignments)
                if number not in reports
            }
            given_up = [task for task in tasks.values() if self.case.run.draw.random() < lost]
            self.driver.waits_for = [task for task in tasks.values() if task not in given_up]
            self.driver.pause()
            self.driver.waits_for = ()
            for number, task in tasks.items():
                if isinstance(task.error, SinkError):
                    raise task.error
                if task in given_up and not task.ended:
                    reports.pop(number, None)
            if len(reports) == len(assignments):
                return [reports[number] for number in range(len(assignments))]
        raise SourceError("A process of Spark died at its work.")

    def _begun(self, wanted: Assignment, reports: dict[int, TaskReport], number: int) -> Process:
        def work(task: Process) -> None:
            kafka = replace(
                self.case.world.kafka,
                store=task.store,
                pipeline=lambda: pipeline_with(self.change, self.case.codec),
                batch_size=5,
            )
            (report,) = kafka.read([wanted])
            if number not in reports:
                reports[number] = report

        return self.case.run.start(self.case.world.store, work)


class Case:
    """What happens under one seed, and what must be true afterwards."""

    def __init__(self, seed: int) -> None:
        self.run = Interleaving(seed, mishap=0.0)
        self.codec = self.run.draw.choice(["none", "gzip"])
        self.world = World({**CONFIG, "s3.compression.type": self.codec}, topics=PARTITIONS)
        self.sent: dict[TopicPartition, dict[int, str]] = {tp: {} for tp in PARTITIONS}
        self.drivers: list[Process] = []

    def play(self) -> None:
        with closing(self.run):
            self.run.mishap = self.run.draw.choice([0.0, 0.005, 0.02, 0.05])
            self._records()
            self._driver(0)
            for _ in range(self.run.draw.randint(10, 25)):
                for _ in range(self.run.draw.choice([1, 5, 20, 40])):
                    self.run.one_turn()
                self._event()
            self.run.mishap = 0.0
            self._drained()
            self.run.to_the_end()
            self._tidy()
            assert self.run.unexpected() == []
        self.judge()

    # ------------------------------------------------------------ what happens

    def _event(self) -> None:
        draw = self.run.draw
        often = [self._records] * 6 + [self._time] * 4 + [self._another_driver] * 3
        draw.choice([*often, self._state_goes, self._state_breaks, self._uploads_go, self._sweep, self._kill])()

    def _records(self) -> None:
        tp = self.run.draw.choice(PARTITIONS)
        offset = max(self.sent[tp], default=-1) + self.run.draw.randint(0, 2)
        for number in range(self.run.draw.randint(1, 6)):
            offset += 1
            kind = self.run.draw.choice([GOOD] * 6 + [BAD, NULL])
            value = {GOOD: json.dumps({"n": offset, "p": tp.partition}).encode(), BAD: b"{oops", NULL: None}[kind]
            hours = self.run.draw.randint(0, 2) if number % 2 else 0
            self.world.kafka.add(tp, MemoryRecord(offset, self.world.now + hours * 3_600_000, None, value))
            self.sent[tp][offset] = kind

    def _time(self) -> None:
        self.world.now += self.run.draw.choice([1, 61, 61, 7200]) * 1000

    def _another_driver(self) -> None:
        """As after a crash; what was there before goes on, and does not know of it."""
        running = [driver for driver in self.drivers if not driver.ended]
        if len(running) >= MOST_DRIVERS:
            self.run.draw.choice(running).die()
        self._driver(self.run.draw.randrange(len(CHANGES)))

    def _state_goes(self) -> None:
        for key in self._states():
            self.world.store.delete(key)

    def _state_breaks(self) -> None:
        for key in self._states():
            data = bytearray(self.world.store.get(key))
            data[self.run.draw.randrange(len(data))] ^= 1
            self.world.store.put(key, bytes(data))

    def _states(self) -> list[str]:
        found = [
            key for key in self.world.store.objects if key.startswith((f"{STATE}orders/open/", f"{STATE}orders/open-"))
        ]
        return [key for key in found if self.run.draw.random() < 0.5]

    def _uploads_go(self) -> None:
        """A lifecycle rule ends them, of entries that are not published, too."""
        for upload_id, upload in self.world.store.uploads.items():
            if self.run.draw.random() < 0.5:
                self.world.store.abort_upload(upload.key, upload_id)

    def _kill(self) -> None:
        if living := self.run.living():
            self.run.draw.choice(living).die()

    def _sweep(self) -> None:
        self.world.now += self.run.draw.choice([0, 2 * DAY_MS])
        self.run.start(self.world.store, self._swept)

    def _swept(self, process: Process) -> None:
        old = OldUploads(process.store, started_ms=START_MS)
        sweeper = sweeper_of(settings_with(0, self.codec), old, clock_ms=lambda: self.world.now)
        sweeper.sweep(older_than_ms=DAY_MS)

    def _driver(self, change: int, *, last: bool = False) -> Process:
        def work(process: Process) -> None:
            engine = Engine(self, process, change)
            sink = build_sink(
                settings_with(change, self.codec), self.world.kafka, source=engine, store=process.store, clock_ms=lambda: self.world.now
            )  # fmt: skip
            sink.open()
            for cycle in range(CYCLES):
                sink.rewrites.notice(str(cycle))
                sink.poll_and_commit()
                process.pause()
            if last:
                sink.poll()
                while not sink.try_drain(close=Reason.FLUSH_NOW):
                    self.world.now += sink.pause_ms(1000)

        process = self.run.start(self.world.store, work)
        self.drivers.append(process)
        return process

    def _drained(self) -> None:
        """Drivers that were still about to start may take over from the last one."""
        for _ in range(MOST_DRIVERS + 1):
            last = self._driver(0, last=True)
            self.run.until(lambda: last.ended)  # noqa: B023 - called at once
            if not isinstance(last.error, Fenced):
                break
        assert last.error is None, last.error

    # ------------------------------------------------------------ what must be true

    def _tidy(self) -> None:
        """The next start, and a sweep once all of it is old."""
        opened = self.run.start(self.world.store, self._opened)
        self.run.to_the_end()
        assert opened.error is None, opened.error
        self.world.now += 2 * DAY_MS
        swept = self.run.start(self.world.store, self._swept)
        self.run.to_the_end()
        assert swept.error is None, swept.error

    def _opened(self, process: Process) -> None:
        settings = settings_with(0, self.codec)
        engine = Engine(self, process, 0)
        build_sink(
            settings, self.world.kafka, source=engine, store=process.store, clock_ms=lambda: self.world.now
        ).open()

    def judge(self) -> None:
        entries, objects = self.world.entries(), self.world.store.objects
        files = [file for entry in entries for file in entry.files]
        written, buried = self._found(files)
        kinds = {(tp.partition, offset): kind for tp, sent in self.sent.items() for offset, kind in sent.items()}
        assert written == Counter(place for place, kind in kinds.items() if kind == GOOD)
        assert buried == Counter(place for place, kind in kinds.items() if kind == BAD)
        assert {key for key in objects if not key.startswith(STATE)} == {f.key for f in files if f.role is Role.VALUE}
        self._add_up(entries, len(kinds))
        for file in files:
            info = self.world.store.head(file.key)
            assert info is not None
            assert (info.etag, info.size) == (etag_of(file.upload.parts), file.bytes), file.key
        assert self.world.store.uploads == {}
        assert [key for key in objects if key.startswith(f"{STATE}orders/open/")] == []

    def _found(self, files: Sequence[DataFile]) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]]:
        objects = self.world.store.objects
        written, buried = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for file in files:
            if file.role is Role.DEAD_LETTER:
                buried.update((letter.partition, letter.offset) for letter in read_letters(objects[file.key]))
            else:
                found = [(row["p"], row["n"]) for row in rows(file.key, objects[file.key])]
                assert [found[0], found[-1]] == [
                    (file.partition, file.first_offset),
                    (file.partition, file.last_offset),
                ]
                written.update(found)
        return written, buried

    def _add_up(self, entries: Sequence[CommitEntry], records: int) -> None:
        assert [entry.version for entry in entries] == list(range(len(entries)))
        for entry in entries:
            assert entry.totals.read == entry.totals.written + entry.totals.dead_letters + entry.totals.skipped
        assert sum(entry.totals.read for entry in entries) == records
        assert all(self.world.frontier(tp) == max(sent, default=-1) + 1 for tp, sent in self.sent.items())


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a process one call follows the other."""
    monkeypatch.setattr("kafka_s3.engine.log.log.PUBLISH_THREADS", 1)
    monkeypatch.setattr("kafka_s3.store.store.THREADS", 1)


@pytest.mark.parametrize("seed", [*range(SOME), LAST_FAILS])
def test_no_interleaving_loses_or_doubles_a_record(seed: int) -> None:
    Case(seed).play()


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_none_of_many_interleavings_loses_or_doubles_a_record(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            Case(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
