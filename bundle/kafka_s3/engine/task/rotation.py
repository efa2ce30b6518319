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
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.joda.zones import DAY_MS, to_earliest_utc, to_local
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.batch import Codes, Interleaved
from kafka_s3.engine.open_files.file_encoders import SchemaRules
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles
from kafka_s3.model.files import Reason


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


FIRST_WINDOW: Final = 256
"""So many records are looked at first for new directories; then four times as many each time."""


@dataclass(frozen=True, slots=True)
class NextPoint:
    """Finds the next point in some records at which the writer has to stop. Of points at one row a rule's wins, then a schema's."""

    rules: RotationRules
    schemas: SchemaRules
    open: OpenFiles

    def after(self, part: Interleaved, row: int) -> RotationPoint:
        """The first point at or after a row; the end of the records, without a reason, where there is none."""
        by_rule = self._by_rule(part, row)
        points = [by_rule, *self._by_schema(part, row, by_rule.row), *self._by_cap(part, row, by_rule.row)]
        return min(points, key=lambda point: point.row)

    def _by_rule(self, part: Interleaved, row: int) -> RotationPoint:
        here = self.open
        code = part.names.index(here.directory) if here.directory in part.names else ELSEWHERE
        if self.rules.tombstones is not None and self.rules.tombstones in (here.directory, *part.names):
            code = int(part.codes[row])
        pending = Pending(here.records, here.base_ms, code if here.records else NOTHING_WRITTEN)
        return next_rotation_point(self.rules, pending, start=row, times=part.times, codes=part.codes)

    def _by_schema(self, part: Interleaved, row: int, end: int) -> Iterator[RotationPoint]:
        """Before the first record of a directory whose open file it cannot join (SEMANTICS A6)."""
        if len(part.runs) > 1:
            for name, places in part.by_directory(row, end):
                yield from self._among_runs(part, self.open.files.get(name), places)
            return
        if not self.open.files:
            return
        opened = ((code, self.open.files.get(name)) for code, name in enumerate(part.names))
        rolling = [code for code, file in opened if file is not None and file.rolls(part.runs[0], self.schemas)]
        if rolling:
            found = first_row(lambda a, b: np.isin(part.codes[a:b], rolling), start=row, end=end)
            if found < end:
                yield RotationPoint(found, Reason.SCHEMA, Close.BEFORE)

    def _among_runs(self, part: Interleaved, file: OpenFile | None, places: Longs) -> Iterator[RotationPoint]:
        """Before the first of these records of one directory that rolls its file, or has to wait for the ones before it.

        What becomes of a run is known once the directory has a file whose schema is settled as far as the run is concerned. Runs A and B
        come to an empty directory as A A B A B: nothing is known of B before A has its file, so B's first record waits. The point lies
        before it, without a reason; A A is written, and the next search knows whether B B rolls the file, is projected, or joins it.
        """
        owners = part.owners[places]
        here = np.unique(owners).tolist()
        rolling = [owner for owner in here if file is not None and file.rolls(part.runs[owner], self.schemas)]
        unknown = [owner for owner in here if file is None or file.widened_by(part.runs[owner])]
        first = int(owners[0])
        waits = owners != first if first in unknown else np.isin(owners, unknown)
        rolls = np.isin(owners, rolling)
        at = np.flatnonzero(waits | rolls)
        if len(at):
            yield RotationPoint(int(places[at[0]]), Reason.SCHEMA if rolls[at[0]] else None, Close.BEFORE)

    def _by_cap(self, part: Interleaved, row: int, end: int) -> Iterator[RotationPoint]:
        """Before the first record that needs one more open file than `partitioner.max.open.files`."""
        if self.rules.max_open_files > 0:
            room = max(self.rules.max_open_files - self.open.count(), 0)
            above = islice(openings(part, row, end, self.open), room, room + 1)
            yield from (RotationPoint(at, Reason.MAX_OPEN_FILES, Close.BEFORE) for at in above)


def openings(part: Interleaved, row: int, end: int, open_files: OpenFiles) -> Iterator[int]:
    """The rows in `[row, end)`, in order, whose records are the first of a directory that has no open file yet.

    The records are looked at in growing windows, so that Python steps through directories, never through records.
    """
    new, width = set[int](), FIRST_WINDOW
    while row < end:
        until = min(row + width, end)
        order, firsts = part.sorted_by_directory(row, until)
        for at in np.sort(order[firsts]).tolist():
            code = int(part.codes[at])
            if code not in new and not open_files.has(part.names[code]):
                new.add(code)
                yield at
        row, width = until, width * 4
