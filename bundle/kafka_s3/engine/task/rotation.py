"""When does a topic-partition close its files? The rotation rules of SEMANTICS A3, as data and one pure decision over a run.

Two questions are kept apart: must everything close *before* this record (a boundary of time, directory or schema), or *after* it (a count
or a size was reached)? The scan is vectorised: `next_rotation_point` finds the first record that answers yes to either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.interleaved import Codes
from kafka_s3.engine.task.schedule import next_rotation
from kafka_s3.model.files import Reason

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
    """Records before `row` are written first; then, with a reason, all files close (`AFTER`: the record at row - 1 was the last)."""

    row: int
    reason: Reason | None
    side: Close = Close.AFTER


@dataclass(frozen=True, slots=True)
class Pending:
    """What is open for the topic-partition: records since the last commit, base timestamp, code of the last written directory.

    `code` is `NOTHING_WRITTEN` where nothing is open and `ELSEWHERE` where that directory does not occur in the run.
    """

    records: int
    base_ms: int | None
    code: int


def next_rotation_point(
    rules: RotationRules, pending: Pending, *, start: int, times: Longs | None, codes: Codes
) -> RotationPoint:
    """The first stop at or after row `start` of a run, by count, size check, interval or change of directory.

    `times` is None where `rotate.interval.ms` does not act (no time partitioner). Of two stops at one row the one after the record before
    it wins, as the original checks the count before it looks at the next record.
    """
    stops = [RotationPoint(len(codes), None)]
    if rules.flush_size != OFF:
        stops.append(RotationPoint(start + max(rules.flush_size, 1) - pending.records, Reason.FLUSH_SIZE))
    if rules.flush_bytes > 0:
        stops.append(RotationPoint(start + SIZE_CHECK_EVERY - pending.records % SIZE_CHECK_EVERY, Reason.FLUSH_BYTES))
    if rules.interval_ms > 0 and times is not None:
        first = start if pending.records else start + 1
        base = times[start] if pending.base_ms is None else pending.base_ms
        late = first_row(lambda a, b: times[a:b] >= base + rules.interval_ms, start=first, end=len(codes))
        stops.append(RotationPoint(late, Reason.ROTATE_INTERVAL, Close.BEFORE))
        if rules.on_partition_change:
            changed = _changed(codes, first, pending.code)
            stops.append(RotationPoint(changed, Reason.PARTITION_CHANGE, Close.BEFORE))
    inside = [stop for stop in stops if stop.row <= len(codes) and (stop.side is Close.AFTER or stop.row < len(codes))]
    return min(inside, key=lambda stop: (stop.row, stop.side is Close.BEFORE, stop.reason is None))


def first_row(holds: Callable[[int, int], npt.NDArray[np.bool_]], *, start: int, end: int) -> int:
    """The first row in `[start, end)` where `holds` is true, `end` if none; looked for in growing windows."""
    width = 256
    while start < end:
        until = min(start + width, end)
        found = holds(start, until)
        row = int(found.argmax())
        if found[row]:
            return start + row
        start, width = until, width * 4
    return end


def _changed(codes: Codes, first: int, current: int) -> int:
    """The first row at or after `first` whose directory differs from the record's before it."""
    if first >= len(codes):
        return len(codes)
    before = int(codes[first - 1]) if current == NOTHING_WRITTEN else current
    return first_row(lambda a, b: codes[a:b] != before, start=first, end=len(codes))
