"""When does a topic-partition close its files? The rotation rules of SEMANTICS A3, schemas, and the cap on open files, as pure decisions.

Two questions are kept apart: must everything close *before* this record (a boundary of time, directory or schema), or *after* it (a count
or a size was reached)? The scan is vectorised: `next_rotation_point` finds the first record at which a rule answers yes to either,
`NextPoint` the first of all points in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.joda.zones import DAY_MS, to_earliest_utc, to_local
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.batch import Codes, MixedBatch
from kafka_s3.engine.open_files.file_encoders import SchemaRules
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles
from kafka_s3.model.files import Reason


@lru_cache(maxsize=1024)  # at each poll every topic-partition asks about the same few instants
def next_rotation(now_ms: int, *, interval_ms: int, zone: tzinfo) -> int:
    """The first mark after `now_ms`: marks lie `interval_ms` apart in elapsed time from local midnight, and none beyond the next one.

    A day without midnight begins at its first instant. Raises ValueError where the interval is not positive.
    """
    if interval_ms <= 0:
        raise ValueError(f"An interval of {interval_ms} ms has no marks. Write a positive rotate.schedule.interval.ms.")
    day = to_local(zone, now_ms) // DAY_MS
    start, end = to_earliest_utc(zone, day * DAY_MS), to_earliest_utc(zone, (day + 1) * DAY_MS)
    return min(start + ((now_ms - start) // interval_ms + 1) * interval_ms, end)


SIZE_CHECK_EVERY = 64
OFF = -1
NOTHING_WRITTEN = -1
ELSEWHERE = -2


class Close(Enum):
    """Whether the files close before or after the record at the stop."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class RotationRules:
    """The rotation settings; a number of -1 is off. `interval_ms` acts on a time partitioner's timestamps only.

    `tombstones` is the directory of null values, if they are written: a change to or from it closes nothing (SEMANTICS A3.4).
    """

    flush_size: int = OFF
    flush_bytes: int = OFF
    idle_ms: int = OFF
    interval_ms: int = OFF
    on_partition_change: bool = True
    schedule_ms: int = OFF
    schedule_reason: Reason = Reason.ROTATE_SCHEDULE
    zone: tzinfo | None = None
    max_open_files: int = OFF
    tombstones: str | None = None

    def next_rotation(self, now_ms: int) -> int | None:
        """The next mark of the schedule after `now_ms`, None without a schedule (SEMANTICS A3.5)."""
        if self.schedule_ms <= 0 or self.zone is None:
            return None
        return next_rotation(now_ms, interval_ms=self.schedule_ms, zone=self.zone)


@dataclass(frozen=True, slots=True)
class RotationPoint:
    """Records before `position` are written first; then, with a reason, all files close (`AFTER`: the one before it was the last)."""

    position: int
    reason: Reason | None
    side: Close = Close.AFTER


@dataclass(frozen=True, slots=True)
class Pending:
    """What is open for the topic-partition: records since the last commit, base timestamp, code of the last written directory.

    `code` is `NOTHING_WRITTEN` where nothing is open and `ELSEWHERE` where that directory does not occur in the batch.
    """

    records: int
    base_ms: int | None
    code: int


def next_rotation_point(
    rules: RotationRules, pending: Pending, *, start: int, times: Longs | None, codes: Codes
) -> RotationPoint:
    """The first stop at or after position `start` of a batch, by count, size check, interval or change of directory.

    `times` is None where `rotate.interval.ms` does not act (no time partitioner). Of two stops at one position the one after the
    record before it wins, as the original checks the count before it looks at the next record.
    """
    stops = [RotationPoint(len(codes), None)]
    if rules.flush_size != OFF:
        stops.append(RotationPoint(start + max(rules.flush_size, 1) - pending.records, Reason.FLUSH_SIZE))
    if rules.flush_bytes > 0:
        stops.append(RotationPoint(start + SIZE_CHECK_EVERY - pending.records % SIZE_CHECK_EVERY, Reason.FLUSH_BYTES))
    if rules.interval_ms > 0 and times is not None:
        first = start if pending.records else start + 1
        base = times[start] if pending.base_ms is None else pending.base_ms
        late = first_position(lambda a, b: times[a:b] >= base + rules.interval_ms, start=first, end=len(codes))
        stops.append(RotationPoint(late, Reason.ROTATE_INTERVAL, Close.BEFORE))
        if rules.on_partition_change:
            changed = _changed(codes, first, pending.code)
            stops.append(RotationPoint(changed, Reason.PARTITION_CHANGE, Close.BEFORE))
    end = len(codes)
    inside = [stop for stop in stops if stop.position < end or (stop.side is Close.AFTER and stop.position == end)]
    return min(inside, key=lambda stop: (stop.position, stop.side is Close.BEFORE, stop.reason is None))


def first_position(holds: Callable[[int, int], npt.NDArray[np.bool_]], *, start: int, end: int) -> int:
    """The first position in `[start, end)` where `holds` is true, `end` if none; looked for in growing windows."""
    width = 256
    while start < end:
        until = min(start + width, end)
        found = holds(start, until)
        first = int(found.argmax())
        if found[first]:
            return start + first
        start, width = until, width * 4
    return end


def _changed(codes: Codes, first: int, current: int) -> int:
    """The first position at or after `first` whose directory differs from the record's before it."""
    if first >= len(codes):
        return len(codes)
    before = int(codes[first - 1]) if current == NOTHING_WRITTEN else current
    return first_position(lambda a, b: codes[a:b] != before, start=first, end=len(codes))


FIRST_WINDOW: Final = 256
"""So many records are looked at first for new directories; then four times as many each time."""


@dataclass(frozen=True, slots=True)
class NextPoint:
    """Finds the next point in some records at which the writer has to stop. Of points at one position a rule's wins over a schema's."""

    rules: RotationRules
    schemas: SchemaRules
    open: OpenFiles

    def after(self, batch: MixedBatch, start: int) -> RotationPoint:
        """The first point at or after a position; the end of the records, without a reason, where there is none."""
        by_rule = self._by_rule(batch, start)
        points = [by_rule, *self._by_schema(batch, start, by_rule.position)]
        return min(points, key=lambda point: point.position)

    def _by_rule(self, batch: MixedBatch, start: int) -> RotationPoint:
        last, partitions = self.open.last_partition, batch.partitions
        code = partitions.index(last) if last in partitions else ELSEWHERE
        if self.rules.tombstones is not None and self.rules.tombstones in (last, *partitions):
            code = int(batch.codes[start])
        pending = Pending(self.open.records, self.open.base_ms, code if self.open.records else NOTHING_WRITTEN)
        return next_rotation_point(self.rules, pending, start=start, times=batch.times, codes=batch.codes)

    def _by_schema(self, batch: MixedBatch, start: int, end: int) -> Iterator[RotationPoint]:
        """Before the first record of a directory whose open file it cannot join (SEMANTICS A6)."""
        if len(batch.runs) > 1:
            for name, positions in batch.by_partition(start, end):
                yield from self._among_runs(batch, self.open.files.get(name), positions)
            return
        if not self.open.files:
            return
        opened = ((code, self.open.files.get(name)) for code, name in enumerate(batch.partitions))
        rolling = [code for code, file in opened if file is not None and file.rolls(batch.runs[0], self.schemas)]
        if rolling:
            found = first_position(lambda a, b: np.isin(batch.codes[a:b], rolling), start=start, end=end)
            if found < end:
                yield RotationPoint(found, Reason.SCHEMA, Close.BEFORE)

    def _among_runs(self, batch: MixedBatch, file: OpenFile | None, positions: Longs) -> Iterator[RotationPoint]:
        """Before the first of these records of one directory that rolls its file, or has to wait for the ones before it.

        What becomes of a run is known once the directory has a file whose schema is settled as far as the run is concerned. Runs A and B
        come to an empty directory as A A B A B: nothing is known of B before A has its file, so B's first record waits. The point lies
        before it, without a reason; A A is written, and the next search knows whether B B rolls the file, is projected, or joins it.
        """
        numbers = batch.run_numbers[positions]
        here = np.unique(numbers).tolist()
        rolling = [number for number in here if file is not None and file.rolls(batch.runs[number], self.schemas)]
        unknown = [number for number in here if file is None or file.widened_by(batch.runs[number])]
        first = int(numbers[0])
        waits = numbers != first if first in unknown else np.isin(numbers, unknown)
        rolls = np.isin(numbers, rolling)
        stops = np.flatnonzero(waits | rolls)
        if len(stops):
            reason = Reason.SCHEMA if rolls[stops[0]] else None
            yield RotationPoint(int(positions[stops[0]]), reason, Close.BEFORE)


def openings(batch: MixedBatch, start: int, end: int, open_files: OpenFiles) -> Iterator[int]:
    """The positions in `[start, end)`, in order, whose records are the first of a directory that has no open file yet.

    The records are looked at in growing windows, so that Python steps through directories, never through records.
    """
    new, width = set[int](), FIRST_WINDOW
    while start < end:
        until = min(start + width, end)
        order, firsts = batch.sorted_by_partition(start, until)
        for position in np.sort(order[firsts]).tolist():
            code = int(batch.codes[position])
            if code not in new and not open_files.has(batch.partitions[code]):
                new.add(code)
                yield position
        start, width = until, width * 4
