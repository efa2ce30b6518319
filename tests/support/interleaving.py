"""Processes that take turns at their store calls: which one is next, and what becomes of its call, is drawn from a seed.

A process is a thread that runs only between two store calls of its own; all others wait. So a seed is one interleaving, each time the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from threading import Semaphore, Thread
from typing import TYPE_CHECKING

from kafka_s3.model.errors import SinkError, StorageUnavailable
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, Verb
from tests.support.deaths import Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_s3.store.store import ObjectStore

LONG = 30_000
"""More turns than any run needs."""


class Fate(Enum):
    """What becomes of a store call."""

    DONE = auto()
    DIES_BEFORE = auto()
    DIES_AFTER = auto()
    REFUSED = auto()
    ANSWER_LOST = auto()


MISHAPS = (Fate.DIES_BEFORE, Fate.DIES_AFTER, Fate.REFUSED, Fate.ANSWER_LOST)


class Process:
    """Some work on a store. `error` is what ended it; `waits_for` are the processes without whose end it cannot go on."""

    def __init__(self, bucket: ObjectStore, work: Callable[[Process], object]) -> None:
        plan = [Fault(verb, self._before, nth=None) for verb in Verb]
        plan += [Fault(verb, self._after, Moment.AFTER, nth=None) for verb in Verb]
        self.store = FaultyStore(bucket, plan)
        self.waits_for: Sequence[Process] = ()
        self.error: BaseException | None = None
        self.ended = self.dead = False
        self._work = work
        self._fate = Fate.DONE
        self._go, self._stopped = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        return not self.ended and all(other.ended for other in self.waits_for)

    def turn(self, fate: Fate = Fate.DONE) -> None:
        """Lets it go on to its next call, with this fate for the call at which it waits."""
        self._fate = fate
        self._go.release()
        self._stopped.acquire()

    def die(self) -> None:
        while not self.ended:
            self.dead = True
            self.turn()

    def pause(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self.dead:
            raise Died

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.dead:
                self._work(self)
        except BaseException as error:
            self.error = error
        self.ended = True
        self._stopped.release()

    def _before(self, key: str) -> None:
        self.pause()
        if self._fate is Fate.DIES_BEFORE:
            self.dead = True
            raise Died
        if self._fate is Fate.REFUSED:
            raise StorageUnavailable(f"{key}: told to fail.")

    def _after(self, key: str) -> None:
        if self._fate is Fate.DIES_AFTER:
            self.dead = True
            raise Died
        if self._fate is Fate.ANSWER_LOST:
            raise StorageUnavailable(f"{key}: told to lose the answer.")


class Interleaving:
    """All processes of one seed. `mishap` is the probability that a call meets one."""

    def __init__(self, seed: int, mishap: float) -> None:
        self.draw = random.Random(seed)
        self.mishap = mishap
        self.processes: list[Process] = []
        self.turns = 0

    def start(self, bucket: ObjectStore, work: Callable[[Process], object]) -> Process:
        process = Process(bucket, work)
        self.processes.append(process)
        return process

    def living(self) -> list[Process]:
        return [process for process in self.processes if not process.ended]

    def one_turn(self) -> None:
        """Some process goes on; a driver may also die while it waits for its tasks."""
        ready = [process for process in self.living() if process.ready]
        waiting = [process for process in self.living() if not process.ready]
        if waiting and self.draw.random() < self.mishap / 4:
            self.draw.choice(waiting).die()
        elif ready:
            fate = self.draw.choice(MISHAPS) if self.draw.random() < self.mishap else Fate.DONE
            self.draw.choice(ready).turn(fate)
        self.turns += 1
        assert self.turns < LONG

    def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.one_turn()

    def to_the_end(self) -> None:
        """All that are left come to their end by themselves."""
        self.mishap = 0.0
        self.until(lambda: not self.living())

    def unexpected(self) -> list[BaseException]:
        """What ended a process though no one may end so."""
        return [p.error for p in self.processes if p.error is not None and not isinstance(p.error, (Died, SinkError))]


@contextmanager
def closing(run: Interleaving) -> Iterator[Interleaving]:
    """However a test ends, no thread is left."""
    try:
        yield run
    finally:
        for process in run.living():
            process.die()
