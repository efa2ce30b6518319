"""Where do records go whose topic a transform has changed? Into files of that topic, which the rotation rules treat as one of its own.

Each target topic has its counts, its base time and its open files. All files of the Kafka partition close together, at the record at which
the first of them has to: so everything before that record is in closed files, the offset that is committed says so, and nothing is ever
written twice. (In the original such a record's topic-partition is not the task's, and its task fails or commits offsets of the wrong one.)
`partitioner.max.open.files` counts the files of all targets.

Targets A and B under `flush.size=2`, offsets 0 A, 1 B, 2 A, 3 B: after 2 topic A has two records, so its file closes, and that of B with
offset 1; the frontier is 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from typing import Final

import numpy as np

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.engine.open_files.closing import Closed
from kafka_s3.engine.open_files.fitted_runs import FittedRuns
from kafka_s3.engine.open_files.interleaved import Interleaved
from kafka_s3.engine.open_files.memory_bound import release_largest
from kafka_s3.engine.open_files.open_files import OpenFiles
from kafka_s3.engine.task.next_point import openings
from kafka_s3.engine.task.rotation import OFF, Close, RotationPoint
from kafka_s3.engine.task.writer import TopicPartitionWriter
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import Reason
from kafka_s3.model.tasks import Tail
from kafka_s3.objects.format import CannotPause

END: Final = 2**63 - 1


@dataclass(slots=True)
class _Lane:
    """The records of a delivery that go to one topic, and how many of them are written."""

    writer: TopicPartitionWriter
    part: Interleaved
    row: int = 0

    def limit(self, point: RotationPoint) -> int:
        """The offset before which records can be written before the point."""
        if point.reason is None and point.row >= len(self.part):
            return END
        if point.side is Close.AFTER:
            return int(self.part.offsets[point.row - 1]) + 1
        return int(self.part.offsets[point.row])

    def stop(self, point: RotationPoint, limit: int) -> int:
        """The first row that is not written yet when everything before an offset is."""
        return max(self.row, min(point.row, int(np.searchsorted(self.part.offsets, limit))))

    def openings(self, limit: int) -> Iterator[int]:
        """The offsets before a limit, in order, whose records need a file that is not open yet."""
        end = int(np.searchsorted(self.part.offsets, limit))
        return (int(self.part.offsets[row]) for row in openings(self.part, self.row, end, self.writer.open))


@dataclass(slots=True)
class RoutedWriter:
    """The open files of one topic-partition, by target topic. `own` writes those of its own topic, `names` gives the names of another's."""

    own: TopicPartitionWriter
    names: Callable[[str], ObjectNames]
    others: dict[str, TopicPartitionWriter] = field(default_factory=dict)
    _max_open_files: int = field(default=OFF, init=False)

    def __post_init__(self) -> None:
        self._max_open_files = (
            self.own.rules.max_open_files
        )  # of all topics together, so that none of them looks at it alone
        self.own.rules = replace(self.own.rules, max_open_files=OFF)

    @property
    def closed(self) -> Closed:
        """What has been closed, of all topics."""
        return self.own.closed

    @property
    def frontier(self) -> int:
        """One past the last record in a closed file; all records before it are in closed files."""
        return self.own.frontier

    @property
    def written(self) -> int:
        """The offset of the last record that was written, to whichever topic."""
        return max(writer.written for writer in self._writers())

    @property
    def next_rotation_ms(self) -> int | None:
        """The next mark of the schedule, which is the same for all topics."""
        return self.own.next_rotation_ms

    def begin_delivery(self, now_ms: int) -> None:
        """An expired schedule closes what is open, and moves on (SEMANTICS A3.4)."""
        self._look_at_clock(now_ms)

    def end_delivery(self, now_ms: int) -> None:
        """The schedule is looked at once more when the delivery is done."""
        if self.tail().records:
            self._look_at_clock(now_ms)

    def _look_at_clock(self, now_ms: int) -> None:
        due = self.own.next_rotation_ms
        if due is not None and now_ms >= due:
            self.own.next_rotation_ms = self.own.rules.next_rotation(now_ms)
            self.close(self.own.rules.schedule_reason)

    def write(self, part: Interleaved) -> list[Failure]:
        """Writes records of one delivery; gives those that cannot go with the open files."""
        self.others = {topic: writer for topic, writer in self.others.items() if writer.open_count()}
        lanes = [_Lane(self._writer(topic), own) for topic, own in part.by_topic()]
        rejected: list[Failure] = []
        while lanes := [lane for lane in lanes if lane.row < len(lane.part)]:
            points = [lane.writer.next_point(lane.part, lane.row) for lane in lanes]
            by_rule = min(lane.limit(point) for lane, point in zip(lanes, points, strict=True))
            limit = self._cap(lanes, by_rule)
            stops = [lane.stop(point, limit) for lane, point in zip(lanes, points, strict=True)]
            fitted = [lane.writer.fitted(lane.part, lane.row, stop) for lane, stop in zip(lanes, stops, strict=True)]
            if any(one.bad for one in fitted):
                rejected += [
                    failure for lane, one in zip(lanes, fitted, strict=True) for failure in _without_bad(lane, one)
                ]
            elif not all(lane.writer.open.fit(one.runs) for lane, one in zip(lanes, fitted, strict=True)):
                self.close(Reason.SCHEMA)
            else:
                self._append(lanes, stops, fitted)
                if limit < by_rule:
                    self.close(Reason.MAX_OPEN_FILES)
                else:
                    self._close_if_due(
                        [pair for pair in zip(lanes, points, strict=True) if pair[0].limit(pair[1]) == limit]
                    )
        return rejected

    def _cap(self, lanes: list[_Lane], limit: int) -> int:
        """The first offset whose record needs one more open file than `partitioner.max.open.files`; the limit, if none before it does."""
        if self._max_open_files <= 0:
            return limit
        room = max(self._max_open_files - self.open_count(), 0)
        return next(islice(merge(*(lane.openings(limit) for lane in lanes)), room, None), limit)

    def _append(self, lanes: list[_Lane], stops: list[int], fitted: list[FittedRuns]) -> None:
        for lane, stop, one in zip(lanes, stops, fitted, strict=True):
            lane.writer.append(one, lane.part, lane.row, stop)
            lane.row = stop
        self._release_memory()

    def _close_if_due(self, reached: list[tuple[_Lane, RotationPoint]]) -> None:
        """A close after a record comes before one ahead of the next, which another batch may hold."""
        reached.sort(key=lambda pair: pair[1].side is Close.BEFORE)
        due = [at.reason for lane, at in reached if at.reason is not None and lane.writer.holds(at)]
        if due:
            self.close(due[0])

    def close(self, reason: Reason) -> None:
        """Closes every open file of every topic."""
        before = len(self.closed.files)
        for writer in self._writers():
            writer.close(reason)
        self.closed.files[before:] = sorted(self.closed.files[before:], key=lambda file: file.first_offset)
        self.own.frontier = max(writer.frontier for writer in self._writers())

    def abort(self) -> None:
        """Drops what is open and the uploads of what was closed: none of it will be committed."""
        for writer in self.others.values():
            writer.drop_tail()
        self.own.abort()

    def tail(self) -> Tail:
        """What is open: of the topic that has most, for that one closes first; the files of all."""
        tails = [writer.tail() for writer in self._writers()]
        bases = [tail.base_ms for tail in tails if tail.base_ms is not None]
        return Tail(
            max(tail.records for tail in tails),
            max(tail.bytes for tail in tails),
            min(bases, default=None),
            sum(tail.open_files for tail in tails),
        )

    def memory(self) -> int:
        """Bytes that the open files of all topics hold in memory."""
        return sum(writer.memory() for writer in self._writers())

    def drop_tail(self) -> None:
        """Drops what is open: it is read again next time."""
        for writer in self._writers():
            writer.drop_tail()

    def open_count(self) -> int:
        """How many files of all topics are open."""
        return sum(writer.open_count() for writer in self._writers())

    def apart_count(self) -> int:
        """How many of them have steps of their own in each batch."""
        return sum(writer.apart_count() for writer in self._writers())

    def open_files(self) -> OpenFiles:
        """Nothing: files of several topics are read again. Raises CannotPause."""
        raise CannotPause("a transform sends records to several topics")

    def resume(self, open_files: OpenFiles) -> None:
        """Goes on with what another task left open in files of its own topic."""
        self.own.resume(open_files)

    def _writers(self) -> Iterator[TopicPartitionWriter]:
        yield self.own
        yield from self.others.values()

    def _writer(self, topic: str | None) -> TopicPartitionWriter:
        if topic is None:
            return self.own
        if topic not in self.others:
            own = self.own
            output = replace(own.output, naming=self.names(topic))
            self.others[topic] = TopicPartitionWriter(
                own.topic_partition, own.rules, output, own.frontier, None, closed=own.closed
            )
        return self.others[topic]

    def _release_memory(self) -> None:
        """Keeps all topics together within the task's budget."""
        release_largest([writer.open for writer in self._writers()], self.own.output)


def _without_bad(lane: _Lane, fitted: FittedRuns) -> list[Failure]:
    """Leaves the records that cannot be written out of a lane, and gives them."""
    failures = [rejection(int(lane.part.offsets[place]), text) for place, text in fitted.bad]
    if fitted.bad:
        lane.part = lane.part.without([place for place, _ in fitted.bad])
    return failures
