"""Are the transforms and predicates usable? Everything that is wrong with any of them."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_s3.config.rules.rule import Rule, problem
from kafka_s3.config.settings import Settings
from kafka_s3.config.transforms import configured_steps
from kafka_s3.model.errors import Problem


def _faults(settings: Settings) -> Iterator[Problem]:
    for fault in configured_steps(settings).faults:
        if not fault.warning:
            yield problem(fault.key, fault.rule, fault.remedy)


def _oddities(settings: Settings) -> Iterator[Problem]:
    for fault in configured_steps(settings).faults:
        if fault.warning:
            yield problem(fault.key, fault.rule, fault.remedy)


PROBLEMS = (Rule(("transforms", "predicates"), _faults),)
WARNINGS = (Rule(("transforms", "predicates"), _oddities),)
