"""What if objects are compacted beside drivers that take turns, die and get no answer? Each seed is one schedule, against a model.

The model: each good record is in exactly one object that counts, which is in the bucket as its entry says; of all others only originals are
left whose grace is not over; nobody's upload or request stays.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.engine.log.fold import LiveObject, live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges, plan_merges
from kafka_s3.model.files import Role
from kafka_s3.ops.positions import write_positions
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.store import etag_of
from tests.support.configurations import STATE
from tests.support.interleaving import Process
from tests.support.memory_world import rows
from tests.unit.engine.loop.test_interleavings import GOOD, PARTITIONS, Case, one_at_a_time, settings_with

__all__ = ["one_at_a_time"]
SOME, MANY, CHUNK = 4, 604, 100
GRACE_MS = 3_600_000
SEEDS = range(int(os.environ.get("KAFKA_S3_SEEDS", SOME)))


class CompactedCase(Case):
    """As `Case`; several people compact at a time."""

    across = False

    def _event(self) -> None:
        if self.run.draw.random() < 0.3:
            self._ask()
        else:
            super()._event()

    def _compacted(self, process: Process) -> None:
        settings = settings_with(0, self.codec)
        log = CommitLog(process.store, state_paths(settings), clock_ms=lambda: self.world.now)
        entries = list(log.entries())
        if not entries:
            return
        target = self.run.draw.choice([100, 1 << 20])
        rules = CompactionRules(
            target, until_ms=self.world.now + 1, across=self.across and self.run.draw.random() < 0.8
        )
        merges = plan_merges(live_objects(entries).values(), rules)
        compactor = compactor_of(settings, process.store)
        for _ in ask_for_merges(
            compactor, log.paths, merges, version=entries[-1].version, by="compact", skipped=lambda merge, error: None
        ):
            pass

    def _drained(self) -> None:
        """Once more with much to compact; at the end what was asked for is settled, then the originals' time is over."""
        super()._drained()
        self.run.mishap = self.run.draw.choice([0.0, 0.01, 0.03])
        for _ in range(self.run.draw.randint(6, 14)):
            self.run.draw.choice([self._event, self._time, self._another_driver, self._ask])()
            for _ in range(self.run.draw.choice([5, 20, 60])):
                self.run.one_turn()
        self.run.mishap = 0.0
        super()._drained()
        self.run.to_the_end()
        for _ in range(3):
            self.world.now += 2 * GRACE_MS
            super()._drained()

    def _ask(self) -> None:
        self.run.start(self.world.store, self._compacted)

    def judge(self) -> None:
        entries, objects = self.world.entries(), self.world.store.objects
        live = [one for one in live_objects(entries).values() if one.file.role is Role.VALUE]
        good = [(tp.partition, n) for tp, sent in self.sent.items() for n, kind in sent.items() if kind == GOOD]
        assert self._written(live) == Counter(good)
        for one in live:
            info = self.world.store.head(one.file.key)
            assert info is not None, one.file.key
            assert (info.etag, info.size) == (etag_of(one.file.upload.parts), one.file.bytes), one.file.key
        assert self._others(live) == set()
        self._add_up(entries, sum(map(len, self.sent.values())))
        assert self.world.store.uploads == {}
        assert [key for key in objects if key.startswith(f"{STATE}orders/rewrites/")] == []

    def _written(self, live: list[LiveObject]) -> Counter[tuple[int, int]]:
        found = Counter[tuple[int, int]]()
        for one in live:
            held = [(row["p"], row["n"]) for row in rows(one.file.key, self.world.store.objects[one.file.key])]
            assert len(held) == one.file.records
            for part in one.by_slice:
                begin = 0 if part.file.place is None else part.file.place[0]
                own = held[begin : begin + part.file.records]
                assert {partition for partition, _ in own} <= {part.file.partition}
                found.update(place for place in own if part.until is None or place[1] < part.until)
        return found

    def _others(self, live: list[LiveObject]) -> set[str]:
        """The objects of records that do not count."""
        assert self.world.log().load().replaced == {}
        return {key for key in self.world.store.objects if not key.startswith(STATE)} - {one.file.key for one in live}


class CompactedAndMovedCase(CompactedCase):
    """As that; positions are set back, too, as they may be: once no driver is at work."""

    def _event(self) -> None:
        if self.run.draw.random() < 0.1:
            for driver in self.run.living():
                driver.die()
            self.run.start(self.world.store, self._moved)
        else:
            super()._event()

    def _moved(self, process: Process) -> None:
        log = CommitLog(process.store, state_paths(settings_with(0, self.codec)), clock_ms=lambda: self.world.now)
        frontier = log.load().frontier
        tp = self.run.draw.choice(PARTITIONS)
        if tp in frontier:
            write_positions(log, self.world.kafka, {tp: self.run.draw.randint(0, frontier[tp])})

    def _add_up(self, entries: object, records: int) -> None:
        """Records that are read again are counted again."""

    def _others(self, live: list[LiveObject]) -> set[str]:
        """What was written before a position was set back stays as it is."""
        return set()


class AcrossCase(CompactedCase):
    """As `CompactedCase`; mostly files of both topic-partitions become one."""

    across = True


class AcrossAndMovedCase(CompactedAndMovedCase):
    """As `CompactedAndMovedCase`; mostly files of both topic-partitions become one."""

    across = True


CASES = (CompactedCase, CompactedAndMovedCase, AcrossCase, AcrossAndMovedCase)


@pytest.fixture(autouse=True)
def one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a process one call follows the other."""
    monkeypatch.setattr("kafka_s3.engine.loop.rewrites.THREADS", 1)
    monkeypatch.setattr("kafka_s3.followers.compaction.FETCHES", 1)
    monkeypatch.setattr("kafka_s3.ops.erasure.search.FETCHES", 1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_of_drivers_and_compactions_loses_or_doubles_a_record(case: type[Case], seed: int) -> None:
    case(seed).play()


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_none_of_many_schedules_of_drivers_and_compactions_loses_or_doubles_a_record(
    case: type[Case], first: int
) -> None:
    for seed in range(first, first + CHUNK):
        try:
            case(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_schedules_do_rewrite() -> None:
    found = Counter[str]()
    for seed in range(2):
        case = CompactedCase(seed)
        case.play()
        for entry in case.world.entries():
            found.update({"swaps": len(entry.swaps), "deleted": len(entry.deleted)})
            found.update({"rewrites": entry.kind is EntryKind.REWRITE})
        across = AcrossCase(seed)
        across.play()
        found.update({"several": sum(bool(file.slices) for entry in across.world.entries() for file in entry.files)})
    assert min(found["swaps"], found["deleted"], found["rewrites"]) > 2
    assert found["several"] > 0
