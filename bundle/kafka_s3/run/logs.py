"""What does a running sink say? A structured line per round on standard error, as text or JSON, and what else it does where asked.

Every module has a logger of its name; what a line is about is in its `facts`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kafka_s3.model.errors import RecordError, SinkError
from kafka_s3.model.protocols import Observer, RewriteSummary, RoundSummary, Start
from kafka_s3.model.text import printable
from kafka_s3.model.timing import RateLimiter

product: Final = logging.getLogger("kafka_s3")
logger: Final = logging.getLogger("kafka_s3.progress")
PROGRESS_S: Final = 5
_sink: Final[ContextVar[str]] = ContextVar("sink", default="")
LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class _Lines(logging.Formatter):
    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self.form = form

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        whose = {"sink": name} if (name := _sink.get()) else {}
        facts: dict[str, Any] = {**whose, **getattr(record, "facts", {})}
        if self.form is LogFormat.JSON:
            about = {"at": at, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
            trace = {"trace": self.formatException(record.exc_info)} if record.exc_info else {}
            return json.dumps({**about, **facts, **trace}, default=str)
        pairs = (f"{name}={printable(str(value))}" for name, value in facts.items())  # reasons may quote a record
        line = " ".join([at, record.levelname, printable(record.getMessage()), *pairs])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Masked(logging.Filter):
    """Takes secrets out of messages and facts, should one be in them all the same; `mask` is `masking` of the settings."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every line through, without its secrets."""
        record.msg, record.args = self._mask(record.getMessage()), ()
        if hasattr(record, "facts"):
            record.facts = {name: self._clean(value) for name, value in record.facts.items()}
        return True

    def _clean(self, value: object) -> object:
        if isinstance(value, bool | int | float | None):
            return value
        if isinstance(value, Mapping):
            return {self._mask(str(name)): self._clean(one) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(one) for one in value]
        return self._mask(str(value))


def log_to_stderr(form: LogFormat, *, verbosity: int = 0) -> None:
    """Sets up the product's loggers; other libraries' stay as they are.

    Verbosity 0 shows progress and warnings, 1 what the engine does, 2 also why: plans, each closed file, each request.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(form))
    product.handlers = [handler]
    product.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    product.propagate = False
    logger.setLevel(logging.INFO)


def name_in_logs(sink: str) -> None:
    """Lets each line of this thread, and of those that it begins, name a sink."""
    _sink.set(sink)


def mask_logs(mask: Callable[[str], str]) -> None:
    """Lets no secret of the settings into what `log_to_stderr` has set up."""
    for handler in product.handlers:
        handler.addFilter(Masked(mask))


def logged_as_json(error: Exception) -> bool:
    """Says in the log why the sink ends, where the log is one of JSON lines; False where a person reads it.

    Errors that are not ours have their stack trace as member `trace`.
    """
    if not any(isinstance(one.formatter, _Lines) and one.formatter.form is LogFormat.JSON for one in product.handlers):
        return False
    coordinates = error.coordinates if isinstance(error, RecordError) else {}
    logger.critical(
        "failed",
        extra={"facts": {"error": type(error).__name__, **coordinates, "reason": str(error)}},
        exc_info=None if isinstance(error, SinkError) else error,
    )
    return True


class LogObserver(Observer):
    """Logs what the loop does. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = RateLimiter(PROGRESS_S, clock)
        self._rounds = self._read = 0

    def preparing(self, step: str) -> None:
        """One line before each thing that takes its time."""
        logger.info(step)

    def reading(self, records: int, wanted: int) -> None:
        """One line now and then within a long round."""
        if self._progress.due():
            logger.info("reading", extra={"facts": {"records": records, "of": wanted}})

    def started(self, start: Start) -> None:
        """One line with the sink's epoch and position."""
        facts = {
            "sink": start.sink,
            "epoch": start.epoch,
            "version": start.version,
            "partitions": start.partitions,
            "written": start.totals.written,
            "backlog": start.backlog,
        }
        logger.info("started", extra={"facts": facts})

    def round_done(self, done: RoundSummary) -> None:
        """One line per round; states of open files are counted since the start."""
        seconds = (done.ended_ms - done.started_ms) / 1000
        self._rounds, self._read = self._rounds + 1, self._read + done.read
        facts = {
            "version": done.version,
            "read": done.read,
            "written": done.totals.written,
            "dead_letters": done.totals.dead_letters,
            "skipped": done.totals.skipped,
            "open": done.open,
            "files": done.totals.files,
            "bytes": done.totals.bytes,
            "lag": sum(done.lag.values()),
            "records_per_s": round(done.read / max(seconds, 0.001)),
            "open_states": done.open_states,
            "open_state_bytes": done.open_state_bytes,
            "seconds": round(seconds, 3),
        }
        logger.info("round", extra={"facts": facts})

    def rewritten(self, done: RewriteSummary) -> None:
        """One line per entry."""
        logger.info("objects rewritten", extra={"facts": asdict(done)})

    def warned(self, text: str) -> None:
        """One line per failure that is tried again."""
        logger.warning("trying again", extra={"facts": {"reason": text}})

    def follower_warned(self, text: str) -> None:
        """Log the text as it is: not all of it is tried again."""
        logger.warning(text)

    def recovered(self, after_ms: int) -> None:
        """One line when it is over."""
        logger.info("recovered", extra={"facts": {"after_s": round(after_ms / 1000, 1)}})

    def stopped(self) -> None:
        """The last line of a run that ends well."""
        logger.info("stopped", extra={"facts": {"rounds": self._rounds, "read": self._read}})

    def decided(self, choice: str, reason: str) -> None:
        """One line per choice."""
        logger.info("decided", extra={"facts": {"choice": choice, "reason": reason}})
