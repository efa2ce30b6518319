"""Are the transforms and predicates usable? Everything that is wrong with any of them."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.connect.config.rules.rule import Rule, problem
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps, routes
from kafka_s3.model.errors import Problem


def _faults(settings: Settings) -> Iterator[Problem]:
    for fault in configured_steps(settings).faults:
        if not fault.warning:
            yield problem(fault.key, fault.rule, fault.remedy)


def _oddities(settings: Settings) -> Iterator[Problem]:
    for fault in configured_steps(settings).faults:
        if fault.warning:
            yield problem(fault.key, fault.rule, fault.remedy)


def _routers_fit(settings: Settings) -> Iterator[Problem]:
    if not routes(settings):
        return
    if settings.flag("delta.enable"):
        rule = "is not possible where a transform changes topics: a table is kept over the objects of a topic of Kafka."
        yield problem("delta.enable", rule, "Leave the router out, or set delta.enable=false.")
    if settings.text("format.class") == BLOCK_GZIP_FORMAT:
        rule = "has a router, but Block-GZIP's index and pointer are found by the topic of Kafka."
        yield problem("transforms", rule, "Leave the router out.")


PROBLEMS = (
    Rule(("transforms", "predicates", "delta.enable", "format.class"), _routers_fit),
    Rule(("transforms", "predicates"), _faults),
)
WARNINGS = (Rule(("transforms", "predicates"), _oddities),)
