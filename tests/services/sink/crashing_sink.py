"""Real sinks that die, or are paused, at a named phase of their first data entry: `python crashing_sink.py PHASE[,PHASE...] CONFIG...`.

One Spark session, one thread per configuration. Each sink stops at its phase (one for all, or one each) and waits there; when the last one
has arrived the process sends itself the signal, so one death hits every sink at that very point. Phases, in the order of the protocol:

    uploaded    the files are uploaded, the entry is not put yet
    committed   the entry is put, nothing of it is visible
    publishing  one object of the entry is visible, the next completion is about to be asked for
    published   everything is visible, no follower has been told
    evolved     the Delta table has the entry's new columns, not its files
    tabled      the Delta table has the entry's files, the note of that is not made
    none        nobody dies: what is there is worked off (a schedule closes files once before), and the open tail is flushed
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.runner import run_continuously, waiting
from kafka_s3.model.files import Reason
from kafka_s3.model.protocols import Observer, RoundSummary, Start
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.spark.session import spark_session
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.faults import Fault, FaultyStore, Moment

NEVER = Event()


@dataclass
class Appointment:
    """Where the sinks meet to die."""

    expected: int
    arrived: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, name: str) -> None:
        with self.lock:
            if name not in self.arrived:
                print(f"{name} has arrived", flush=True)
            self.arrived.add(name)
            if len(self.arrived) == self.expected:
                os.kill(os.getpid(), signal.SIGKILL)
        NEVER.wait()


@dataclass
class Phase(Observer):
    """Strikes at its phase once the sink has claimed the log: an observer, a follower and the faults of a store in one."""

    at: str
    strike: Callable[[], None]
    claimed: bool = False
    has_data: bool = False
    completions: int = 0
    scheduled: bool = False
    one_is_visible: Event = field(default_factory=Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str = "the end"

    def started(self, start: Start) -> None:
        self.claimed = True

    def round_done(self, done: RoundSummary) -> None:
        self.scheduled |= any(file.reason is Reason.ROTATE_SCHEDULE for file in done.files)

    def warned(self, text: str) -> None:
        print(text, flush=True)

    def decided(self, choice: str, reason: str) -> None:
        print(choice, reason, flush=True)

    def catch_up(self, log: CommitLog) -> None:
        self.has_data = self.claimed and log.last is not None and log.last.kind is EntryKind.DATA
        if self.at == "published" and self.has_data:
            self.strike()

    def faults(self) -> list[Fault]:
        moments = {"uploaded": Moment.BEFORE, "committed": Moment.AFTER}
        if self.at in moments:
            return [Fault("put_new", lambda _: self.strike(), moments[self.at], matches=self._entry)]
        if self.at == "evolved":
            return [Fault("put_new", lambda _: self.strike(), Moment.AFTER, matches=lambda key: "/_delta_log/" in key)]
        if self.at == "tabled":
            return [Fault("put", lambda _: self.strike(), matches=self._note)]
        if self.at == "publishing":
            return [
                Fault("complete_upload", self._completion, nth=None),
                Fault("complete_upload", self._completed, Moment.AFTER, nth=None),
            ]
        return []

    def _entry(self, key: str) -> bool:
        return (
            self.claimed and "/commits/" in key
        )  # after the claim there are data entries only: topics do not change here

    def _note(self, key: str) -> bool:
        return self.has_data and key.endswith("/followers/delta.json")

    def _completion(self, key: str) -> None:
        with self.lock:
            self.completions += self.claimed
            held_back = (
                self.completions > 1
            )  # completions run side by side: the first goes through, the others wait for it
        if held_back:
            self.one_is_visible.wait()
            self.strike()

    def _completed(self, key: str) -> None:
        if self.claimed:
            self.one_is_visible.set()


def run_one(settings: Settings, phase: str, appointment: Appointment) -> None:
    """One sink, until it dies or is done."""
    hook = Phase(phase, lambda: appointment.meet(settings.name))
    store = FaultyStore(S3Store(store_options(settings)), hook.faults())
    sink = sink_on_spark(settings, spark_session(name="crashing sinks"), store=store, observer=hook)
    sink.followers.all = [hook, *sink.followers.all]
    if phase == "none":
        sink.open()
        while settings.number("rotate.schedule.interval.ms") > 0 and not hook.scheduled:
            sink.poll_and_commit()
            NEVER.wait(0.2)
        sink.poll()
        while not sink.try_drain(close=Reason.FLUSH_NOW):
            NEVER.wait(0.5)
    else:
        run_continuously(sink, poll_ms=200, backoff_ms=500, wait=waiting(NEVER))


def main(phase: str, *configs: str) -> int:
    """0: every sink is done. 3: a sink failed where it should have died."""
    spark_session(name="crashing sinks", cores="2")
    appointment = Appointment(len(configs))
    failed = []

    def guarded(config: str, phase: str) -> None:
        try:
            run_one(resolved(load(Path(config))), phase, appointment)
        except BaseException:
            traceback.print_exc()
            failed.append(config)
            if phase != "none":
                os._exit(3)

    threads = [
        threading.Thread(target=guarded, args=one)
        for one in zip(configs, itertools.cycle(phase.split(",")), strict=False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
