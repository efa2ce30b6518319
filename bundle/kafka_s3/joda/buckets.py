"""Which time bucket does an instant fall into, and what is the bucket called? (SEMANTICS A4.2)"""

from __future__ import annotations

from datetime import UTC, timezone, tzinfo

import numpy as np
import numpy.typing as npt

from kafka_s3.joda.pattern import Pattern
from kafka_s3.joda.zones import Millis, offset_ms, offsets_ms, to_utc


def bucket_start(epoch_ms: Millis, duration_ms: int, zone: tzinfo) -> Millis:
    """The start of each instant's bucket: local time cut to a multiple of the duration since the local epoch, towards zero."""
    distinct, codes = _local_buckets(epoch_ms, duration_ms, zone)
    starts = np.array([_to_utc(zone, int(local)) for local in distinct], np.int64)
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
        distinct, codes = _local_buckets(epoch_ms, self._duration_ms, self._zone)
        if len(distinct) == 1:
            return np.zeros(len(epoch_ms), np.int32), [self._name(int(distinct[0]))]
        first_seen = np.full(len(distinct), len(epoch_ms), np.int64)
        np.minimum.at(first_seen, codes, np.arange(len(codes)))
        names: dict[str, int] = {}
        numbers = np.empty(len(distinct), np.int32)
        for bucket in np.argsort(first_seen, kind="stable"):
            numbers[bucket] = names.setdefault(self._name(int(distinct[bucket])), len(names))
        return numbers[codes], list(names)

    def _name(self, local: int) -> str:
        if local not in self._known:
            self._known[local] = self._pattern.format(_to_utc(self._zone, local))
        return self._known[local]


def _local_buckets(epoch_ms: Millis, duration_ms: int, zone: tzinfo) -> tuple[Millis, npt.NDArray[np.intp]]:
    """The distinct bucket starts in local time, and each record's index among them."""
    local = epoch_ms + offsets_ms(zone, epoch_ms)
    starts = np.where(local >= 0, local // duration_ms, -(-local // duration_ms)) * duration_ms
    if len(starts) and (starts == starts[0]).all():
        return starts[:1], np.zeros(len(starts), np.intp)
    distinct, codes = np.unique(starts, return_inverse=True)
    return distinct, codes


def _to_utc(zone: tzinfo, local: int) -> int:
    if zone is UTC or isinstance(zone, timezone):
        return local - offset_ms(zone, 0)
    return to_utc(zone, local)
