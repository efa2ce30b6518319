"""What if records are erased beside drivers and compactions that take turns, die and get no answer? Each seed is one schedule.

The model: of each subject that some entry says is erased, no record with an offset before the search is in an object that counts, nor in a
dead letter; each other record is there once. Originals are gone once their grace is over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.rewrites import ask_for_rewrite
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.erasure.forgetting import Forgetting, NotReady
from kafka_s3.ops.erasure.subjects import subjects_of
from tests.support.interleaving import Process
from tests.support.verifying import MemoryCluster
from tests.unit.engine.loop.test_interleavings import GOOD, one_at_a_time, settings_with
from tests.unit.engine.loop.test_rewrites_interleaved import (
    CompactedAndMovedCase,
    CompactedCase,
    one_request_at_a_time,
)

__all__ = ["one_at_a_time", "one_request_at_a_time"]
SOME, MANY, CHUNK = 4, 604, 100
SEEDS = range(int(os.environ.get("KAFKA_S3_SEEDS", SOME)))


class ErasedCase(CompactedCase):
    """As `CompactedCase`; somebody also erases the records of one number."""

    def _ask(self) -> None:
        if self.run.draw.random() < 0.5:
            super()._ask()
        else:
            self.run.start(self.world.store, self._forgotten)

    def _forgotten(self, process: Process) -> None:
        """As `kafka-s3 forget` does beside a sink, but that it does not wait until its request is taken."""
        sent = sorted({n for one in self.sent.values() for n in one})
        if not sent:
            return
        subjects = subjects_of(None, f"n = {self.run.draw.choice(sent)}", None)
        work = Forgetting(
            settings_with(0, self.codec), process.store, subjects, lambda: self.world.now, lambda text: None,
            MemoryCluster(self.world.kafka),
        )  # fmt: skip
        try:
            searched = work.search()
        except NotReady:
            return
        for request in work.requests(searched):
            ask_for_rewrite(process.store, work.log.paths, request)

    def judge(self) -> None:
        entries = self.world.entries()
        live = [one for one in live_objects(entries).values() if one.file.role is Role.VALUE]
        gone = _erased(entries)
        good = {(tp.partition, n) for tp, sent in self.sent.items() for n, kind in sent.items() if kind == GOOD}
        assert self._written(live) == Counter(good - gone)
        assert gone <= good
        assert self._others(live) == set()
        self._add_up(entries, sum(map(len, self.sent.values())))
        assert self.world.store.uploads == {}
        assert self.erased_counts(entries) or not gone

    def erased_counts(self, entries: list[CommitEntry]) -> Mapping[TopicPartition, int]:
        found = Counter[TopicPartition]()
        for entry in entries:
            found.update(entry.erasure.records if entry.erasure is not None else {})
        return found


class ErasedAndMovedCase(ErasedCase, CompactedAndMovedCase):
    """As that; positions are set back, too, so that erased offsets are read again."""


class AcrossErasedCase(ErasedCase):
    """As `ErasedCase`; mostly files of both topic-partitions become one."""

    across = True


class AcrossErasedAndMovedCase(ErasedAndMovedCase):
    """As `ErasedAndMovedCase`; mostly files of both topic-partitions become one."""

    across = True


CASES = (ErasedCase, ErasedAndMovedCase, AcrossErasedCase, AcrossErasedAndMovedCase)


def _erased(entries: list[CommitEntry]) -> set[tuple[int, int]]:
    return {
        (tp.partition, offset)
        for entry in entries
        for tp, offsets in entry.erased.items()
        for first, last in offsets.ranges
        for offset in range(first, last + 1)
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_loses_a_record_or_brings_back_one_that_was_erased(case: type[ErasedCase], seed: int) -> None:
    case(seed).play()


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_none_of_many_schedules_loses_a_record_or_brings_back_one_that_was_erased(
    case: type[ErasedCase], first: int
) -> None:
    for seed in range(first, first + CHUNK):
        try:
            case(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_schedules_do_erase() -> None:
    found = Counter[str]()
    for seed in range(6):
        case = ErasedAndMovedCase(seed)
        case.play()
        entries = case.world.entries()
        found.update({"erased": len(_erased(entries))})
        found.update({"erasures": sum(entry.erasure is not None for entry in entries)})
        found.update({"moved": sum(entry.kind is EntryKind.POSITION for entry in entries)})
    assert min(found["erased"], found["erasures"], found["moved"]) > 3
