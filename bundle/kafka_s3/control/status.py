"""How is a sink? One word and a reason, from its commit log, its last heartbeat and what was asked of it. Decisions only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_s3.commit.state import LogState
from kafka_s3.control.commands import Control
from kafka_s3.control.heartbeat import FRESH_INTERVALS, Heartbeat, Phase
from kafka_s3.model.offsets import TopicPartition

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


UNWELL: Final = frozenset({SinkState.DEGRADED, SinkState.FAILED, SinkState.STALE, SinkState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class SinkSnapshot:
    """What the bucket says of a sink. `last_commit` is when data was last committed (ISO 8601), `damage` what could not be read."""

    name: str
    log: LogState | None = None
    last_commit: str = ""
    heartbeat: Heartbeat | None = None
    control: Control | None = None
    configured: bool = False
    damage: str = ""

    @property
    def lag(self) -> int | None:
        """Records behind Kafka's heads at the last heartbeat, None where there was none."""
        return None if self.heartbeat is None else sum(self.heartbeat.lag.values())


@dataclass(frozen=True, slots=True)
class SinkHealth:
    """A state, and why."""

    state: SinkState
    reason: str


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a sink stands in one topic-partition: None where the log, or the heartbeat, does not say."""

    topic_partition: TopicPartition
    frontier: int | None
    written: int | None
    dead_ahead: int
    lag: int | None


def sink_id(bucket: str, name: str) -> str:
    """A short id that stays the same as long as the sink keeps bucket and name."""
    return f"ks3-{hashlib.sha256(f'{bucket}/{name}'.encode()).hexdigest()[:6]}"


def health(known: SinkSnapshot, now_ms: int) -> SinkHealth:
    """The state of a sink at a time (epoch ms by the reader's clock)."""
    if known.damage:
        return SinkHealth(SinkState.UNKNOWN, known.damage)
    heartbeat = known.heartbeat
    if heartbeat is None:
        return _without_heartbeat(known)
    if heartbeat.phase is Phase.FAILED:
        return SinkHealth(SinkState.FAILED, heartbeat.failure)
    if heartbeat.phase is Phase.STOPPED:
        later = " It will be paused when it is started." if _pause_waits(known) else ""
        return SinkHealth(SinkState.STOPPED, f"ended cleanly {age(now_ms - heartbeat.beat_ms)} ago.{later}")
    if not heartbeat.alive(now_ms):
        return _stale(known, heartbeat, now_ms)
    return _alive(known, heartbeat)


def check_line(known: SinkSnapshot, now_ms: int, *, max_lag: int | None) -> tuple[str, bool]:
    """What is to be said of a sink at a time (epoch ms), and whether it is well. More than `max_lag` records behind Kafka it is not."""
    judged = health(known, now_ms)
    behind = max_lag is not None and known.lag is not None and known.lag > max_lag
    lag = "" if known.lag is None else f" Lag: {known.lag} records{f', more than {max_lag}' if behind else ''}."
    return f"{known.name} {judged.state}: {judged.reason}{lag}", judged.state not in UNWELL and not behind


def standpoints(known: SinkSnapshot) -> list[Standpoint]:
    """Every topic-partition that the log or the heartbeat knows, in order."""
    progress = known.log.progress if known.log else {}
    lag: Mapping[TopicPartition, int] = known.heartbeat.lag if known.heartbeat else {}
    found = []
    for tp in sorted({*progress, *lag}):
        here = progress.get(tp)
        found.append(
            Standpoint(
                tp,
                frontier=here.frontier if here else None,
                written=here.written if here else None,
                dead_ahead=len(here.recorded) if here else 0,
                lag=lag.get(tp),
            )
        )
    return found


def age(ms: int) -> str:
    """A duration in its largest whole unit."""
    seconds = max(ms, 0) // 1000
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    return next((f"{seconds // size} {unit}" for unit, size in units if seconds >= size), f"{seconds} s")


def _without_heartbeat(known: SinkSnapshot) -> SinkHealth:
    if _nothing_committed(known):
        how = "created, not started yet." if known.configured else "nothing committed, and no heartbeat."
        return SinkHealth(SinkState.PROVISIONING, how)
    return SinkHealth(SinkState.UNKNOWN, "there is a commit log but no heartbeat: whether it runs cannot be told.")


def _stale(known: SinkSnapshot, heartbeat: Heartbeat, now_ms: int) -> SinkHealth:
    text = f"last heard of {age(now_ms - heartbeat.beat_ms)} ago (pid {heartbeat.pid} on {heartbeat.host})"
    epoch = known.log.epoch if known.log else 0
    if 0 < heartbeat.epoch < epoch:
        return SinkHealth(
            SinkState.STALE, f"{text}; another driver, without heartbeat, has taken the log over since (epoch {epoch})."
        )
    why = f"more than {FRESH_INTERVALS} intervals: the process is gone, or cannot reach the bucket."
    return SinkHealth(SinkState.STALE, f"{text}, {why}")


def _alive(known: SinkSnapshot, heartbeat: Heartbeat) -> SinkHealth:
    epoch = known.log.epoch if known.log else 0
    if 0 < heartbeat.epoch < epoch:
        text = f"another driver has taken the log over (epoch {epoch}, this one has {heartbeat.epoch}); it stops at its next commit."
        return SinkHealth(SinkState.DEGRADED, text)
    if heartbeat.phase is Phase.PAUSED:
        by = known.control.requested_by if known.control and known.control.request == heartbeat.request else ""
        resuming = "" if known.control is None or known.control.paused else " It was asked to go on."
        return SinkHealth(SinkState.PAUSED, f"paused{f' by {by}' if by else ''}.{resuming}")
    if heartbeat.troubled:
        return SinkHealth(SinkState.DEGRADED, f"tries again: {heartbeat.warning}")
    if heartbeat.lag_grew >= GREW_OFTEN:
        text = f"falls behind: after each of the last {heartbeat.lag_grew} looks that followed a commit its lag was higher."
        return SinkHealth(SinkState.DEGRADED, text)
    asked = " It was asked to pause." if _pause_waits(known) else ""
    if _nothing_committed(known):
        return SinkHealth(SinkState.PROVISIONING, f"started, nothing committed yet.{asked}")
    if heartbeat.phase is Phase.STARTING:
        return SinkHealth(SinkState.PROVISIONING, f"starting: it has not claimed its log yet.{asked}")
    return SinkHealth(SinkState.RUNNING, f"works.{asked}")


def _nothing_committed(known: SinkSnapshot) -> bool:
    return known.log is None or known.log.totals.read == 0


def _pause_waits(known: SinkSnapshot) -> bool:
    return known.control is not None and known.control.paused
