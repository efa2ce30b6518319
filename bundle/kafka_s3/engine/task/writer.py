"""Which records go into which file of a topic-partition, and when do its files close? The state machine of SEMANTICS A3.2 and A3.3.

The writer sees batches of decoded, stamped and partitioned records in offset order, delivery by delivery. All open files of the
topic-partition close together; a closed file is an uncompleted upload plus a row of facts for the commit log.

A record whose topic a transform has changed goes into a file of that topic, which the rotation rules treat as one of its own: each target
topic has its counts, its base time and its open files. All files of the Kafka partition close together, at the record at which the first
of them has to: so all before that record is in closed files, the offset that is committed says so, and nothing is ever written twice.
(In the original such a record's topic-partition is not the task's, and its task fails or commits offsets of the wrong one.)
`partitioner.max.open.files` counts the files of all targets.

Targets A and B under `flush.size=2`, offsets 0 A, 1 B, 2 A, 3 B: after 2 topic A has two records, so its file closes, and that of B with
offset 1; the frontier is 3. By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain, islice
from typing import Final

import numpy as np

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.batch import Interleaved
from kafka_s3.engine.open_files.open_files import (
    Closed,
    FittedRuns,
    OpenFiles,
    Output,
    closed,
    fitted_runs,
    open_file,
    release_largest,
)
from kafka_s3.engine.open_files.small_files import (
    NO_SCHEMA,
    SIZE,
    SMALL_BYTES,
    DirectoryLines,
    LinesByDirectory,
    are_lines,
    lines_by_directory,
)
from kafka_s3.engine.task.rotation import OFF, Close, NextPoint, RotationPoint, RotationRules, openings
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Tail
from kafka_s3.objects.format import CannotPause
from kafka_s3.store.store import abort_uploads

MANY: Final = 64
"""Lines of so many directories are sorted and kept together; of fewer each goes to its file."""


@dataclass(slots=True)
class TopicPartitionWriter:
    """The open files of one topic-partition, and what has been closed.

    `frontier` is one past the last record in a closed file; records after it are pending.
    """

    topic_partition: TopicPartition
    rules: RotationRules
    output: Output
    frontier: int
    next_rotation_ms: int | None
    open: OpenFiles = field(default_factory=OpenFiles)
    closed: Closed = field(default_factory=Closed)

    @property
    def written(self) -> int:
        """The offset of the last record that was written."""
        return max(self.open.last_offset, self.frontier - 1)

    def resume(self, open_files: OpenFiles) -> None:
        """Goes on with what another task left open."""
        self.open = open_files

    def begin_delivery(self, now_ms: int) -> None:
        """An expired schedule moves on before the first record, so that a quiet night is no reason to flush (SEMANTICS A3.4)."""
        if self.open.records == 0 and self._expired(now_ms):
            self.next_rotation_ms = self.rules.next_rotation(now_ms)
        elif self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def end_delivery(self, now_ms: int) -> None:
        """The idle commit: the schedule is looked at once more when the delivery is done."""
        if self.open.records and self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def write(self, part: Interleaved) -> list[Failure]:
        """Writes records of one delivery, closing files wherever a rule says so; gives those that cannot go with the open files.

        With `flush.size=3` and two records open, offsets 7 8 9 10 are written in two steps: the next point is after 7, where all files
        close; from 8 on it is after 10. Were 9 rejected, it would be left out, and the search from 8 would find the end of the records
        instead, with two open. A point without a reason is only where the search has to go on (see `NextPoint`).
        """
        row, rejected = 0, list[Failure]()
        while row < len(part):
            point = self.next_point(part, row)
            fitted = self.fitted(part, row, point.row)
            if fitted.bad:
                rejected += [rejection(int(part.offsets[place]), text) for place, text in fitted.bad]
                part = part.without([place for place, _ in fitted.bad])
            elif not self.open.fit(fitted.runs):
                self.close(Reason.SCHEMA)
            else:
                self.append(fitted, part, row, point.row)
                row = point.row
                if point.reason is not None and self.holds(point):
                    self.close(point.reason)
        return rejected

    def next_point(self, part: Interleaved, row: int) -> RotationPoint:
        """The next point at which the writer has to stop; the first record after a close gives the base of `rotate.interval.ms`."""
        if len(self.open.small) and not self._in_bulk(part):
            self._settle()
        if self.open.base_ms is None and part.times is not None:
            self.open.base_ms = int(part.times[row])
        return NextPoint(self.rules, self.output.schemas, self.open).after(part, row)

    def fitted(self, part: Interleaved, start: int, stop: int) -> FittedRuns:
        """Rows `[start, stop)` as the open files take them, and those that cannot go with them."""
        if self._in_bulk(part) and start < stop:
            return FittedRuns(lines=lines_by_directory(part, start, stop))
        rules, shared = self.output.schemas, self.output.copies
        return fitted_runs(part, start, stop, open_files=self.open, rules=rules, shared=shared)

    def append(self, fitted: FittedRuns, part: Interleaved, start: int, stop: int) -> None:
        """Writes rows `[start, stop)`, given by directory, and notes where the last one went."""
        if start == stop:
            return
        for name, run in fitted.runs:
            if name not in self.open.files:
                self._open(name, int(run.offsets[0]), run.schemas)
            self.open.files[name].append(run)
        if fitted.lines is not None:
            self._append_lines(fitted.lines)
        directory, last_offset = part.names[part.codes[stop - 1]], int(part.offsets[stop - 1])
        self.open.note(directory, records=stop - start, last_offset=last_offset)
        release_largest([self.open], self.output)

    def _in_bulk(self, part: Interleaved) -> bool:
        """Whether records go on their way as lines of many directories."""
        return self.output.lines > 0 and (len(part.names) >= MANY or len(self.open.small) > 0) and are_lines(part)

    def _append_lines(self, lines: LinesByDirectory) -> None:
        """Adds lines to the small files; directories that have more, or a file of their own, get theirs there."""
        known, small = self.open.files, self.open.small
        large = small.sizes(lines.names) + lines.facts[SIZE] >= SMALL_BYTES
        if known:
            large |= np.array([name in known for name in lines.names])
        if not large.all():
            small.add(lines.some(np.flatnonzero(~large)) if large.any() else lines)
        if large.any():
            grown = lines.some(np.flatnonzero(large))
            self._append_each(chain(small.take(grown.names), grown.each()))

    def _append_each(self, found: Iterable[tuple[str, DirectoryLines]]) -> None:
        """Adds lines to files of their own, with a look at memory now and then: what was small may have waited on local disk, all of it."""
        added = 0
        for name, lines in found:
            if name not in self.open.files:
                self._open(name, lines.first_offset, NO_SCHEMA)
            self.open.files[name].append_lines(lines)
            added += len(lines.text)
            if added > self.output.memory // 8:
                release_largest([self.open], self.output)
                added = 0

    def _settle(self) -> None:
        """Makes files of their own of the small ones."""
        self._append_each(self.open.small.take(self.open.small.names()))

    def _open(self, name: str, first: int, schemas: Mapping[Role, ConnectSchema | None]) -> None:
        """Opens the directory's file, which begins with that offset."""
        self.open.files[name] = open_file(self.output, self.topic_partition, name, first=first, schemas=schemas)

    def holds(self, point: RotationPoint) -> bool:
        """Whether the reason of a point that was reached holds: a size is only known when its records are written."""
        return point.reason is not Reason.FLUSH_BYTES or self.open.encoded_bytes(self.output) >= self.rules.flush_bytes

    def close(self, reason: Reason) -> Closed:
        """Closes every open file, in first-seen order; what is closed is also kept for the task's report."""
        found = closed(self.open, self.topic_partition, self.output, reason=reason)
        if found.files:
            self.frontier = self.open.last_offset + 1
        self.open = OpenFiles()
        self.closed.add(found)
        return found

    def abort(self) -> None:
        """Drops what is open and the uploads of what was closed: none of it will be committed.

        Inherited uploads are left: the work may be tried again from the state that they came with.
        """
        self.open.abort()
        abort_uploads(self.output.store, self.closed.files)

    def tail(self) -> Tail:
        """What is open, for the planner."""
        here = self.open
        return Tail(here.records, here.encoded_bytes(self.output), here.base_ms, here.count())

    def memory(self) -> int:
        """Bytes that the open files hold in memory."""
        return self.open.memory()

    def open_count(self) -> int:
        """How many files are open."""
        return self.open.count()

    def apart_count(self) -> int:
        """How many of them have steps of their own in each batch; small ones go together."""
        return len(self.open.files)

    def open_files(self) -> OpenFiles:
        """What is open, for another task to go on with."""
        return self.open

    def drop_tail(self) -> None:
        """Drops what is open: it is read again next time."""
        self.open.abort()

    def _expired(self, now_ms: int) -> bool:
        return self.next_rotation_ms is not None and now_ms >= self.next_rotation_ms

    def _rotate_by_clock(self, now_ms: int) -> None:
        self.next_rotation_ms = self.rules.next_rotation(now_ms)
        self.close(self.rules.schedule_reason)


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
