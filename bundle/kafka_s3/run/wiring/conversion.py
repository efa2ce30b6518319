"""Which converters does a configuration stand for? Settings in, a converter of whole records per topic-partition out.

Registries and schema languages are imported where they are used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafka_s3.connect.config.classes import (
    BLOCK_GZIP_FORMAT,
    CONFLUENT_CONVERTERS,
    CONVERTERS,
    GLUE_CONVERTERS,
    REGISTRY_CONVERTERS,
)
from kafka_s3.connect.config.registry import apicurio_framing, apicurio_ids, apicurio_options, registry_options
from kafka_s3.connect.config.rules.objects import hidden_fields
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.transforms import configured_steps
from kafka_s3.connect.converters.converter import Converter, PayloadDecoder
from kafka_s3.connect.converters.headers import header_reader
from kafka_s3.connect.converters.json_values import JsonColumns, JsonEnvelope, JsonTables, JsonValues
from kafka_s3.connect.converters.plain import NUMBERS, ByteArrayConverter, Numbers, Strings
from kafka_s3.connect.converters.registry_values import MakeDecoder, RegistryValues, SchemaCatalog
from kafka_s3.connect.converters.whole_records import KafkaStruct, RecordConverter, RecordDecoder
from kafka_s3.connect.registry.options import Framing, SubjectNameStrategy, strategy_of, subject
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.compatibility import Compatibility
from kafka_s3.connect.schemas.connect import ConnectSchema, read_schema
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema, SchemaRegistry
from kafka_s3.connect.transforms.chain import Chain, TransformedRecords
from kafka_s3.connect.transforms.classes import chain_of, read_by_transforms
from kafka_s3.model.errors import Problem, UnknownSchema
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import BlockGzip, Delimited, Lines, Prefixed, delimiter_bytes
from kafka_s3.objects.block_gzip_form import Framing as BlockFraming
from kafka_s3.run.wiring.partitioning import placed_by

if TYPE_CHECKING:
    from kafka_s3.connect.registry.glue import GlueOptions


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

    inferred = settings.text("format.class") == "parquet" and not settings.text("value.schema")
    chain = transform_chain(settings, now_ms=time.time_ns() // 1_000_000, tables=inferred)
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


def transform_chain(settings: Settings, *, now_ms: int, tables: bool) -> Chain | None:
    """The transforms of a configuration, None where it has none. `now_ms` is the time, `tables` as in `Chain`."""
    steps = configured_steps(settings).steps
    return chain_of(steps, now_ms=now_ms, strict=settings.strict, tables=tables, has_schemas=_has_schemas(settings))


def _has_schemas(settings: Settings) -> bool:
    """Whether values have schemas when transforms get them."""
    if settings.text("value.converter") != "json":
        return True
    return settings.flag("value.converter.schemas.enable") or bool(settings.text("value.schema"))


def _read_by_transforms(settings: Settings) -> frozenset[Role]:
    return read_by_transforms(configured_steps(settings).steps)


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
    return _reads_keys(settings) or shown or bool(_read_by_transforms(settings) | placed_by(settings))


def _reads_keys(settings: Settings) -> bool:
    # the original fails records whose key cannot be decoded, stored or not; strings and bytes always can
    fallible = settings.text("key.converter") not in ("string", "bytes")
    asked = stored(settings) | _read_by_transforms(settings) | placed_by(settings)
    return Role.KEY in asked or (settings.strict and fallible)


def inflated_columns(settings: Settings) -> tuple[str, ...]:
    """The columns of Kafka's records that name schemas of AWS Glue, whose serializers may have compressed them, record by record."""
    read = {"value": True, "key": _reads_keys(settings)}
    return tuple(
        side for side, is_read in read.items() if is_read and settings.text(f"{side}.converter") in GLUE_CONVERTERS
    )


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


def block_gzip_of(settings: Settings) -> BlockGzip:
    """The variant that a configuration stands for, by its `block.gzip.` keys."""
    return BlockGzip(_framing(settings), settings.number("block.gzip.block.size"), not settings.strict)


def _framing(settings: Settings) -> BlockFraming:
    if settings.text("block.gzip.dialect") == "original":
        return Lines()
    if settings.text("block.gzip.format") == "binary":
        return Prefixed(settings.flag("block.gzip.include.keys"))
    key = settings.optional_text("block.gzip.key.delimiter")
    value = delimiter_bytes(settings.text("block.gzip.value.delimiter"), settings.text("block.gzip.value.encoding"))
    if key is None:
        return Delimited(value)
    return Delimited(value, delimiter_bytes(key, settings.text("block.gzip.key.encoding")))


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


def payload_decoders(settings: Settings, converter: str, fields: frozenset[str] | None) -> tuple[Language, MakeDecoder]:
    """The schema language of a converter, and what decodes it; where `fields` are given, Avro need decode no others."""
    match settings.text(converter):
        case "json_schema" | "glue_json_schema":
            return Language.JSON, partial(_json_schema, settings, converter)
        case "protobuf":
            return Language.PROTOBUF, partial(_protobuf, settings, converter)
        case "glue_protobuf":
            return Language.PROTOBUF, _glue_protobuf
        case _:
            return Language.AVRO, _avro(settings, converter, fields)


def _avro(settings: Settings, converter: str, fields: frozenset[str] | None) -> MakeDecoder:
    from kafka_s3.connect.converters.avro import AvroPayloads

    options = AvroOptions(
        enhanced=settings.flag(f"{converter}.enhanced.avro.schema.support"),
        meta_data=settings.flag(f"{converter}.connect.meta.data"),
        scrub_invalid_names=settings.flag(f"{converter}.scrub.invalid.names"),
    )
    return lambda schema, indexes, version: AvroPayloads(schema, options, version=version, fields=fields)


def _json_schema(
    settings: Settings, converter: str, schema: RegisteredSchema, indexes: tuple[int, ...], version: int | None
) -> PayloadDecoder:
    from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
    from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions

    options = JsonSchemaOptions(
        optional_for_nonrequired=settings.flag(f"{converter}.use.optional.for.nonrequired"),
        fail_invalid=settings.flag(f"{converter}.json.fail.invalid.schema"),
    )
    if settings.text(converter) == "glue_json_schema":
        options = replace(options, name_key="connect.name", doc_key="connect.doc")
    return JsonSchemaPayloads(schema, options, version=version)


PROTOBUF_FLAGS: Final = (
    "optional_for_nullables", "optional_for_proto2", "wrapper_for_nullables", "wrapper_for_raw_primitives", "generate_index_for_unions",
    "generate_struct_for_nulls", "int_for_enums", "flatten_unions", "enhanced_protobuf_schema_support",
)  # fmt: skip
"""The settings of Confluent's Protobuf converter."""


def _protobuf(
    settings: Settings, converter: str, schema: RegisteredSchema, indexes: tuple[int, ...], version: int | None
) -> PayloadDecoder:
    from kafka_s3.connect.converters.protobuf import ProtobufPayloads
    from kafka_s3.connect.schemas.protobuf import ProtobufOptions
    from kafka_s3.connect.schemas.protobuf_descriptors import message_type

    options = ProtobufOptions(
        **{name: settings.flag(f"{converter}.{name.replace('_', '.')}") for name in PROTOBUF_FLAGS}
    )
    return ProtobufPayloads(message_type(schema, indexes), options, version=version)


GLUE_VERSION: Final = 1
"""The version that Glue's converter gives every Protobuf schema."""


def _glue_protobuf(schema: RegisteredSchema, indexes: tuple[int, ...], version: int | None) -> PayloadDecoder:
    """By the rules of Glue's ProtobufSchemaConverter: absent messages hold their defaults, and a oneof has its own name."""
    from kafka_s3.connect.converters.protobuf import ProtobufPayloads
    from kafka_s3.connect.schemas.protobuf import ProtobufOptions
    from kafka_s3.connect.schemas.protobuf_descriptors import message_type_at

    options = ProtobufOptions(
        optional_for_nullables=True,
        wrapper_for_raw_primitives=False,
        generate_index_for_unions=False,
        default_messages=True,
        enhanced_protobuf_schema_support=True,
    )
    return ProtobufPayloads(message_type_at(schema, indexes[0]), options, version=GLUE_VERSION)


COMPONENTS: Final = {
    ours: java for java, ours in CONVERTERS.items() if ours in REGISTRY_CONVERTERS - CONFLUENT_CONVERTERS
}
"""Whom dead letters name, where it is not Confluent's converter."""


class OpenRegistry(SchemaRegistry, Protocol):
    """A registry that is closed when done."""

    def close(self) -> None:
        """Closes the connections."""
        ...


def registry_of(
    settings: Settings, converter: str, *, timeout_s: float | None = None, retries: int | None = None
) -> tuple[OpenRegistry, str]:
    """The registry of `key.converter` or `value.converter`, and its address for a report; it is asked nothing yet.

    Raises ValueError where its settings do not go together. A registry's packages are imported where it is used.
    """
    limits = {"timeout_s": timeout_s, "retries": retries} if timeout_s is not None else {}
    match settings.text(converter):
        case name if name in GLUE_CONVERTERS:
            from kafka_s3.connect.registry.glue import GlueRegistry

            glue = glue_options(settings, converter)
            if timeout_s is not None:
                glue = replace(glue, timeout_s=timeout_s, attempts=1 + (retries or 0))
            return GlueRegistry(glue), glue.shown_urls
        case "apicurio_avro":
            from kafka_s3.connect.registry.apicurio import ApicurioOptions, ApicurioRegistry

            http = replace(apicurio_options(settings, converter), **limits)  # type: ignore[arg-type]
            asked = ApicurioOptions(http, apicurio_ids(settings, converter), Language.AVRO)
            return ApicurioRegistry(asked), http.shown_urls
        case _:
            from kafka_s3.connect.registry.client import RegistryClient

            options = replace(registry_options(settings, converter), **limits)  # type: ignore[arg-type]
            return RegistryClient(options), options.shown_urls


def framing_of(settings: Settings, converter: str) -> Framing:
    """Where the records of a converter name their schemas."""
    match settings.text(converter):
        case name if name in GLUE_CONVERTERS:
            return Framing.GLUE
        case "apicurio_avro":
            return apicurio_framing(settings, converter)
        case _:
            return Framing.CONFLUENT


def glue_options(settings: Settings, converter: str) -> GlueOptions:
    """How AWS Glue is reached: by AWS's default chain, as in Connect, or by the bucket's service credential of Unity Catalog.

    Raises ValueError where no region is known.
    """
    from kafka_s3.connect.registry.glue import GlueOptions
    from kafka_s3.run.wiring.bucket import store_options
    from kafka_s3.store.credentials import Credentials, Provider, default_region

    region = settings.text(f"{converter}.region") or default_region()
    if not region:
        raise ValueError("names no region of AWS Glue: set it, or AWS_REGION.")
    bucket = store_options(settings).credentials
    return GlueOptions(
        region,
        endpoint=settings.text(f"{converter}.endpoint") or None,
        credentials=bucket if bucket.provider is Provider.SERVICE_CREDENTIAL else Credentials(),
        proxy=settings.text(f"{converter}.proxyUrl") or None,
        cache_size=settings.number(f"{converter}.cacheSize"),
    )


LatestSchema: TypeAlias = Callable[[str], ConnectSchema | None]
"""Gives the newest schema of a topic's values; None where none is registered under the topic's name, or the subject depends on the record.

Raises RegistryUnavailable, RegistryError, SchemaError.
"""


@contextmanager
def latest_schemas(
    settings: Settings, *, timeout_s: float | None = None, retries: int | None = None
) -> Iterator[LatestSchema]:
    """The registry of the values' converter, asked topic by topic, within these limits or its own. Raises ValueError, RegistryError."""
    registry, _ = registry_of(settings, SIDES[Role.VALUE], timeout_s=timeout_s, retries=retries)
    with closing(registry):
        catalog = catalog_of(settings, Role.VALUE, registry=registry)
        first = (0,) if catalog.language is Language.PROTOBUF else ()

        def latest(topic: str) -> ConnectSchema | None:
            if catalog.strategy is not SubjectNameStrategy.TOPIC:
                return None
            try:
                version, registered = registry.latest(subject(catalog.strategy, topic, None, role=Role.VALUE))
            except UnknownSchema:
                return None
            return catalog.make(registered, first, version).schema

        yield latest


def hidden_by_directories(settings: Settings, latest: LatestSchema, topic: str) -> list[Problem]:
    """The fields of a topic's newest schema that a directory has the name of. Raises as `LatestSchema` does."""
    schema = latest(topic)
    return [] if schema is None else hidden_fields(settings, topic, (field.name for field in schema.fields))
