"""How does the running sink say how it is? It observes the loop, and a thread of its own writes the heartbeat.

Best-effort, so that a long round is not taken for a dead sink, and no failure to write ever stops the sink. A driver that was fenced is no
longer the sink: it leaves the heartbeat to its successor, and writes no more.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from threading import Event, Lock
from types import NoneType
from typing import Any, Final, TypeVar

from kafka_s3 import __version__
from kafka_s3.engine.control.catch_up import CatchUp, CatchUpMeter
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import Fenced, LogDamaged, ObjectMissing, SinkError, reason_of
from kafka_s3.model.files import DataFile, Role, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import start_daemon
from kafka_s3.model.protocols import Observer, RoundSummary, Start, TopicBacklog
from kafka_s3.model.timing import age
from kafka_s3.store.store import ObjectStore

POINTS: Final = 4
"""A file has the times of its first and last record; those between are taken to be spread evenly, at so many points."""
FORMAT: Final = 1
SIMPLE: Final[Mapping[str, Any]] = {
    "int": int, "str": str, "bool": bool, "float": (int, float), "int | None": (int, NoneType), "float | None": (int, float, NoneType),
}  # fmt: skip
"""What values of a type are, by how the type is written."""
T = TypeVar("T")
FRESH_INTERVALS: Final = 3
LAST_WORD_S: Final = 15.0  # a bucket that does not answer must not keep a sink from ending
TEXT_LIMIT: Final = 2000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
HOURS: Final = 24
STATES: Final = 50
"""So many changes of state are kept, each with so much of the reason:"""
WHY_LIMIT: Final = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read in a step of time from `at_ms` on: records, and how many of them were written or became dead letters."""

    at_ms: int
    read: int = 0
    written: int = 0
    dead_letters: int = 0


NO_TALLY: Final = Tally(0)


@dataclass(frozen=True, slots=True)
class StateSince:
    """A state of a sink, as `kafka-s3 list` shows them, since when (epoch ms), and why where it is not well."""

    at_ms: int
    state: str
    why: str = ""


def noted(states: Sequence[StateSince], now: StateSince) -> tuple[StateSince, ...]:
    """The states, oldest first, with the one of now where it is another; at most STATES of them."""
    if states and states[-1].state == now.state:
        return tuple(states)
    return (*states, replace(now, why=now.why[:WHY_LIMIT]))[-STATES:]


@dataclass(frozen=True, slots=True)
class Delay:
    """How long records took from their own time to the commit (ms): half of them no longer, 95 % of them no longer."""

    median_ms: int
    slow_ms: int


def add_tally(tallies: Iterable[Tally], more: Tally, *, step_ms: int, most: int) -> tuple[Tally, ...]:
    """The tallies, oldest first, with one more; its `at_ms` is any time in its step. At most the newest `most` steps are kept."""
    start = more.at_ms // step_ms * step_ms
    known = {tally.at_ms: tally for tally in tallies}
    here = known.get(start, Tally(start))
    known[start] = replace(
        here,
        read=here.read + more.read,
        written=here.written + more.written,
        dead_letters=here.dead_letters + more.dead_letters,
    )
    return tallies_since(known.values(), start - (most - 1) * step_ms)


def tallies_since(tallies: Iterable[Tally], from_ms: int) -> tuple[Tally, ...]:
    """The tallies of the steps that begin at a time or later, oldest first."""
    return tuple(sorted((tally for tally in tallies if tally.at_ms >= from_ms), key=lambda tally: tally.at_ms))


def delay_of(files: Iterable[DataFile], committed_ms: int) -> Delay | None:
    """How late the records of data files were when they were committed; None where no file has the time of its records."""
    points = []
    for file in files:
        if file.role is Role.VALUE and file.min_timestamp is not None and file.max_timestamp is not None:
            first, span = file.min_timestamp, file.max_timestamp - file.min_timestamp
            points += [
                (max(committed_ms - first - span * step // POINTS, 0), file.records) for step in range(POINTS + 1)
            ]
    return Delay(_share(points, 0.5), _share(points, 0.95)) if points else None


def _share(points: list[tuple[int, int]], share: float) -> int:
    """The value that this share of the weight does not exceed."""
    points = sorted(points)
    left = share * sum(weight for _, weight in points)
    for value, weight in points:
        left -= weight
        if left <= 0:
            return value
    return points[-1][0]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still well: records of lag, the delay (ms) of 95 % of the records, the share of dead letters; None is any."""

    lag: int | None = None
    delay_ms: int | None = None
    dead_letters: float | None = 0.05


DEFAULT_LIMITS: Final = Limits()


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
    """A share for people: what is nearly all or nearly nothing does not read as all or nothing."""
    if 0 < share < 1:
        share = min(max(share, 0.0001), 0.9999)
    return f"{share:.2%}" if 0 < share < 0.1 or 0.99 < share < 1 else f"{share:.0%}"


class Phase(StrEnum):
    """What a sink says it is doing."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED: Final = frozenset({Phase.STOPPED, Phase.FAILED})


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What one run of a sink says of itself. Times in epoch ms by its host's clock.

    `run` names the process's run, `driver` and `epoch` what it is in the commit log (empty and 0 until it has claimed it), `version` the
    last entry it knows. `request` and `flushed` are the requests that it has acted on; `unflushed` are topic-partitions that the
    flush could not write. `troubled`: something fails and is tried again.
    `looked_ms`: when lag was measured, None where the sink has not polled yet, or is older than the field.
    `totals` are those of the whole log up to that entry, None where they are not known.
    `open_states` and `open_state_bytes`: states of open files written since the start, and their size.
    `lag_grew`: at how many heartbeats in a row that followed a commit the lag was higher than at the one before.
    `open_problems`: what is wrong as long as it lasts, such as a topic that does not exist; `behind` is what cannot follow
    the log, such as a table that refuses a file, why and since when: that keeps no record from its object. `recent` is what this run did
    within the last hour, `hours` what the sink did in each of the last 24; `delay` that of the last commit with records; `limits` what is
    well of these. `catch_up`: by when a sink that is behind has read all, None where it is not behind. `states` are those that the sink
    was in, oldest first, over all runs.
    """

    sink: str
    run: str
    host: str
    pid: int
    product: str
    started_ms: int
    interval_ms: int
    phase: Phase = Phase.STARTING
    beat_ms: int = 0
    driver: str = ""
    epoch: int = 0
    version: int = -1
    totals: Totals | None = None
    last_round_ms: int | None = None
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked_ms: int | None = None
    lag_grew: int = 0
    open_states: int = 0
    open_state_bytes: int = 0
    open_problems: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    recent: Tally = NO_TALLY
    hours: tuple[Tally, ...] = ()
    delay: Delay | None = None
    limits: Limits = DEFAULT_LIMITS
    catch_up: CatchUp | None = None
    states: tuple[StateSince, ...] = ()
    troubled: bool = False
    warning: str = ""
    warned_ms: int | None = None
    failure: str = ""
    request: str = ""
    flushed: str = ""
    unflushed: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the run is over, by its own last heartbeat."""
        return self.phase in ENDED

    def is_over(self, epoch: int) -> bool:
        """Whether no driver of this epoch of the log, or of an earlier one, is at work any more."""
        return self.ended and self.epoch >= epoch

    def alive(self, now_ms: int) -> bool:
        """Whether the run is not over and wrote within three intervals."""
        return not self.ended and now_ms - self.beat_ms <= FRESH_INTERVALS * self.interval_ms

    @property
    def stale_ms(self) -> int:
        """Since when (epoch ms) a run that is not over is taken for gone, unless it writes again."""
        return self.beat_ms + FRESH_INTERVALS * self.interval_ms

    def to_json(self) -> bytes:
        """The heartbeat as stored."""
        lag: dict[str, dict[str, int]] = {}
        for (topic, partition), records in self.lag.items():
            lag.setdefault(topic, {})[str(partition)] = records
        plain = asdict(replace(self, lag={}))
        return json.dumps({"format": FORMAT, **plain, "lag": lag}, separators=(",", ":")).encode()


def read_heartbeat(store: ObjectStore, paths: StatePaths) -> Heartbeat | None:
    """The sink's last heartbeat, None where there is none. Raises LogDamaged where it cannot be read, StorageError."""
    remedy = "Delete it: a running sink writes it again."
    return read_document(store, paths.heartbeat(), _heartbeat, what="Heartbeat", remedy=remedy)


def read_document(
    store: ObjectStore, key: str, parse: Callable[[dict[str, Any]], T], *, what: str, remedy: str
) -> T | None:
    """What an object of a sink's state says, None where there is none. Raises LogDamaged where it cannot be read, StorageError."""
    try:
        return parse(json.loads(store.get(key)))
    except ObjectMissing:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(f"{what} {key} cannot be read ({type(error).__name__}: {error}). {remedy}") from error


def _heartbeat(document: dict[str, Any]) -> Heartbeat:
    known = {name: document[name] for name in Heartbeat.__dataclass_fields__ if name in document}
    known.setdefault("open_problems", document.get("standing", ()))  # its name before November 2026
    lag = {
        TopicPartition(topic, int(partition)): int(records)
        for topic, partitions in document["lag"].items()
        for partition, records in partitions.items()
    }
    return typed(Heartbeat(**{**known, **_parts(known), "phase": Phase(document["phase"]), "lag": lag}))


def typed(one: T) -> T:
    """A dataclass that was read from the bucket, where anybody may have written it. Raises TypeError for a number or text that is none."""
    for part in fields(one):  # type: ignore[arg-type] # a dataclass has no type of its own
        value, wanted = getattr(one, part.name), SIMPLE.get(str(part.type))
        if wanted is not None and not isinstance(value, wanted):
            raise TypeError(f"{part.name} is of type {type(value).__name__}, not {part.type}")
        if is_dataclass(value) and not isinstance(value, type):
            typed(value)
    return one


def _parts(known: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are more than a number or a text, as far as they are there: earlier versions did not write them."""
    made: dict[str, Callable[[Any], Any]] = {
        "totals": lambda one: None if one is None else Totals(**one),
        "open_problems": tuple,
        "behind": tuple,
        "unflushed": tuple,
        "recent": lambda one: Tally(**one),
        "hours": lambda many: tuple(typed(Tally(**one)) for one in many),
        "delay": lambda one: None if one is None else Delay(**one),
        "limits": lambda one: Limits(**one),
        "catch_up": lambda one: None if one is None else CatchUp(**one),
        "states": lambda many: tuple(typed(StateSince(**one)) for one in many)[-STATES:],
    }
    return {name: make(known[name]) for name, make in made.items() if name in known}


def _until_now(before: Heartbeat, now_ms: int) -> tuple[StateSince, ...]:
    """The states of the run before: one that fell silent was seen as STALE since."""
    if before.ended or before.alive(now_ms):
        return before.states
    return noted(before.states, StateSince(before.stale_ms, "STALE", "the process sent no heartbeat any more"))


def may_replace(existing: Heartbeat | None, own: Heartbeat, now_ms: int) -> bool:
    """Whether a run may write over this heartbeat: its own, one of an earlier epoch, or that of an older run that is not alive."""
    if existing is None or existing.run == own.run or existing.epoch < own.epoch:
        return True
    # epochs start from one again where a log was deleted
    return not existing.alive(now_ms) and existing.started_ms <= own.started_ms


class HeartbeatWriter(Observer):
    """The heartbeat of this process: an observer of the loop that passes everything on. Thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        paths: StatePaths,
        *,
        interval_ms: int,
        clock_ms: Callable[[], int],
        mask: Callable[[str], str] = str,
        inner: Observer | None = None,
        limits: Limits = DEFAULT_LIMITS,
        claimed: Callable[[Heartbeat], None] = lambda _: None,
        judge: Callable[[Heartbeat], StateSince | None] = lambda _: None,
    ) -> None:
        """`claimed` is called by the thread ahead of the first heartbeat of an epoch; what it raises is logged. `judge` says in which state
        the sink is by a heartbeat, so that it can be kept.
        """
        self._store, self._paths, self._clock_ms, self._mask = store, paths, clock_ms, mask
        self.inner, self._claimed, self._judge, self._epoch = inner, claimed, judge, 0
        self._meter = CatchUpMeter()
        self._before: Heartbeat | None = None
        self._lock = Lock()
        self._news = Event()
        self._rounds = 0
        self._warnings = 0
        self._considered: int | None = None
        self._minutes: tuple[Tally, ...] = ()
        self._warned_of_letters = False
        self._silent = False
        host, run, now = socket.gethostname(), uuid.uuid4().hex, clock_ms()
        self._now = Heartbeat(
            paths.sink, run, host, os.getpid(), __version__, now, interval_ms, beat_ms=now, limits=limits
        )

    @property
    def current(self) -> Heartbeat:
        """What the next heartbeat says."""
        return self._now

    # ------------------------------------------------------------ notified by the loop

    def started(self, start: Start) -> None:
        """The log is claimed."""
        about = {"lag": dict(start.lag), "looked_ms": start.polled_ms, "open_problems": start.open_problems}
        with self._lock:
            before = self._before
            if before is not None and before.looked_ms is not None and before.lag.keys() == start.lag.keys():
                waited, now_ms = sum(before.lag.values()), start.polled_ms or self._clock_ms()
                self._meter.started(now_ms, start.backlog, before_ms=before.looked_ms, before=waited)
        self._update(epoch=start.epoch, version=start.version, totals=start.totals, **about)
        super().started(start)

    def polled(self, backlog: Callable[[], Mapping[str, TopicBacklog]]) -> None:
        """How much waits to be read, and so by when it will be."""
        found = backlog()
        with self._lock:
            self._meter.seen(self._clock_ms(), sum(one.unread for one in found.values()))
        super().polled(lambda: found)

    def round_done(self, done: RoundSummary) -> None:
        """A round was committed; regular heartbeats carry it."""
        with self._lock:
            self._rounds += 1
            totals = None if self._now.totals is None else self._now.totals.plus(done.totals)
            self._now = replace(self._now, version=done.version, totals=totals, last_round_ms=done.ended_ms)
            self._now = replace(self._now, lag=dict(done.lag), looked_ms=done.polled_ms)
            self._now = replace(self._now, open_states=done.open_states, open_state_bytes=done.open_state_bytes)
            self._count(done)
        super().round_done(done)

    def warned(self, text: str) -> None:
        """Something failed and is tried again."""
        with self._lock:
            self._warnings += 1
            self._now = replace(self._now, troubled=True, warning=self._shortened(text), warned_ms=self._clock_ms())
        super().warned(text)

    def follower_warned(self, text: str) -> None:
        """The last warning; the sink's own work, and what it knows of its lag, are not touched by it."""
        with self._lock:
            self._now = replace(self._now, warning=self._shortened(text), warned_ms=self._clock_ms())
        if self.inner is not None:
            self.inner.follower_warned(text)

    def worked(
        self,
        lag: Mapping[TopicPartition, int],
        polled_ms: int | None = None,
        *,
        open_problems: Sequence[str] = (),
        behind: Sequence[str] = (),
    ) -> None:
        """A poll at `polled_ms` went well; trouble is over where it brought no warning, but for the `open_problems`.

        `behind` is what cannot follow the log.
        """
        with self._lock:
            calm, self._warnings = not self._warnings, 0
            self._now = replace(self._now, lag=dict(lag), looked_ms=polled_ms, troubled=self._now.troubled and not calm)
            self._now = replace(
                self._now,
                open_problems=tuple(map(self._shortened, open_problems)),
                behind=tuple(map(self._shortened, behind)),
            )
            self._meter.worked(self._clock_ms())

    def claimed(self, driver: str) -> None:
        """Who this is in the commit log."""
        self._update(driver=driver)

    def doing(self, phase: Phase, request: str) -> None:
        """What the sink does now, and at whose request; written at once where it is new."""
        if (self._now.phase, self._now.request) != (phase, request):
            if phase is Phase.PAUSED:
                self._meter.rested()
            self._update(phase=phase, request=request)

    def flushed(self, request: str, unflushed: Iterable[TopicPartition]) -> None:
        """Note that a flush was done, and which topic-partitions it could not write."""
        self._update(flushed=request, unflushed=tuple(map(str, unflushed)))

    def ended(self, error: BaseException | None) -> None:
        """The run is over: stopped, or failed with a reason. An interrupt is a stop."""
        if isinstance(error, Exception):
            self._update(phase=Phase.FAILED, failure=self._shortened(reason_of(error)))
        else:
            self.stopped()

    def stopped(self) -> None:
        """The run is over as it should be."""
        self._update(phase=Phase.STOPPED)
        super().stopped()

    # ------------------------------------------------------------ the thread writes

    def remember(self) -> None:
        """Takes over what outlives a run: which flush was the last to be done, so that none is done twice, the last hours and states, and
        how much waited at the last look.
        """
        try:
            before = read_heartbeat(self._store, self._paths)
        except SinkError:
            return
        if before is not None:
            with self._lock:
                self._now = replace(
                    self._now,
                    flushed=before.flushed,
                    unflushed=before.unflushed,
                    hours=before.hours,
                    states=_until_now(before, self._clock_ms()),
                )
                self._before = before

    def beat(self) -> None:
        """Writes the heartbeat; whatever fails is logged once and forgotten."""
        own = self._next()
        if own.epoch > self._epoch:
            self._epoch = own.epoch
            self._report_claim(own)
        try:
            if may_replace(self._existing(), own, own.beat_ms):
                self._store.put(self._paths.heartbeat(), own.to_json())
            self._silent = False
        except Exception as error:
            if not self._silent:
                _log.warning("The heartbeat could not be written; the sink goes on: %s", reason_of(error))
            self._silent = True

    def wait(self) -> None:
        """Waits for the next interval, or for something worth saying at once."""
        self._news.wait(self._now.interval_ms / 1000)
        self._news.clear()

    def wake(self) -> None:
        """Ends a wait."""
        self._news.set()

    def _report_claim(self, own: Heartbeat) -> None:
        try:
            self._claimed(own)
        except Exception as error:
            _log.warning(
                "What is in effect from epoch %s on could not be noted; the sink goes on: %s",
                own.epoch,
                reason_of(error),
            )

    def _existing(self) -> Heartbeat | None:
        try:
            return read_heartbeat(self._store, self._paths)
        except LogDamaged:
            return None

    def _next(self) -> Heartbeat:
        with self._lock:
            if self._rounds:
                total, before = sum(self._now.lag.values()), self._considered
                grew = self._now.lag_grew + 1 if before is not None and total > before else 0
                self._now = replace(self._now, lag_grew=grew)
                self._considered, self._rounds = total, 0
            now = self._clock_ms()
            ended = self._now.ended
            self._now = replace(self._now, beat_ms=now, recent=self._recent(now))
            self._now = replace(self._now, catch_up=None if ended else self._meter.estimate(now))
            state = self._judge(self._now)
            if state is not None:
                self._now = replace(self._now, states=noted(self._now.states, state))
            return self._now

    def _count(self, done: RoundSummary) -> None:
        """Adds a round to what was done lately, and warns where dead letters become too many."""
        more = Tally(done.ended_ms, done.read, done.totals.written, done.totals.dead_letters)
        self._minutes = add_tally(self._minutes, more, step_ms=MINUTE_MS, most=HOUR_MS // MINUTE_MS)
        hours = add_tally(self._now.hours, more, step_ms=HOUR_MS, most=HOURS)
        late = delay_of(done.files, done.ended_ms) or self._now.delay
        self._now = replace(self._now, hours=hours, delay=late, recent=self._recent(done.ended_ms))
        too_many = dead_letters_text(self._now.recent, self._now.limits)
        if too_many and not self._warned_of_letters:
            _log.warning("Sink %s: %s.", self._paths.sink, too_many)
        self._warned_of_letters = bool(too_many)

    def _recent(self, now_ms: int) -> Tally:
        """What was done within the last hour, as one."""
        minutes = tallies_since(self._minutes, now_ms - HOUR_MS)
        sums = {name: sum(getattr(one, name) for one in minutes) for name in ("read", "written", "dead_letters")}
        return Tally(minutes[0].at_ms if minutes else now_ms, **sums)

    def _update(self, **changes: Any) -> None:
        with self._lock:
            self._now = replace(self._now, **changes)
        self._news.set()

    def _shortened(self, text: str) -> str:
        return self._mask(text)[:TEXT_LIMIT]


@contextmanager
def beating(heartbeat_writer: HeartbeatWriter) -> Iterator[HeartbeatWriter]:
    """Writes heartbeats from a thread while the body runs, and how it ended afterwards."""
    over, fenced = Event(), Event()

    def beat_until_over() -> None:
        last = False
        while not last:
            last = over.is_set()
            if fenced.is_set():
                return
            heartbeat_writer.beat()
            if not last:
                heartbeat_writer.wait()

    heartbeat_writer.remember()
    thread = start_daemon(beat_until_over, "heartbeat")
    ended: BaseException | None = None
    try:
        yield heartbeat_writer
    except BaseException as error:
        ended = error
        if isinstance(error, Fenced):
            fenced.set()
        raise
    finally:
        if not fenced.is_set():
            heartbeat_writer.ended(ended)
        over.set()
        heartbeat_writer.wake()
        thread.join(LAST_WORD_S)
