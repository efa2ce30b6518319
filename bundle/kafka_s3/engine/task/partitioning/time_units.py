"""In which unit does a number count the time since 1970?"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from kafka_s3.connect.records.values import Longs

EARLIEST: Final = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp()) * 1000
LATEST: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * 1000
"""Times `[EARLIEST, LATEST)` are plausible, epoch ms. A number in the wrong unit is off by a factor of 1000 and lies outside."""
LONG: Final = 2**63


class TimeUnit(StrEnum):
    """The values of `timestamp.field.unit`."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"
    AUTO = "auto"

    def ms(self, number: int | float) -> int | str:
        """The number in epoch milliseconds, or a text that says why there are none."""
        if not -LONG <= number < LONG:  # not a number, too
            return f"{number} is beyond 64 bits"
        if self is TimeUnit.AUTO:
            unit = next((one for one in _PER_MS if _plausible(one, number)), None)
            return (
                unit.ms(number)
                if unit is not None
                else f"{number} is a time from 1990 to 2100 in none of s, ms, us, ns"
            )
        if self is TimeUnit.S:
            found = round(number * 1000)
            return found if -LONG <= found < LONG else f"{number} seconds are beyond 64 bits of milliseconds"
        return int(number) // _PER_MS[self]


_PER_MS: Final = {TimeUnit.S: 1, TimeUnit.MS: 1, TimeUnit.US: 1_000, TimeUnit.NS: 1_000_000}


def _plausible(unit: TimeUnit, number: int | float) -> bool:
    found = unit.ms(number)
    return isinstance(found, int) and EARLIEST <= found < LATEST


def in_ms(numbers: Longs, unit: TimeUnit) -> Longs | None:
    """The numbers in epoch milliseconds; None where they have to be looked at one by one."""
    if unit is TimeUnit.MS or not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if unit is TimeUnit.AUTO:
        unit = next((one for one in _PER_MS if _plausible(one, low) and _plausible(one, high)), unit)
    if unit is TimeUnit.AUTO or (unit is TimeUnit.S and max(abs(low), abs(high)) >= LONG // 1000):
        return None
    found: Longs = numbers * 1000 if unit is TimeUnit.S else numbers // _PER_MS[unit]
    return found
