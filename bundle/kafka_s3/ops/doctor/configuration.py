"""Is the configuration itself in order? What `kafka-s3 validate` says, and whether its references can be resolved here."""

from __future__ import annotations

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, resolved
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.ops.doctor.finding import Area, CheckResult
from kafka_s3.store.options import store_options

AREA = Area("configuration")


def check_configuration(checked: CheckedConfig) -> tuple[list[CheckResult], Settings | None]:
    """The findings, and the resolved settings; None where nothing else can be asked."""
    warnings = [AREA.warning(warning.key, *_said(warning)) for warning in checked.warnings]
    if checked.problems:
        return [*warnings, *_failures(checked.problems)], None
    try:
        settings = resolved(checked.settings)
        store_options(settings)
    except ConfigError as error:
        return [*warnings, *_failures(error.problems)], None
    detail = f"sink {settings.name}, state in s3://{settings.text('s3.bucket.name')}/{settings.text('state.prefix')}"
    return [AREA.ok("every key", detail), *warnings], settings


def _failures(problems: tuple[Problem, ...]) -> list[CheckResult]:
    return [AREA.failed(problem.key, *_said(problem)) for problem in problems]


def _said(problem: Problem) -> tuple[str, str]:
    value = "not set" if problem.value is None else repr(problem.value)
    return f"{value} {problem.rule}", problem.remedy
