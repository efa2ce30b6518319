"""What becomes of the lines that the JVM of a local Spark writes? Lines of our log, without those that say nothing.

The JVM and its Python workers write to a pipe in place of standard error, whose other end is read until the last of them is gone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

NOISE: Final = (
    "Picked up J", "Using incubator modules", "Using Spark's default log4j profile", "Setting default log level to",
    "To adjust logging level use", "Setting Spark log level to", "Unable to load native-hadoop library",
)  # fmt: skip
"""Parts of what every start says."""
_log = logging.getLogger(__name__)


@contextmanager
def into_log() -> Iterator[int]:
    """A descriptor, for processes that are started within the body: what they write to it are lines of our log."""
    reading, writing = os.pipe()
    Thread(target=_pass_on, args=(reading,), name="jvm output", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def worth_telling(line: str) -> bool:
    """Whether a line says something."""
    return bool(line.strip()) and not any(part in line for part in NOISE)


def _pass_on(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        for line in filter(worth_telling, lines):
            _log.warning("%s", line.rstrip())
