"""What becomes of a topic-partition that fails, and what do the others see of it?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event

import pytest

from kafka_s3.engine.log.entry import read_entry
from kafka_s3.engine.loop.beside import ReadsBeside, at_once
from kafka_s3.engine.loop.planner import PartitionState, assignment
from kafka_s3.engine.loop.runner import run_available_now
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import (
    Defect,
    EngineDied,
    Fenced,
    OffsetsLost,
    PartitionsStopped,
    RecordError,
    RegistryUnavailable,
    SinkError,
    StorageError,
    StorageUnavailable,
    TaskTimedOut,
    TopicRecreated,
    UploadMissing,
)
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome
from kafka_s3.run.spark.task import TaskTime, lateness, within
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore, failure
from kafka_s3_testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.configurations import STATE
from tests.support.memory_world import START_MS, World
from tests.support.observers import Warnings
from tests.support.partition_states import partition_state

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOTH = (FIRST, SECOND)
STRICT = {"flush.size": "3", "errors.tolerance": "none"}


def world_of_two(**config: str) -> World:
    world = World({**STRICT, **config}, topics=BOTH)
    for tp in BOTH:
        world.add(range(3), tp=tp)
    return world


def spoil(world: World, tp: TopicPartition = FIRST, offset: int = 3) -> None:
    """A record that is not JSON."""
    world.kafka.add(tp, MemoryRecord(offset, START_MS, None, b"{oops"))


def numbers(world: World, tp: TopicPartition) -> list[int]:
    """What the objects of a topic-partition hold."""
    return sorted(n for key, found in world.numbers().items() if f"orders+{tp.partition}+" in key for n in found)


def _nothing() -> Pipeline:
    raise AssertionError("nothing is read")


# ------------------------------------------------------------ stops


def test_a_bad_record_stops_its_topic_partition_and_the_others_go_on() -> None:
    world, reported = world_of_two(), Warnings()
    spoil(world)
    world.start(observer=reported)
    assert world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    assert world.sink.poll_and_commit()

    assert numbers(world, SECOND) == [*range(6)]
    assert numbers(world, FIRST) == [0, 1, 2]
    (problem,) = world.sink.open_problems
    assert problem.startswith(
        "orders-0 has stopped at 2024-01-15T10:00:00Z: Sink orders cannot pass over orders-0 offset 3"
    )
    assert problem.endswith("The others go on. Restart the sink once that is mended.")
    assert reported.texts == [problem]


def test_a_sink_that_ends_while_some_have_stopped_says_so_by_its_exit_code() -> None:
    world = world_of_two()
    spoil(world)
    world.start()
    with pytest.raises(PartitionsStopped, match=r"1 topic-partition has stopped \(orders-0\)\..*offset 3") as ended:
        run_available_now(world.sink, backoff_ms=1, wait=lambda ms: False)
    assert ended.value.exit_code == 3
    assert numbers(world, SECOND) == [0, 1, 2]


def test_under_the_scope_of_the_sink_it_stops_once_the_others_are_committed() -> None:
    world = world_of_two(**{"errors.stop.scope": "sink"})
    spoil(world)
    world.start()
    with pytest.raises(RecordError, match="cannot pass over orders-0 offset 3"):
        world.sink.poll_and_commit()
    assert numbers(world, SECOND) == [0, 1, 2]


def test_where_all_have_stopped_the_sink_ends_with_the_first_reason_and_has_reported_all() -> None:
    world, reported = world_of_two(**{"behavior.on.lost.offsets": "fail"}), Warnings()
    world.start(observer=reported)
    world.sink.poll()
    spoil(world)
    world.kafka.trim(SECOND, start=2)
    with pytest.raises(OffsetsLost, match="orders-1: wanted 0, available from 2") as ended:
        world.sink.poll_and_commit()
    assert ended.value.exit_code == 1
    assert [text.partition(" at ")[0] for text in reported.texts[-2:]] == [
        "orders-0 has stopped",
        "orders-1 has stopped",
    ]


def test_a_restart_tries_again_what_had_stopped() -> None:
    world = world_of_two()
    spoil(world)
    world.start()
    world.sink.poll_and_commit()
    world.kafka.records[FIRST].pop()
    world.add([3], tp=FIRST)
    world.start()
    assert world.sink.poll_and_commit()
    assert (numbers(world, FIRST), world.sink.open_problems) == ([0, 1, 2], ())


def test_offsets_that_are_lost_stop_their_topic_partition_alone() -> None:
    world = world_of_two(**{"behavior.on.lost.offsets": "fail"})
    world.start()
    world.kafka.trim(FIRST, start=2)
    world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    world.sink.poll_and_commit()

    assert numbers(world, SECOND) == [*range(6)]
    assert isinstance(world.sink.failures.stopped[FIRST].error, OffsetsLost)
    assert world.sink.topics.lag()[FIRST] == 3


def test_a_log_that_was_cut_stops_alone_and_how_far_it_is_behind_is_still_seen() -> None:
    world = world_of_two(**{"behavior.on.lost.offsets": "fail"})
    world.start()
    world.sink.poll_and_commit()
    world.kafka.cut(FIRST, at=1)
    world.sink.poll_and_commit()
    world.add(range(1, 9), tp=FIRST)
    world.add(range(3, 6), tp=SECOND)
    world.sink.poll_and_commit()

    assert numbers(world, SECOND) == [*range(6)]
    assert isinstance(world.sink.failures.stopped[FIRST].error, OffsetsLost)
    assert world.sink.topics.lag()[FIRST] == 6


def test_a_topic_that_was_created_again_stops_alone() -> None:
    other = TopicPartition("refunds", 0)
    world = World({**STRICT, "topics": "orders,refunds", "topics.refresh.interval.ms": "1"}, topics=(FIRST, other))
    world.start()
    world.kafka.ids["refunds"] = "another"
    world.add(range(3), tp=FIRST)
    world.now += 10
    world.sink.poll_and_commit()
    assert numbers(world, FIRST) == [0, 1, 2]
    assert isinstance(world.sink.failures.stopped[other].error, TopicRecreated)


def test_too_many_dead_letters_stop_those_that_have_them() -> None:
    config = {"errors.tolerance": "all", "errors.deadletter.max.ratio": "0.5", "flush.size": "100"}
    world = world_of_two(**config)
    world.add(range(3, 100), tp=SECOND)
    for offset in range(3, 200):
        spoil(world, FIRST, offset)
    world.start()
    world.sink.poll_and_commit()
    assert world.sink.failures.stopped.keys() == {FIRST}
    assert numbers(world, SECOND) == [*range(100)]


def test_a_bucket_that_refuses_one_key_for_good_stops_that_topic_partition() -> None:
    world = world_of_two()
    refusal = StorageError("CreateMultipartUpload was refused (403 AccessDenied).")
    world.start([failure("create_upload", None, matches=lambda key: "orders+0+" in key, error=refusal)])
    world.sink.poll_and_commit()
    assert (numbers(world, FIRST), numbers(world, SECOND)) == ([], [0, 1, 2])
    assert world.sink.failures.stopped.keys() == {FIRST}


# ------------------------------------------------------------ tries


class Failing:
    """An engine whose reads of one topic-partition fail as long as there are errors."""

    def __init__(self, kafka: MemoryKafka, errors: Iterator[SinkError]) -> None:
        self.kafka, self.errors = kafka, errors

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        return [outcome for wanted in assignments for outcome in self._read(wanted)]

    def _read(self, wanted: Assignment) -> list[TaskOutcome]:
        error = next(self.errors, None) if wanted.topic_partition == FIRST else None
        return self.kafka.read([wanted]) if error is None else [TaskFailure(wanted.topic_partition, error)]


def test_what_may_pass_is_tried_again_alone_with_growing_pauses() -> None:
    world = world_of_two(**{"retry.backoff.ms": "1000", "errors.retry.delay.max.ms": "3000"})
    world.start([failure("create_upload", nth, matches=lambda key: "orders+0+" in key) for nth in (1, 2)])
    assert world.sink.poll_and_commit()
    first = world.sink.failures.passing[FIRST]
    assert (first.tries, numbers(world, SECOND)) == (1, [0, 1, 2])
    assert 500 <= (first.next_ms or 0) - world.now <= 1000

    world.sink.poll_and_commit()
    assert world.sink.failures.passing[FIRST].tries == 1, "not before its pause is over"
    world.now += 1000
    world.sink.poll_and_commit()
    second = world.sink.failures.passing[FIRST]
    assert (second.tries, second.since_ms) == (2, first.since_ms)
    assert 1000 <= (second.next_ms or 0) - world.now <= 2000
    assert "orders-0 fails since 2024-01-15T10:00:00Z" in world.sink.open_problems[0]
    assert "Tried 2 times, next at" in world.sink.open_problems[0]

    world.now += 2000
    world.sink.poll_and_commit()
    assert (numbers(world, FIRST), world.sink.open_problems) == ([0, 1, 2], ())


def test_a_registry_is_waited_for_as_long_as_its_patience_lasts_and_costs_its_topic_only() -> None:
    world = world_of_two(**{"errors.retry.timeout": "4000", "retry.backoff.ms": "1000"})
    world.start()
    world.sink.source = world.sink.retries.source = Failing(world.kafka, iter([RegistryUnavailable("away")] * 99))
    for _ in range(10):
        world.sink.poll_and_commit()
        world.now += 1000
    assert world.sink.failures.stopped.keys() == {FIRST}
    assert numbers(world, SECOND) == [0, 1, 2]


def test_a_run_over_what_is_there_ends_when_what_failed_is_done() -> None:
    world, waits = world_of_two(**{"retry.backoff.ms": "1000"}), list[int]()
    world.start([failure("upload_part", nth, matches=lambda key: "orders+0+" in key) for nth in (1, 2, 3)])

    def wait(ms: int) -> bool:
        waits.append(ms)
        world.now += ms
        return False

    world.sink.open = lambda: None  # type: ignore[method-assign]  # the run opens a sink of its own
    run_available_now(world.sink, backoff_ms=60_000, wait=wait, close=Reason.FLUSH_NOW)
    assert numbers(world, FIRST) == numbers(world, SECOND) == [0, 1, 2]
    assert max(waits) < 60_000, "it waits no longer than until the next try"


def test_what_nobody_foresaw_stops_its_topic_partition_and_says_where() -> None:
    world = world_of_two()
    (error,) = [KeyError("colour")]
    pipeline = world.kafka.pipeline

    def broken(wanted: Assignment) -> bool:
        return wanted.topic_partition == FIRST

    class Broken(MemoryKafka):
        def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
            def batches() -> Iterator[object]:
                raise error
                yield

            return [
                pipeline().outcome(one, batches(), self.store) if broken(one) else world.kafka.read([one])[0]  # type: ignore[arg-type]
                for one in assignments
            ]

    world.start()
    world.sink.source = world.sink.retries.source = Broken(pipeline, world.store)
    world.sink.poll_and_commit()
    found = world.sink.failures.stopped[FIRST].error
    assert isinstance(found, Defect)
    assert "KeyError at test_failures.py:" in str(found)
    assert numbers(world, SECOND) == [0, 1, 2]


# ------------------------------------------------------------ files that wait


def completion(tp: TopicPartition, *nth: int | None, error: SinkError | None = None) -> list[Fault]:
    return [
        failure("complete_upload", one, matches=lambda key: f"orders+{tp.partition}+" in key, error=error)
        for one in nth
    ]


def test_a_file_that_cannot_be_completed_waits_and_later_entries_name_it_until_it_is_visible() -> None:
    world = world_of_two(**{"retry.backoff.ms": "1000", "errors.retry.delay.max.ms": "1000"})
    world.start(completion(FIRST, 1, 2))
    assert world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    world.add(range(3, 6), tp=FIRST)
    world.sink.poll_and_commit()

    last = world.sink.log.last
    assert last is not None
    assert [one.file.key for one in last.waiting] == ["topics/orders/partition=0/orders+0+0000000000.json"]
    assert (numbers(world, FIRST), numbers(world, SECOND)) == ([], [*range(6)])
    assert world.frontier(FIRST) == 3, "its next records are not read before"
    for _ in range(3):
        world.now += 1000
        world.sink.poll_and_commit()
    assert numbers(world, FIRST) == [*range(6)]
    assert world.sink.log.waiting == ()


def test_an_entry_that_names_waiting_files_cannot_be_overlooked_by_an_older_version() -> None:
    world = world_of_two()
    world.start(completion(FIRST, None))
    world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    world.sink.poll_and_commit()
    entries = [json.loads(data) for key, data in sorted(world.store.objects.items()) if "/commits/" in key]
    assert [entry["format"] for entry in entries[:-1]] == [1] * (len(entries) - 1)
    assert entries[-1]["format"] == 2
    content = json.dumps(entries[-1]).encode()
    assert json.loads(read_entry(content, key="k").to_json()) == entries[-1]


def test_a_driver_that_takes_over_completes_what_waits() -> None:
    world = world_of_two()
    world.start(completion(FIRST, None))
    world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    world.sink.poll_and_commit()
    assert numbers(world, FIRST) == []
    world.start()
    assert numbers(world, FIRST) == [0, 1, 2]
    assert world.store.uploads == {}


def test_a_driver_that_cannot_complete_it_either_starts_all_the_same_and_names_it() -> None:
    world, reported = world_of_two(), Warnings()
    world.start(completion(FIRST, None))
    world.sink.poll_and_commit()
    world.start(completion(FIRST, None), reported)
    world.add(range(3, 6), tp=SECOND)
    assert world.sink.poll_and_commit()
    assert numbers(world, SECOND) == [*range(6)]
    assert any(text.startswith("orders-0 fails since") for text in world.sink.open_problems)
    world.start()
    assert numbers(world, FIRST) == [0, 1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_waiting_file_whose_upload_goes_is_made_again(codec: str) -> None:
    world = world_of_two(**{"retry.backoff.ms": "1000", "s3.compression.type": codec})
    world.start(completion(FIRST, 1))
    world.sink.poll_and_commit()
    world.add(range(3, 6), tp=SECOND)
    world.sink.poll_and_commit()
    for upload_id, upload in world.store.uploads.items():
        world.store.abort_upload(upload.key, upload_id)
    world.now += 60_000
    world.sink.poll_and_commit()
    assert numbers(world, FIRST) == [0, 1, 2]
    assert world.store.uploads == {}
    assert world.sink.log.waiting == ()


def test_followers_wait_until_all_files_are_visible_and_then_catch_up() -> None:
    world = world_of_two(
        **{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq", "retry.backoff.ms": "1000"}
    )
    spoil(world, SECOND)
    world.start(completion(FIRST, 1))
    world.sink.poll_and_commit()
    assert "dlq" not in world.kafka.produced
    world.now += 60_000
    world.sink.poll_and_commit()
    world.sink.poll_and_commit()
    assert len(world.kafka.produced["dlq"]) == 1


# ------------------------------------------------------------ fences, and tasks without an end


def test_a_fence_wins_over_a_bucket_that_takes_no_aborts() -> None:
    world = world_of_two(**{"commit.max.files": "1", "tasks.max": "2"})
    away = StorageUnavailable("away")
    first = world.start([failure("abort_upload", None, error=away)])
    world.start()
    with pytest.raises(Fenced):
        first.poll_and_commit()


def test_a_driver_that_learns_of_its_successor_from_a_lost_upload_leaves_no_upload_of_the_others() -> None:
    world = world_of_two()
    first = world.start()
    world.start()
    gone = failure("upload_part", 1, matches=lambda key: "orders+0+" in key, error=UploadMissing("gone"))
    world.kafka.store = FaultyStore(world.store, [gone])
    with pytest.raises(Fenced):
        first.poll_and_commit()
    assert world.store.uploads == {}


def test_a_read_beside_the_loop_is_not_lost_where_another_one_ends_the_round() -> None:
    retries, states = (
        ReadsBeside(Failing(MemoryKafka(_nothing, MemoryStore()), iter(())), at_once),
        dict[TopicPartition, PartitionState](),
    )
    for tp in BOTH:
        states[tp] = PartitionState(tp, 0, None)
        retries.begin([], {tp: states[tp]}, 0)
    taken = retries.finished()
    next(taken)
    taken.close()  # the round ended with an error
    assert len(list(retries.finished())) == 1
    assert retries.running == []


def test_a_task_that_does_not_end_is_given_up_and_what_it_brought_before_is_kept() -> None:
    gone, found = list[bool](), list[int]()
    never = Event()

    def items() -> Iterator[int]:
        yield 1
        never.wait(60)

    with pytest.raises(TaskTimedOut, match=r"within 0\.2 s \(task\.timeout\.ms\)"):
        found.extend(within(TaskTime(0.2), items(), give_up=lambda: gone.append(True)))
    never.set()
    assert (found, gone) == ([1], [True])


def test_what_a_task_raises_reaches_whoever_waits_for_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable, match="away"):
        list(within(TaskTime(60), items(), give_up=lambda: None))


def test_a_task_is_late_before_it_is_given_up() -> None:
    limit = TaskTime(10, begun_s=time.monotonic() - 8)
    assert limit.is_late()
    assert limit.left_s() > 0


def test_what_a_task_leaves_that_was_to_make_a_lost_file_again_is_removed() -> None:
    world = world_of_two()

    class Dying(MemoryKafka):
        def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
            outcomes = world.kafka.read(assignments)
            again = [one.topic_partition for one in assignments if one.only is not None]
            return [TaskFailure(tp, EngineDied("a worker died")) for tp in again] or outcomes

    def lose(key: str) -> None:
        for upload in list(world.store.pending(key)):
            world.store.abort_upload(upload.key, upload.id)

    store = FaultyStore(world.store, [Fault("complete_upload", lose, matches=lambda key: "orders+0+" in key)])
    world.kafka.store = store
    dying = Dying(world.kafka.pipeline, store)
    world.sink = build_sink(world.settings, world.kafka, source=dying, store=store, clock_ms=lambda: world.now)
    world.sink.open()
    world.sink.poll_and_commit()
    assert [upload.key for upload in world.store.pending("")] == ["topics/orders/partition=0/orders+0+0000000000.json"]
    world.sink.source = world.kafka
    world.sink.poll_and_commit()
    assert list(world.store.pending("")) == []


def test_an_assignment_may_have_less_time_than_its_task() -> None:
    task, wanted = TaskTime(600), assignment(partition_state(10))
    assert not lateness(wanted, task)()
    assert not lateness(replace(wanted, within_s=60.0), task)()
    assert lateness(replace(wanted, within_s=-1.0), task)()
    assert lateness(replace(wanted, within_s=60.0), TaskTime(10, begun_s=time.monotonic() - 8))()


def test_a_late_task_reports_what_it_has_and_the_rest_follows() -> None:
    world = World({"flush.size": "2"}, batch_size=2)
    world.add(range(10))
    world.start()
    late: Callable[[], bool] = lambda: True  # noqa: E731
    kafka = world.kafka

    class Late(MemoryKafka):
        def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
            (one,) = assignments
            batches = kafka.batches(one.topic_partition, one.first_unread, until=one.until)
            return [kafka.pipeline().outcome(one, batches, kafka.store, is_late=late)]

    world.sink.source = Late(kafka.pipeline, kafka.store)
    world.sink.poll_and_commit()
    assert numbers(world, FIRST) == [*range(10)]
    assert len([entry for entry in world.entries() if entry.files]) > 1
    assert not [key for key in world.store.objects if key.startswith(f"{STATE}orders/open/")]
