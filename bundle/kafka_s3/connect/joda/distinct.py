"""Which values does a column of integers hold, and which of them is each row's?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

DENSE_ROOM = 65_536


def distinct(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """The distinct values in ascending order and each row's index among them, as numpy's `unique` gives them.

    Values that lie close together, as times of one batch do, are counted in a table instead of being sorted: several times faster.
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.intp)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1].copy(), np.zeros(len(values), np.intp)
    if high - low > max(DENSE_ROOM, 2 * len(values)):
        found, codes = np.unique(values, return_inverse=True)
        return found, codes
    shifted = values - low
    present = np.zeros(high - low + 1, np.bool_)
    present[shifted] = True
    ranks = np.cumsum(present, dtype=np.intp) - 1
    return np.flatnonzero(present).astype(np.int64) + low, ranks[shifted]


def first_rows(codes: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """The first row of each of `count` codes, every one of which occurs."""
    rows = np.empty(count, np.intp)
    rows[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several rows with one code the last assigned stays
    return rows
