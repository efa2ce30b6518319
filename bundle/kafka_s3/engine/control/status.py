"""How is a sink? One word and a reason, from its commit log, its last heartbeat and what was asked of it. Decisions only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_s3.engine.control.commands import Control
from kafka_s3.engine.control.heartbeat import FRESH_INTERVALS, Heartbeat, Phase
from kafka_s3.engine.control.limits import Limits, dead_letters_text, delay_text
from kafka_s3.engine.log.fold import LogState
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import age

GREW_OFTEN: Final = 5
TYPE: Final = "sink"


class SinkState(StrEnum):
    """The states of a sink, as `kafka-s3 list` shows them."""

    PROVISIONING = "PROVISIONING"
    RUNNING = "RUNNING"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"


LOOKING: Final = frozenset({Phase.STARTING, Phase.RUNNING})
UNWELL: Final = frozenset({SinkState.DEGRADED, SinkState.FAILED, SinkState.STALE, SinkState.UNKNOWN})
_MAY_DEGRADE: Final = frozenset({SinkState.PROVISIONING, SinkState.RUNNING, SinkState.STOPPED})


@dataclass(frozen=True, slots=True)
class Lag:
    """Records between what is in objects and Kafka's heads at `looked_ms` (epoch ms); `records` is None where nobody has looked.

    It is `exact` as long as the sink looks again and again and each of its topic-partitions answers; else it is so many or more.
    """

    records: int | None = None
    looked_ms: int | None = None
    exact: bool = False

    @property
    def told(self) -> int | None:
        """The number, None where it is unknown: that it is 0 or more says nothing."""
        return self.records if self.exact or self.records else None

    def __str__(self) -> str:
        """The number, `... or more`, or `unknown`."""
        if self.told is None:
            return "unknown"
        return f"{self.told:,}" if self.exact else f"{self.told:,} or more"


@dataclass(frozen=True, slots=True)
class SinkSnapshot:
    """What the bucket said of a sink at `seen_ms` (epoch ms), by which its health is judged, however late somebody looks at it.

    `last_commit` is when data was last committed (ISO 8601), `damage` what could not be read.
    """

    name: str
    log: LogState | None = None
    last_commit: str = ""
    heartbeat: Heartbeat | None = None
    control: Control | None = None
    configured: bool = False
    damage: str = ""
    seen_ms: int = 0

    @property
    def lag(self) -> Lag:
        """How far the sink is behind."""
        beat = self.heartbeat
        if beat is None or (beat.looked_ms is None and not beat.lag):
            return Lag()
        looks = beat.alive(self.seen_ms) and beat.phase in LOOKING and not beat.troubled and not beat.standing
        return Lag(sum(beat.lag.values()), beat.looked_ms, looks)


@dataclass(frozen=True, slots=True)
class SinkHealth:
    """A state, and why; `concerns` are what is wrong beside it."""

    state: SinkState
    reason: str
    concerns: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Whether nobody has to look."""
        return self.state not in UNWELL and not self.concerns


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a sink stands in one topic-partition: None where the log, or the heartbeat, does not say.

    A `lag` of 0 is told only where the sink looks again and again: of one that has ended nobody knows what came since (see `Lag`).
    """

    topic_partition: TopicPartition
    frontier: int | None
    written: int | None
    dead_ahead: int
    lag: int | None


def sink_id(bucket: str, name: str) -> str:
    """A short id that stays the same as long as the sink keeps bucket and name."""
    return f"ks3-{hashlib.sha256(f'{bucket}/{name}'.encode()).hexdigest()[:6]}"


def health(known: SinkSnapshot, limits: Limits | None = None) -> SinkHealth:
    """The state of a sink when it was seen. `limits` win over those of its configuration, which its heartbeat tells."""
    heartbeat = known.heartbeat
    if heartbeat is None and known.damage:
        return SinkHealth(SinkState.UNKNOWN, known.damage)
    state, reason = _state(known)
    concerns = tuple(_concerns(known, limits or overridden(known)))
    if concerns:
        reason = f"{reason} {_sentence('; '.join(concerns))}"
        state = SinkState.DEGRADED if heartbeat is not None and state in _MAY_DEGRADE else state
    return SinkHealth(state, reason, concerns)


def overridden(
    known: SinkSnapshot, *, lag: int | None = None, delay_s: float | None = None, dead_letters: float | None = None
) -> Limits:
    """The limits of a sink's configuration, as its heartbeat tells them, with those that are given instead."""
    own = known.heartbeat.limits if known.heartbeat else Limits()
    return Limits(
        own.lag if lag is None else lag,
        own.delay_ms if delay_s is None else round(delay_s * 1000),
        own.dead_letters if dead_letters is None else dead_letters,
    )


def check_line(known: SinkSnapshot, limits: Limits | None = None) -> tuple[str, bool]:
    """What is to be said of a sink in a line, and whether it is well."""
    judged = health(known, limits)
    return f"{known.name} {judged.state}: {judged.reason.rstrip('.')}. {_lag_sentence(known)}", judged.well


def _lag_sentence(known: SinkSnapshot) -> str:
    lag, heartbeat = known.lag, known.heartbeat
    all_looked_at = heartbeat is not None and heartbeat.phase is Phase.STOPPED and not heartbeat.standing
    if all_looked_at and lag.records is not None:
        return f"Lag when it ended: {lag.records:,} records."
    if lag.told is None:
        return "Lag: unknown."
    looked = "" if lag.looked_ms is None else f", {age(known.seen_ms - lag.looked_ms)} ago"
    return f"Lag: {lag} records{looked}."


def _concerns(known: SinkSnapshot, limits: Limits) -> Iterator[str]:
    """What is wrong although the process does what it should."""
    if known.damage:
        yield known.damage.rstrip(".")
    heartbeat = known.heartbeat
    yield from filter(None, [_lag_text(known, limits.lag)])
    if heartbeat is None:
        return
    yield from heartbeat.standing
    if heartbeat.lag_grew >= GREW_OFTEN and not heartbeat.ended:
        yield f"it falls behind: after each of the last {heartbeat.lag_grew} looks that followed a commit its lag was higher"
    yield from filter(None, [dead_letters_text(heartbeat.recent, limits), delay_text(heartbeat.delay, limits)])


def _lag_text(known: SinkSnapshot, most: int | None) -> str:
    """Says that a sink is too far behind, or that nobody knows; of one that has ended counts what it was then. Blank where it is well."""
    lag, heartbeat = known.lag, known.heartbeat
    found = lag.records if heartbeat is not None and heartbeat.phase is Phase.STOPPED else lag.told
    if most is None or (found is not None and found <= most):
        return ""
    return "its lag is unknown" if found is None else f"its lag is {lag}, more than {most:,}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _state(known: SinkSnapshot) -> tuple[SinkState, str]:
    heartbeat, now_ms = known.heartbeat, known.seen_ms
    if heartbeat is None:
        return _without_heartbeat(known)
    if heartbeat.phase is Phase.FAILED:
        return SinkState.FAILED, heartbeat.failure
    if heartbeat.phase is Phase.STOPPED:
        later = " It will be paused when it is started." if _pause_waits(known) else ""
        return SinkState.STOPPED, f"ended cleanly {age(now_ms - heartbeat.beat_ms)} ago.{later}"
    if not heartbeat.alive(now_ms):
        return SinkState.STALE, _stale(known, heartbeat)
    return _alive(known, heartbeat)


def standpoints(known: SinkSnapshot) -> list[Standpoint]:
    """Every topic-partition that the log or the heartbeat knows, in order."""
    progress = known.log.progress if known.log else {}
    lag: Mapping[TopicPartition, int] = known.heartbeat.lag if known.heartbeat else {}
    exact = known.lag.exact
    found = []
    for tp in sorted({*progress, *lag}):
        here, behind = progress.get(tp), lag.get(tp)
        found.append(
            Standpoint(
                tp,
                frontier=here.frontier if here else None,
                written=here.written if here else None,
                dead_ahead=len(here.recorded) if here else 0,
                lag=behind if exact or behind else None,
            )
        )
    return found


def _without_heartbeat(known: SinkSnapshot) -> tuple[SinkState, str]:
    if _nothing_committed(known):
        how = "created, not started yet." if known.configured else "nothing committed, and no heartbeat."
        return SinkState.PROVISIONING, how
    return SinkState.UNKNOWN, "there is a commit log but no heartbeat: whether it runs cannot be told."


def _stale(known: SinkSnapshot, heartbeat: Heartbeat) -> str:
    text = f"last heard of {age(known.seen_ms - heartbeat.beat_ms)} ago (pid {heartbeat.pid} on {heartbeat.host})"
    epoch = known.log.epoch if known.log else 0
    if 0 < heartbeat.epoch < epoch:
        return f"{text}; another driver, without heartbeat, has taken the log over since (epoch {epoch})."
    return f"{text}, more than {FRESH_INTERVALS} intervals: the process is gone, or cannot reach the bucket."


def _alive(known: SinkSnapshot, heartbeat: Heartbeat) -> tuple[SinkState, str]:
    epoch = known.log.epoch if known.log else 0
    if 0 < heartbeat.epoch < epoch:
        text = f"another driver has taken the log over (epoch {epoch}, this one has {heartbeat.epoch}); it stops at its next commit."
        return SinkState.DEGRADED, text
    if heartbeat.phase is Phase.PAUSED:
        by = known.control.requested_by if known.control and known.control.request == heartbeat.request else ""
        resuming = "" if known.control is None or known.control.paused else " It was asked to go on."
        return SinkState.PAUSED, f"paused{f' by {by}' if by else ''}.{resuming}"
    if heartbeat.troubled:
        return SinkState.DEGRADED, f"tries again: {heartbeat.warning}"
    asked = " It was asked to pause." if _pause_waits(known) else ""
    if _nothing_committed(known):
        return SinkState.PROVISIONING, f"started, nothing committed yet.{asked}"
    if heartbeat.phase is Phase.STARTING:
        return SinkState.PROVISIONING, f"starting: it has not claimed its log yet.{asked}"
    return SinkState.RUNNING, f"works.{asked}"


def _nothing_committed(known: SinkSnapshot) -> bool:
    return not known.damage and (known.log is None or known.log.totals.read == 0)


def _pause_waits(known: SinkSnapshot) -> bool:
    return known.control is not None and known.control.paused
