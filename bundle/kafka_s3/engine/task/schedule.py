"""When is the next scheduled rotation? At the marks of an interval counted from local midnight (SEMANTICS A3.5)."""

from __future__ import annotations

from datetime import tzinfo

from kafka_s3.connect.joda.zones import DAY_MS, to_earliest_utc, to_local


def next_rotation(now_ms: int, *, interval_ms: int, zone: tzinfo) -> int:
    """The first mark after `now_ms`: marks lie `interval_ms` apart in elapsed time from local midnight, and none beyond the next one.

    A day without midnight begins at its first instant. Raises ValueError where the interval is not positive.
    """
    if interval_ms <= 0:
        raise ValueError(f"An interval of {interval_ms} ms has no marks. Write a positive rotate.schedule.interval.ms.")
    day = to_local(zone, now_ms) // DAY_MS
    start, end = to_earliest_utc(zone, day * DAY_MS), to_earliest_utc(zone, (day + 1) * DAY_MS)
    return min(start + ((now_ms - start) // interval_ms + 1) * interval_ms, end)
