"""What is a rule across keys? A small function that looks at settings and yields what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_s3.connect.config.classes import PARTITIONERS, TIME_PARTITIONERS, VALUE_PARTITIONERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import Problem


@dataclass(frozen=True, slots=True)
class Rule:
    """A check and the keys it reads; it is left out while one of them is at fault itself or holds an unresolved reference."""

    reads: tuple[str, ...]
    check: Callable[[Settings], Iterator[Problem]]


def problem(key: str, rule: str, remedy: str = "") -> Problem:
    """A problem whose value is filled in later, as the user wrote it and masked."""
    return Problem(key, None, rule, remedy)


def beyond_the_original(key: str) -> Problem:
    """A problem with what strict compatibility excludes."""
    rule = "goes beyond the original, which compatibility.strict=true excludes."
    return problem(key, rule, "Leave one of the two out.")


def is_time_partitioner(settings: Settings) -> bool:
    """Whether one of the partitioners by time is configured."""
    return settings.text("partitioner.class") in TIME_PARTITIONERS


def rotates_by_time(settings: Settings) -> bool:
    """Whether `rotate.interval.ms` acts: under partitioners by time; and, of ours, by values where a timestamp extractor is given.

    Under a plugin's only times count that can be had again, when a file has to be made again.
    """
    name, extractor = settings.text("partitioner.class"), settings.text("timestamp.extractor")
    by_value = name in VALUE_PARTITIONERS or (name not in PARTITIONERS.values() and extractor != "Wallclock")
    return is_time_partitioner(settings) or (by_value and settings.given("timestamp.extractor") and not settings.strict)
