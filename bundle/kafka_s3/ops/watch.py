"""Whose state has changed? Compares each look at the sinks of a bucket with the one before, and has somebody told.

What could not be told is told again at the next look. A bucket that does not answer is a change of its own: nobody sees the sinks then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kafka_s3.engine.control.status import SinkHealth, SinkState
from kafka_s3.model.errors import StorageError

Look = Callable[[], Mapping[str, SinkHealth]]
"""The health of each sink by its name. Raises StorageError."""


class NotTold(Exception):
    """Nobody could be told of a change; the text says why."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A sink's state, and the one before (None at the first look). The sink is blank where it is the bucket that cannot be read."""

    sink: str
    before: SinkState | None
    health: SinkHealth
    at_ms: int

    def document(self) -> dict[str, Any]:
        """The change as JSON's members; `text` is the whole in a sentence, by the name that chats know."""
        who = f"Sink {self.sink}" if self.sink else "The bucket"
        return {
            "text": f"{who} {self.health.state}: {self.health.reason}",
            "sink": self.sink,
            "before": self.before,
            "status": self.health.state,
            "well": self.health.well,
            "reason": self.health.reason,
            "at": datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }


class Watcher:
    """Looks, and tells each change once. `failed` is given the reason where nobody could be told."""

    def __init__(self, look: Look, tell: Callable[[StateChange], None], *, failed: Callable[[str], None]) -> None:
        self._look, self._tell, self._failed = look, tell, failed
        self._told: dict[str, SinkHealth] = {}

    def turn(self, now_ms: int) -> None:
        """One look. At the first one, and of sinks that are new, only those that are not well are told."""
        try:
            seen = {**self._look(), "": SinkHealth(SinkState.RUNNING, "it answers again.")}
            self._told = {name: health for name, health in self._told.items() if name in seen}
        except StorageError as error:
            seen = {"": SinkHealth(SinkState.UNKNOWN, str(error))}
        for name, health in seen.items():
            self._compare(name, health, now_ms)

    def _compare(self, name: str, health: SinkHealth, now_ms: int) -> None:
        before = self._told.get(name)
        same = health.well if before is None else (before.state, before.well) == (health.state, health.well)
        if not same:
            try:
                self._tell(StateChange(name, before.state if before else None, health, now_ms))
            except NotTold as error:
                self._failed(str(error))
                return
        self._told[name] = health
