"""Is a record's time one that it can have? A number in the wrong unit makes `year=1970` or `year=56009`, which nobody looks for."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from kafka_s3.connect.records.runs import Run
from kafka_s3.engine.task.partitioning.time_units import EARLIEST, LATEST
from kafka_s3.engine.task.partitioning.timestamps import Stamped, TimestampExtractor
from kafka_s3.model.dead_letters import rejection

_log = logging.getLogger(__name__)


class Plausible:
    """Another extractor's times; those outside of 1990 to 2100 are told once and, where `rejects`, failures (stage TASK_PUT)."""

    needs_now = False

    def __init__(self, inner: TimestampExtractor, *, rejects: bool) -> None:
        self._inner = inner
        self._rejects = rejects
        self._told = False

    def extract(self, run: Run, now_ms: int) -> Stamped:
        """The times of a run."""
        stamped = self._inner.extract(run, now_ms)
        odd = np.flatnonzero(stamped.valid & ((stamped.times < EARLIEST) | (stamped.times >= LATEST)))
        if not len(odd):
            return stamped
        texts = {int(row): _text(int(stamped.times[row])) for row in (odd if self._rejects else odd[:1])}
        if not self._told:
            _log.warning("The record at offset %d has %s", run.offsets[odd[0]], texts[int(odd[0])])
            self._told = True
        if not self._rejects:
            return stamped
        valid = stamped.valid.copy()
        valid[odd] = False
        failures = [rejection(int(run.offsets[row]), f"It has {text}") for row, text in texts.items()]
        merged = sorted([*stamped.failures, *failures], key=lambda failure: failure.offset)
        return replace(stamped, valid=valid, failures=merged)


def _text(epoch_ms: int) -> str:
    moment = np.datetime64(epoch_ms, "ms")
    return (
        f"the time {moment}Z, outside of 1990 to 2100. If its number is in seconds, micro- or nanoseconds, set "
        "timestamp.field.unit to s, us or ns."
    )
