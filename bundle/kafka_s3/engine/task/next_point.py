"""Up to which record can be written at once, and what happens then? The rotation rules, schemas and the cap on open files together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.open_files.interleaved import Interleaved
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles
from kafka_s3.engine.open_files.schema_changes import SchemaRules
from kafka_s3.engine.task.rotation import (
    ELSEWHERE,
    NOTHING_WRITTEN,
    Close,
    Pending,
    RotationPoint,
    RotationRules,
    first_row,
    next_rotation_point,
)
from kafka_s3.model.files import Reason

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
