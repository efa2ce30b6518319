"""In which order is a sink's world looked at, and when is it no use to go on?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig
from kafka_s3.model.errors import SourceError
from kafka_s3.ops.doctor.bucket import check_answer, check_rules
from kafka_s3.ops.doctor.configuration import check_configuration
from kafka_s3.ops.doctor.finding import CheckResult
from kafka_s3.ops.doctor.kafka import AREA, KafkaView, check_kafka
from kafka_s3.ops.doctor.reader import Reach, check_reader
from kafka_s3.ops.doctor.registry import check_registry
from kafka_s3.ops.doctor.rights import Probe, Wanted
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.bucket import BucketFacts
from kafka_s3.store.options import StoreOptions, store_options
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class ClientFactories:
    """How the clients of a configuration are made; each is made when its turn comes."""

    brokers: Callable[[Settings], KafkaView]
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
    yield from Probe(services.store(options), facts, f"{paths.root}doctor/", wanted).findings()
