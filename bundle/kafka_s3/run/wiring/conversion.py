"""Which converters does a configuration stand for? Settings in, a converter of whole records per topic-partition out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    CONFLUENT_CONVERTERS,
    GLUE_CONVERTERS,
    REGISTRY_CONVERTERS,
)
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.converter import Converter
from kafka_s3.connect.converters.header_converters import header_reader
from kafka_s3.connect.converters.json_columns import JsonColumns
from kafka_s3.connect.converters.json_envelope import JsonEnvelope
from kafka_s3.connect.converters.json_values import JsonTables, JsonValues
from kafka_s3.connect.converters.kafka_struct import KafkaStruct
from kafka_s3.connect.converters.plain import NUMBERS, ByteArrayConverter, Numbers, Strings
from kafka_s3.connect.converters.registry_values import RegistryValues, SchemaCatalog
from kafka_s3.connect.converters.whole_records import RecordConverter, RecordDecoder
from kafka_s3.connect.registry.subjects import strategy_of
from kafka_s3.connect.schemas.compatibility import Compatibility
from kafka_s3.connect.schemas.connect import read_schema
from kafka_s3.connect.schemas.registered import SchemaRegistry
from kafka_s3.connect.transforms.chain import Chain
from kafka_s3.connect.transforms.classes import chain_of, read_by_transforms
from kafka_s3.connect.transforms.whole_records import TransformedRecords
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import block_gzip_of
from kafka_s3.run.wiring.partitioning import placed_by
from kafka_s3.run.wiring.payloads import payload_decoders
from kafka_s3.run.wiring.registries import COMPONENTS, framing_of, registry_of

MakeConverter: TypeAlias = Callable[[str], Converter]
SIDES = {Role.VALUE: "value.converter", Role.KEY: "key.converter"}


def record_converters(
    settings: Settings, *, fields: list[tuple[str, ...]]
) -> Callable[[TopicPartition], RecordDecoder]:
    """Makes the converter of a topic-partition's records; `fields` are those that extractor and partitioner look at.

    What is costly (registry clients, compiled schemas) is made once and shared by all topic-partitions.
    """
    value = _value_converter(settings, fields)
    key: MakeConverter | None = _converter(settings, Role.KEY) if _reads_keys(settings) else None
    if _keys_in_front(settings):
        key = _raw_or_empty
    stores = stored(settings)
    tombstones = settings.text("behavior.on.null.values").lower() == "write"
    text_keys = settings.text("key.converter") == "string"
    envelopes = settings.flag("header.converter.schemas.enable")
    header = header_reader(settings.text("header.converter"), "payload" if envelopes else "")

    chain = chain_of(settings, now_ms=time.time_ns() // 1_000_000, tables=_infers_tables(settings))
    placing = placed_by(settings)
    if placing:
        chain = replace(chain, reads=chain.reads | placing) if chain is not None else Chain((), placing)

    def made(topic_partition: TopicPartition) -> RecordDecoder:
        metadata = KafkaStruct(topic_partition, text_keys) if settings.flag("record.metadata.enable") else None
        topic = topic_partition.topic
        converter = RecordConverter(
            value(topic),
            key(topic) if key is not None else None,
            stores,
            tombstones,
            metadata,
            header,
            names_schemas(settings),
        )
        return converter if chain is None else TransformedRecords(converter, chain, topic_partition, placing)

    return made


def stored(settings: Settings) -> frozenset[Role]:
    """What is written of a record beside its value."""
    switches = {Role.KEY: "store.kafka.keys", Role.HEADER: "store.kafka.headers"}
    in_front = frozenset({Role.KEY}) if _keys_in_front(settings) else frozenset[Role]()
    return in_front | {role for role, switch in switches.items() if settings.flag(switch)}


def _raw_or_empty(topic: str) -> Converter:
    """Keys and values of the later Block-GZIP sink: the bytes as they are, nothing for null."""
    return ByteArrayConverter(empty_for_null=b"")


def _keys_in_front(settings: Settings) -> bool:
    """Whether Block-GZIP writes keys before values; without a key converter of its own there is nothing to write."""
    if settings.text("format.class") != BLOCK_GZIP_FORMAT or not settings.given("key.converter"):
        return False
    return block_gzip_of(settings).stores_keys


def reads_envelopes(settings: Settings) -> bool:
    """Whether keys or headers are decoded, and not only kept for dead letters."""
    shown = settings.flag("store.kafka.headers") or settings.flag("record.metadata.enable")
    return _reads_keys(settings) or shown or bool(read_by_transforms(settings) | placed_by(settings))


def _reads_keys(settings: Settings) -> bool:
    # the original fails records whose key cannot be decoded, stored or not; strings and bytes always can
    fallible = settings.text("key.converter") not in ("string", "bytes")
    asked = stored(settings) | read_by_transforms(settings) | placed_by(settings)
    return Role.KEY in asked or (settings.strict and fallible)


def inflated_columns(settings: Settings) -> tuple[str, ...]:
    """The columns of Kafka's records that name schemas of AWS Glue, whose serializers may have compressed them, record by record."""
    read = {"value": True, "key": _reads_keys(settings)}
    return tuple(
        side for side, is_read in read.items() if is_read and settings.text(f"{side}.converter") in GLUE_CONVERTERS
    )


def _infers_tables(settings: Settings) -> bool:
    """Whether schemaless values go into Parquet by a schema that is inferred."""
    return settings.text("format.class") == "parquet" and not settings.text("value.schema")


def names_schemas(settings: Settings) -> bool:
    """Whether a record's headers may name its schema (SEMANTICS A11)."""
    return settings.text("value.converter") in CONFLUENT_CONVERTERS


def registry_converter(settings: Settings, role: Role) -> Callable[[str], RegistryValues] | None:
    """Makes the converter of a topic's values or keys that asks a schema registry, None where another one is configured.

    Raises ValueError where its settings do not go together.
    """
    if settings.text(SIDES[role]) not in REGISTRY_CONVERTERS:
        return None
    catalog = catalog_of(settings, role)
    return lambda topic: RegistryValues(catalog, topic, role)


def _value_converter(settings: Settings, fields: list[tuple[str, ...]]) -> MakeConverter:
    if settings.text("format.class") == BLOCK_GZIP_FORMAT and settings.text("block.gzip.dialect") != "original":
        return _raw_or_empty
    if settings.text("value.converter") == "json" and not settings.flag("value.converter.schemas.enable"):
        if settings.text("format.class") == "parquet":
            given = settings.text("value.schema")
            schema = read_schema(json.loads(given)) if given else None
            return lambda topic: JsonColumns(schema) if schema is not None else JsonTables()
        return lambda topic: JsonValues(fields)
    looked_at = frozenset(path[0] for path in fields)
    return _converter(settings, Role.VALUE, looked_at if _writes_bodies_as_they_came(settings) else None)


def _writes_bodies_as_they_came(settings: Settings) -> bool:
    """Whether Avro goes into Avro, and nothing on the way looks at all fields."""
    changed = settings.flag("record.metadata.enable") or settings.flag("schema.compatibility.unify")
    projected = Compatibility.named(settings.text("schema.compatibility")) is not Compatibility.NONE
    return settings.text("format.class") == "avro" and not (changed or projected or settings.names("transforms"))


def _converter(settings: Settings, role: Role, fields: frozenset[str] | None = None) -> MakeConverter:
    name = settings.text(SIDES[role])
    if name in REGISTRY_CONVERTERS:
        catalog = catalog_of(settings, role, fields)
        return lambda topic: RegistryValues(catalog, topic, role)
    if name in NUMBERS:
        return lambda topic: Numbers(name)
    match name:
        case "string":
            return lambda topic: Strings()
        case "bytes":
            return lambda topic: ByteArrayConverter()
        case _:
            envelope = settings.flag(f"{SIDES[role]}.schemas.enable")
            return lambda topic: JsonEnvelope() if envelope else JsonValues()


def catalog_of(
    settings: Settings,
    role: Role,
    fields: frozenset[str] | None = None,
    *,
    registry: SchemaRegistry | None = None,
) -> SchemaCatalog:
    """The decoders of a converter's schemas, which are asked for in a registry: the settings' own, unless one is given.

    Raises ValueError where its settings do not go together.
    """
    converter = SIDES[role]
    language, make = payload_decoders(settings, converter, fields)
    return SchemaCatalog(
        registry or registry_of(settings, converter)[0],
        language,
        strategy_of(settings.text(f"{converter}.{role}.subject.name.strategy")),
        make,
        settings.number(f"{converter}.schemas.cache.config"),
        framing_of(settings, converter),
        COMPONENTS.get(settings.text(converter), ""),
        settings.number("writer.memory.bytes") // 2,
    )
