"""Which sinks need a look? All of a bucket by urgency, a row each; pure functions of what the bucket said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from figures.data import HOUR_MS
from figures.text import duration_text
from kafka_s3.engine.control.status import SinkSnapshot, SinkState, health
from reading.frames import NO_TIME

HOURS: Final = 24
URGENCY: Final = (
    SinkState.FAILED,
    SinkState.STALE,
    SinkState.UNKNOWN,
    SinkState.DEGRADED,
    SinkState.PROVISIONING,
    SinkState.PAUSED,
    SinkState.RUNNING,
    SinkState.STOPPED,
)
"""Who needs a look first."""
COLUMNS: Final = ("sink", "state", "reason", "lag", "delay", "letters", "last_ms", "day")


def by_urgency(sinks: Sequence[SinkSnapshot]) -> list[SinkSnapshot]:
    """The sinks, the one that needs a look first; among those of one state the one furthest behind."""
    return sorted(sinks, key=_urgency)


def fleet(sinks: Sequence[SinkSnapshot]) -> pd.DataFrame:
    """A row for each sink, in the order given.

    `lag` and `delay` (of 95 % of the last commit's records) are texts, `letters` the open dead letters of its log, None where it cannot be
    read; `day` are the records read in each of the last 24 hours, None where the sink does not tell.
    """
    return pd.DataFrame([_row(known) for known in sinks], columns=list(COLUMNS)).astype({"letters": "Int64"})


def _row(known: SinkSnapshot) -> tuple[object, ...]:
    judged = health(known)
    letters = None if known.log is None else known.log.totals.dead_letters
    return (
        known.name,
        [str(judged.state)],
        judged.reason,
        str(known.lag),
        delay_text(known),
        letters,
        last_commit_ms(known),
        _day(known),
    )


def delay_text(known: SinkSnapshot) -> str:
    """The delay of 95 % of the last commit's records."""
    delay = known.heartbeat.delay if known.heartbeat else None
    return "unknown" if delay is None else duration_text(delay.slow_ms)


def last_commit_ms(known: SinkSnapshot) -> int:
    """When data was last committed; NO_TIME where it never was."""
    return round(pd.Timestamp(known.last_commit).timestamp() * 1000) if known.last_commit else NO_TIME


def _urgency(known: SinkSnapshot) -> tuple[bool, int, int, str]:
    judged = health(known)
    return judged.well, URGENCY.index(judged.state), -(known.lag.records or 0), known.name


def _day(known: SinkSnapshot) -> list[int] | None:
    if known.heartbeat is None or not known.heartbeat.hours:
        return None
    read = {tally.at_ms: tally.read for tally in known.heartbeat.hours}
    newest = known.seen_ms // HOUR_MS * HOUR_MS
    return [read.get(newest - ago * HOUR_MS, 0) for ago in reversed(range(HOURS))]
