"""How late are records, and was that always so? Delay over time from the log; pure functions."""

from __future__ import annotations

import numpy as np
import pandas as pd

from figures.data import Window
from kafka_s3.control.tallies import POINTS
from reading.frames import NO_TIME, data_files

SHARES = (0.5, 0.95)


def delays(files: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Per bucket of time (`at_ms` is its beginning) the delay (ms) of records at their commit, as `control.tallies.delay` counts it.

    `median_ms` half of the records do not exceed, `slow_ms` 95 % of them; `newest_ms` is how old the newest record in an object was: so far
    behind the sink was even after its commits.
    """
    rows = data_files(files, "committed_ms", "records", "min_ms", "max_ms")
    rows = rows[(rows["min_ms"] != NO_TIME).to_numpy()]
    if rows.empty:
        return pd.DataFrame({"at_ms": [], "median_ms": [], "slow_ms": [], "newest_ms": []})
    seen, first, last, records = (
        rows[name].to_numpy(np.int64) for name in ("committed_ms", "min_ms", "max_ms", "records")
    )
    at = seen // window.step_ms * window.step_ms
    late = np.concatenate([seen - first - (last - first) * place // POINTS for place in range(POINTS + 1)]).clip(min=0)
    starts, groups = np.unique(at, return_inverse=True)
    buckets, weights = np.tile(groups, POINTS + 1), np.tile(records, POINTS + 1)
    newest = np.full(len(starts), np.iinfo(np.int64).max)
    np.minimum.at(newest, groups, (seen - last).clip(min=0))
    median, slow = (_quantiles(late, buckets, weights, share) for share in SHARES)
    return pd.DataFrame({"at_ms": starts, "median_ms": median, "slow_ms": slow, "newest_ms": newest})


def _quantiles(values: np.ndarray, groups: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """Of each group the value that this share of its weight does not exceed; groups are numbered from 0 without a gap."""
    order = np.lexsort((values, groups))
    values, groups, weights = values[order], groups[order], weights[order]
    sums = np.cumsum(weights)
    ends = np.append(np.flatnonzero(np.diff(groups)), len(groups) - 1)
    before = np.concatenate([[0], sums[ends[:-1]]])
    found: np.ndarray = values[np.searchsorted(sums, before + share * (sums[ends] - before))]
    return found
