"""Which time bucket does each instant of a column fall into, and what is the bucket called? (SEMANTICS A4.2)"""

from __future__ import annotations

from datetime import UTC, timezone, tzinfo
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.joda.pattern import Pattern
from kafka_s3.connect.joda.zones import offset_ms, to_utc

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


KNOWN_NAMES = 65_536
QUARTER_MS = 900_000
Millis = npt.NDArray[np.int64]


def bucket_start(epoch_ms: Millis, duration_ms: int, zone: tzinfo) -> Millis:
    """The start of each instant's bucket: local time cut to a multiple of the duration since the local epoch, towards zero.

    Before 1970 the "start" is therefore the later end. Where clocks change it is what Joda's conversion back gives, which can lie after
    the instant (in the repeated hour east of Greenwich). Raises ValueError where the duration is not positive.
    """
    locals_, codes = _local_buckets(epoch_ms, duration_ms, zone)
    starts = np.array([to_utc(zone, int(local)) for local in locals_], np.int64)
    found: Millis = starts[codes]
    return found


class BucketNames:
    """The names of time buckets; formatted once each, however many records fall into them."""

    def __init__(self, pattern: Pattern, *, duration_ms: int, zone: tzinfo) -> None:
        self._pattern = pattern
        self._duration_ms = duration_ms
        self._zone = zone
        self._known: dict[int, str] = {}

    def encode(self, epoch_ms: Millis) -> tuple[npt.NDArray[np.int32], list[str]]:
        """Each record's code and the distinct names in first-seen order; `names[codes[i]]` is record i's."""
        locals_, codes = _local_buckets(epoch_ms, self._duration_ms, self._zone)
        if len(locals_) == 1:
            return np.zeros(len(epoch_ms), np.int32), [self._name(int(locals_[0]))]
        names: dict[str, int] = {}
        numbers = np.empty(len(locals_), np.int32)
        for bucket in np.argsort(first_rows(codes, len(locals_)), kind="stable"):
            numbers[bucket] = names.setdefault(self._name(int(locals_[bucket])), len(names))
        return numbers[codes], list(names)

    def _name(self, local: int) -> str:
        name = self._known.get(local)
        if name is None:
            if len(self._known) >= KNOWN_NAMES:  # a duration of milliseconds must not fill the memory of a long run
                self._known.clear()
            name = self._known[local] = self._pattern.format(to_utc(self._zone, local))
        return name


def _local_buckets(epoch_ms: Millis, duration_ms: int, zone: tzinfo) -> tuple[Millis, npt.NDArray[np.intp]]:
    """The distinct bucket starts in local time, and each record's index among them."""
    if duration_ms <= 0:
        raise ValueError(f"A bucket of {duration_ms} ms is not possible. Write a positive duration, such as 3600000.")
    local = epoch_ms + offsets_ms(zone, epoch_ms)
    numbers = local // duration_ms
    if len(local) and local.min() < 0:  # Java divides towards zero
        numbers += (local < 0) & (numbers * duration_ms != local)
    found, codes = distinct(numbers)
    return found * duration_ms, codes


def offsets_ms(where: tzinfo, epoch_ms: Millis) -> Millis:
    """The offset at each instant. It is looked up once per quarter of an hour: no zone has changed at any other minute since 1972."""
    if where is UTC or isinstance(where, timezone):
        return np.full(len(epoch_ms), offset_ms(where, 0), np.int64)
    quarters = epoch_ms // QUARTER_MS
    found, codes = distinct(quarters)
    offsets = np.array([offset_ms(where, int(quarter) * QUARTER_MS) for quarter in found], np.int64)
    result: Millis = offsets[codes]
    for quarter in (q for q in found if not _steady(where, int(q))):  # a transition inside the quarter: before 1972
        for row in np.flatnonzero(quarters == quarter):
            result[row] = offset_ms(where, int(epoch_ms[row]))
    return result


@lru_cache(maxsize=65_536)
def _steady(where: tzinfo, quarter: int) -> bool:
    return offset_ms(where, quarter * QUARTER_MS) == offset_ms(where, quarter * QUARTER_MS + QUARTER_MS - 1)
