"""How many records go into the open files at once? Enough for each: a file's step costs the same for one record and for a hundred."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

ROWS_PER_FILE: Final = 64
"""So many records a file, and what its steps cost is little beside the records."""
MOST: Final = 256 << 20
"""Bytes that are joined at most, whatever memory there is: Arrow's offsets end at 2 GiB, and steps lengthen the texts."""


def coalesced(
    batches: Iterable[pa.RecordBatch], open_files: Callable[[], int], budget: int
) -> Iterator[pa.RecordBatch]:
    """The batches, several of equal columns as one where the open files are many; together at most `budget` bytes (and MOST), or one.

    With 10,000 open files, ten batches of 65,536 records make 64 records a file; of 9 MB each, a budget of 32 MB gives three at a time.
    """
    budget = min(budget, MOST)
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and (size + batch.nbytes > budget or batch.schema != held[0].schema):
            yield _taken(held)
            rows = size = 0
        held.append(batch)
        rows += len(batch)
        size += batch.nbytes
        del batch
        if rows >= ROWS_PER_FILE * open_files():
            yield _taken(held)
            rows = size = 0
    if held:
        yield _taken(held)


def _taken(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The batches as one; they are not held any longer, for that one is a copy."""
    joined = held[0] if len(held) == 1 else pa.concat_batches(held)
    held.clear()
    return joined
