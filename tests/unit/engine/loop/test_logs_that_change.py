"""Kafka's logs are cut and grow again, and lose their first records, while a sink works, holds open files, restarts and dies.

Each seed is one schedule for the real loop in memory. Every record ever produced has a number of its own, so that old records and those
that took their offsets are told apart. In the end each record of the last log is in one object or one dead letter, or in a gap: then
retention took it before it was read, or what held it was lost. What was cut off above the frontier is in no object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from kafka_s3.engine.log.committed import committed_files
from kafka_s3.model.dead_letters import read_letters
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import OpenState
from kafka_s3.ops.sweep import sweeper_of
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3_testing.faults import Fault, Moment, Verb
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import STATE, TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import START_MS, World, rows
from tests.support.open_files import states
from tests.support.pending_uploads import DAY_MS, OldUploads

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
CONFIG = {**TOLERANT, "behavior.on.lost.offsets": "gap", "tail.read.records": "1", "tail.check.interval.ms": "60000"}
PART_BYTES = 30
SOME, MANY, CHUNK = 10, 6_010, 200


@dataclass
class Log:
    """What is known of one topic-partition: the records of its log by number, what was cut off, and what retention may not take.

    `spoilt` is a state that is not whole any more.
    """

    good: dict[int, int] = field(default_factory=dict)
    bad: dict[int, int] = field(default_factory=dict)
    cut_unwritten: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    spoilt: OpenState | None = None


class Schedule:
    """What happens under one seed, and what must be true afterwards."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        config = {
            "flush.size": self.draw.choice(["3", "8", "20"]),
            "tail.state.enable": self.draw.choice(["true"] * 4 + ["false"]),
        }
        self.world = World({**CONFIG, **config}, topics=PARTITIONS, batch_size=self.draw.choice([3, 100]))
        pipeline = replace(make_pipeline(self.world.settings), part_size=PART_BYTES)
        self.world.kafka.pipeline = lambda: pipeline
        self.logs = {tp: Log() for tp in PARTITIONS}
        self.numbers = 0
        self.world.start()

    def play(self) -> None:
        often: list[Callable[[], None]] = (
            [self._records] * 5 + [self._cycle] * 5 + [self._cut, self._trim, self._restart] * 2
        )
        for _ in range(self.draw.randint(10, 40)):
            self.draw.choice([*often, self._flush, self._dies, self._time, self._open_files_go])()
        self._cycle()
        self._flush()
        self._swept()
        self.judge()

    # ------------------------------------------------------------ what happens

    def _records(self, tp: TopicPartition | None = None) -> None:
        tp = tp or self.draw.choice(PARTITIONS)
        first = self._head(tp) + self.draw.choice([0, 0, 0, 1])
        for offset in range(first, first + self.draw.randint(1, 9)):
            self.numbers += 1
            good = self.draw.random() < 0.8
            (self.logs[tp].good if good else self.logs[tp].bad)[offset] = self.numbers
            value = json.dumps({"n": self.numbers}).encode() if good else b"broken %d" % self.numbers
            self.world.kafka.add(tp, MemoryRecord(offset, START_MS, None, value))

    def _cycle(self) -> None:
        assert self.world.sink.poll_and_commit()

    def _flush(self) -> None:
        self.world.sink.poll()
        assert self.world.sink.try_drain(close=Reason.FLUSH_NOW)

    def _time(self) -> None:
        self.world.now += self.draw.choice([1_000, 61_000])

    def _restart(self) -> None:
        """Often more happens before the new driver is there."""
        for _ in range(self.draw.choice([0, 0, 1, 2])):
            self.draw.choice([self._records, self._cut, self._trim])()
        self.world.start()

    def _dies(self) -> None:
        """At one of its requests, before or after it; the next driver takes over at once."""
        verb, moment = self.draw.choice(list(Verb)), self.draw.choice(list(Moment))
        with suppress(Died):
            self.world.start([Fault(verb, died, moment, self.draw.randint(1, 6))])
            self._records()
            self._cycle()
        self.world.start()

    def _cut(self) -> None:
        """Mostly above the frontier, and mostly the log grows again at once."""
        tp = self.draw.choice(PARTITIONS)
        log, frontier, begins = self.logs[tp], self.world.frontier(tp), self.world.kafka.begins[tp]
        least = begins if self.draw.random() < 0.1 else max(begins, frontier)
        ends = [
            offset + 1 for offset in (*log.good, *log.bad) if offset + 1 >= least
        ]  # in memory a log ends with a record
        if not ends:
            return
        at = self.draw.choice(ends)
        log.cut_unwritten |= {number for offset, number in log.good.items() if offset >= max(at, frontier)}
        log.good = {offset: number for offset, number in log.good.items() if offset < at}
        log.bad = {offset: number for offset, number in log.bad.items() if offset < at}
        if at < self.world.sink.partition_states[tp].seen:
            log.held = set()
        self.world.kafka.cut(tp, at=at)
        for _ in range(self.draw.choice([0, 1, 2, 3])):
            self._records(tp)

    def _trim(self) -> None:
        """Retention: what an open file holds then is written all the same."""
        tp = self.draw.choice(PARTITIONS)
        start = self.draw.randint(self.world.kafka.begins[tp], self._head(tp))
        state = self.world.sink.partition_states[tp]
        if self._is_known(tp) and self._state(tp) != self.logs[tp].spoilt:
            self.logs[tp].held |= set(range(state.frontier, min(start, state.first_unread)))
        self.world.kafka.trim(tp, start=start)

    def _is_known(self, tp: TopicPartition) -> bool:
        """Whether the sink has looked since the last cut; what it holds may be dropped else."""
        (end,) = self.world.kafka.ends([tp]).values()
        return self.world.sink.partition_states[tp].leader_epoch == end.epoch

    def _open_files_go(self) -> None:
        """Somebody removes states, or the note of them, or ends uploads: what they held is held no more."""
        gone = self.draw.choice(["states", "note", "uploads"])
        if gone == "states":
            for key in states(self.world):
                self.world.store.delete(key)
        elif gone == "note":
            self.world.store.delete(f"{STATE}orders/open-files.json")
        else:
            for upload_id, upload in list(self.world.store.uploads.items()):
                self.world.store.abort_upload(upload.key, upload_id)
        for tp, log in self.logs.items():
            log.held, log.spoilt = set(), self._state(tp)
        self.world.start()
        self._cycle()

    def _state(self, tp: TopicPartition) -> OpenState | None:
        return self.world.sink.partition_states[tp].open_state

    def _head(self, tp: TopicPartition) -> int:
        return self.world.kafka.heads([tp])[tp]

    def _swept(self) -> None:
        """The next start, and a sweep once all is old."""
        self.world.start()
        self.world.now += 2 * DAY_MS
        sweeper = sweeper_of(self.world.settings, OldUploads(self.world.store), clock_ms=lambda: self.world.now)
        sweeper.sweep(older_than_ms=DAY_MS)

    # ------------------------------------------------------------ what must be true

    def judge(self) -> None:
        written = Counter(self._counted())
        buried = Counter(self._buried())
        gaps = {tp: set[int]() for tp in PARTITIONS}
        for entry in self.world.entries():
            assert entry.totals.read == entry.totals.written + entry.totals.dead_letters + entry.totals.skipped
            for gap in entry.gaps:
                gaps[TopicPartition(gap.topic, gap.partition)] |= set(range(gap.first, gap.last + 1))
        for tp, log in self.logs.items():
            assert self.world.frontier(tp) == self._head(tp), tp
            lost = gaps[tp] - self._accounted(written, buried, tp)
            assert not lost & log.held, f"{tp}: {sorted(lost & log.held)} were held"
            assert all(offset < self.world.kafka.begins[tp] for offset in lost)
            assert {offset: written[number] for offset, number in log.good.items()} == {
                o: int(o not in lost) for o in log.good
            }
            assert {offset: buried[number] for offset, number in log.bad.items()} == {
                o: int(o not in lost) for o in log.bad
            }
            assert not [number for number in log.cut_unwritten if written[number]]
        assert max(written.values(), default=1) == 1
        assert (states(self.world), self.world.store.uploads) == ([], {})

    def _accounted(self, written: Counter[int], buried: Counter[int], tp: TopicPartition) -> set[int]:
        """Offsets of the last log's records that are written: a gap of an earlier log may have had the same."""
        log = self.logs[tp]
        return {o for o, number in log.good.items() if written[number]} | {
            o for o, number in log.bad.items() if buried[number]
        }

    def _counted(self) -> Iterator[int]:
        """The numbers of the records that the log counts."""
        for one in committed_files(self.world.entries(), "orders"):
            assert one.values is not None
            content = self.world.store.objects[one.values.key]
            yield from (row["n"] for row in rows(one.values.key, content)[: one.rows])

    def _buried(self) -> Iterator[int]:
        for key, content in self.world.store.objects.items():
            if key.startswith(f"{STATE}orders/dead-letters/"):
                for letter in read_letters(content):
                    yield int((letter.value or b"").split()[1])


def died(key: str) -> None:
    raise Died


@pytest.mark.parametrize("seed", range(SOME))
def test_no_change_of_a_log_loses_or_doubles_a_record(seed: int) -> None:
    Schedule(seed).play()


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_none_of_many_changes_of_logs_loses_or_doubles_a_record(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            Schedule(seed).play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
