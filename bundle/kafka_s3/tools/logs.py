"""What does a running sink say? One structured line per round, as text or JSON, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kafka_s3.model.observer import Round, Start
from kafka_s3.tools.dead_letters.text import printable

logger = logging.getLogger("kafka_s3")


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class _Lines(logging.Formatter):
    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        facts: dict[str, Any] = getattr(record, "facts", {})
        if self._form is LogFormat.JSON:
            line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage(), **facts}
            return json.dumps(line, default=str)
        told = (f"{name}={printable(str(value))}" for name, value in facts.items())  # reasons may quote a record
        return " ".join([at, record.levelname, record.getMessage(), *told])


def log_to_stderr(form: LogFormat) -> None:
    """Sets up the product's logger; other libraries' loggers stay as they are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(form))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class LogObserver:
    """Tells the log what the loop does."""

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

    def round_done(self, done: Round) -> None:
        """One line per round."""
        facts = {
            "version": done.version,
            "read": done.read,
            "written": done.totals.written,
            "dead_letters": done.totals.dead_letters,
            "skipped": done.totals.skipped,
            "files": done.totals.files,
            "bytes": done.totals.bytes,
            "lag": sum(done.lag.values()),
            "seconds": round((done.ended_ms - done.started_ms) / 1000, 3),
        }
        logger.info("round", extra={"facts": facts})

    def warned(self, text: str) -> None:
        """One line per failure that is tried again."""
        logger.warning("trying again", extra={"facts": {"reason": text}})

    def decided(self, choice: str, reason: str) -> None:
        """One line per choice."""
        logger.info("decided", extra={"facts": {"choice": choice, "reason": reason}})
