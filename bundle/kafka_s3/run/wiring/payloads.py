"""Which decoder reads the payloads of a converter with a registry? By the schema language, with the options of that converter.

A language's packages are imported where it is used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.converters.converter import PayloadDecoder
from kafka_s3.connect.converters.registry_values import MakeDecoder
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema

GLUE_VERSION: Final = 1
"""The version that Glue's converter gives every Protobuf schema."""
PROTOBUF_FLAGS: Final = (
    "optional_for_nullables", "optional_for_proto2", "wrapper_for_nullables", "wrapper_for_raw_primitives", "generate_index_for_unions",
    "generate_struct_for_nulls", "int_for_enums", "flatten_unions", "enhanced_protobuf_schema_support",
)  # fmt: skip
"""The settings of Confluent's Protobuf converter."""


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
