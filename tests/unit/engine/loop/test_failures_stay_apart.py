"""Does a failure stay where it happened? Topic-partitions of one sink fail in every way and moment; the others must not notice.

Each seed is a schedule of records, times, troubles, deaths, flushes and drivers; in some a task reads few records, so that there are
backlogs. After every round those that are in no trouble stand where their records allow, and nothing is pending that nobody owns; at
the end every record is there once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.loop.beside import Outcomes
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.engine.open_files.states import state_uploads
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import (
    EngineDied,
    KafkaUnavailable,
    RegistryUnavailable,
    SinkError,
    StorageUnavailable,
    TaskTimedOut,
)
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.wiring.pipeline import connect_names, make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, Verb
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.configurations import STATE, TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import World, rows, settings_of

PARTITIONS = tuple(TopicPartition(topic, number) for topic in ("orders", "refunds") for number in (0, 1))
TOPICS = ("orders", "refunds")
FLUSH = 4
CONFIG = {
    **TOLERANT,
    "topics": ",".join(TOPICS),
    "tasks.max": str(len(PARTITIONS)),
    "flush.size": str(FLUSH),
    "errors.retry.timeout": "-1",
    "tail.read.records": "1",
    "tail.check.interval.ms": "1000",
    "retry.backoff.ms": "1000",
    "errors.retry.delay.max.ms": "4000",
    "heartbeat.interval.ms": "100",
}
FEW = 2 * FLUSH
"""What a task reads at most, in some of the schedules."""
PART_BYTES = 20
ROUNDS = 8
SOME, MANY, CHUNK = 8, 5_008, 250
STORE_VERBS = (Verb.CREATE_UPLOAD, Verb.UPLOAD_PART, Verb.COMPLETE_UPLOAD, Verb.PUT, Verb.ABORT_UPLOAD, Verb.DELETE)
READ_ERRORS: tuple[Callable[[str], SinkError], ...] = (
    KafkaUnavailable, RegistryUnavailable, EngineDied, TaskTimedOut,
)  # fmt: skip


@cache
def settings(keeps: bool) -> Settings:
    return settings_of({**CONFIG, "tail.state.enable": str(keeps).lower()})


@cache
def pipeline(keeps: bool) -> Pipeline:
    return replace(make_pipeline(settings(keeps)), part_size=PART_BYTES, threads=1)


@dataclass
class Trouble:
    """What goes wrong with these topic-partitions: at verbs of the store, or a read fails, before or after its work, or leaves a zombie."""

    places: frozenset[TopicPartition]
    verbs: frozenset[Verb] = frozenset()
    moment: Moment = Moment.BEFORE
    read: Callable[[str], SinkError] | None = None
    works_first: bool = False
    works_later: bool = False


@dataclass
class Engine:
    """Reads in memory, but for what is in trouble. A task whose process dies after its work leaves all it uploaded."""

    case: Case
    kafka: MemoryKafka
    zombies: list[Assignment] = field(default_factory=list)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        return [self._read(wanted) for wanted in assignments]

    def _read(self, wanted: Assignment) -> TaskOutcome:
        trouble = self.case.trouble
        if trouble is None or trouble.read is None or wanted.topic_partition not in trouble.places:
            (outcome,) = self.kafka.read([wanted])
            return outcome
        if trouble.works_first:
            self.kafka.read([wanted])
        elif trouble.works_later:
            self.zombies.append(wanted)
        return TaskFailure(wanted.topic_partition, trouble.read(f"{wanted.topic_partition}: told to fail."))


class Later:
    """What runs beside the loop ends at a moment that the schedule draws."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.waiting: list[tuple[Callable[[], Outcomes], Future[Outcomes]]] = []

    def __call__(self, work: Callable[[], Outcomes]) -> Future[Outcomes]:
        future: Future[Outcomes] = Future()
        self.waiting.append((work, future))
        return future

    def run(self, share: float) -> None:
        for one in [one for one in self.waiting if self.case.draw.random() < share]:
            self.waiting.remove(one)
            work, future = one
            try:
                future.set_result(work())
            except SinkError as error:
                future.set_exception(error)


class Case:
    """What happens under one seed, and what must be true after each round and at the end."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.keeps = self.draw.random() < 0.7
        self.beside = seed % 2 == 1
        self.world = World({**CONFIG, "tail.state.enable": str(self.keeps).lower()}, topics=PARTITIONS)
        self.keys = connect_names(self.world.settings)
        self.sent: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)
        self.trouble: Trouble | None = None
        self.dies_at = 0
        self.calls = 0
        self.sink: Sink
        self.haunted: set[TopicPartition] = set()
        self._start()

    # ------------------------------------------------------------ what happens

    def play(self) -> None:
        for _ in range(ROUNDS):
            self._event()
            self._round()
        self.trouble, self.dies_at = None, 0
        self._to_the_end()
        self.judge()

    def _event(self) -> None:
        for tp in PARTITIONS:
            if self.draw.random() < 0.8:
                self._send(tp, self.draw.randint(1, 3 * FLUSH))
        self.world.now += self.draw.choice([1, 500, 1_500, 5_000, 700_000])
        if self.draw.random() < 0.6:
            self.trouble = self._drawn_trouble() if self.draw.random() < 0.7 else None
        if self.draw.random() < 0.15:
            self.dies_at = self.calls + self.draw.randint(1, 60)
        if self.draw.random() < 0.1:
            self._start()

    def _send(self, tp: TopicPartition, count: int) -> None:
        for offset in range(self.sent[tp], self.sent[tp] + count):
            value = b"{oops" if offset % 7 == 5 else json.dumps({"n": offset, "tp": str(tp)}).encode()
            self.world.kafka.add(tp, MemoryRecord(offset, self.world.now, None, value))
        self.sent[tp] += count

    def _drawn_trouble(self) -> Trouble:
        places = frozenset(self.draw.sample(PARTITIONS, self.draw.choice([1, 1, 1, 2, 3, 4])))
        if self.draw.random() < 0.5:
            verbs = frozenset(self.draw.sample(STORE_VERBS, self.draw.randint(1, 3)))
            return Trouble(places, verbs, self.draw.choice(list(Moment)))
        works = self.draw.choice(["not", "first", "later"])
        error = self.draw.choice(READ_ERRORS)
        return Trouble(places, read=error, works_first=works == "first", works_later=works == "later")

    def _start(self) -> None:
        """Another driver, as after a crash."""
        store = FaultyStore(
            self.world.store,
            [Fault(verb, self._struck(verb, moment), moment, None) for verb in Verb for moment in Moment],
        )
        kafka = replace(self.world.kafka, store=store, pipeline=lambda: pipeline(self.keeps), batch_size=3)
        self.engine, self.later = Engine(self, kafka), Later(self)
        try:
            self.sink = build_sink(
                settings(self.keeps),
                self.world.kafka,
                source=self.engine,
                store=store,
                clock_ms=lambda: self.world.now,
                background=self.later,
                slots=lambda: len(PARTITIONS),
            )
            if self.beside:
                behaviour = self.sink.behaviour
                self.sink.behaviour = replace(behaviour, readiness=replace(behaviour.readiness, task_records=FEW))
                self.sink.topics.behaviour = self.sink.behaviour
            self.sink.open()
        except (Died, StorageUnavailable):
            self.dies_at = 0
            self._start()

    def _struck(self, verb: Verb, moment: Moment) -> Callable[[str], None]:
        def strike(key: str) -> None:
            self.calls += 1
            if self.dies_at and self.calls >= self.dies_at:
                raise Died
            trouble = self.trouble
            if trouble is None or verb not in trouble.verbs or moment is not trouble.moment:
                return
            if self._owner(key) in trouble.places:
                raise StorageUnavailable(f"{verb} {key}: told to fail.")

        return strike

    def _owner(self, key: str) -> TopicPartition | None:
        paths = self.sink.log.paths
        found = self.keys.owner(key, TOPICS) or paths.dead_letters_owner(key)
        return found or next((tp for tp in PARTITIONS if key.startswith(paths.open_states_of(tp))), None)

    def _round(self) -> None:
        healthy = self._healthy()
        try:
            if self.draw.random() < 0.15:
                self.sink.poll()
                self._read_backlog()
                self.sink.try_drain(close=Reason.FLUSH_NOW)
            else:
                self.sink.poll_and_commit()
            self.later.run(0.6)
            self._zombies_work()
            if self.draw.random() < 0.5:
                self.sink.poll_and_commit()
                self._zombies_work()
        except Died:
            self.dies_at = 0
            self._start()
            return
        self._check_round(healthy)

    def _read_backlog(self) -> None:
        """Its reads end; whoever drains would wait for them."""
        while self.sink.backlog.tasks:
            self.later.run(1.0)

    def _zombies_work(self) -> None:
        """Tasks that were given up do their work after all, within ten minutes; the driver finds what they leave when it looks again."""
        zombies, self.engine.zombies = self.engine.zombies, []
        self.engine.kafka.read(zombies)
        self.haunted |= {one.topic_partition for one in zombies}

    def _healthy(self) -> set[TopicPartition]:
        """Those that nothing keeps from going on."""
        troubled = self.trouble.places if self.trouble is not None else frozenset()
        return set(PARTITIONS) - troubled - self.sink.failures.known.keys() - self.sink._busy

    def _check_round(self, healthy: set[TopicPartition]) -> None:
        for tp in healthy - self.sink.backlog.busy:
            state = self.sink.partition_states[tp]
            assert state.frontier + 2 * FLUSH > self.sent[tp], (tp, state.frontier, self.sent[tp])
            assert tp not in self.sink.failures.known
        self.haunted &= self.sink.leftovers.later.keys()
        suspects = self.haunted | self.sink.leftovers.suspects | self.sink._busy | self.sink.failures.known.keys()
        orphans = [key for key in self._orphans() if self._owner(key) not in suspects]
        assert orphans == []

    def _orphans(self) -> list[str]:
        """Keys of uploads and states that neither the log nor the open files name."""
        last = self.sink.log.last
        assert last is not None
        named = {file.upload.id for file in last.uncompleted}
        kept = {s.open_state.key for s in self.sink.partition_states.values() if s.open_state is not None}
        for key in kept:
            named |= {upload_id for _, upload_id in state_uploads(key, self.world.store)}
        uploads = [one.key for one in self.world.store.pending("") if one.id not in named]
        folder = f"{STATE}orders/open/"
        return uploads + [key for key in self.world.store.objects if key.startswith(folder) and key not in kept]

    def _to_the_end(self) -> None:
        for _ in range(12):
            self.world.now += 700_000
            self.later.run(1.0)
            self.sink.poll()
            self._read_backlog()
            if self.sink.try_drain(close=Reason.FLUSH_NOW) and self._all_written():
                break
        self.world.now += 700_000
        self.sink.poll_and_commit()
        self._read_backlog()
        self.sink.end()

    def _all_written(self) -> bool:
        return all(self.sink.partition_states[tp].frontier >= self.sent[tp] for tp in PARTITIONS)

    # ------------------------------------------------------------ what must be true

    def judge(self) -> None:
        assert self.sink.failures.known == {}
        assert self.sink.open_problems == ()
        objects = {key: data for key, data in self.world.store.objects.items() if not key.startswith(STATE)}
        written = Counter((row["tp"], row["n"]) for key, data in objects.items() for row in rows(key, data))
        assert written == Counter(
            (str(tp), offset) for tp, count in self.sent.items() for offset in range(count) if offset % 7 != 5
        )
        totals = self.sink.log.load().totals
        assert totals.read == sum(self.sent.values())
        assert self._orphans() == []


def tried(seed: int) -> None:
    try:
        Case(seed).play()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize("first", range(0, SOME, 4))
def test_what_fails_costs_itself_only(first: int) -> None:
    for seed in range(first, first + 4):
        tried(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SOME, MANY, CHUNK))
def test_in_thousands_of_schedules_what_fails_costs_itself_only(first: int) -> None:
    for seed in range(first, first + CHUNK):
        tried(seed)
