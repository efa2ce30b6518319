"""What is read beside the loop? What fails, and a backlog that others would wait for.

A task reads up to a million records, and a round ends with its last task: whoever is near the head of its log would wait for that, and for
the thousands of files that may come of it. So where some topic-partitions have a backlog and others have not, the backlog is read in short
pieces beside the loop, which goes on with the others and commits each piece once it is there. Where all have one, nobody waits, and the
loop reads whole tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.engine.loop.planner import QUIET_OFFSETS, PartitionState
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskOutcome

Outcomes = list[TaskOutcome]
Background = Callable[[Callable[[], Outcomes]], "Future[Outcomes]"]
"""Does work beside the loop."""
PIECE_S: Final = 1.0
PIECE_FILES: Final = 300
"""A piece of a backlog takes about so long and has so many files at most: until all are visible, no other commit begins."""
PIECES: Final = 2
"""So many are read at a time, each by its part of the tasks that Spark can run: where one ends, a task of the loop can begin."""


def at_once(work: Callable[[], Outcomes]) -> Future[Outcomes]:
    """Does it before anything else: for loops that nobody waits for, as in memory."""
    done: Future[Outcomes] = Future()
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
    return done


@dataclass(frozen=True, slots=True)
class ReadBeside:
    """A read on its way: when it began (epoch ms), and the positions of its topic-partitions then."""

    started_ms: int
    before: Mapping[TopicPartition, PartitionState]
    outcomes: Future[Outcomes]

    def holds(self, tp: TopicPartition, states: Mapping[TopicPartition, PartitionState]) -> bool:
        """Whether the topic-partition is still where the read began."""
        before, state = self.before[tp], states.get(tp)
        return state is not None and (
            (state.incarnation, state.frontier, state.open_state)
            == (before.incarnation, before.frontier, before.open_state)
        )


@dataclass
class ReadsBeside:
    """Reads of one sink that run beside its loop."""

    source: Source
    background: Background
    running: list[ReadBeside] = field(default_factory=list)

    @property
    def busy(self) -> frozenset[TopicPartition]:
        """The topic-partitions that are being read."""
        return frozenset(tp for one in self.running for tp in one.before)

    @property
    def tasks(self) -> int:
        """How many ranges are still being read."""
        return sum(len(one.before) for one in self.running if not one.outcomes.done())

    def begin(self, due: Sequence[Assignment], states: Mapping[TopicPartition, PartitionState], now_ms: int) -> None:
        """Begins a read of these assignments."""
        before = {one.topic_partition: states[one.topic_partition] for one in due}
        self.running.append(ReadBeside(now_ms, before, self.background(lambda: self.source.read(due))))

    def finished(self) -> Iterator[ReadBeside]:
        """The reads that have ended; one that is not taken, because what became of another ended the loop's round, is given again."""
        for one in [one for one in self.running if one.outcomes.done()]:
            self.running.remove(one)
            yield one

    def wait(self) -> None:
        """Until all have ended."""
        wait([one.outcomes for one in self.running])


# ------------------------------------------------------------ a backlog


def is_backlog(state: PartitionState) -> bool:
    """Whether what is unread of a topic-partition is not quickly done beside others."""
    return unread(state) >= min(QUIET_OFFSETS, state.least_limit)


def unread(state: PartitionState) -> int:
    """The records that no task has read, whatever the next one may read at most."""
    return state.head - state.first_unread


def pieces(due: Sequence[Assignment], states: Mapping[TopicPartition, PartitionState], tasks: int) -> list[Assignment]:
    """The next piece of a backlog, for so many tasks: the shortest first; of long ones that which was read longest ago."""

    def turn(one: Assignment) -> tuple[int, int]:
        state = states[one.topic_partition]
        return min(unread(state), state.least_limit), state.examined_ms or 0

    chosen = sorted(due, key=turn)[:tasks]
    files = max(1, PIECE_FILES // max(1, len(chosen)))
    return [
        replace(one, within_s=PIECE_S, max_files=files if one.max_files is None else min(files, one.max_files))
        for one in chosen
    ]
