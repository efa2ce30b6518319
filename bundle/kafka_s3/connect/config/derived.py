"""Which settings follow from others? What the user leaves out and a fixed default cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT, PATTERN_PARTITIONERS
from kafka_s3.connect.config.rules.rule import is_time_partitioner, problem, rotates_by_time
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.valid_values import INT_MAX, Value
from kafka_s3.model.errors import Problem

TIME_DEFAULTS: Final[Mapping[str, Value]] = {
    "partition.duration.ms": 3_600_000, "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "locale": "en", "timezone": "UTC",
}  # fmt: skip
"""Hourly directories in UTC: what a time partitioner gets outside of strict where its keys are not set."""
NO_COUNT: Final = INT_MAX
"""The flush.size in effect where only other rules close files."""
ROTATION_KEYS: Final = (
    "flush.size", "flush.bytes", "flush.idle.ms", "rotate.interval.ms", "rotate.schedule.interval.ms", "partitioner.class",
    "s3.part.size", "compatibility.strict", "format.class", "timestamp.extractor",
)  # fmt: skip


BLOCK_GZIP_KEYS: Final = (
    "block.gzip.file.interval.ms",
    "block.gzip.file.grace.ms",
    "offset.flush.interval.ms",
    "flush.bytes",
    "timezone",
)


@dataclass(frozen=True, slots=True)
class Derivation:
    """Values to put in place, and what the user should know or mend."""

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def with_derived(settings: Settings, unsettled: frozenset[str]) -> tuple[Settings, Derivation]:
    """The settings with their derived values, as far as the keys they follow from are settled."""
    if settings.values.get("format.class") == BLOCK_GZIP_FORMAT and not unsettled.intersection(BLOCK_GZIP_KEYS):
        settings = replace(settings, values={**settings.values, **_block_gzip(settings)})
    found = [] if {*TIME_DEFAULTS, "partitioner.class", "compatibility.strict"} & unsettled else [_time(settings)]
    found += [_tail_check(settings)] if not {"tail.check.interval.ms", "compatibility.strict"} & unsettled else []
    if not unsettled.intersection(ROTATION_KEYS):
        found.append(_rotation(settings))
    whole = Derivation(
        {key: value for one in found for key, value in one.values.items()},
        tuple(p for one in found for p in one.problems),
        tuple(p for one in found for p in one.warnings),
    )
    return replace(settings, values={**settings.values, **whole.values}), whole


def _block_gzip(settings: Settings) -> dict[str, Value]:
    """Files are closed at the worker's flush; a fork also closes them by record time, and quiet ones by the clock (SEMANTICS B1, B4)."""
    interval, grace = settings.number("block.gzip.file.interval.ms"), settings.number("block.gzip.file.grace.ms")
    values: dict[str, Value] = {"timezone": settings.text("timezone") or "UTC"}
    if interval <= 0 and settings.number("flush.bytes") <= 0:  # the fork's rules take the flush's place
        values["rotate.schedule.interval.ms"] = settings.number("offset.flush.interval.ms")
    if interval > 0:
        values["flush.idle.ms"] = interval + (grace if grace >= 0 else interval // 2)
    return values


def _time(settings: Settings) -> Derivation:
    """What a time partitioner needs and a guide's example leaves out; the original's tasks fail without it."""
    kind = settings.text("partitioner.class")
    wanted = (
        TIME_DEFAULTS if kind in PATTERN_PARTITIONERS else {key: TIME_DEFAULTS[key] for key in ("locale", "timezone")}
    )
    missing = {key: value for key, value in wanted.items() if not settings.given(key)}
    if settings.strict or not is_time_partitioner(settings) or not missing:
        return Derivation()
    shown = ", ".join(f"{key}={value}" for key, value in missing.items())
    rule = f"is taken with {shown}, because nothing is said; tasks of the original fail there."
    return Derivation(missing, warnings=(problem("partitioner.class", rule, "Set what you mean."),))


def _tail_check(settings: Settings) -> Derivation:
    if settings.strict and not settings.given("tail.check.interval.ms"):
        return Derivation({"tail.check.interval.ms": 0})
    return Derivation()


def _rotation(settings: Settings) -> Derivation:
    if settings.given("flush.size"):
        if settings.number("flush.size") >= 1:
            return Derivation()
        rule = "acts like 1: every record becomes an object of its own."
        return Derivation({"flush.size": 1}, warnings=(problem("flush.size", rule, "Set the records per object."),))
    if settings.strict and settings.text("format.class") != BLOCK_GZIP_FORMAT:
        return Derivation(
            problems=(problem("flush.size", "is required.", "Set the records per Kafka partition and commit."),)
        )
    if _closes_otherwise(settings):
        return Derivation({"flush.size": NO_COUNT})
    if settings.given("s3.part.size"):
        rule = "closes files here, because no rotation rule is set; in the original it never does."
        warning = problem("s3.part.size", rule, "Set flush.size or flush.bytes to say what is meant.")
        return Derivation({"flush.size": NO_COUNT, "flush.bytes": settings.number("s3.part.size")}, warnings=(warning,))
    others = "rotate.interval.ms with a time partitioner, rotate.schedule.interval.ms, flush.bytes or flush.idle.ms"
    return Derivation(
        problems=(problem("flush.size", "is required, or nothing would ever close a file.", f"Set it, or {others}."),)
    )


def _closes_otherwise(settings: Settings) -> bool:
    by_time = settings.number("rotate.interval.ms") > 0 and rotates_by_time(settings)
    return by_time or any(
        settings.number(key) > 0 for key in ("rotate.schedule.interval.ms", "flush.bytes", "flush.idle.ms")
    )
