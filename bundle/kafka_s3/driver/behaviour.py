"""What does the loop need to know of a configuration? A few settings, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_s3.driver.planner import Readiness


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the loop itself needs of the configuration. `reset`: earliest, latest or none; `lost`: fail or gap.

    `retry_timeout_ms`: how long a schema registry may be away, -1 without limit. `dead_letter_ratio`: the share of a batch's records that
    may become dead letters; 1 is no limit. `max_files`: about how many files one task closes and one entry holds.
    """

    sink: str
    topics: tuple[str, ...]
    topics_regex: str | None
    readiness: Readiness
    tasks_max: int
    reset: str
    lost: str
    refresh_ms: int
    record_timestamps: bool
    retry_timeout_ms: int = 0
    dead_letter_ratio: float = 1.0
    max_files: int = 5000
