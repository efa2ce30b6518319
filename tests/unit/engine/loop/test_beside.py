"""Who waits for whom, where some topic-partitions of a sink have a backlog and others have not?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pytest

from kafka_s3.engine.control.commands import CommandChannel, Control
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.beside import PIECE_FILES, PIECE_S, Outcomes, pieces
from kafka_s3.engine.loop.planner import assignment
from kafka_s3.engine.loop.runner import run_continuously
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import Fenced
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import run_in_daemon
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.run.wiring.sink import build_sink
from tests.support.memory_world import World
from tests.support.partition_states import partition_state

LIVE, FIRST, SECOND = TopicPartition("live", 0), TopicPartition("old", 0), TopicPartition("old", 1)
FLUSH, TASK, BACKLOG = 4, 20, 100


@dataclass
class Later:
    """What runs beside the loop, until a test has it run."""

    waiting: list[Callable[[], None]] = field(default_factory=list)

    def __call__(self, work: Callable[[], Outcomes]) -> Future[Outcomes]:
        future: Future[Outcomes] = Future()
        self.waiting.append(lambda: future.set_result(work()))
        return future

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


@dataclass
class Watched:
    """An engine, and what it was asked to read."""

    world: World
    asked: list[Assignment] = field(default_factory=list)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        self.asked += assignments
        return self.world.kafka.read(assignments)


@dataclass
class Scene:
    """A sink of two topics, of which a task reads `TASK` records at most."""

    slots: int = 2
    background: Callable[[Callable[[], Outcomes]], Future[Outcomes]] = field(default_factory=Later)
    channel: CommandChannel = field(default_factory=CommandChannel)
    world: World = field(init=False)
    engine: Watched = field(init=False)
    sink: Sink = field(init=False)

    def __post_init__(self) -> None:
        config = {"topics": "live,old", "flush.size": str(FLUSH), "tasks.max": "8"}
        self.world = World(config, topics=(LIVE, FIRST, SECOND))
        self.world.kafka.store, self.engine = self.world.store, Watched(self.world)
        self.sink = build_sink(
            self.world.settings,
            self.world.kafka,
            source=self.engine,
            store=self.world.store,
            clock_ms=lambda: self.world.now,
            background=self.background,
            slots=lambda: self.slots,
        )
        behaviour = self.sink.behaviour
        self.sink.behaviour = replace(behaviour, readiness=replace(behaviour.readiness, task_records=TASK))
        self.sink.topics.behaviour = self.sink.behaviour

    def written(self, tp: TopicPartition) -> list[int]:
        """The records of a topic-partition that are visible, in order."""
        found = [
            numbers for key, numbers in sorted(self.world.numbers().items()) if f"{tp.topic}+{tp.partition}+" in key
        ]
        return [number for numbers in found for number in numbers]

    def everything(self, tp: TopicPartition = FIRST, records: int = BACKLOG) -> bool:
        return self.written(tp) == list(range(records))


def with_backlog(scene: Scene, *, live: int = FLUSH) -> Scene:
    """The scene, opened, after it was polled for the first time."""
    scene.world.add(range(BACKLOG), tp=FIRST)
    scene.world.add(range(BACKLOG), tp=SECOND)
    scene.world.add(range(live), tp=LIVE)
    scene.sink.open()
    return scene


def test_a_file_that_is_complete_does_not_wait_for_the_backlog_of_another_topic() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later))
    assert scene.sink.poll_and_commit()
    assert (scene.written(LIVE), scene.written(FIRST)) == ([0, 1, 2, 3], [])
    scene.world.add(range(FLUSH, 2 * FLUSH), tp=LIVE)
    assert scene.sink.poll_and_commit()  # the reads beside the loop are still on their way
    assert (scene.everything(LIVE, 2 * FLUSH), scene.written(FIRST)) == (True, [])
    while later.waiting:
        later.run()
        assert scene.sink.poll_and_commit()
    assert scene.everything(FIRST)
    assert scene.everything(SECOND)
    assert scene.world.log().load().totals.read == 2 * BACKLOG + 2 * FLUSH


def test_a_piece_is_bounded_in_time_and_in_files_and_no_more_are_read_than_have_a_place() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later, slots=1))
    scene.sink.poll_and_commit()
    later.run()
    (piece,) = [one for one in scene.engine.asked if one.topic_partition != LIVE]
    assert (piece.within_s, piece.max_files) == (PIECE_S, PIECE_FILES)
    assert [one.within_s for one in scene.engine.asked if one.topic_partition == LIVE] == [None]
    scene.sink.poll_and_commit()
    later.run()
    assert scene.engine.asked[-1].topic_partition != piece.topic_partition  # whoever was read longest ago is next


def test_where_all_have_a_backlog_the_loop_reads_it_in_whole_tasks() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later), live=BACKLOG)
    scene.sink.poll_and_commit()
    assert later.waiting == []
    assert {one.within_s for one in scene.engine.asked} == {None}
    assert all(map(scene.everything, (LIVE, FIRST, SECOND)))


def test_what_one_task_reads_is_no_backlog() -> None:
    later = Later()
    scene = Scene(background=later)
    scene.world.add(range(TASK), tp=FIRST)
    scene.world.add(range(FLUSH), tp=LIVE)
    scene.sink.open()
    scene.sink.poll_and_commit()
    assert (later.waiting, scene.everything(FIRST, TASK)) == ([], True)


def test_without_places_beside_the_loop_it_reads_all_by_itself() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later, slots=0))
    scene.sink.poll_and_commit()
    assert (later.waiting, scene.everything(FIRST)) == ([], True)


def test_a_flush_closes_the_files_of_what_was_being_read_too() -> None:
    scene = with_backlog(Scene(background=lambda work: run_in_daemon(work, "test")))
    scene.world.add([BACKLOG], tp=FIRST)
    scene.sink.poll_and_commit()
    scene.sink.poll()
    assert scene.sink.try_drain(close=Reason.FLUSH_NOW)
    assert scene.everything(FIRST, BACKLOG + 1)


def test_what_is_being_read_is_committed_before_the_sink_ends() -> None:
    scene = with_backlog(Scene(background=lambda work: run_in_daemon(work, "test")))
    scene.sink.poll_and_commit()
    scene.sink.end()
    assert scene.sink.backlog.running == []
    assert scene.written(FIRST) or scene.written(SECOND)
    assert list(scene.world.store.pending("")) == []


def test_a_sink_that_ends_under_a_successor_leaves_no_upload_of_what_was_being_read() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later))
    scene.sink.poll_and_commit()
    later.run()
    assert len(scene.sink.backlog.running) > 1
    assert list(scene.world.store.pending("")) != []
    successor = CommitLog(scene.world.store, state_paths(scene.world.settings), clock_ms=lambda: scene.world.now)
    successor.claim(cluster_id=successor.load().cluster_id, publish=lambda _: [])
    with pytest.raises(Fenced):
        scene.sink.end()
    assert list(scene.world.store.pending("")) == []
    assert scene.written(FIRST) == scene.written(SECOND) == []


class Paused(CommandChannel):
    """Asks for a pause once the sink has worked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Control()
        self.rested = False

    def commands(self) -> Control:
        return self.asked

    def resting(self, commands: Control) -> None:
        self.rested = True


def test_what_is_being_read_is_committed_before_the_sink_rests() -> None:
    channel = Paused()

    def read_beside(work: Callable[[], Outcomes]) -> Future[Outcomes]:
        channel.asked = replace(channel.asked, paused=True)  # while it is being read
        return run_in_daemon(work, "test")

    scene = with_backlog(Scene(background=read_beside))
    run_continuously(scene.sink, poll_ms=1_000, backoff_ms=1_000, wait=lambda _: channel.rested, channel=channel)
    assert scene.sink.backlog.running == []
    assert len(scene.engine.asked) < 1 + 2 * BACKLOG // TASK  # it did not go on
    assert list(scene.world.store.pending("")) == []


def test_the_loop_looks_soon_where_a_piece_is_being_read() -> None:
    later = Later()
    scene = with_backlog(Scene(background=later))
    assert scene.sink.pause_ms(1_000) == 1_000
    scene.sink.poll_and_commit()
    assert scene.sink.pause_ms(1_000) == 100
    assert scene.sink.pause_ms(50) == 50


def test_of_a_backlog_the_shortest_ranges_come_first_and_of_long_ones_that_which_waits_longest() -> None:
    waiting = {0: (5_000_000, 7), 1: (60_000, 9), 2: (9_000_000, 3)}
    tps = {number: TopicPartition("t", number) for number in waiting}
    states = {
        tps[number]: replace(partition_state(records, examined_ms=at_ms), topic_partition=tps[number])
        for number, (records, at_ms) in waiting.items()
    }
    due = [replace(assignment(state), max_files=200) for state in states.values()]
    chosen = pieces(due, states, 2)
    assert [one.topic_partition.partition for one in chosen] == [1, 2]
    assert {one.max_files for one in chosen} == {PIECE_FILES // 2}
    assert {one.max_files for one in pieces(due, states, 1)} == {200}
