"""Which sinks keep their state in a bucket, what does it say of each, and how well are they?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.commands import Control, read_control
from kafka_s3.engine.control.damage import DamagedEntries, DamageSearch, DamageWatch, held_text
from kafka_s3.engine.control.heartbeat import (
    FRESH_INTERVALS,
    Heartbeat,
    Limits,
    Phase,
    StateSince,
    dead_letters_text,
    delay_text,
    read_heartbeat,
)
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.reading import READ_THREADS
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.timing import age, now_ms
from kafka_s3.store.store import ObjectStore

GREW_OFTEN: Final = 5
TYPE: Final = "sink"
READERS: Final = 32
"""How many sinks are read together: each waits for a few answers, one after the other."""
LOOK_BACK: Final = 50
T = TypeVar("T")
OWN: Final = frozenset({"commits/", "checkpoints/", "config.json", "heartbeat.json", "control.json"})
NEAR: Final = "co"
"""How the entries' folder, the control object and the configuration begin, and nothing else: one listing has all three."""
ReadLog = Callable[[], tuple[LogState, CommitEntry] | None]
"""The state of a log and its last entry; None where there is no entry. Raises LogDamaged, StorageError."""


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


WORKS: Final = "works."
"""The reason of a sink that is well; one that is not says what is wrong instead."""
POLLING: Final = frozenset({Phase.STARTING, Phase.RUNNING})
UNWELL: Final = frozenset({SinkState.DEGRADED, SinkState.FAILED, SinkState.STALE, SinkState.UNKNOWN})
_MAY_DEGRADE: Final = frozenset({SinkState.PROVISIONING, SinkState.RUNNING, SinkState.STOPPED})


@dataclass(frozen=True, slots=True)
class Lag:
    """Records between what is in objects and Kafka's heads at `polled_ms` (epoch ms); `records` is None where nobody has polled.

    It is `exact` as long as the sink polls again and again and each of its topic-partitions answers; else it is so many or more.
    """

    records: int | None = None
    polled_ms: int | None = None
    exact: bool = False

    @property
    def number(self) -> int | None:
        """The number, None where it is unknown: that it is 0 or more says nothing."""
        return self.records if self.exact or self.records else None

    def __str__(self) -> str:
        """The number, `... or more`, or `unknown`."""
        if self.number is None:
            return "unknown"
        return f"{self.number:,}" if self.exact else f"{self.number:,} or more"


@dataclass(frozen=True, slots=True)
class SinkSnapshot:
    """What the bucket had of a sink at `seen_ms` (epoch ms), by which its health is judged, however late somebody looks at it.

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
        exact = beat.alive(self.seen_ms) and beat.phase in POLLING and not beat.troubled and not beat.open_problems
        return Lag(sum(beat.lag.values()), beat.looked_ms, exact)

    @property
    def catch_up(self) -> CatchUp | None:
        """By when a sink that is behind has caught up; None where it is not behind, or nobody is at work."""
        beat = self.heartbeat
        return beat.catch_up if beat is not None and beat.alive(self.seen_ms) else None


@dataclass(frozen=True, slots=True)
class SinkHealth:
    """A state, since when (epoch ms, None where nothing says so), and why; `concerns` are what is wrong beside it."""

    state: SinkState
    reason: str
    concerns: tuple[str, ...] = ()
    since_ms: int | None = None

    @property
    def well(self) -> bool:
        """Whether nobody has to look."""
        return self.state not in UNWELL and not self.concerns


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """How far a sink is in one topic-partition: None where the log, or the heartbeat, does not say.

    A `lag` of 0 is given only where the sink polls again and again: of one that has ended nobody knows what came since (see `Lag`).
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
    """The state of a sink when it was seen. `limits` win over those of its configuration, which its heartbeat has."""
    heartbeat = known.heartbeat
    if heartbeat is None and known.damage:
        return SinkHealth(SinkState.UNKNOWN, known.damage)
    state, reason = _state(known)
    concerns = tuple(_concerns(known, limits or limits_with(known)))
    if concerns:
        wrong = _sentence("; ".join(concerns))
        if heartbeat is not None and state in _MAY_DEGRADE:
            rest = reason.removeprefix(WORKS).strip()
            state, reason = SinkState.DEGRADED, f"{wrong} {rest[:1].upper()}{rest[1:]}".strip()
        else:
            reason = f"{reason} {wrong}"
    return SinkHealth(state, reason, concerns, _since_ms(known, state))


def state_history(known: SinkSnapshot) -> list[StateSince]:
    """The states that a sink was in, the newest last: those that it noted itself, and that it is STALE now."""
    beat = known.heartbeat
    if beat is None:
        return []
    stale = not beat.ended and not beat.alive(known.seen_ms)
    return [*beat.states, *([StateSince(beat.stale_ms, SinkState.STALE, "no heartbeat any more")] if stale else [])]


def own_state(beat: Heartbeat) -> StateSince:
    """The state of a sink by the heartbeat that it is about to write."""
    log = None if beat.totals is None else LogState(beat.version, beat.epoch, totals=beat.totals)
    judged = health(SinkSnapshot(beat.sink, log, heartbeat=beat, seen_ms=beat.beat_ms))
    why = beat.failure or "; ".join([*judged.concerns, *([beat.warning] if beat.troubled else [])])
    return StateSince(beat.beat_ms, judged.state, why)


def _since_ms(known: SinkSnapshot, state: SinkState) -> int | None:
    history = state_history(known)
    return history[-1].at_ms if history and history[-1].state == state else None


def limits_with(
    known: SinkSnapshot, *, lag: int | None = None, delay_s: float | None = None, dead_letters: float | None = None
) -> Limits:
    """The limits of a sink's configuration, as its heartbeat has them, with those that are given instead."""
    own = known.heartbeat.limits if known.heartbeat else Limits()
    return Limits(
        own.lag if lag is None else lag,
        own.delay_ms if delay_s is None else round(delay_s * 1000),
        own.dead_letters if dead_letters is None else dead_letters,
    )


def check_sink(
    store: ObjectStore,
    paths: StatePaths,
    *,
    seen_ms: int,
    max_lag: int | None = None,
    max_delay_s: float | None = None,
    max_dead_letters: float | None = None,
) -> tuple[str, bool]:
    """How the sink is in a line, and whether it is well by its own limits or those that are given instead. Raises StorageError."""
    known = whole_snapshot_of(store, paths, seen_ms=seen_ms)
    return check_line(known, limits_with(known, lag=max_lag, delay_s=max_delay_s, dead_letters=max_dead_letters))


def check_line(known: SinkSnapshot, limits: Limits | None = None) -> tuple[str, bool]:
    """A line about a sink, and whether it is well."""
    judged = health(known, limits)
    return f"{known.name} {judged.state}: {judged.reason.rstrip('.')}. {_lag_sentence(known)}", judged.well


def _lag_sentence(known: SinkSnapshot) -> str:
    lag, heartbeat = known.lag, known.heartbeat
    all_looked_at = heartbeat is not None and heartbeat.phase is Phase.STOPPED and not heartbeat.open_problems
    if all_looked_at and lag.records is not None:
        return f"Lag when it ended: {lag.records:,} records."
    if lag.number is None:
        return "Lag: unknown."
    polled = "" if lag.polled_ms is None else f", {age(known.seen_ms - lag.polled_ms)} ago"
    return f"Lag: {lag} records{polled}."


def _concerns(known: SinkSnapshot, limits: Limits) -> Iterator[str]:
    """What is wrong although the process does what it should."""
    if known.damage:
        yield known.damage.rstrip(".")
    heartbeat = known.heartbeat
    yield from filter(None, [_lag_text(known, limits.lag)])
    if heartbeat is None:
        return
    yield from heartbeat.open_problems
    yield from heartbeat.behind
    if heartbeat.lag_grew >= GREW_OFTEN and not heartbeat.ended:
        yield f"it falls behind: after each of the last {heartbeat.lag_grew} looks that followed a commit its lag was higher"
    yield from filter(None, [dead_letters_text(heartbeat.recent, limits), delay_text(heartbeat.delay, limits)])


def _lag_text(known: SinkSnapshot, most: int | None) -> str:
    """Says that a sink is too far behind, or that nobody knows; of one that has ended counts what it was then. Blank where it is well."""
    lag, heartbeat = known.lag, known.heartbeat
    found = lag.records if heartbeat is not None and heartbeat.phase is Phase.STOPPED else lag.number
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
        later = " Once started, it will be paused." if _pause_waits(known) else ""
        return SinkState.STOPPED, f"ended cleanly {age(now_ms - heartbeat.beat_ms)} ago.{later}"
    if not heartbeat.alive(now_ms):
        return SinkState.STALE, _stale(known, heartbeat)
    return _alive(known, heartbeat)


def partition_statuses(known: SinkSnapshot) -> list[PartitionStatus]:
    """Every topic-partition that the log or the heartbeat knows, in order."""
    progress = known.log.progress if known.log else {}
    lag: Mapping[TopicPartition, int] = known.heartbeat.lag if known.heartbeat else {}
    exact = known.lag.exact
    found = []
    for tp in sorted({*progress, *lag}):
        here, behind = progress.get(tp), lag.get(tp)
        found.append(
            PartitionStatus(
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
    return SinkState.UNKNOWN, "there is a commit log but no heartbeat: whether it runs is not known."


def _stale(known: SinkSnapshot, heartbeat: Heartbeat) -> str:
    text = f"last heartbeat {age(known.seen_ms - heartbeat.beat_ms)} ago (pid {heartbeat.pid} on {heartbeat.host})"
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
    return SinkState.RUNNING, f"{WORKS}{asked}"


def _nothing_committed(known: SinkSnapshot) -> bool:
    return not known.damage and (known.log is None or known.log.totals.read == 0)


def _pause_waits(known: SinkSnapshot) -> bool:
    return known.control is not None and known.control.paused


def sink_names(store: ObjectStore, prefix: str) -> list[str]:
    """The names of the sinks with state below the prefix, in order. Raises StorageError."""
    folders = state_folders(store, prefix)
    with ThreadPool(READERS) as pool:
        known = list(pool.map(lambda name: is_known(store, StatePaths(prefix, name)), folders))
    return [name for name, one in zip(folders, known, strict=True) if one]


def is_known(store: ObjectStore, paths: StatePaths) -> bool:
    """Whether the bucket holds anything of a sink's state."""
    return not OWN.isdisjoint(store.names(paths.root))


def state_folders(store: ObjectStore, prefix: str) -> list[str]:
    """The names of the folders below the prefix, in order: of sinks, and what else may lie there. Raises StorageError."""
    return [name.removesuffix("/") for name in store.names(f"{prefix.strip('/')}/") if name.endswith("/")]


def snapshot_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot:
    """Everything that the bucket says of a sink at a time (epoch ms by the reader's clock); what cannot be read is noted as damage.

    Raises StorageError.
    """
    reader = _SnapshotReader(store, paths, seen_ms)
    return reader.snapshot(frozenset(store.names(paths.root)), reader.heartbeat(), read_log=reader.whole_log)


def whole_snapshot_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot:
    """The same with the damage of entries that the state does not need any more. Raises StorageError."""
    return with_damage(snapshot_of(store, paths, seen_ms=seen_ms), DamageSearch(store, paths).find())


def with_damage(known: SinkSnapshot, found: Iterable[DamagedEntries]) -> SinkSnapshot:
    """What the bucket says of a sink, with the damaged entries of its log; what is noted already is not repeated."""
    texts = [held_text(one.held) if one.text in known.damage else str(one) for one in found]
    return replace(known, damage=" ".join(filter(None, [known.damage, *texts])))


def quick_snapshot_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot | None:
    """The same at the price of three requests: the log's `progress` and topics may be left out. None where there is no sink.

    The heartbeat has the totals up to its entry, so that only this one and those since are read; the whole log where it does not, or is
    of another log. Raises StorageError.
    """
    reader = _SnapshotReader(store, paths, seen_ms)
    heartbeat = reader.heartbeat()
    near = _near(store, paths, heartbeat)
    if near is not None and heartbeat is not None:
        names, keys = near
        return reader.snapshot(names, heartbeat, read_log=lambda: reader.log_since(heartbeat, keys))
    names = frozenset(store.names(paths.root))
    return None if OWN.isdisjoint(names) else reader.snapshot(names, heartbeat, read_log=reader.whole_log)


def all_snapshots(
    store: ObjectStore, prefix: str, *, seen_ms: int, watch: DamageWatch | None = None
) -> list[SinkSnapshot]:
    """A glance at every sink below the prefix, in order of their names; a `watch` looks for damage in their logs. Raises StorageError."""

    def read(name: str) -> SinkSnapshot | None:
        paths = StatePaths(prefix, name)
        known = quick_snapshot_of(store, paths, seen_ms=seen_ms)
        return known if known is None or watch is None else with_damage(known, watch.damaged_entries(paths, seen_ms))

    with ThreadPool(READERS) as pool:
        found = pool.map(read, state_folders(store, prefix))
        return [one for one in found if one is not None]


def _near(store: ObjectStore, paths: StatePaths, beat: Heartbeat | None) -> tuple[Set[str], Sequence[str]] | None:
    """The names of a sink's objects beside its log, and the keys of the heartbeat's entry and of those since.

    None where the heartbeat lacks the totals up to its entry, or the entries are many.
    """
    if beat is None or beat.totals is None:
        return None
    names, keys = set[str](), list[str]()
    start = paths.commit(beat.version - 1) if beat.version > 0 else ""
    for info in store.list(f"{paths.root}{NEAR}", start_after=start):
        if info.key.startswith(f"{paths.root}commits/"):
            keys.append(info.key)
        else:
            names.add(info.key.removeprefix(paths.root))
        if len(keys) == LOOK_BACK:
            return None
    return names, keys


class _SnapshotReader:
    """Reads what the bucket says of one sink; goes on where something cannot be read, and notes it as damage."""

    def __init__(self, store: ObjectStore, paths: StatePaths, seen_ms: int) -> None:
        self._store, self._paths, self._seen_ms = store, paths, seen_ms
        self._damage: list[str] = []

    def heartbeat(self) -> Heartbeat | None:
        return self._read(lambda: read_heartbeat(self._store, self._paths))

    def snapshot(self, names: Set[str], heartbeat: Heartbeat | None, *, read_log: ReadLog) -> SinkSnapshot:
        """What the bucket says of a sink whose folder holds these names."""
        control = self._read(lambda: read_control(self._store, self._paths)) if "control.json" in names else None
        state, last = self._read(read_log) or (None, None)
        return SinkSnapshot(
            self._paths.sink,
            log=state,
            last_commit=self._read(lambda: _last_commit(self._store, self._paths, last)) or "",
            heartbeat=heartbeat,
            control=control,
            configured="config.json" in names,
            damage=" ".join(self._damage),
            seen_ms=self._seen_ms,
        )

    def whole_log(self) -> tuple[LogState, CommitEntry] | None:
        log = CommitLog(self._store, self._paths, clock_ms=now_ms)
        state = log.load()
        return None if log.last is None else (state, log.last)

    def log_since(self, beat: Heartbeat, keys: Sequence[str]) -> tuple[LogState, CommitEntry] | None:
        """By the heartbeat and the entries of these keys, its own and those since; by the whole log where the first one is another."""

        def read(key: str) -> CommitEntry:
            return read_entry(self._store.get(key), key=key)

        with ThreadPool(READ_THREADS) as pool:
            entries = list(pool.each(read, keys))
        if not entries or entries[0].version != beat.version or beat.totals is None:
            return self.whole_log()
        state = LogState(beat.version, entries[0].epoch, totals=beat.totals)
        for entry in entries[1:]:
            state = state.after(entry)
        return state, entries[-1]

    def _read(self, part: Callable[[], T | None]) -> T | None:
        try:
            return part()
        except LogDamaged as error:
            self._damage.append(str(error))
            return None


def _last_commit(store: ObjectStore, paths: StatePaths, last: CommitEntry | None) -> str:
    """When data was last committed, blank where that is not among the newest entries."""
    entry = last
    for _ in range(LOOK_BACK):
        if entry is None or entry.kind is EntryKind.DATA:
            return entry.committed_at if entry else ""
        if entry.version == 0:
            return ""
        key = paths.commit(entry.version - 1)
        try:
            entry = read_entry(store.get(key), key=key)
        except ObjectMissing:
            return ""
    return ""
