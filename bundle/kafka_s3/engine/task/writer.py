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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain, islice
from typing import Final

import numpy as np

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.batch import MixedBatch
from kafka_s3.engine.open_files.open_files import (
    Closed,
    FileRuns,
    OpenFiles,
    Output,
    close_files,
    detach_parts,
    file_runs,
    open_file,
    release_largest,
)
from kafka_s3.engine.open_files.row_forms import RowForm, row_form
from kafka_s3.engine.open_files.small_files import DirectoryRows, RowsByDirectory, rows_by_directory
from kafka_s3.engine.task.rotation import Close, NextPoint, RotationPoint, RotationRules, openings
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Tail
from kafka_s3.objects.format import CannotPause
from kafka_s3.store.store import abort_uploads

MANY: Final = 64
"""Rows of so many directories wait together, and those of later ones where so many have files; of fewer each goes to its file."""
END: Final = 2**63 - 1
"""Larger than any offset."""


@dataclass(slots=True)
class TopicPartitionWriter:
    """The open files of one topic-partition by target topic, and what has been closed.

    `frontier` is one past the last record in a closed file; records after it are pending. `names` gives the object names of the topics to
    which transforms send records, None where none does. Of `targets` that of None is the topic-partition's own. `find_stop`
    returns the offset of the first of some failed records at which the task stops, a later offset if it stops at none.
    """

    topic_partition: TopicPartition
    rules: RotationRules
    output: Output
    frontier: int
    next_rotation_ms: int | None
    names: Callable[[str], ObjectNames] | None = None
    find_stop: Callable[[Sequence[Failure]], int] = lambda _: END
    closed: Closed = field(default_factory=Closed)
    targets: dict[str | None, TargetFiles] = field(init=False)

    def __post_init__(self) -> None:
        self.targets = {None: TargetFiles(self.topic_partition, self.rules, self.output)}

    @property
    def written(self) -> int:
        """The offset of the last record that was written, to whichever topic."""
        return max(self.frontier - 1, *(target.open.last_offset for target in self.targets.values()))

    def resume(self, open_files: OpenFiles) -> None:
        """Goes on with what another task left open in files of its own topic."""
        self.targets[None].open = open_files

    def begin_delivery(self, now_ms: int) -> None:
        """An expired schedule closes what is open. Before the first record it only moves on: a quiet night is no reason to flush (A3.4)."""
        if self.next_rotation_ms is not None and now_ms >= self.next_rotation_ms:
            self.next_rotation_ms = self.rules.next_rotation(now_ms)
            if self._has_records():
                self.close(self.rules.schedule_reason)

    def end_delivery(self, now_ms: int) -> None:
        """The idle commit: the schedule is looked at once more when the delivery is done."""
        if self._has_records():
            self.begin_delivery(now_ms)

    def write(self, batch: MixedBatch) -> list[Failure]:
        """Write records of one delivery, closing files wherever a rule says so; return those that cannot go with the open files.

        If the task stops at one of these, nothing from there on is written.

        With `flush.size=3` and two records open, offsets 7 8 9 10 are written in two steps: the next point is after 7, where all files
        close; from 8 on it is after 10. Were 9 rejected, it would be left out, and the search from 8 would find the end of the records
        instead, with two open. A point without a reason is only where the search has to go on (see `NextPoint`).
        """
        if self.names is None:
            lanes = [_Lane(self.targets[None], batch)]
        else:
            self.targets = {topic: one for topic, one in self.targets.items() if topic is None or one.open.count()}
            lanes = [_Lane(self._target(topic), own) for topic, own in batch.by_topic()]
        rejected = list[Failure]()
        while lanes := [lane for lane in lanes if lane.position < len(lane.batch)]:
            failures = self._write_to_next_point(lanes)
            rejected += failures
            for lane in lanes if failures else ():
                lane.batch = lane.batch.before(self.find_stop(failures))
        return rejected

    def _write_to_next_point(self, lanes: list[_Lane]) -> list[Failure]:
        """Writes the records before the first point of all lanes, and closes all files where it has a reason.

        Where records cannot be written nothing is: they are left out of their lanes and given, and the search begins again.
        """
        for lane in lanes:
            lane.find_next_point()
        by_rule = min(lane.limit for lane in lanes)
        limit = self._cap(lanes, by_rule)
        for lane in lanes:
            lane.prepare(limit)
        if any(lane.runs.rejected for lane in lanes):
            return [failure for lane in lanes for failure in lane.reject()]
        if not all(lane.target.open.have_columns_for(lane.runs.runs) for lane in lanes):
            self.close(Reason.SCHEMA)
            return []
        if any(lane.position < lane.stop for lane in lanes):
            for lane in lanes:
                lane.append()
            several = [target.open for target in self.targets.values()]
            release_largest(several, self.output)
            detach_parts(several, self.output)
        reason = Reason.MAX_OPEN_FILES if limit < by_rule else _reason_to_close(lanes, limit)
        if reason is not None:
            self.close(reason)
        return []

    def _cap(self, lanes: list[_Lane], limit: int) -> int:
        """The first offset whose record needs one more open file than `partitioner.max.open.files`; the limit, if none before it does."""
        if self.rules.max_open_files <= 0:
            return limit
        room = max(self.rules.max_open_files - self.open_count(), 0)
        return next(islice(merge(*(lane.openings(limit) for lane in lanes)), room, None), limit)

    def close(self, reason: Reason) -> None:
        """Closes every open file of every topic; what is closed is in `closed`, in the order of first records."""
        before = len(self.closed.files)
        for target in self.targets.values():
            found = close_files(target.open, self.topic_partition, target.output, reason=reason)
            if found.files:
                self.frontier = max(self.frontier, target.open.last_offset + 1)
            target.open = OpenFiles()
            self.closed.files += found.files
            self.closed.columns |= found.columns
        if len(self.targets) > 1:
            self.closed.files[before:] = sorted(self.closed.files[before:], key=lambda file: file.first_offset)

    def abort(self) -> None:
        """Drops what is open and the uploads of what was closed: none of it will be committed.

        Inherited uploads are left: the work may be tried again from the state that they came with.
        """
        self.drop_tail()
        abort_uploads(self.output.store, self.closed.files)

    def drop_tail(self) -> None:
        """Drops what is open: it is read again next time."""
        for target in self.targets.values():
            target.open.abort()

    def tail(self) -> Tail:
        """What is open, for the planner: of the topic that has most, for that one closes first; the files of all."""
        tails = [target.open for target in self.targets.values()]
        return Tail(
            max(tail.records for tail in tails),
            max(tail.encoded_bytes(self.output) for tail in tails),
            min((tail.base_ms for tail in tails if tail.base_ms is not None), default=None),
            self.open_count(),
        )

    def memory(self) -> int:
        """Bytes that the open files hold in memory."""
        return sum(target.open.memory() for target in self.targets.values())

    def open_count(self) -> int:
        """How many files are open."""
        return sum(target.open.count() for target in self.targets.values())

    def large_count(self) -> int:
        """How many of them have steps of their own in each batch; small ones go together."""
        return sum(len(target.open.files) for target in self.targets.values())

    def open_files(self) -> OpenFiles:
        """What is open, for another task to go on with. Raises CannotPause: files of several topics are read again."""
        if self.names is not None:
            raise CannotPause("a transform sends records to several topics")
        return self.targets[None].open

    def _has_records(self) -> bool:
        return any(target.open.records for target in self.targets.values())

    def _target(self, topic: str | None) -> TargetFiles:
        if topic not in self.targets:
            assert topic is not None
            assert self.names is not None
            output = replace(self.output, naming=self.names(topic))
            self.targets[topic] = TargetFiles(self.topic_partition, self.rules, output)
        return self.targets[topic]


@dataclass(slots=True)
class TargetFiles:
    """The open files of one target topic."""

    topic_partition: TopicPartition
    rules: RotationRules
    output: Output
    open: OpenFiles = field(default_factory=OpenFiles)

    def next_point(self, batch: MixedBatch, start: int) -> RotationPoint:
        """The next point at which the writer has to stop; the first record after a close gives the base of `rotate.interval.ms`."""
        if len(self.open.small) and not self._in_bulk(batch):
            self.settle_small_files()
        if self.open.base_ms is None and batch.times is not None:
            self.open.base_ms = int(batch.times[start])
        return NextPoint(self.rules, self.output.schemas, self.open).after(batch, start)

    def reached(self, point: RotationPoint) -> bool:
        """Whether the reason of a point before which all is written holds: a size is only known when its records are written."""
        return point.reason is not Reason.FLUSH_BYTES or self.open.encoded_bytes(self.output) >= self.rules.flush_bytes

    def prepare(self, batch: MixedBatch, start: int, stop: int) -> FileRuns:
        """Positions `[start, stop)` in the form in which they go into the open files, and those that have none."""
        if self._in_bulk(batch) and start < stop:
            return FileRuns(rows=rows_by_directory(batch, start, stop))
        return file_runs(batch, start, stop, open_files=self.open, output=self.output)

    def append(self, runs: FileRuns, batch: MixedBatch, start: int, stop: int) -> None:
        """Writes positions `[start, stop)`, given by encoded partition, and notes where the last one went. Once for each batch it notes
        that files may keep parts of it.
        """
        for name, run in runs.runs:
            if name not in self.open.files:
                self._open(name, int(run.offsets[0]), run.schemas)
            self.open.files[name].append(run)
        if runs.rows is not None:
            self._append_rows(runs.rows)
        elif start == 0 and (len(runs.runs) > 1 or stop < sum(map(len, batch.runs))):
            self.open.shared_bytes += batch.nbytes()
        if start < stop:
            partition, offset = batch.partitions[batch.codes[stop - 1]], int(batch.offsets[stop - 1])
            self.open.count_written(stop - start, last_offset=offset, last_partition=partition)

    def settle_small_files(self) -> None:
        """Makes files of their own of the small ones."""
        form, small = self.open.small.form, self.open.small
        if form is not None:
            self._append_each(small.pop(small.names()), form)

    def _in_bulk(self, batch: MixedBatch) -> bool:
        """Whether records go on their way as rows of many directories, of the form of those that wait already."""
        small, files, names = self.open.small, self.open.files, batch.partitions
        some = len(files) >= MANY and any(name not in files for name in names)  # they come one by one
        if not self.output.in_bulk or len(batch.runs) > 1 or not (len(names) >= MANY or len(small) or some):
            return False
        form = row_form(batch.runs[0], unifies=self.output.schemas.unify)
        if form is None or (small.form is not None and small.form != form):
            return False
        known = (files[name] for name in names if name in files) if files else ()
        return all(file.takes_as_it_is(batch.runs[0]) for file in known)

    def _append_rows(self, rows: RowsByDirectory) -> None:
        """Adds rows to the small files; directories that have more, or a file of their own, get theirs there."""
        known, small = self.open.files, self.open.small
        large = small.sizes(rows.names) + rows.facts.sizes >= rows.form.small
        if known:
            large |= np.array([name in known for name in rows.names])
        if not large.all():
            small.add(rows.select(np.flatnonzero(~large)) if large.any() else rows)
        if large.any():
            grown = rows.select(np.flatnonzero(large))
            self._append_each(chain(small.pop(grown.names), grown.each()), rows.form)

    def _append_each(self, found: Iterable[tuple[str, DirectoryRows]], form: RowForm) -> None:
        """Adds rows to files of their own, with a look at memory now and then: what was small may have waited on local disk, all of it."""
        added = 0
        for name, rows in found:
            if name not in self.open.files:
                self._open(name, rows.first_offset, {Role.VALUE: form.schema})
            self.open.files[name].append_rows(rows, form)
            self.open.shared_bytes += rows.size
            added += rows.size
            if added > self.output.memory // 8:
                release_largest([self.open], self.output)
                detach_parts([self.open], self.output)
                added = 0

    def _open(self, name: str, first: int, schemas: Mapping[Role, ConnectSchema | None]) -> None:
        """Opens the directory's file, which begins with that offset."""
        self.open.files[name] = open_file(self.output, self.topic_partition, name, first=first, schemas=schemas)


@dataclass(slots=True)
class _Lane:
    """The records of a delivery that go to one topic, of which those before `position` are written.

    `point` is the next one, `limit` the offset before which records can be written before it; those before `stop` go next, as `runs`.
    """

    target: TargetFiles
    batch: MixedBatch
    position: int = 0
    point: RotationPoint = field(init=False)
    limit: int = field(init=False)
    stop: int = field(init=False)
    runs: FileRuns = field(init=False)

    def find_next_point(self) -> None:
        """Finds the point and the limit."""
        self.point = point = self.target.next_point(self.batch, self.position)
        if point.reason is None and point.position >= len(self.batch):
            self.limit = END
        elif point.side is Close.AFTER:
            self.limit = int(self.batch.offsets[point.position - 1]) + 1
        else:
            self.limit = int(self.batch.offsets[point.position])

    def openings(self, limit: int) -> Iterator[int]:
        """The offsets before a limit, in order, whose records need a file that is not open yet."""
        end = int(np.searchsorted(self.batch.offsets, limit))
        found = openings(self.batch, self.position, end, self.target.open)
        return (int(self.batch.offsets[position]) for position in found)

    def prepare(self, limit: int) -> None:
        """Finds the records before an offset, which lies at the lane's own limit or before it, and the form in which they are written."""
        self.stop = self.point.position
        if limit < self.limit:
            self.stop = max(self.position, int(np.searchsorted(self.batch.offsets, limit)))
        self.runs = self.target.prepare(self.batch, self.position, self.stop)

    def reject(self) -> list[Failure]:
        """Leaves out the records that cannot be written, and gives them."""
        bad = self.runs.rejected
        failures = [rejection(int(self.batch.offsets[position]), text) for position, text in bad]
        if bad:
            self.batch = self.batch.without([position for position, _ in bad])
        return failures

    def append(self) -> None:
        """Writes the records before `stop`."""
        self.target.append(self.runs, self.batch, self.position, self.stop)
        self.position = self.stop


def _reason_to_close(lanes: list[_Lane], limit: int) -> Reason | None:
    """The reason of the points at a limit before which all is written. One after a record counts before one ahead of the next, which
    another batch may hold.
    """
    reached = [lane for lane in lanes if lane.limit == limit]
    for lane in sorted(reached, key=lambda one: one.point.side is Close.BEFORE):
        if lane.point.reason is not None and lane.target.reached(lane.point):
            return lane.point.reason
    return None
