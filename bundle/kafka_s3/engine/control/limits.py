"""From when on is a sink unwell though it works? How far behind, how late, and how many dead letters are too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.tallies import Delay, Tally
from kafka_s3.model.timing import age


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still well: records of lag, the delay (ms) of 95 % of the records, the share of dead letters; None is any."""

    lag: int | None = None
    delay_ms: int | None = None
    dead_letters: float | None = 0.05


DEFAULT: Final = Limits()


def limits_of(settings: Settings) -> Limits:
    """The limits that a configuration sets (`health.*`)."""
    share = float(settings.text("health.deadletter.max.ratio"))
    return Limits(
        lag=settings.number("health.lag.max.records") or None,
        delay_ms=settings.number("health.delay.max.ms") or None,
        dead_letters=share if share < 1 else None,
    )


def dead_letters_text(recent: Tally, limits: Limits) -> str:
    """Says that too large a share of records became dead letters; blank where it did not."""
    most, share = limits.dead_letters, recent.dead_letters / recent.read if recent.read else 0.0
    if most is None or share <= most:
        return ""
    return (
        f"{percent(share)} of the {recent.read:,} records of the last hour became dead letters, more than {percent(most)} "
        "(health.deadletter.max.ratio)"
    )


def delay_text(delay: Delay | None, limits: Limits) -> str:
    """Says that records come late; blank where they do not."""
    if delay is None or limits.delay_ms is None or delay.slow_ms <= limits.delay_ms:
        return ""
    return (
        f"a twentieth of the last records was {age(delay.slow_ms)} old and more when it was committed, more than {age(limits.delay_ms)} "
        "(health.delay.max.ms)"
    )


def percent(share: float) -> str:
    """A share for people: what is nearly all or nearly nothing is not told as all or nothing."""
    if 0 < share < 1:
        share = min(max(share, 0.0001), 0.9999)
    return f"{share:.2%}" if 0 < share < 0.1 or 0.99 < share < 1 else f"{share:.0%}"
