"""Which combinations of keys cannot be decoded, changed, or stored beside each other? Converters, registry, keys and headers, transforms.

Last come the plugins of a configuration: each is made once, of settings that are right in every other respect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    CONFLUENT_CONVERTERS,
    FIELDLESS,
    REGISTRY_CONVERTERS,
    TRANSFORM_GROUP,
)
from kafka_s3.connect.config.librdkafka import java_store
from kafka_s3.connect.config.option import InvalidValue
from kafka_s3.connect.config.options.converters import APICURIO, PEM_OF_KEYS, PEM_OF_TRUST
from kafka_s3.connect.config.plugins import CLASS_KEYS, is_plugin, plugin
from kafka_s3.connect.config.rules import Rule, beyond_the_original, problem
from kafka_s3.connect.config.settings import Settings, masking
from kafka_s3.connect.config.transforms import Configured, configured_steps, routes
from kafka_s3.model.errors import ConfigError, Problem


def _registry_is_given(settings: Settings) -> Iterator[Problem]:
    for converter in _used(settings):
        key, needs = f"{converter}.schema.registry.url", settings.text(converter).replace("_", " ")
        if settings.text(converter) in CONFLUENT_CONVERTERS and not any(settings.names(key)):
            where = f"Give it with --set {key}=http://schema-registry:8081, or in the file of --worker."
            yield problem(key, f"is required by the {needs} converter.", where)


def _used(settings: Settings) -> list[str]:
    """The converters that will be asked."""
    keys = settings.flag("store.kafka.keys") or settings.strict or settings.text("partitioner.class") == "key"
    return ["value.converter", *(["key.converter"] if keys else [])]


def _confluent(settings: Settings) -> Iterator[tuple[str, str]]:
    """Those that ask Confluent's registry, and the keys of its addresses."""
    for converter in _used(settings):
        url = f"{converter}.schema.registry.url"
        if settings.text(converter) in CONFLUENT_CONVERTERS and any(settings.names(url)):
            yield converter, url


def _registry_stores_are_pem(settings: Settings) -> Iterator[Problem]:
    """Recognised by content or name, as Java does: without a type it takes its own kinds of stores."""
    for converter in _used(settings):
        for side, remedy in (("truststore", PEM_OF_TRUST), ("keystore", PEM_OF_KEYS)):
            key = f"{converter}.schema.registry.ssl.{side}.location"
            kind = java_store(settings.text(key))
            if kind:
                yield problem(key, f"is a {kind} store, which only Java reads.", remedy)


def _registry_options_fit(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.config.registry import registry_options

    for converter, url in _confluent(settings):
        try:
            registry_options(settings, converter)
        except ValueError as error:
            yield problem(url, str(error))


def _registry_credentials_in_clear(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.config.registry import registry_options

    for converter, url in _confluent(settings):
        with suppress(ValueError):  # a problem, which another rule reports
            if registry_options(settings, converter).in_clear_text:
                rule = "sends the registry's credentials without encryption, as in the original."
                yield problem(url, rule, "Use https://.")


def _apicurio_is_reached(settings: Settings) -> Iterator[Problem]:
    from kafka_s3.connect.config.registry import apicurio_options

    for converter in _used(settings):
        if settings.text(converter) == "apicurio_avro":
            url = f"{converter}.apicurio.registry.url"
            if not settings.text(url):
                yield problem(
                    url, "is required by Apicurio's converter.", "For example: http://apicurio:8080/apis/registry/v3."
                )
                continue
            try:
                apicurio_options(settings, converter)
            except ValueError as error:
                yield problem(url, str(error))


def _user_info_is_given(settings: Settings) -> Iterator[Problem]:
    for converter in _used(settings):
        given = settings.secret(f"{converter}.basic.auth.user.info") or settings.secret(
            f"{converter}.schema.registry.basic.auth.user.info"
        )
        if settings.text(f"{converter}.basic.auth.credentials.source") == "USER_INFO" and not given:
            yield problem(
                f"{converter}.basic.auth.user.info", "is required with credentials source USER_INFO.", "user:password"
            )


def _companions_fit(settings: Settings) -> Iterator[Problem]:
    gzip = settings.text("s3.compression.type") == "gzip"
    for switch, key in (("store.kafka.keys", "keys.format.class"), ("store.kafka.headers", "headers.format.class")):
        if not settings.flag(switch):
            continue
        if gzip and settings.text(key) in ("avro", "parquet"):
            yield problem(
                "s3.compression.type",
                f"gzip does not go with {key}={settings.text(key)}.",
                f"Use none, or JsonFormat for {key}.",
            )
            yield problem(key, "does not go with s3.compression.type=gzip.", "Use JsonFormat, or no compression.")
            yield problem(switch, f"does not go with {key}={settings.text(key)} and gzip.", "See s3.compression.type.")
        if switch == "store.kafka.headers" and settings.text(key) == "bytearray":
            yield problem(key, "must not be ByteArrayFormat: headers are names and values.", "Use JsonFormat.")


def _keys_are_bytes(settings: Settings) -> Iterator[Problem]:
    """As for values, the format takes bytes only; of an own or registered schema nobody knows before a record came."""
    converter = settings.text("key.converter")
    schemaless = converter == "json" and not settings.flag("key.converter.schemas.enable")
    never = converter in FIELDLESS - {"bytes"} or schemaless
    stored = settings.flag("store.kafka.keys") and settings.text("keys.format.class") == "bytearray"
    if stored and never and not settings.names("transforms"):
        rule = f"ByteArrayFormat takes keys that are bytes: the {converter} converter makes none, and each record would be a bad one."
        yield problem("keys.format.class", rule, "Use JsonFormat, or a ByteArrayConverter as key.converter.")


def _headers_are_read_without_a_registry(settings: Settings) -> Iterator[Problem]:
    if settings.flag("store.kafka.headers") and settings.text("header.converter") in REGISTRY_CONVERTERS:
        rule = "with a schema registry is not supported for headers that are stored."
        yield problem("header.converter", rule, "Use SimpleHeaderConverter, JsonConverter or StringConverter.")


def _metadata_needs_fields(settings: Settings) -> Iterator[Problem]:
    if not settings.flag("record.metadata.enable"):
        return
    if settings.strict:
        yield beyond_the_original("record.metadata.enable")
    elif settings.text("value.converter") in FIELDLESS:
        rule = "needs values with fields, which this value.converter does not give."
        yield problem("record.metadata.enable", rule, "Store keys and headers in objects of their own instead.")
    elif settings.text("value.schema"):
        rule = "does not go with value.schema, which names every column."
        yield problem("record.metadata.enable", rule, "Use value.schema.inference=true.")


def _unify_goes_beyond(settings: Settings) -> Iterator[Problem]:
    if settings.flag("schema.compatibility.unify") and settings.strict:
        yield beyond_the_original("schema.compatibility.unify")


_CONVERTERS = ("value.converter", "key.converter", "store.kafka.keys", "compatibility.strict")
_AUTH = tuple(
    f"{side}.converter.{name}"
    for side in ("value", "key")
    for name in ("basic.auth.credentials.source", "basic.auth.user.info", "schema.registry.basic.auth.user.info")
)
_URLS = ("value.converter.schema.registry.url", "key.converter.schema.registry.url")
_APICURIO = tuple(f"{side}.converter.{row.key}" for side in ("value", "key") for row in APICURIO if not row.family)
_REGISTRY_STORES = tuple(
    f"{side}.converter.schema.registry.ssl.{store}.location" for side in ("value", "key") for store in ("truststore", "keystore")
)  # fmt: skip
_REGISTRY_TOKENS = ("value.converter.bearer.auth.token", "key.converter.bearer.auth.token")

PROBLEMS: Final = (
    Rule((*_CONVERTERS, *_URLS), _registry_is_given),
    Rule((*_CONVERTERS, *_URLS, *_AUTH, *_REGISTRY_TOKENS), _registry_options_fit),
    Rule((*_CONVERTERS, *_REGISTRY_STORES), _registry_stores_are_pem),
    Rule((*_CONVERTERS, *_AUTH), _user_info_is_given),
    Rule((*_CONVERTERS, *_APICURIO), _apicurio_is_reached),
    Rule(
        ("store.kafka.keys", "store.kafka.headers", "keys.format.class", "headers.format.class", "s3.compression.type"),
        _companions_fit,
    ),
    Rule(
        ("store.kafka.keys", "keys.format.class", "key.converter", "key.converter.schemas.enable", "transforms"),
        _keys_are_bytes,
    ),
    Rule(("store.kafka.headers", "header.converter"), _headers_are_read_without_a_registry),
    Rule(("record.metadata.enable", "value.converter", "value.schema", "compatibility.strict"), _metadata_needs_fields),
    Rule(("schema.compatibility.unify", "compatibility.strict"), _unify_goes_beyond),
)
WARNINGS: Final = (Rule((*_CONVERTERS, *_URLS, *_AUTH, *_REGISTRY_TOKENS), _registry_credentials_in_clear),)


def _faults(settings: Settings, *, warning: bool) -> Iterator[Problem]:
    for fault in configured_steps(settings).faults:
        if fault.warning is warning:
            yield problem(fault.key, fault.rule, fault.remedy)


TABLES: Final = ("delta.enable", "iceberg.enable", "state.enable")


def _routers_fit(settings: Settings) -> Iterator[Problem]:
    if not routes(settings):
        return
    for key in (one for one in TABLES if settings.flag(one)):
        rule = "is not possible where a transform changes topics: a table is kept over the objects of a topic of Kafka."
        yield problem(key, rule, f"Leave the router out, or set {key}=false.")
    if settings.text("format.class") == BLOCK_GZIP_FORMAT:
        rule = "has a router, but Block-GZIP's index and pointer are found by the topic of Kafka."
        yield problem("transforms", rule, "Leave the router out.")


TRANSFORM_PROBLEMS: Final = (
    Rule(("transforms", "predicates", *TABLES, "format.class"), _routers_fit),
    Rule(("transforms", "predicates"), partial(_faults, warning=False)),
)
TRANSFORM_WARNINGS: Final = (Rule(("transforms", "predicates"), partial(_faults, warning=True)),)


_TIMES = ("Record", "RecordField")


def refused_by_plugins(settings: Settings) -> Iterator[Problem]:
    """What the plugins themselves say to their settings, and a partitioner by time without times that can be had again."""
    mask = masking(settings)  # a package of others may show what it was given
    for key, group, name, given in _named(settings):
        try:
            part = plugin(group, name).made(given)
        except ConfigError as error:
            yield from (replace(one, rule=mask(one.rule), remedy=mask(one.remedy)) for one in error.problems)
        except InvalidValue as wrong:
            yield problem(key, mask(wrong.rule), wrong.remedy)
        else:
            timed = settings.given("timestamp.extractor") and settings.text("timestamp.extractor") in _TIMES
            if key == "partitioner.class" and part.uses_time and not timed:
                rule = f"must be {' or '.join(_TIMES)}: {name} makes directories of times, which must be the same whenever a file is made."
                yield problem("timestamp.extractor", rule, "Set timestamp.extractor=Record.")


def _named(settings: Settings) -> Iterator[tuple[str, str, str, Settings | Configured]]:
    """Each plugin: the key that names it, its group and name, and the settings that it gets."""
    for key, group in CLASS_KEYS.items():
        if is_plugin(group, settings.text(key)):
            yield key, group, settings.text(key), settings
    for step in configured_steps(settings).steps:
        if step.transform.own:
            yield f"transforms.{step.transform.alias}.type", TRANSFORM_GROUP, step.transform.kind, step.transform
