"""Which records go into which file of a topic-partition, and when do its files close? The state machine of SEMANTICS A3.2 and A3.3.

The writer sees runs of decoded, stamped and partitioned records in offset order, delivery by delivery. All open files of the
topic-partition close together; a closed file is an uncompleted upload plus a row of facts for the commit log.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.closing import Closed, closed
from kafka_s3.engine.open_files.fitted_runs import FittedRuns, fitted_runs
from kafka_s3.engine.open_files.interleaved import Interleaved
from kafka_s3.engine.open_files.lines import (
    NO_SCHEMA,
    SIZE,
    DirectoryLines,
    LinesByDirectory,
    are_lines,
    lines_by_directory,
)
from kafka_s3.engine.open_files.memory_bound import release_largest
from kafka_s3.engine.open_files.open_files import OpenFiles, Output, open_file
from kafka_s3.engine.open_files.small_files import SMALL_BYTES
from kafka_s3.engine.task.next_point import NextPoint
from kafka_s3.engine.task.rotation import RotationPoint, RotationRules
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Tail
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
