"""How do several sinks share a process? One session of Spark, and for each sink a thread with a driver of its own.

A sink that fails stops alone: its heartbeat and the log say why, the others go on. Where Spark itself dies, all of them fail. Spark gives
each sink's jobs the same share of its cores (pools of the mode FAIR).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING

from kafka_s3.connect.config.masking import reason_of
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, Problem, RecordError, SinkError
from kafka_s3.model.process import run_in_thread
from kafka_s3.run.logs import name_in_logs
from kafka_s3.run.spark.session import end_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


class SharedSession:
    """A session that begins once, beside the caller's work; each of several sinks sees it with settings of its own. Thread-safe."""

    def __init__(self, start: Callable[[], SparkSession], *, sinks: int) -> None:
        self._start, self._several, self._lock = start, sinks > 1, Lock()
        self._session: Future[SparkSession] | None = None

    def begin(self) -> Future[SparkSession]:
        """Starts it, unless that was done before."""
        with self._lock:
            if self._session is None:
                import pyspark.sql  # noqa: F401  before the thread does: two that load it at once find halves of it

                self._session = run_in_thread(self._start)
            return self._session

    def of(self, sink: str) -> SparkSession:
        """The session for a sink, whose jobs this thread starts. Raises what its start raises."""
        session = self.begin().result()
        if not self._several or getattr(session, "_sc", None) is None:  # Spark Connect has neither
            return session
        session.sparkContext.setLocalProperty("spark.scheduler.pool", sink)
        return session.newSession()

    def close(self) -> None:
        """Ends what was started; waits for a start under way."""
        if self._session is not None and self._session.exception() is None:
            end_session(self._session.result())


@dataclass(frozen=True, slots=True)
class FailedSink:
    """A sink that has failed, and why."""

    sink: str
    error: Exception


def run_side_by_side(sinks: Sequence[Settings], work: Callable[[Settings], None]) -> list[FailedSink]:
    """Works for each sink in a thread of its own until all have ended; tells in the log of those that fail, and gives them."""
    failed: list[FailedSink] = []

    def run(settings: Settings) -> None:
        name_in_logs(settings.name)
        try:
            work(settings)
        except Exception as error:
            failed.append(FailedSink(settings.name, error))
            place = error.place if isinstance(error, RecordError) else {}
            facts = {"error": type(error).__name__, **place, "reason": reason_of(error)}
            trace = None if isinstance(error, SinkError) else error
            _log.critical("failed; the other sinks go on", extra={"facts": facts}, exc_info=trace)

    threads = [Thread(target=run, args=(one,), name=f"sink {one.name}", daemon=True) for one in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def exit_code(failed: Sequence[FailedSink]) -> int:
    """0 where none has failed, the code of their errors where all have the same (docs/operations.md, "Exit codes"), else 1."""
    codes = {one.error.exit_code if isinstance(one.error, SinkError) else SinkError.exit_code for one in failed}
    return min(codes, default=0) if len(codes) < 2 else SinkError.exit_code


def check_distinct(sinks: Sequence[Settings]) -> None:
    """Raises ConfigError where two of them are one sink: they would fence each other."""
    seen = set[tuple[str, ...]]()
    for one in sinks:
        place = one.text("s3.bucket.name"), one.text("state.prefix").strip("/"), one.name
        if place in seen:
            raise ConfigError(
                [
                    Problem(
                        "name", one.name, "is that of two configurations with one state.", "Name one of them otherwise."
                    )
                ]
            )
        seen.add(place)
