"""How do Connect values read from and written as JSON? The JSON converter's rules in, the JSON format's rules out (SEMANTICS A8.1).

Python forms of Connect values: int, float, bool, str, bytes, `Decimal`; dict for struct, list for array, list of pairs for map;
Timestamp as epoch ms, Date as days since 1970, Time as ms of the day.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import secrets
from decimal import Decimal
from typing import Any

import numpy as np

from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.decimals import decimal_at, unscaled_bytes
from kafka_s3.connect.schemas.expansion import Allowance, spend_items

BOUNDS = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}
MARK = secrets.token_hex(16)
"""Stands around the digits of decimals, as `json` writes numbers of its own types only. It is random, so that no record's text holds it."""
DIGITS = re.compile(f'"{MARK}(-?[0-9]+(?:[.][0-9]+)?){MARK}"')
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)


def from_json(value: Any, schema: ConnectSchema, *, where: str = "value", allowance: Allowance | None = None) -> Any:
    """The Connect value that a JSON payload means under a schema. Raises SchemaError with the place, and beyond its allowance."""
    if value is None:
        if schema.default is not None:
            return from_json(json.loads(schema.default), schema, where=where)
        if schema.optional:
            return None
        raise SchemaError(f"Invalid null value for required {schema.kind} field at {where}.")
    if schema.name == DECIMAL:
        return _decimal(value, schema, where)
    match schema.kind:
        case SchemaType.STRUCT:
            members = _expect(value, dict, schema, where)
            return {
                f.name: from_json(members.get(f.name), f.schema, where=f"{where}.{f.name}", allowance=allowance)
                for f in schema.fields
            }
        case SchemaType.ARRAY:
            assert schema.items is not None
            items, inside = _expect(value, list, schema, where), f"{where}[]"
            spend_items(allowance, items, schema)
            return [from_json(item, schema.items, where=inside, allowance=allowance) for item in items]
        case SchemaType.MAP:
            return _map(value, schema, where, allowance)
        case SchemaType.BYTES:
            return _bytes(value, schema, where)
        case _:
            return _scalar(value, schema, where)


def to_json(value: Any, schema: ConnectSchema, *, decimals: str = "BASE64") -> Any:
    """The JSON form of a Connect value; `decimals` is BASE64 or NUMERIC (`json.decimal.format`)."""
    if value is None:
        return None
    if schema.name == DECIMAL:
        return value if decimals == "NUMERIC" else base64.b64encode(unscaled_bytes(value, scale_of(schema))).decode()
    match schema.kind:
        case SchemaType.STRUCT:
            return {
                field.name: to_json(value.get(field.name), field.schema, decimals=decimals) for field in schema.fields
            }
        case SchemaType.ARRAY:
            assert schema.items is not None
            return [to_json(item, schema.items, decimals=decimals) for item in value]
        case SchemaType.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            keys, values = schema.keys, schema.values
            pairs = [(to_json(k, keys, decimals=decimals), to_json(v, values, decimals=decimals)) for k, v in value]
            return dict(pairs) if keys.kind is SchemaType.STRING else [list(pair) for pair in pairs]
        case SchemaType.BYTES:
            return base64.b64encode(value).decode()
        case SchemaType.FLOAT32:
            with np.errstate(over="ignore"):  # beyond a float is infinite, as in Java
                return _number(
                    float(str(np.float32(value)))
                )  # the shortest text that means this number, as Java writes it
        case SchemaType.FLOAT64:
            return _number(value)
        case _:
            return value


def _number(value: float) -> float | str:
    """The number, or its name in quotes as JSON has none for it."""
    return value if math.isfinite(value) else NOT_FINITE[str(float(value))]


def dumps(value: Any) -> str:
    """Compact JSON text on one line, decimals with all their digits."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_digits)
    if not encodable(text):
        text = json.dumps(value, separators=(",", ":"), default=_digits)
    return DIGITS.sub(r"\1", text) if MARK in text else text


def encodable(text: str) -> bool:
    """Whether a text can be bytes: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _digits(value: Any) -> str:
    return f"{MARK}{value:f}{MARK}"


def scale_of(schema: ConnectSchema) -> int:
    """The scale of a Decimal schema."""
    try:
        scale = int(dict(schema.parameters)["scale"])
    except (KeyError, ValueError):
        raise SchemaError("A Decimal schema needs the parameter scale, a whole number.") from None
    if not -(2**31) <= scale < 2**31:
        raise SchemaError(f"A Decimal schema has the scale {scale}, which is no Java int.")
    return scale


def _decimal(value: Any, schema: ConnectSchema, where: str) -> Decimal:
    if isinstance(value, str):
        raw = _bytes(value, schema, where)
        return decimal_at(raw, scale_of(schema))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaError(f"Invalid type for Decimal at {where}: {type(value).__name__}.")
    number = Decimal(str(value))
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale_of(schema):
        raise SchemaError(f"Invalid Decimal at {where}: {value} has more digits than the scale {scale_of(schema)}.")
    return number


def _map(value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None) -> list[tuple[Any, Any]]:
    assert schema.keys is not None
    assert schema.values is not None
    pairs = list(value.items()) if isinstance(value, dict) else _expect(value, list, schema, where)
    if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in pairs):
        raise SchemaError(f"Invalid value for map at {where}: its members are not pairs of key and value.")
    spend_items(allowance, pairs, schema)
    return [
        (
            from_json(k, schema.keys, where=f"{where}.key", allowance=allowance),
            from_json(v, schema.values, where=where, allowance=allowance),
        )
        for k, v in pairs
    ]


def _bytes(value: Any, schema: ConnectSchema, where: str) -> bytes:
    try:
        return base64.b64decode(_expect(value, str, schema, where), validate=True)
    except binascii.Error as error:
        raise SchemaError(f"Invalid bytes field at {where}: {error}.") from None


def _scalar(value: Any, schema: ConnectSchema, where: str) -> Any:
    kind = schema.kind
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in BOUNDS and number and -(2 ** BOUNDS[kind]) <= value < 2 ** BOUNDS[kind]:
        return int(value)
    if kind in FLOATS and number:
        return float(value)
    if (kind is SchemaType.BOOLEAN and isinstance(value, bool)) or (
        kind is SchemaType.STRING and isinstance(value, str)
    ):
        return value
    raise SchemaError(f"Invalid value for {kind} at {where}: {json.dumps(value)[:60]}.")


def _expect(value: Any, kind: type, schema: ConnectSchema, where: str) -> Any:
    if not isinstance(value, kind):
        raise SchemaError(f"Invalid value for {schema.kind} at {where}: {json.dumps(value)[:60]}.")
    return value
