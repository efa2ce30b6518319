"""How does the running sink say how it is? It observes the loop, and a thread of its own writes the heartbeat.

Best-effort, so that a long round is not taken for a dead sink, and no failure to write ever stops the sink. A driver that was fenced is no
longer the sink: it leaves the word to its successor, and ends in silence.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Lock
from typing import Any, Final

from kafka_s3 import __version__
from kafka_s3.connect.config.masking import reason_of
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase, may_replace, read_heartbeat
from kafka_s3.engine.control.limits import DEFAULT, Limits, dead_letters_text
from kafka_s3.engine.control.tallies import Tally, added, delay, since
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import Fenced, LogDamaged, SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import start_daemon
from kafka_s3.model.protocols import Observer, RoundSummary, Start
from kafka_s3.store.store import ObjectStore

LAST_WORD_S: Final = 15.0  # a bucket that does not answer must not keep a sink from ending
TEXT_LIMIT: Final = 2000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
HOURS: Final = 24
_log = logging.getLogger(__name__)


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
        limits: Limits = DEFAULT,
        claimed: Callable[[Heartbeat], None] = lambda _: None,
    ) -> None:
        """`claimed` is called by the thread ahead of the first heartbeat of an epoch; what it raises is logged."""
        self._store, self._paths, self._clock_ms, self._mask = store, paths, clock_ms, mask
        self.inner, self._claimed, self._epoch = inner, claimed, 0
        self._lock = Lock()
        self._news = Event()
        self._rounds = 0
        self._warnings = 0
        self._considered: int | None = None
        self._minutes: tuple[Tally, ...] = ()
        self._told_of_letters = False
        self._silent = False
        host, run, now = socket.gethostname(), uuid.uuid4().hex, clock_ms()
        self._now = Heartbeat(
            paths.sink, run, host, os.getpid(), __version__, now, interval_ms, beat_ms=now, limits=limits
        )

    @property
    def current(self) -> Heartbeat:
        """What would be said now."""
        return self._now

    # ------------------------------------------------------------ the loop tells

    def started(self, start: Start) -> None:
        """The log is claimed."""
        about = {"lag": dict(start.lag), "looked_ms": start.looked_ms, "standing": start.standing}
        self._say(epoch=start.epoch, version=start.version, totals=start.totals, **about)
        super().started(start)

    def round_done(self, done: RoundSummary) -> None:
        """A round was committed; regular heartbeats carry it."""
        with self._lock:
            self._rounds += 1
            totals = None if self._now.totals is None else self._now.totals.plus(done.totals)
            self._now = replace(self._now, version=done.version, totals=totals, last_round_ms=done.ended_ms)
            self._now = replace(self._now, lag=dict(done.lag), looked_ms=done.looked_ms)
            self._now = replace(self._now, open_states=done.open_states, open_state_bytes=done.open_state_bytes)
            self._count(done)
        super().round_done(done)

    def warned(self, text: str) -> None:
        """Something failed and is tried again."""
        with self._lock:
            self._warnings += 1
            self._now = replace(self._now, troubled=True, warning=self._fit(text), warned_ms=self._clock_ms())
        super().warned(text)

    def worked(
        self, lag: Mapping[TopicPartition, int], looked_ms: int | None = None, *, standing: Sequence[str] = ()
    ) -> None:
        """A look at the brokers went well, at `looked_ms`; trouble is over where it brought no warning, but for what is `standing`."""
        with self._lock:
            calm, self._warnings = not self._warnings, 0
            self._now = replace(self._now, lag=dict(lag), looked_ms=looked_ms, troubled=self._now.troubled and not calm)
            self._now = replace(self._now, standing=tuple(map(self._fit, standing)))

    def claimed(self, driver: str) -> None:
        """Who this is in the commit log."""
        self._say(driver=driver)

    def doing(self, phase: Phase, request: str) -> None:
        """What the sink does now, and at whose request; said at once where it is new."""
        if (self._now.phase, self._now.request) != (phase, request):
            self._say(phase=phase, request=request)

    def flushed(self, request: str) -> None:
        """A flush was done."""
        self._say(flushed=request)

    def ended(self, error: BaseException | None) -> None:
        """The run is over: stopped, or failed with a reason. An interrupt is a stop."""
        if isinstance(error, Exception):
            self._say(phase=Phase.FAILED, failure=self._fit(reason_of(error)))
        else:
            self.stopped()

    def stopped(self) -> None:
        """The run is over as it should be."""
        self._say(phase=Phase.STOPPED)
        super().stopped()

    # ------------------------------------------------------------ the thread writes

    def remember(self) -> None:
        """Takes over what outlives a run: which flush was the last to be done, so that none is done twice, and the last hours."""
        try:
            before = read_heartbeat(self._store, self._paths)
        except SinkError:
            return
        if before is not None:
            with self._lock:
                self._now = replace(self._now, flushed=before.flushed, hours=before.hours)

    def beat(self) -> None:
        """Writes the heartbeat; whatever fails is logged once and forgotten."""
        own = self._next()
        if own.epoch > self._epoch:
            self._epoch = own.epoch
            self._tell_claim(own)
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

    def _tell_claim(self, own: Heartbeat) -> None:
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
            self._now = replace(self._now, beat_ms=now, recent=self._recent(now))
            return self._now

    def _count(self, done: RoundSummary) -> None:
        """Adds a round to what was done lately, and warns where dead letters become too many."""
        more = Tally(done.ended_ms, done.read, done.totals.written, done.totals.dead_letters)
        self._minutes = added(self._minutes, more, step_ms=MINUTE_MS, most=HOUR_MS // MINUTE_MS)
        hours = added(self._now.hours, more, step_ms=HOUR_MS, most=HOURS)
        late = delay(done.files, done.ended_ms) or self._now.delay
        self._now = replace(self._now, hours=hours, delay=late, recent=self._recent(done.ended_ms))
        too_many = dead_letters_text(self._now.recent, self._now.limits)
        if too_many and not self._told_of_letters:
            _log.warning("Sink %s: %s.", self._paths.sink, too_many)
        self._told_of_letters = bool(too_many)

    def _recent(self, now_ms: int) -> Tally:
        """What was done within the last hour, as one."""
        minutes = since(self._minutes, now_ms - HOUR_MS)
        sums = {name: sum(getattr(one, name) for one in minutes) for name in ("read", "written", "dead_letters")}
        return Tally(minutes[0].at_ms if minutes else now_ms, **sums)

    def _say(self, **changes: Any) -> None:
        with self._lock:
            self._now = replace(self._now, **changes)
        self._news.set()

    def _fit(self, text: str) -> str:
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
