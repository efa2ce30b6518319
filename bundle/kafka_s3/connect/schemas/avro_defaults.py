"""How do defaults pass between Avro's JSON and Connect's? A default that does not fit its type is left out, as the original does."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_s3.connect.schemas.avro_types import UNION, AvroType, nullable
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, Field, SchemaError, SchemaType
from kafka_s3.connect.schemas.decimals import decimal_at, unscaled_bytes
from kafka_s3.connect.schemas.json_form import from_json, scale_of, to_json


def part(schema: ConnectSchema | None) -> ConnectSchema:
    """The items of an array schema, or the keys or values of a map schema, which are always there."""
    assert schema is not None
    return schema


def connect_default(default: Any, avro: AvroType, schema: ConnectSchema) -> str | None:
    """The text of a schema's default from Avro's JSON form of it; None for null and for what does not fit."""
    if default is None:
        return None
    try:
        return json.dumps(to_json(_value(default, avro, schema), schema))
    except (SchemaError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None


def null_default(schema: ConnectSchema) -> Callable[[], Any] | None:
    """What stands for null in a field of the schema: a function that makes the default, None where there is none."""
    if schema.default is None:
        return None
    return partial(from_json, json.loads(schema.default), schema, where="the default")


def avro_default(schema: ConnectSchema) -> Any:
    """Avro's JSON form of a schema's default, None where there is none. Raises SchemaError for a default that does not fit."""
    default = null_default(schema)
    return None if default is None else _avro_json(default(), schema)


def fits(default: Any, avro: AvroType) -> bool:
    """Whether Avro takes the JSON value as the default of a field of the type; of a union, the first branch decides."""
    match avro.kind:
        case "null":
            return default is None
        case "boolean":
            return isinstance(default, bool)
        case "int" | "long":
            return isinstance(default, int) and not isinstance(default, bool)
        case "float" | "double":
            return isinstance(default, (int, float)) and not isinstance(default, bool)
        case "array":
            return isinstance(default, list) and all(fits(item, avro.element()) for item in default)
        case "map":
            return isinstance(default, dict) and all(fits(item, avro.element()) for item in default.values())
        case "union":
            return bool(avro.branches) and fits(default, avro.branches[0])
        case "record":
            members = default if isinstance(default, dict) else None
            return members is not None and all(
                fits(members.get(field.name, field.props.get("default")), field.type) for field in avro.fields
            )
        case _:
            return isinstance(default, str)


def _value(default: Any, avro: AvroType, schema: ConnectSchema) -> Any:
    if default is None:
        if schema.optional:
            return None
        raise SchemaError("A null default does not fit a required schema.")
    wrapped = nullable(avro)
    if wrapped is not None:
        return _value(default, wrapped, schema)
    if avro.kind in ("bytes", "fixed"):
        raw = default.encode("latin-1")
        return decimal_at(raw, scale_of(schema)) if schema.name == DECIMAL else raw
    match schema.kind:
        case SchemaType.STRUCT if avro.kind == "union":
            filled = next(branch for branch in avro.branches if branch.kind != "null")
            first = schema.fields[0]
            return dict.fromkeys(field.name for field in schema.fields) | {
                first.name: _value(default, filled, first.schema)
            }
        case SchemaType.STRUCT:
            members = zip(schema.fields, avro.fields, strict=True)
            return {field.name: _member(default, field, member.type) for field, member in members}
        case SchemaType.ARRAY:
            return [_value(item, avro.element(), part(schema.items)) for item in default]
        case SchemaType.MAP:
            return _pairs(default, avro.element(), schema)
        case _:
            return from_json(default, schema)


def _member(default: Any, field: Field, avro: AvroType) -> Any:
    if field.name not in default and field.schema.default is not None:
        return from_json(json.loads(field.schema.default), field.schema)
    return _value(default.get(field.name), avro, field.schema)


def _pairs(default: Any, element: AvroType, schema: ConnectSchema) -> list[tuple[Any, Any]]:
    keys, values = part(schema.keys), part(schema.values)
    if isinstance(default, dict):
        return [(key, _value(value, element, values)) for key, value in default.items()]
    types = {member.name: member.type for member in element.fields}
    entries = [(item["key"], item["value"]) if isinstance(item, dict) else item for item in default]
    return [(_value(key, types["key"], keys), _value(value, types["value"], values)) for key, value in entries]


def _avro_json(value: Any, schema: ConnectSchema) -> Any:
    if value is None:
        return None
    if schema.name == DECIMAL:
        return unscaled_bytes(value, scale_of(schema)).decode("latin-1")
    match schema.kind:
        case SchemaType.BYTES:
            return value.decode("latin-1")
        case SchemaType.ARRAY:
            return [_avro_json(item, part(schema.items)) for item in value]
        case SchemaType.MAP:
            keys, values = part(schema.keys), part(schema.values)
            pairs = [[_avro_json(key, keys), _avro_json(item, values)] for key, item in value]
            return dict(pairs) if keys.kind is SchemaType.STRING and not keys.optional else pairs
        case SchemaType.STRUCT:
            members = {field.name: _avro_json(value.get(field.name), field.schema) for field in schema.fields}
            return next(iter(members.values()), None) if schema.name == UNION else members
        case _:
            return value
