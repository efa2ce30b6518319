"""What shall the running sink do? The control object beside the commit log: desired state and requests, which the sink reads and answers.

`<state.prefix>/<sink>/control.json` is written by commands and only read by the sink; the sink answers in its heartbeat, by the id of the
request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Phase, read_document, typed
from kafka_s3.engine.log.formats import check_format
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, SinkError, StorageUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.timing import iso_time
from kafka_s3.store.store import ObjectStore

FORMAT: Final = 1
LOOK_EVERY_MS: Final = 1000
LOOKS_A_HEARTBEAT: Final = 3
_UNREADABLE: Final = "The request to the sink cannot be read:"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Control:
    """What is asked of a sink: whether to pause, by which request, the last request to flush, and the last one to look for rewrites."""

    paused: bool = False
    request: str = ""
    flush: str = ""
    requested_at: str = ""
    requested_by: str = ""
    rewrite: str = ""

    def to_json(self) -> bytes:
        """The control object as stored."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """One request: its id, when (epoch ms) and by whom."""

    id: str
    at_ms: int
    by: str


def read_control(store: ObjectStore, paths: StatePaths) -> Control | None:
    """The sink's control object, None where nothing was ever asked. Raises LogDamaged where it cannot be read, StorageError."""
    key = paths.control()

    def parse(document: dict[str, Any]) -> Control:
        check_format(document, f"Control object {key}", newest=FORMAT)
        return typed(Control(**{name: document[name] for name in Control.__dataclass_fields__ if name in document}))

    remedy = "Delete it, or pause or resume the sink: both write it again."
    return read_document(store, key, parse, what="Control object", remedy=remedy)


def look_every_ms(heartbeat_ms: int) -> int:
    """How often a sink looks for commands: a third of its heartbeat's interval, but at most every second. Each look is a request."""
    return max(LOOK_EVERY_MS, heartbeat_ms // LOOKS_A_HEARTBEAT)


def ask_pause(store: ObjectStore, paths: StatePaths, asked: CommandRequest) -> Control:
    """Asks the sink to do nothing until it is resumed."""
    return _put(store, paths, replace(_now(store, paths), paused=True, request=asked.id), asked=asked)


def ask_resume(store: ObjectStore, paths: StatePaths, asked: CommandRequest) -> Control:
    """Asks the sink to go on."""
    return _put(store, paths, replace(_now(store, paths), paused=False, request=asked.id), asked=asked)


def ask_flush(store: ObjectStore, paths: StatePaths, asked: CommandRequest) -> Control:
    """Asks the sink to close its open files once."""
    return _put(store, paths, replace(_now(store, paths), flush=asked.id), asked=asked)


def ask_look(store: ObjectStore, paths: StatePaths, asked: CommandRequest) -> Control:
    """Asks the sink to look for rewrites that wait beside its log."""
    return _put(store, paths, replace(_now(store, paths), rewrite=asked.id), asked=asked)


def _now(store: ObjectStore, paths: StatePaths) -> Control:
    try:
        return read_control(store, paths) or Control()
    except LogDamaged:
        return Control()  # what cannot be read is replaced


def _put(store: ObjectStore, paths: StatePaths, control: Control, *, asked: CommandRequest) -> Control:
    control = replace(control, requested_at=iso_time(asked.at_ms), requested_by=asked.by)
    store.put(paths.control(), control.to_json())
    return control


class CommandChannel:
    """Where the loop learns between two polls what is asked of the sink, and reports what it did. Of this one nothing is ever asked."""

    every_ms: int = 2**31
    """How long to wait before asking for news."""

    def opened(self, driver: str) -> None:
        """The sink has claimed the log as this driver."""

    def commands(self) -> Control | None:
        """What is asked, None where it is not known yet."""
        return Control()

    def has_news(self) -> bool:
        """Whether something else is asked than before."""
        return False

    def resting(self, commands: Control) -> None:
        """The sink pauses, as asked."""

    def working(self, commands: Control) -> None:
        """The sink works, as asked."""

    def worked(
        self,
        lag: Mapping[TopicPartition, int],
        polled_ms: int | None,
        open_problems: Sequence[str],
        *,
        behind: Sequence[str] = (),
    ) -> None:
        """Everything answered, and what was due is done; `open_problems` are what is the matter with topics all the same, `behind` is what
        cannot follow the log.
        """

    def owes_flush(self, commands: Control) -> bool:
        """Whether a flush is asked for that is not done yet."""
        return False

    def flushed(self, commands: Control, unflushed: Iterable[TopicPartition]) -> None:
        """Learn that the flush is done, and which topic-partitions it could not write."""


class ControlChannel(CommandChannel):
    """The running sink's side of the control object: reads what is asked, and answers through the heartbeat.

    What cannot be read leaves the sink as it was; until it could be read once, a bucket that does not answer keeps the sink waiting.
    """

    def __init__(
        self, store: ObjectStore, paths: StatePaths, *, heartbeat_writer: HeartbeatWriter, clock_ms: Callable[[], int]
    ) -> None:
        self._store, self._paths, self._heartbeat_writer, self._clock_ms = store, paths, heartbeat_writer, clock_ms
        self.every_ms = look_every_ms(heartbeat_writer.current.interval_ms)
        self._known: Control | None = None
        self._read_ms: int | None = None
        self._unreadable = ""

    def opened(self, driver: str) -> None:
        """The heartbeat names the driver."""
        self._heartbeat_writer.claimed(driver)

    def commands(self) -> Control | None:
        """Reads once in `every_ms`, or half a second earlier: the loop does not come at the very moment."""
        now = self._clock_ms()
        if self._read_ms is None or not 0 <= now - self._read_ms < self.every_ms - LOOK_EVERY_MS // 2:
            self._poll(now)
        return self._known

    def has_news(self) -> bool:
        """Asks the bucket."""
        before = self._known
        self._poll(self._clock_ms())
        return self._known != before

    def resting(self, commands: Control) -> None:
        """The heartbeat says that the sink is paused."""
        self._doing(Phase.PAUSED, commands, "is paused")

    def working(self, commands: Control) -> None:
        """The heartbeat says that the sink works."""
        self._doing(Phase.RUNNING, commands, "goes on")

    def worked(
        self,
        lag: Mapping[TopicPartition, int],
        polled_ms: int | None,
        open_problems: Sequence[str],
        *,
        behind: Sequence[str] = (),
    ) -> None:
        """The heartbeat has the lag and the problems."""
        own = [f"{_UNREADABLE} {self._unreadable}"] if self._unreadable else []
        self._heartbeat_writer.worked(lag, polled_ms, open_problems=[*open_problems, *own], behind=behind)

    def owes_flush(self, commands: Control) -> bool:
        """Whether the heartbeat does not name the request yet."""
        return bool(commands.flush) and commands.flush != self._heartbeat_writer.current.flushed

    def flushed(self, commands: Control, unflushed: Iterable[TopicPartition]) -> None:
        """Name the request in the heartbeat, and the topic-partitions that the flush could not write."""
        self._heartbeat_writer.flushed(commands.flush, unflushed)

    def _doing(self, phase: Phase, commands: Control, what: str) -> None:
        if (self._heartbeat_writer.current.phase is Phase.PAUSED) != (phase is Phase.PAUSED):
            by, at = commands.requested_by, commands.requested_at
            _log.warning("Sink %s %s (asked by %s at %s).", self._paths.sink, what, by, at)
        self._heartbeat_writer.doing(phase, commands.request)

    def _poll(self, now_ms: int) -> None:
        self._read_ms = now_ms
        try:
            self._known = read_control(self._store, self._paths) or Control()
            self._unreadable = ""
        except StorageUnavailable as error:
            self._notify(str(error))
        except SinkError as error:
            self._known = self._known or Control()
            self._notify(f"{error} The sink goes on as before.")

    def _notify(self, text: str) -> None:
        if text != self._unreadable:  # the loop asks again and again: once is enough
            self._heartbeat_writer.warned(f"{_UNREADABLE} {text}")
        self._unreadable = text
