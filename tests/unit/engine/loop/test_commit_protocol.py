"""Every record ends up in exactly one object or dead letter, whatever crashes, however two drivers interleave."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.model.dead_letters import read_letters
from kafka_s3.model.errors import CommitUnknown, Fenced, LogDamaged, OffsetsLost, StorageUnavailable
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.pipeline import make_pipeline
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, failure, lost_answer
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.configurations import STATE, TIME, TOLERANT
from tests.support.deaths import Died
from tests.support.examples import examples
from tests.support.memory_world import World, rows, world_of
from tests.support.observers import Told

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
CONFIG = {
    **TIME,
    **TOLERANT,
    "flush.size": "6",
    "rotate.interval.ms": "7200000",
    "rotate.file.on.partition.change": "false",  # several open files, hence commits of several objects
    "behavior.on.null.values": "ignore",
    "report.null.values.to.dlq": "false",
    "tail.check.interval.ms": "60000",
}
GOOD, BAD, NULL = "good", "bad", "null"
KEEPING = {**CONFIG, "tail.read.records": "1"}
"""Each record is worth a task, so that open files are kept after each, in parts of a few bytes."""
WRITES = ("put_new", "put", "create_upload", "upload_part", "complete_upload")


class Driver:
    """One process with a sink. It can be armed: something happens at the n-th call of a verb."""

    def __init__(self, world: World, *, part_size: int | None = None) -> None:
        self.dead = self.fenced = False
        self._armed: tuple[str, Moment, int, Callable[[], None]] | None = None
        self._lock = threading.Lock()
        plan = [Fault(verb, partial(self._strike, verb, m), m, nth=None) for verb in WRITES for m in Moment]
        plan += [Fault(verb, self._alive, nth=None) for verb in ("get", "head", "list", "abort_upload", "delete")]
        store = FaultyStore(world.store, plan)
        kafka, pipeline = world.kafka, make_pipeline(world.settings)
        pipeline = pipeline if part_size is None else replace(pipeline, part_size=part_size)
        source = MemoryKafka(
            lambda: pipeline, store, 5, kafka.records, kafka.groups, kafka.produced, kafka.ids, kafka.begins
        )  # fmt: skip
        self.sink = build_sink(world.settings, source, source=source, store=store, clock_ms=lambda: world.now)

    def run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Died:
            self.dead = True
        except Fenced:
            self.dead = self.fenced = True
        finally:
            self._armed = None

    def arm(self, verb: str, moment: Moment, nth: int, *, action: Callable[[], None]) -> None:
        self._armed = (verb, moment, nth, action)

    def die(self) -> None:
        self.dead = True
        raise Died

    def _alive(self, key: str) -> None:
        if self.dead:
            raise Died

    def _strike(self, verb: str, moment: Moment, key: str) -> None:
        self._alive(key)
        with self._lock:
            if self._armed is None or self._armed[:2] != (verb, moment):
                return
            _, _, left, action = self._armed
            self._armed = None if left == 1 else (verb, moment, left - 1, action)
        if left == 1:
            action()


class TwoDrivers(RuleBasedStateMachine):
    config, part_size = CONFIG, None

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.config, topics=PARTITIONS)
        self.sent: dict[TopicPartition, dict[int, str]] = {tp: {} for tp in PARTITIONS}
        self.drivers = [self.started(), None]

    def started(self) -> Driver:
        driver = Driver(self.world, part_size=self.part_size)
        driver.run(driver.sink.open)
        return driver

    def living(self, index: int) -> Driver:
        driver = self.drivers[index]
        if driver is None or driver.dead:
            driver = self.drivers[index] = self.started()
        return driver

    @rule(tp=st.sampled_from(PARTITIONS), kinds=st.lists(st.sampled_from([GOOD] * 6 + [BAD, NULL]), min_size=1, max_size=12),
          gap=st.integers(0, 2), hours=st.integers(0, 2))  # fmt: skip
    def deliver(self, tp: TopicPartition, kinds: list[str], gap: int, hours: int) -> None:
        offset = max(self.sent[tp], default=-1) + gap
        for number, kind in enumerate(kinds):
            offset += 1
            value = {GOOD: json.dumps({"n": offset, "p": tp.partition}).encode(), BAD: b"{oops", NULL: None}[kind]
            time = self.world.now + (hours if number % 2 else 0) * 3_600_000
            self.world.kafka.add(tp, MemoryRecord(offset, time, None, value))
            self.sent[tp][offset] = kind

    @rule(minutes=st.integers(0, 70))
    def time_passes(self, minutes: int) -> None:
        self.world.now += minutes * 60_000

    @rule(index=st.sampled_from([0, 1]))
    def cycle(self, index: int) -> None:
        driver = self.living(index)
        driver.run(driver.sink.poll_and_commit)

    @rule(index=st.sampled_from([0, 1]))
    def restart(self, index: int) -> None:
        self.drivers[index] = self.started()

    @rule(
        index=st.sampled_from([0, 1]),
        verb=st.sampled_from(WRITES),
        moment=st.sampled_from(list(Moment)),
        nth=st.integers(1, 4),
    )
    def crash(self, index: int, verb: str, moment: Moment, nth: int) -> None:
        driver = self.living(index)
        driver.arm(verb, moment, nth, action=driver.die)
        driver.run(driver.sink.poll_and_commit)

    @rule(index=st.sampled_from([0, 1]), verb=st.sampled_from(WRITES), moment=st.sampled_from(list(Moment)))
    def crash_while_starting(self, index: int, verb: str, moment: Moment) -> None:
        driver = Driver(self.world, part_size=self.part_size)
        driver.arm(verb, moment, 1, action=driver.die)
        driver.run(driver.sink.open)
        self.drivers[index] = driver

    @rule(
        index=st.sampled_from([0, 1]),
        verb=st.sampled_from(WRITES),
        moment=st.sampled_from(list(Moment)),
        nth=st.integers(1, 3),
    )
    def no_answer(self, index: int, verb: str, moment: Moment, nth: int) -> None:
        def fail() -> None:
            raise StorageUnavailable("told to")

        driver = self.living(index)
        driver.arm(verb, moment, nth, action=fail)
        driver.run(driver.sink.poll_and_commit)

    @rule(
        index=st.sampled_from([0, 1]),
        verb=st.sampled_from(WRITES),
        moment=st.sampled_from(list(Moment)),
        nth=st.integers(1, 3),
    )
    def the_other_takes_over_in_the_middle(self, index: int, verb: str, moment: Moment, nth: int) -> None:
        paused, struck = self.living(index), []

        def other() -> None:
            struck.append(True)
            self.drivers[1 - index] = self.started()
            self.drivers[1 - index].run(self.drivers[1 - index].sink.poll_and_commit)

        paused.arm(verb, moment, nth, action=other)
        paused.run(paused.sink.poll_and_commit)
        if struck and not paused.dead:  # it may finish the entry it was at, and is fenced at its next
            before = self.lasting()
            self.deliver(PARTITIONS[0], [GOOD] * 6, 0, 0)
            paused.run(paused.sink.poll_and_commit)
            assert paused.fenced
            assert self.lasting() == before

    def lasting(self) -> dict[str, bytes]:
        """The objects but for open files: of a driver that was overtaken one state may be left, and the hint may be its own."""
        return {
            key: data for key, data in self.world.store.objects.items() if not key.startswith(f"{STATE}orders/open")
        }

    @precondition(lambda self: self.drivers[0] is not None)
    @rule(index=st.sampled_from([0, 1]), dies=st.booleans())
    def uploads_vanish_between_commit_and_publication(self, index: int, dies: bool) -> None:
        driver = self.living(index)

        def abort_all() -> None:
            for upload_id, upload in self.world.store.uploads.items():
                self.world.store.abort_upload(upload.key, upload_id)
            if dies:
                driver.die()

        driver.arm("put_new", Moment.AFTER, 1, action=abort_all)
        driver.run(driver.sink.poll_and_commit)

    def teardown(self) -> None:
        last = self.started()
        last.sink.poll()
        last.sink.drain(close=Reason.FLUSH_NOW)
        self.everything_is_in_its_place_once()

    def everything_is_in_its_place_once(self) -> None:
        world = self.world
        entries = world.entries()
        assert [entry.version for entry in entries] == list(range(len(entries)))
        files = [file for entry in entries for file in entry.files]
        assert len({file.key for file in files}) == len(files)
        objects = world.store.objects
        written: Counter[tuple[int, int]] = Counter()
        buried: Counter[tuple[int, int]] = Counter()
        for file in files:
            if file.role is Role.DEAD_LETTER:
                found = [(letter.partition, letter.offset) for letter in read_letters(objects[file.key])]
                buried.update(found)
            else:
                found = [(row["p"], row["n"]) for row in rows(file.key, objects[file.key])]
                written.update(found)
            assert found == sorted(found)
            assert (found[0], found[-1]) == ((file.partition, file.first_offset), (file.partition, file.last_offset))
            assert (len(found), len(objects[file.key])) == (file.records, file.bytes)
        kinds = {(tp.partition, offset): kind for tp, sent in self.sent.items() for offset, kind in sent.items()}
        assert written == Counter(place for place, kind in kinds.items() if kind == GOOD)
        assert buried == Counter(place for place, kind in kinds.items() if kind == BAD)
        assert {key for key in objects if not key.startswith(STATE)} == {f.key for f in files if f.role is Role.VALUE}
        totals = world.log().load().totals
        assert totals.skipped == sum(kind == NULL for kind in kinds.values())
        assert totals.read == totals.written + totals.dead_letters + totals.skipped == len(kinds)
        for entry in entries:
            assert entry.totals.read == entry.totals.written + entry.totals.dead_letters + entry.totals.skipped
        reported = {(m.origin[1], m.origin[2]) for m in world.kafka.produced.get("dlq", []) if m.origin}
        assert reported == set(buried)
        assert all(world.frontier(tp) == max(sent, default=-1) + 1 for tp, sent in self.sent.items())


class TwoDriversThatKeepFilesOpen(TwoDrivers):
    config, part_size = KEEPING, 30


@pytest.mark.parametrize("machine", [TwoDrivers, TwoDriversThatKeepFilesOpen])
def test_no_interleaving_of_two_drivers_loses_or_doubles_a_record(machine: type[TwoDrivers]) -> None:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples(40), stateful_step_count=20, suppress_health_check=quiet),
    )


# ------------------------------------------------------------ single cases


def is_entry(key: str) -> bool:
    return "/commits/" in key


def test_the_lost_answer_of_an_entry_put_is_recognised_by_its_commit_id() -> None:
    world = world_of(3)
    world.start([lost_answer("put_new", 3, matches=is_entry)])
    world.add(range(3))

    assert world.sink.poll_and_commit()
    assert [entry.kind for entry in world.entries()] == [EntryKind.EPOCH, EntryKind.POSITION, EntryKind.DATA]
    assert world.numbers() == {"topics/orders/partition=0/orders+0+0000000000.json": [0, 1, 2]}


def test_an_entry_that_can_be_neither_put_nor_read_back_is_settled_by_the_next_cycle() -> None:
    world = world_of(3)
    world.start([
        lost_answer("put_new", 3, matches=is_entry),
        failure("get", 1, matches=lambda key: key.endswith("2.json")),
    ])  # fmt: skip
    world.add(range(3))

    assert not world.sink.poll_and_commit()
    assert world.objects() == {}
    world.add([3])
    assert world.sink.poll_and_commit()
    assert [entry.kind for entry in world.entries()] == [EntryKind.EPOCH, EntryKind.POSITION, EntryKind.DATA]
    assert list(world.numbers().values()) == [[0, 1, 2]]


def test_an_undecided_entry_is_settled_by_a_restart_too() -> None:
    world = world_of(3)
    world.start([
        lost_answer("put_new", 3, matches=is_entry),
        failure("get", None, matches=lambda key: key.endswith("2.json")),
    ])  # fmt: skip
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    assert not world.sink.poll_and_commit()
    world.start()

    assert list(world.numbers().values()) == [[0, 1, 2]]


def test_an_entry_that_the_store_did_not_take_is_put_again_before_anything_else() -> None:
    world = world_of(3)
    world.start([failure("put_new", n, matches=is_entry) for n in (3, 4, 5)])
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    assert world.objects() == {}
    world.add(range(3, 6))

    assert world.sink.poll_and_commit()
    assert [
        sum(p.frontier for p in entry.progress.values()) for entry in world.entries() if entry.kind is EntryKind.DATA
    ] == [3, 6]
    assert sorted(world.numbers().values()) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "faults",
    [
        [failure("put_new", n, matches=is_entry) for n in (3, 4, 5)],
        [lost_answer("put_new", 3, matches=is_entry), failure("get", 1, matches=lambda key: key.endswith("2.json"))],
        [failure("complete_upload", 1)],
    ],
    ids=["commit unknown", "answer unknown", "not published"],
)
def test_a_round_that_ends_at_a_later_try_is_reported_once_with_what_it_wrote(faults: list[Fault]) -> None:
    world, reported = world_of(3), Told()
    world.start(faults, reported)
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    assert (len(reported.rounds), len(reported.texts)) == (int(faults[0].verb == "complete_upload"), 1)

    assert world.sink.poll_and_commit()
    (done,) = reported.rounds
    assert (done.version, done.read, done.totals.written, done.totals.files, sum(done.lag.values())) == (2, 3, 3, 1, 0)


def test_an_undecided_entry_that_another_driver_has_overtaken_fences_this_one() -> None:
    world = world_of(3)
    world.start([failure("put_new", n, matches=is_entry) for n in (3, 4, 5)])
    world.add(range(3))
    first = world.sink
    assert not first.poll_and_commit()
    world.start()

    with pytest.raises(Fenced):
        first.poll_and_commit()
    assert world.sink.poll_and_commit()
    assert list(world.numbers().values()) == [[0, 1, 2]]


def test_positions_whose_commit_is_unknown_stop_the_sink() -> None:
    world = world_of(3)
    with pytest.raises(CommitUnknown, match="restart"):
        world.start([failure("put_new", n, matches=is_entry) for n in (2, 3, 4)])
    assert world.objects() == {}


def test_a_publication_that_failed_is_finished_before_anything_else_is_committed() -> None:
    world = world_of(3, **{"topics.refresh.interval.ms": "1000", "topics.regex": "orders.*", "topics": ""})
    world.start([failure("complete_upload", 1)])
    world.add(range(3))
    assert not world.sink.poll_and_commit()
    world.now += 2000
    world.kafka.create(TopicPartition("orders-new", 0))
    commits: list[str] = []
    world.store.put_new, put_new = (
        lambda key, data: commits.extend(world.objects()) or put_new(key, data),
        world.store.put_new,
    )  # type: ignore[method-assign]

    assert world.sink.poll_and_commit()
    assert commits == ["topics/orders/partition=0/orders+0+0000000000.json"]


def test_an_entry_of_a_later_format_is_refused_by_name() -> None:
    world = world_of(3)
    world.start()
    key = f"{STATE}orders/commits/{1:020d}.json"
    world.store.put(key, json.dumps({**json.loads(world.store.get(key)), "format": 99}).encode())

    with pytest.raises(LogDamaged, match=rf"{key}.*format 99.*Upgrade"):
        world.start()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": "x"}', b"\xff\xfe"])
def test_a_damaged_entry_is_refused_by_name(damage: bytes) -> None:
    world = world_of(3)
    world.start()
    key = f"{STATE}orders/commits/{1:020d}.json"
    world.store.put(key, damage)

    with pytest.raises(LogDamaged, match=rf"{key} is damaged"):
        world.start()


def test_a_damaged_checkpoint_is_refused_by_name() -> None:
    world = world_of(3)
    world.start()
    world.store.put(key := f"{STATE}orders/checkpoints/{99:020d}.json", b'{"entry": ')

    with pytest.raises(LogDamaged, match=key):
        world.start()


def test_after_a_hundred_entries_a_start_reads_the_checkpoint_and_little_else() -> None:
    world = world_of(1)
    world.start()
    for offset in range(110):
        world.add([offset])
        world.sink.poll_and_commit()
    before = world.log().load()
    world.start()
    read = [key for verb, key in world.calls if verb == "get"]

    assert [key for key in world.store.objects if "/checkpoints/" in key] == [
        f"{STATE}orders/checkpoints/{99:020d}.json"
    ]
    assert sum(map(is_entry, read)) < 2 * 15
    assert (before.version, before.totals.written) == (111, 110)
    assert world.sink.log.state.totals == before.totals
    assert world.sink.log.state.frontier == before.frontier


def test_an_upload_that_is_gone_is_written_again_with_the_same_content() -> None:
    whole, broken = (World({**CONFIG, "s3.compression.type": "gzip"}) for _ in range(2))
    for world in (whole, broken):
        for offset in range(6):
            time = world.now + offset % 2 * 3_600_000
            world.kafka.add(PARTITIONS[0], MemoryRecord(offset, time, None, json.dumps({"n": offset}).encode()))
    whole.start()
    whole.sink.poll_and_commit()
    broken.start([Fault("put_new", lambda key: abort_all(broken), Moment.AFTER, 3)])
    assert broken.sink.poll_and_commit()

    assert broken.objects() == whole.objects()
    assert len(broken.objects()) == 2


def test_a_file_of_two_field_tuples_with_one_path_is_written_again() -> None:
    fields = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "a,b",
    }
    whole, broken = (World({**fields, "flush.size": "4"}) for _ in range(2))
    for world in (whole, broken):
        for offset in range(4):
            pair = {"a": "x/b=y", "b": "z"} if offset % 2 else {"a": "x", "b": "y/b=z"}
            world.kafka.add(
                PARTITIONS[0], MemoryRecord(offset, world.now, None, json.dumps({"n": offset, **pair}).encode())
            )
    whole.start()
    whole.sink.poll_and_commit()
    assert whole.numbers() == {"topics/orders/a=x/b=y/b=z/orders+0+0000000000.json": [0, 1, 2, 3]}
    broken.start([Fault("put_new", lambda key: abort_all(broken), Moment.AFTER, 3)])
    assert broken.sink.poll_and_commit()

    assert broken.objects() == whole.objects()


def abort_all(world: World) -> None:
    for upload_id, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, upload_id)


def test_an_upload_that_is_gone_from_kafka_too_stops_the_sink_with_key_and_offsets() -> None:
    world = world_of(3)

    def lose(key: str) -> None:
        abort_all(world)
        world.kafka.trim(PARTITIONS[0], start=2)

    world.start([Fault("put_new", lose, Moment.AFTER, 3)])
    world.add(range(3))

    expected = r"topics/orders/partition=0/orders\+0\+0000000000\.json \(offsets 0 to 2\)"
    with pytest.raises(OffsetsLost, match=expected):
        world.sink.poll_and_commit()
    with pytest.raises(OffsetsLost, match=expected):
        world.start()


def test_a_driver_that_lost_the_sink_says_who_has_it() -> None:
    world = world_of(3)
    first = world.start()
    world.start()
    world.add(range(3))

    with pytest.raises(Fenced, match=r"owned by another driver.*epoch 2.*one driver per sink name"):
        first.poll_and_commit()
    assert world.objects() == {}
