"""A driver that dies at the nth request of one kind to its store, before the request takes effect or after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_s3_testing.faults import Fault, Moment, Verb

DEADLY = (Verb.PUT, Verb.PUT_NEW, Verb.COMPLETE_UPLOAD, Verb.LIST)
"""The requests at which it may die: every driver that has records to write makes them again and again."""


class DriverDied(BaseException):
    """The end of a driver. No error of the product, so that nothing in it is tempted to go on."""


@dataclass
class Death:
    """Strikes once at the `at`-th request of `verb`; from then on nothing of this driver reaches the store."""

    verb: Verb
    at: int
    moment: Moment
    seen: int = 0
    struck: tuple[Verb, str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def faults(self) -> list[Fault]:
        """The plan for a FaultyStore."""
        return [
            *(Fault(verb, self._before(verb), Moment.BEFORE, None) for verb in Verb),
            Fault(self.verb, self._after(self.verb), Moment.AFTER, None),
        ]

    def _before(self, verb: Verb) -> Callable[[str], None]:
        def strike(key: str) -> None:
            with self._lock:
                self._still_alive()
                self.seen += verb is self.verb
                if self.seen >= self.at and self.moment is Moment.BEFORE:
                    self._die(verb, key)

        return strike

    def _after(self, verb: Verb) -> Callable[[str], None]:
        def strike(key: str) -> None:
            with self._lock:
                self._still_alive()
                if self.seen >= self.at:
                    self._die(verb, key)

        return strike

    def _still_alive(self) -> None:
        if self.struck is not None:
            raise DriverDied(self.struck)

    def _die(self, verb: Verb, key: str) -> None:
        self.struck = (verb, key)
        raise DriverDied(self.struck)
