"""How is the running sink? What it says of itself in the bucket, every few seconds, and when it ends.

One object, `<state.prefix>/<sink>/heartbeat.json`. It is written best-effort by a thread of its own, so that a long round is not taken for
a dead sink, and no failure to write it ever stops the sink. A driver that was fenced is no longer the sink: it leaves the word to its
successor, and ends in silence.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from threading import Event, Lock, Thread
from typing import Any, Final

from kafka_s3 import __version__
from kafka_s3.config.masking import reason_of
from kafka_s3.model.errors import Fenced, LogDamaged, ObjectMissing, SinkError
from kafka_s3.model.observer import Observer, Round, Silent, Start
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

FORMAT: Final = 1
FRESH_INTERVALS: Final = 3
LAST_WORD_S: Final = 15.0  # a bucket that does not answer must not keep a sink from ending
TEXT_LIMIT: Final = 2000
_log = logging.getLogger(__name__)


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
    last entry it knows. `request` and `flushed` are the requests that it has acted on. `troubled`: something fails and is tried again.
    `looked_ms`: when lag was measured, None where the sink has not looked yet, or is older than the field.
    `open_states` and `open_state_bytes`: states of open files written since the start, and their size.
    `lag_grew`: at how many heartbeats in a row that followed a commit the lag was higher than at the one before.
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
    last_round_ms: int | None = None
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked_ms: int | None = None
    lag_grew: int = 0
    open_states: int = 0
    open_state_bytes: int = 0
    troubled: bool = False
    warning: str = ""
    warned_ms: int | None = None
    failure: str = ""
    request: str = ""
    flushed: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run has said that it is over."""
        return self.phase in ENDED

    def alive(self, now_ms: int) -> bool:
        """Whether the run is not over and was heard of within three intervals."""
        return not self.ended and now_ms - self.beat_ms <= FRESH_INTERVALS * self.interval_ms

    def to_json(self) -> bytes:
        """The heartbeat as stored."""
        lag: dict[str, dict[str, int]] = {}
        for (topic, partition), records in self.lag.items():
            lag.setdefault(topic, {})[str(partition)] = records
        plain = asdict(replace(self, lag={}))
        return json.dumps({"format": FORMAT, **plain, "lag": lag}, separators=(",", ":")).encode()


def read_heartbeat(store: ObjectStore, paths: StatePaths) -> Heartbeat | None:
    """The sink's last heartbeat, None where there is none. Raises LogDamaged where it cannot be read, StorageError."""
    key = paths.heartbeat()
    try:
        return _heartbeat(json.loads(store.get(key)))
    except ObjectMissing:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Heartbeat {key} cannot be read ({type(error).__name__}: {error}). Delete it: a running sink writes it again."
        ) from error


def _heartbeat(document: dict[str, Any]) -> Heartbeat:
    known = {name: document[name] for name in Heartbeat.__dataclass_fields__ if name in document}
    lag = {
        TopicPartition(topic, int(partition)): int(records)
        for topic, partitions in document["lag"].items()
        for partition, records in partitions.items()
    }
    return Heartbeat(**{**known, "phase": Phase(document["phase"]), "lag": lag})


def may_replace(existing: Heartbeat | None, own: Heartbeat, now_ms: int) -> bool:
    """Whether a run may write over this heartbeat: its own, one of an earlier epoch, or that of an older run that is not alive."""
    if existing is None or existing.run == own.run or existing.epoch < own.epoch:
        return True
    # epochs begin anew where a log was deleted
    return not existing.alive(now_ms) and existing.started_ms <= own.started_ms


class HeartbeatWriter:
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
    ) -> None:
        self._store, self._paths, self._clock_ms, self._mask = store, paths, clock_ms, mask
        self._inner = inner or Silent()
        self._lock = Lock()
        self._news = Event()
        self._rounds = 0
        self._warnings = 0
        self._considered: int | None = None
        self._silent = False
        host, run, now = socket.gethostname(), uuid.uuid4().hex, clock_ms()
        self._now = Heartbeat(paths.sink, run, host, os.getpid(), __version__, now, interval_ms, beat_ms=now)

    @property
    def current(self) -> Heartbeat:
        """What would be said now."""
        return self._now

    # ------------------------------------------------------------ the loop tells

    def started(self, start: Start) -> None:
        """The log is claimed."""
        self._say(epoch=start.epoch, version=start.version)
        self._inner.started(start)

    def round_done(self, done: Round) -> None:
        """A round was committed; regular heartbeats carry it."""
        with self._lock:
            self._rounds += 1
            self._now = replace(self._now, version=done.version, last_round_ms=done.ended_ms)
            self._now = replace(self._now, lag=dict(done.lag), looked_ms=done.looked_ms)
            self._now = replace(self._now, open_states=done.open_states, open_state_bytes=done.open_state_bytes)
        self._inner.round_done(done)

    def warned(self, text: str) -> None:
        """Something failed and is tried again."""
        with self._lock:
            self._warnings += 1
            self._now = replace(self._now, troubled=True, warning=self._fit(text), warned_ms=self._clock_ms())
        self._inner.warned(text)

    def decided(self, choice: str, reason: str) -> None:
        """A choice was made; the heartbeat does not carry it."""
        self._inner.decided(choice, reason)

    def worked(self, lag: Mapping[TopicPartition, int], looked_ms: int | None = None) -> None:
        """A look at the brokers went well, at `looked_ms`; trouble is over where it brought no warning."""
        with self._lock:
            calm, self._warnings = not self._warnings, 0
            self._now = replace(self._now, lag=dict(lag), looked_ms=looked_ms, troubled=self._now.troubled and not calm)

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
            self._say(phase=Phase.STOPPED)

    # ------------------------------------------------------------ the thread writes

    def remember(self) -> None:
        """Takes over which flush was the last to be done, so that a request is not acted on again after a restart."""
        try:
            before = read_heartbeat(self._store, self._paths)
        except SinkError:
            return
        if before is not None:
            with self._lock:
                self._now = replace(self._now, flushed=before.flushed)

    def beat(self) -> None:
        """Writes the heartbeat; whatever fails is logged once and forgotten."""
        own = self._next()
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
            self._now = replace(self._now, beat_ms=self._clock_ms())
            return self._now

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
    thread = Thread(target=beat_until_over, name="heartbeat", daemon=True)
    thread.start()
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
