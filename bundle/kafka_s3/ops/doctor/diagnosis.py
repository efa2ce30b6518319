"""Would this sink run here? In which order is everything tried that it will need, and when is it no use to go on?

The configuration comes first: what `kafka-s3 validate` reports, and whether its references can be resolved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, resolved
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import ConfigError, Problem, SourceError
from kafka_s3.ops.doctor.bucket import Probe, Wanted, check_answer, check_rules
from kafka_s3.ops.doctor.findings import Area, CheckResult
from kafka_s3.ops.doctor.kafka import AREA, Reach, check_kafka, check_reader
from kafka_s3.ops.doctor.registry import check_registry
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import BucketFacts, ObjectStore

CONFIGURATION = Area("configuration")


@dataclass(frozen=True, slots=True)
class ClientFactories:
    """How the clients of a configuration are made; each is made when its turn comes."""

    brokers: Callable[[Settings], KafkaBrokers]
    store: Callable[[StoreOptions], ObjectStore]
    facts: Callable[[StoreOptions], BucketFacts]
    reach: Reach


def diagnose(checked: CheckedConfig, services: ClientFactories) -> Iterator[CheckResult]:
    """Every finding, as soon as it is known. A configuration that cannot be used ends it; a service out of reach only its own part."""
    findings, settings = check_configuration(checked)
    yield from findings
    if settings is None:
        return
    yield from _kafka(settings, services)
    yield from check_registry(settings)
    yield from _storage(settings, services)


def check_configuration(checked: CheckedConfig) -> tuple[list[CheckResult], Settings | None]:
    """The findings, and the resolved settings; None where nothing else can be asked."""
    warnings = [CONFIGURATION.warning(warning.key, *_said(warning)) for warning in checked.warnings]
    if checked.problems:
        return [*warnings, *_failures(checked.problems)], None
    try:
        settings = resolved(checked.settings)
        store_options(settings)
    except ConfigError as error:
        return [*warnings, *_failures(error.problems)], None
    detail = f"sink {settings.name}, state in s3://{settings.text('s3.bucket.name')}/{settings.text('state.prefix')}"
    return [CONFIGURATION.ok("every key", detail), *warnings], settings


def _failures(problems: tuple[Problem, ...]) -> list[CheckResult]:
    return [CONFIGURATION.failed(problem.key, *_said(problem)) for problem in problems]


def _said(problem: Problem) -> tuple[str, str]:
    value = "not set" if problem.value is None else repr(problem.value)
    return f"{value} {problem.rule}", problem.remedy


def _kafka(settings: Settings, services: ClientFactories) -> Iterator[CheckResult]:
    try:
        brokers = services.brokers(settings)
    except SourceError as error:  # certificates that cannot be read, no credentials to sign with
        yield AREA.failed("brokers", str(error))
        return
    yield from check_kafka(settings, brokers)
    yield from check_reader(settings, brokers, services.reach)


def _storage(settings: Settings, services: ClientFactories) -> Iterator[CheckResult]:
    options, paths = store_options(settings), state_paths(settings)
    facts = services.facts(options)
    answer = facts.ask()
    yield from check_answer(answer, options)
    if answer.refusal is not None:
        return
    prefixes = object_names(settings).prefixes(settings.names("topics"))
    yield from check_rules(facts, state_root=paths.root, prefixes=(*prefixes, paths.root))
    wanted = Wanted(
        acl=options.acl,
        tags=settings.flag("s3.object.tagging"),
        data_prefix=prefixes[0] if prefixes else None,
        open_states=paths.open_states() if settings.flag("tail.state.enable") else None,
    )
    yield from Probe(services.store(options), f"{paths.root}doctor/", wanted).findings()
