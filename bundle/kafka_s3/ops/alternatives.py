"""Estimate what other settings would make of the traffic that the log shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_s3.connect.config.classes import FIELD_PARTITIONERS, PARTITIONERS, PATTERN_PARTITIONERS, TIME_PARTITIONERS
from kafka_s3.connect.config.option import Value
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.files import Reason
from kafka_s3.ops.forecast import DAY_MS, PartitionPace, closings

TIMES: Final = 10
"""A limit is raised to so many times what it is."""
LIMITS: Final = ("flush.size", "flush.bytes", "rotate.interval.ms", "rotate.schedule.interval.ms", "flush.idle.ms")
RULES: Final = (
    *LIMITS, "rotate.file.on.partition.change", "partitioner.class", "partitioner.max.open.files", "path.format", "partition.duration.ms",
)  # fmt: skip
FEWER: Final = "directories"
"""Stands for a key if fewer directories at a time are the change: which key that is depends on the partitioner."""
_JAVA: Final = {ours: java for java, ours in PARTITIONERS.items()}


@dataclass(frozen=True, slots=True)
class TopicPace:
    """Traffic of one topic as its log shows it: records a second and bytes of a record as written, in all its partitions.

    `directories` get records of a partition at the same time; `files` come a day.
    """

    per_second: float
    record_bytes: float
    partitions: int
    directories: int
    files: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a day makes if `changes` are set: files and their mean size in bytes, None if none close; how late records are, at most."""

    changes: Mapping[str, str]
    files: float | None
    file_bytes: float | None
    delay_ms: float
    reasons: Mapping[Reason, float]


def alternatives(rules: Mapping[str, Value], pace: TopicPace) -> Iterator[Alternative]:
    """Yield what these rules (those of `rules_of`) make of the traffic, and then what each change makes of it."""
    by_time_alone = rules["partitioner.class"] in TIME_PARTITIONERS - FIELD_PARTITIONERS
    directories = 1 if by_time_alone else pace.directories  # times come one after the other
    yield _alternative({}, rules, pace, directories)
    for changes, fewer in _changes(rules, directories):
        changed = {key: value for key, value in changes.items() if key in rules}
        yield _alternative(changes, {**rules, **changed}, pace, fewer)


def rules_of(settings: Settings) -> dict[str, Value]:
    """Return what the settings say of RULES."""
    return {key: settings.values[key] for key in RULES}


def _changes(rules: Mapping[str, Value], directories: int) -> Iterator[tuple[dict[str, Value], int]]:
    """Yield what could be set otherwise for larger files: each limit, all limits, then directories; with how many these become."""
    limits = {key: _raised(key, rules[key]) for key in LIMITS if 0 < _number(rules[key]) < _raised(key, rules[key])}
    for key, value in limits.items():
        yield {key: value}, directories
    if len(limits) > 1:
        yield dict(limits), directories
    partitioner, above = rules["partitioner.class"], str(rules["path.format"] or "").rpartition("/")[0]
    by_time, interval = partitioner in TIME_PARTITIONERS, _number(rules["rotate.interval.ms"])
    if by_time and rules["rotate.file.on.partition.change"] and interval > 0:
        yield {"rotate.file.on.partition.change": False}, directories
    if partitioner == "hourly":
        yield {"partitioner.class": "daily"}, directories
    if partitioner in PATTERN_PARTITIONERS and above:
        yield {"path.format": above}, directories
    if directories > 1:
        yield {FEWER: f"1/{TIMES}"}, max(directories // TIMES, 1)


def _alternative(
    changes: Mapping[str, Value], rules: Mapping[str, Value], pace: TopicPace, directories: int
) -> Alternative:
    own = PartitionPace("", pace.per_second / pace.partitions, pace.record_bytes, directories, 1 / directories)
    closed = closings(rules, own)
    files = sum(closed.files.values()) * pace.partitions
    texts = {key: _text(value) for key, value in changes.items()}
    if not files:
        return Alternative(texts, None, None, 0, {})
    file_bytes = pace.per_second * DAY_MS / 1000 * pace.record_bytes / files
    return Alternative(texts, files, file_bytes, closed.longest_ms, closed.files)


def _raised(key: str, value: Value) -> int:
    raised = _number(value) * TIMES
    return min(raised, DAY_MS) if key.endswith(".ms") else raised


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else _JAVA.get(str(value), str(value))
