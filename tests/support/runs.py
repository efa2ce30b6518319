"""Records as a converter gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Values
from kafka_s3.connect.schemas.connect import ConnectSchema


def run_of(
    values: Values, schema: ConnectSchema | None = None, *, timestamps: Sequence[int] | None = None, first: int = 0
) -> Run:
    """A run of these values from an offset on; each at time 0, or at its own."""
    count = len(values)
    times = np.zeros(count, np.int64) if timestamps is None else np.array(timestamps, np.int64)
    return Run(np.arange(first, first + count), times, values, schema)
