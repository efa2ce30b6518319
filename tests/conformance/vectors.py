"""Records of the conformance vectors as the product's transforms see them, and back."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.connect.schemas.json_form import from_json, to_json
from kafka_s3.connect.transforms.record import ConnectRecord, Header, JavaDate


def record(document: dict[str, Any]) -> ConnectRecord:
    """A record of a vector."""
    key_schema, value_schema = (_schema(document[f"{part}_schema"]) for part in ("key", "value"))
    headers = []
    for one in document["headers"]:
        schema = _schema(one.get("schema"))
        headers.append(Header(one["key"], _value(one.get("value"), schema), schema))
    return ConnectRecord(
        document["topic"], document["partition"], document["offset"], document["timestamp"],
        _value(document["key"], key_schema), key_schema, _value(document["value"], value_schema), value_schema, tuple(headers),
    )  # fmt: skip


def document(found: ConnectRecord) -> dict[str, Any]:
    """A record in the form of the vectors."""
    return {
        "topic": found.topic, "partition": found.partition, "offset": found.offset, "timestamp": found.timestamp,
        "key": _written(found.key, found.key_schema), "key_schema": _schema_document(found.key_schema),
        "value": _written(found.value, found.value_schema), "value_schema": _schema_document(found.value_schema),
        "headers": [
            {"key": one.key, "value": _written(one.value, one.schema), "schema": _schema_document(one.schema)} for one in found.headers
        ],
    }  # fmt: skip


def _schema(written: Any) -> ConnectSchema | None:
    return None if written is None else read_schema(written)


def _value(value: Any, schema: ConnectSchema | None) -> Any:
    if value is None or schema is None:
        return value
    if schema.kind is SchemaType.STRUCT:
        return {field.name: _value(value.get(field.name), field.schema) for field in schema.fields}
    return from_json(value, schema)


def _written(value: Any, schema: ConnectSchema | None) -> Any:
    if value is None:
        return None
    if schema is not None and schema.kind is SchemaType.MAP and not (schema.keys and schema.values):
        return {name: _written(member, None) for name, member in value}
    if schema is not None and (schema.items or schema.kind is not SchemaType.ARRAY):
        return to_json(value, schema)
    if isinstance(value, JavaDate):
        return {"$timestamp_ms": int(value)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, dict):
        return {name: _written(member, None) for name, member in value.items()}
    return [_written(item, None) for item in value] if isinstance(value, list) else value


def _schema_document(schema: ConnectSchema | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    found: dict[str, Any] = {"type": str(schema.kind), "optional": schema.optional}
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            found[name] = getattr(schema, name)
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = json.loads(schema.default)
    if schema.kind is SchemaType.STRUCT:
        found["fields"] = [{"field": field.name, **(_schema_document(field.schema) or {})} for field in schema.fields]
    for name in ("items", "keys", "values"):
        if getattr(schema, name) is not None:
            found[name] = _schema_document(getattr(schema, name))
    return found
