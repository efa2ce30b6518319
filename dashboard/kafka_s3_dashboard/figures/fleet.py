"""Which sinks need a look? All of a bucket by urgency, counted by state, a row each; pure functions of what the bucket said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pandas as pd

from kafka_s3.engine.control.status import WORKS, SinkHealth, SinkSnapshot, SinkState, health
from kafka_s3.model.timing import age, duration_text
from kafka_s3_dashboard.figures.data import HOUR_MS
from kafka_s3_dashboard.figures.text import ago
from kafka_s3_dashboard.reading.frames import NO_TIME

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
COLUMNS: Final = ("state", "sink", "well", "since", "lag", "delay", "caught_up", "letters", "last_commit", "day", "why")
WHY_BEGIN: Final = 120
WHY_END: Final = 60
"""A longer reason keeps so much of its beginning and of its end: the one says what is the matter, the other which setting it passed."""
NOTHING: Final = "\u2013"


def by_urgency(sinks: Sequence[SinkSnapshot]) -> list[SinkSnapshot]:
    """The sinks, the one that needs a look first; among those of one state the one furthest behind."""
    return sorted(sinks, key=_urgency)


def counts(sinks: Sequence[SinkSnapshot]) -> dict[SinkState, int]:
    """How many sinks are in each state, all states in the order of their urgency: a number keeps its place."""
    found = Counter(health(known).state for known in sinks)
    return {state: found[state] for state in URGENCY}


def fleet(sinks: Sequence[SinkSnapshot]) -> pd.DataFrame:
    """A row for each sink, in the order given, as texts for people.

    `since` is how long it is in its state, `caught_up` by when a sink that is behind has read all; `letters` are the open dead letters of
    its log, None where it cannot be read; `day` are the records read in each of the last 24 hours, None where the sink does not tell.
    """
    return pd.DataFrame([_row(known) for known in sinks], columns=list(COLUMNS)).astype({"letters": "Int64"})


def _row(known: SinkSnapshot) -> tuple[object, ...]:
    judged = health(known)
    letters = None if known.log is None else known.log.totals.dead_letters
    since = NOTHING if judged.since_ms is None else age(known.seen_ms - judged.since_ms)
    return (
        str(judged.state),
        known.name,
        judged.well,
        since,
        str(known.lag),
        delay_text(known),
        caught_up_text(known),
        letters,
        last_commit_text(known, known.seen_ms).removesuffix(" ago"),
        _day(known),
        why(judged),
    )


def why(judged: SinkHealth) -> str:
    """The reason of a state on one line, none where a sink just works; of a long one the beginning and the end."""
    text = " ".join(judged.reason.split())
    if text == WORKS:
        return ""
    text = f"{text[:1].upper()}{text[1:]}"
    if len(text) <= WHY_BEGIN + WHY_END + 3:
        return text
    return f"{text[:WHY_BEGIN].rpartition(' ')[0] or text[:WHY_BEGIN]} \u2026 {text[-WHY_END:].partition(' ')[2] or text[-WHY_END:]}"


def caught_up_text(known: SinkSnapshot) -> str:
    """By when a sink that is behind has read all that is in Kafka: `in 3 h`; a dash where it is not behind, or nobody is at work."""
    found = known.catch_up
    if found is None:
        return NOTHING
    if found.until_ms is None:
        return "falls behind" if found.measured else "unknown"
    return f"in {age(found.until_ms - known.seen_ms)}"


def delay_text(known: SinkSnapshot) -> str:
    """The delay of 95 % of the last commit's records."""
    delay = known.heartbeat.delay if known.heartbeat else None
    return "unknown" if delay is None else duration_text(delay.slow_ms)


def last_commit_text(known: SinkSnapshot, now_ms: int) -> str:
    """How long ago data was last committed; unknown where the log cannot be read to its end."""
    return "unknown" if known.damage and not known.last_commit else ago(last_commit_ms(known), now_ms)


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
