"""Which Connect value does a JSON payload mean under the Connect form of a JSON Schema? The rules of Confluent's converter, but strict:
what does not fit its type is an error, where the original takes 0, a wrapped number or null.

Unlike in `json_form`, maps whose keys are no strings are arrays of `{"key": ..., "value": ...}`, and unions are structs of branches.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.expansion import Allowance, spend_items
from kafka_s3.connect.schemas.json_form import BOUNDS, FLOATS, from_json, scale_of

ONE_OF: Final = "io.confluent.connect.json.OneOf"
MOST_DIGITS: Final = 1000
"""Longer numbers are no decimals but an attack: 1E+999999999 would fill the memory."""


def to_connect(value: Any, schema: ConnectSchema, *, where: str = "value", allowance: Allowance | None = None) -> Any:
    """The Connect value of parsed JSON. Raises SchemaError with the place where it does not fit, and beyond its allowance."""
    if value is None:
        if schema.default is not None:
            return from_json(json.loads(schema.default), schema, where=where)
        if schema.optional:
            return None
        raise SchemaError(f"Invalid null value for required {schema.kind} field at {where}.")
    if schema.name == DECIMAL and schema.kind is SchemaType.BYTES:
        return _decimal(value, schema, where)
    match schema.kind:
        case SchemaType.STRUCT if schema.name == ONE_OF:
            return _one_of(value, schema, where, allowance)
        case SchemaType.STRUCT:
            members = _expect(value, dict, schema, where)
            return {
                f.name: to_connect(members.get(f.name), f.schema, where=f"{where}.{f.name}", allowance=allowance)
                for f in schema.fields
            }
        case SchemaType.ARRAY:
            assert schema.items is not None
            items, inside = _expect(value, list, schema, where), f"{where}[]"
            spend_items(allowance, items, schema)
            return [to_connect(item, schema.items, where=inside, allowance=allowance) for item in items]
        case SchemaType.MAP:
            return _map(value, schema, where, allowance)
        case SchemaType.BYTES:
            return _bytes(value, schema, where)
        case _:
            return _scalar(value, schema, where)


def has_decimal(schema: ConnectSchema) -> bool:
    """Whether numbers must be parsed with all their digits."""
    inner = [field.schema for field in schema.fields] + [s for s in (schema.items, schema.keys, schema.values) if s]
    return schema.name == DECIMAL or any(map(has_decimal, inner))


def _one_of(value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None) -> dict[str, Any]:
    reason = ""
    for name, branch in _branches(value, schema):
        try:
            chosen = to_connect(value, branch, where=where, allowance=allowance)
        except SchemaError as error:
            reason = reason or f" The nearest: {error}"
        else:
            return {field.name: chosen if field.name == name else None for field in schema.fields}
    raise SchemaError(f"Did not find matching oneof field for data at {where}: {_shown(value)}.{reason}")


def _branches(value: Any, schema: ConnectSchema) -> Iterator[tuple[str, ConnectSchema]]:
    """The branches that may take a value, best first: those of its type, then structs by how many of its members they know."""
    structs = [field for field in schema.fields if field.schema.kind is SchemaType.STRUCT]
    plain = [field for field in schema.fields if field.schema.kind is not SchemaType.STRUCT]
    # any text may look like base64: so it is bytes only where nothing else takes it
    for field in sorted(plain, key=lambda f: f.schema.kind is SchemaType.BYTES and isinstance(value, str)):
        yield field.name, field.schema
    known = value.keys() if isinstance(value, dict) else set()
    for field in sorted(structs, key=lambda f: -sum(member.name in known for member in f.schema.fields)):
        yield field.name, field.schema


def _map(value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None) -> list[tuple[Any, Any]]:
    assert schema.keys is not None
    assert schema.values is not None
    keys, values = schema.keys, schema.values
    if keys.kind is SchemaType.STRING and not keys.optional:
        members = _expect(value, dict, schema, where)
        spend_items(allowance, members, schema)
        return [
            (key, to_connect(member, values, where=f"{where}.{key}", allowance=allowance))
            for key, member in members.items()
        ]
    entries = _expect(value, list, schema, where)
    if any(not isinstance(entry, dict) or entry.keys() != {"key", "value"} for entry in entries):
        raise SchemaError(f'Invalid map at {where}: its entries are not all objects of "key" and "value".')
    spend_items(allowance, entries, schema)
    return [
        (
            to_connect(e["key"], keys, where=f"{where}.key", allowance=allowance),
            to_connect(e["value"], values, where=where, allowance=allowance),
        )
        for e in entries
    ]


def _bytes(value: Any, schema: ConnectSchema, where: str) -> bytes:
    try:
        return base64.b64decode(_expect(value, str, schema, where), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SchemaError(f"Invalid bytes field at {where}: {error}.") from None


def _decimal(value: Any, schema: ConnectSchema, where: str) -> Decimal:
    scale = scale_of(schema)
    if isinstance(value, str):
        raw = _bytes(value, schema, where)
        if len(raw) > MOST_DIGITS:
            raise SchemaError(f"Invalid Decimal at {where}: it has more than {MOST_DIGITS} bytes.")
        unscaled = int.from_bytes(raw, "big", signed=True)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise SchemaError(f"Invalid type for Decimal at {where}: {_shown(value)}; it takes a number or base64 text.")
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale:
        raise SchemaError(f"Invalid Decimal at {where}: {_shown(value)} has more digits than the scale {scale}.")
    if number.adjusted() > MOST_DIGITS:
        raise SchemaError(f"Invalid Decimal at {where}: it has more than {MOST_DIGITS} digits.")
    return number


def _scalar(value: Any, schema: ConnectSchema, where: str) -> Any:
    kind = schema.kind
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if kind in BOUNDS and number and -(2 ** BOUNDS[kind]) <= value < 2 ** BOUNDS[kind] and value == int(value):
        return int(value)
    if kind in FLOATS and number and math.isfinite(found := _float(value)):
        return found
    if (kind is SchemaType.BOOLEAN and isinstance(value, bool)) or (
        kind is SchemaType.STRING and isinstance(value, str)
    ):
        return value
    raise SchemaError(f"Invalid value for {kind} at {where}: {_shown(value)}.")


def _float(value: int | float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _expect(value: Any, kind: type, schema: ConnectSchema, where: str) -> Any:
    if not isinstance(value, kind):
        raise SchemaError(f"Invalid value for {schema.kind} at {where}: {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """The start of a value, for people."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    return (json.dumps(value) if isinstance(value, (str, bool)) else str(value))[:60]
