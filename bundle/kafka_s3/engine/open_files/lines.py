"""How do lines of many directories go on their way together? In columns: what is known of a directory's lines are numbers in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.records.joining import Bounds, bounds_of, gathered
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Longs
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.interleaved import Interleaved
from kafka_s3.model.deflate import Bytes
from kafka_s3.model.files import Role

FIRST, LAST, RECORDS, LOW, HIGH, SIZE = range(6)
"""The rows of `Facts`: first and last offset, how many records, least and largest timestamp, bytes of text."""
Facts = npt.NDArray[np.int64]
"""What is known of lines, a column for each directory. Without timestamps LOW is NO_LOW, and HIGH NO_TIMESTAMP."""
NO_SCHEMA: Final[Mapping[Role, ConnectSchema | None]] = {Role.VALUE: None}
"""The schemas of a file of lines: it has values, and they have none."""
NO_LOW: Final = int(np.iinfo(np.int64).max)


class DirectoryLines(NamedTuple):
    """Records of one directory as text, each with its newline; without timestamps `low` and `high` are None."""

    text: Bytes
    first_offset: int
    last_offset: int
    records: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class LinesByDirectory:
    """Documents by directory: those of `names[i]` are `texts[row]` of the rows `rows[starts[i]:starts[i + 1]]`."""

    names: list[str]
    facts: Facts
    texts: pa.Array
    rows: Longs
    starts: Longs

    def some(self, chosen: Longs) -> LinesByDirectory:
        """These directories, in this order."""
        counts = self.facts[RECORDS][chosen]
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows = self.rows[np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)]
        return LinesByDirectory(
            [self.names[at] for at in chosen.tolist()], self.facts[:, chosen], self.texts, rows, starts
        )

    def gathered(self) -> tuple[memoryview, Bounds]:
        """The lines of all directories behind each other; and where those of each begin, and the last ones end."""
        text, bounds = gathered(self.texts, self.rows, b"\n")
        return text, bounds[self.starts]

    def each(self) -> Iterator[tuple[str, DirectoryLines]]:
        """Every directory with its lines."""
        return zip(self.names, lines_of(*self.gathered(), self.facts), strict=True)


def lines_of(text: memoryview, bounds: Bounds, facts: Facts) -> Iterator[DirectoryLines]:
    """The lines of directories that lie behind each other in a text; views of it."""
    ends = bounds.tolist()
    for begin, end, (first, last, records, low, high, _) in zip(ends, ends[1:], facts.T.tolist(), strict=False):
        untimed = high == NO_TIMESTAMP
        yield DirectoryLines(text[begin:end], first, last, records, None if untimed else low, None if untimed else high)


def are_lines(part: Interleaved) -> bool:
    """Whether records are nothing but lines of text: of one form, without schema, and with nothing beside them."""
    run = part.runs[0]
    return len(part.runs) == 1 and isinstance(run.values, JsonText) and run.values.lines and not run.sidecars


def lines_by_directory(part: Interleaved, start: int, stop: int) -> LinesByDirectory:
    """The records `[start, stop)`, at least one, which `are_lines`."""
    run, (order, firsts) = part.runs[0], part.sorted_by_directory(start, stop)
    assert isinstance(run.values, JsonText)
    rows, starts = part.rows[order], np.append(firsts, len(order))
    names = [part.names[code] for code in part.codes[order[firsts]].tolist()]
    return LinesByDirectory(names, _facts(run, run.values.texts, rows, starts), run.values.texts, rows, starts)


def _facts(run: Run, texts: pa.Array, rows: Longs, starts: Longs) -> Facts:
    offsets, times, begins = run.offsets[rows], run.timestamps[rows], starts[:-1]
    sizes = np.diff(bounds_of(texts))[rows].astype(np.int64) + 1
    lows = np.where(times == NO_TIMESTAMP, NO_LOW, times)
    return np.stack(
        [
            offsets[begins],
            offsets[starts[1:] - 1],
            np.diff(starts),
            np.minimum.reduceat(lows, begins),
            np.maximum.reduceat(times, begins),
            np.add.reduceat(sizes, begins),
        ]
    )
