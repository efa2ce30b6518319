"""How are failing topic-partitions tried again while the others go on? By reads beside the loop, which takes their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.engine.loop.partition_state import PartitionState
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskOutcome

AT_ONCE: Final = 4
"""So many reads run beside the loop at most."""
Outcomes = list[TaskOutcome]
Background = Callable[[Callable[[], Outcomes]], "Future[Outcomes]"]
"""Does work beside the loop."""


def at_once(work: Callable[[], Outcomes]) -> Future[Outcomes]:
    """Does it before anything else: for loops that nobody waits for, as in memory."""
    done: Future[Outcomes] = Future()
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
    return done


@dataclass(frozen=True, slots=True)
class Retry:
    """A read on its way: when it began (epoch ms), and where its topic-partitions stood then."""

    started_ms: int
    before: Mapping[TopicPartition, PartitionState]
    outcomes: Future[Outcomes]

    def holds(self, state: PartitionState | None, tp: TopicPartition) -> bool:
        """Whether the topic-partition still stands where the read began."""
        before = self.before[tp]
        return state is not None and (
            (state.frontier, state.open_state, state.recorded, state.leader_epoch)
            == (before.frontier, before.open_state, before.recorded, before.leader_epoch)
        )


@dataclass
class Retries:
    """The reads of one sink that run beside its loop."""

    source: Source
    background: Background
    running: list[Retry] = field(default_factory=list)

    @property
    def busy(self) -> frozenset[TopicPartition]:
        """The topic-partitions that are being read."""
        return frozenset(tp for one in self.running for tp in one.before)

    @property
    def room(self) -> int:
        """How many more reads may begin."""
        return AT_ONCE - len(self.running)

    def begin(self, due: Sequence[Assignment], states: Mapping[TopicPartition, PartitionState], now_ms: int) -> None:
        """Begins a read of these assignments."""
        before = {one.topic_partition: states[one.topic_partition] for one in due}
        self.running.append(Retry(now_ms, before, self.background(lambda: self.source.read(due))))

    def finished(self) -> Iterator[Retry]:
        """The reads that have ended; one that is not taken, because what became of another ended the loop's round, is given again."""
        for one in [one for one in self.running if one.outcomes.done()]:
            self.running.remove(one)
            yield one
