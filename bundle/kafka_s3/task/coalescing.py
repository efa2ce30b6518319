"""How many records go into the open files at once? Enough for each: a file's step costs the same for one record and for a hundred."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

ROWS_PER_FILE: Final = 64
"""So many records a file, and what its steps cost is little beside the records."""


def coalesced(
    batches: Iterable[pa.RecordBatch], open_files: Callable[[], int], budget: int
) -> Iterator[pa.RecordBatch]:
    """The batches, several of equal columns as one where the open files are many; together they hold at most `budget` bytes, or are one.

    With 10,000 open files, ten batches of 65,536 records make 64 records a file; of 9 MB each, a budget of 32 MB gives three at a time.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and (size + batch.nbytes > budget or batch.schema != held[0].schema):
            yield _one(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += len(batch)
        size += batch.nbytes
        if rows >= ROWS_PER_FILE * open_files():
            yield _one(held)
            held, rows, size = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
