"""How late are records, and was that always so? Delay over time from the log; pure functions."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from figures.data import Window
from kafka_s3.engine.control.heartbeat import POINTS
from reading.frames import NO_TIME, data_files, taken
from reading.groups import Numbers

SHARES: Final = (0.5, 0.95)
MEASURED: Final = ("committed_ms", "records", "min_ms", "max_ms")
"""The columns of files that `delays` looks at, beside KINDS."""


def delays(files: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Per bucket of time (`at_ms` is its beginning) the delay (ms) of records at their commit, as `engine.control.tallies.delay` counts it.

    `median_ms` half of the records do not exceed, `slow_ms` 95 % of them; `newest_ms` is how old the newest record in an object was: so far
    behind the sink was even after its commits.
    """
    rows = data_files(files, *MEASURED)
    rows = taken(rows, (rows["min_ms"] != NO_TIME).to_numpy())
    seen, records, first, last = (rows[name].to_numpy(np.int64) for name in MEASURED)
    at = seen // window.step_ms * window.step_ms
    order = at.argsort(kind="stable")  # as good as nothing to do: a log is in order of time
    ends = np.flatnonzero(np.diff(at[order])) + 1
    found = [
        (int(at[one[0]]), *_delay(seen[one] - first[one], seen[one] - last[one], records[one]))
        for one in np.split(order, ends)
        if len(one)
    ]
    return pd.DataFrame(found, columns=["at_ms", "median_ms", "slow_ms", "newest_ms"])


def _delay(oldest: Numbers, newest: Numbers, records: Numbers) -> tuple[int, ...]:
    """What a bucket's files say: the delays (ms) of their first and last records, those between spread evenly, and their records."""
    late = np.concatenate([oldest - (oldest - newest) * place // POINTS for place in range(POINTS + 1)]).clip(min=0)
    order = late.argsort()
    sums = np.tile(records, POINTS + 1)[order].cumsum()
    shares = late[order[sums.searchsorted([share * sums[-1] for share in SHARES])]]
    return *shares.tolist(), max(int(newest.min()), 0)
