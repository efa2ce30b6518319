"""What does the loop need to know of a configuration? A few settings, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.model.timing import Backoff

FIRST_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Readiness:
    """How eagerly to read.

    `wall_clock`: the extractor looks at the time of delivery; `directory_ms` is then the time that a directory stands for (1: unknown).
    `check_ms`: `tail.check.interval.ms`, 0 is at once. `worth_records` and `worth_bytes`: an unread tail of that size is read where that
    does not read anything twice; 0: it waits for a reason. `task_records`: what a task reads at most, unless it could close no file with
    that.
    """

    rules: RotationRules
    by_record_time: bool
    wall_clock: bool
    check_ms: int
    directory_ms: int = 1
    worth_records: int = 0
    worth_bytes: int = 0
    task_records: int = FIRST_LIMIT


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the loop itself needs of the configuration. `reset`: earliest, latest or none; `lost`: fail or gap.

    `retry_timeout_ms`: how long a schema registry may be away, -1 without limit. `dead_letter_ratio`: the share of a batch's records that
    may become dead letters; 1 is no limit. `max_files`: about how many files one task closes and one entry holds.
    `stop_scope`: sink or partition, how far it reaches that a topic-partition stops; `backoff`: the pauses of one that is tried again.
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
    stop_scope: str = "partition"
    backoff: Backoff = field(default_factory=lambda: Backoff(0, 0))
