"""What does the product's log say, as people read it?"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_s3.run.logs import LogFormat, log_to_stderr, product


@contextmanager
def shown(verbosity: int = 0) -> Iterator[io.StringIO]:
    """The lines that are written while the body runs; the loggers are then as they were."""
    handlers, level, propagate = product.handlers, product.level, product.propagate
    log_to_stderr(LogFormat.TEXT, verbosity=verbosity)
    (handler,) = product.handlers
    assert isinstance(handler, logging.StreamHandler)
    lines = io.StringIO()
    handler.setStream(lines)
    try:
        yield lines
    finally:
        product.handlers, product.propagate = handlers, propagate
        product.setLevel(level)
