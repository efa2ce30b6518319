"""How do Connect values read from and written as JSON? By the rules of the JSON or the JSON Schema converter (SEMANTICS A8.1).

Python forms of Connect values: int, float, bool, str, bytes, `Decimal`; dict for struct, list for array, list of pairs for map;
Timestamp as epoch ms, Date as days since 1970, Time as ms of the day. A decimal is held as bytes by its unscaled integer, in big-endian
two's complement; all digits are kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import secrets
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import partial
from typing import Any, Final

import numpy as np

from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.expansion import Allowance, spend_items

# The default context would round to 28 digits.
EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
MOST_DIGITS: Final = 10_000


def decimal_at(raw: bytes, scale: int) -> Decimal:
    """The number that the bytes hold at a scale. Raises SchemaError beyond 10,000 digits."""
    if len(raw) > MOST_DIGITS // 3:
        raise SchemaError(f"A decimal has {len(raw)} bytes; the most that are read are {MOST_DIGITS // 3}.")
    return EXACT.scaleb(Decimal(int.from_bytes(raw, "big", signed=True)), -scale)


def unscaled_bytes(value: Any, scale: int) -> bytes:
    """The shortest bytes that hold a number at a scale. Raises SchemaError where digits would be lost, or where it is no decimal:
    a schema may have that name and another type.
    """
    if not isinstance(value, Decimal):
        raise SchemaError(
            f"{str(value)[:60]} is no decimal, as its schema is called, but of type {type(value).__name__}."
        )
    if not value.is_finite() or value.adjusted() + scale > MOST_DIGITS:
        raise SchemaError(f"{str(value)[:60]} cannot be written as a decimal: it is not finite or too large.")
    scaled = EXACT.scaleb(value, scale)
    number = int(scaled)
    if number != scaled:
        raise SchemaError(f"{str(value)[:60]} has more digits after the point than the scale {scale} of its schema.")
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


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


def null_default(schema: ConnectSchema) -> Callable[[], Any] | None:
    """What stands for null in a field of the schema: a function that makes the default, None where there is none."""
    if schema.default is None:
        return None
    return partial(from_json, json.loads(schema.default), schema, where="the default")


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


ONE_OF: Final = "io.confluent.connect.json.OneOf"
LONGEST_DECIMAL: Final = 1000
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
        return _strict_decimal(value, schema, where)
    match schema.kind:
        case SchemaType.STRUCT if schema.name == ONE_OF:
            return _one_of(value, schema, where, allowance)
        case SchemaType.STRUCT:
            members = _strict_expect(value, dict, schema, where)
            return {
                f.name: to_connect(members.get(f.name), f.schema, where=f"{where}.{f.name}", allowance=allowance)
                for f in schema.fields
            }
        case SchemaType.ARRAY:
            assert schema.items is not None
            items, inside = _strict_expect(value, list, schema, where), f"{where}[]"
            spend_items(allowance, items, schema)
            return [to_connect(item, schema.items, where=inside, allowance=allowance) for item in items]
        case SchemaType.MAP:
            return _strict_map(value, schema, where, allowance)
        case SchemaType.BYTES:
            return _strict_bytes(value, schema, where)
        case _:
            return _strict_scalar(value, schema, where)


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


def _strict_map(value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None) -> list[tuple[Any, Any]]:
    assert schema.keys is not None
    assert schema.values is not None
    keys, values = schema.keys, schema.values
    if keys.kind is SchemaType.STRING and not keys.optional:
        members = _strict_expect(value, dict, schema, where)
        spend_items(allowance, members, schema)
        return [
            (key, to_connect(member, values, where=f"{where}.{key}", allowance=allowance))
            for key, member in members.items()
        ]
    entries = _strict_expect(value, list, schema, where)
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


def _strict_bytes(value: Any, schema: ConnectSchema, where: str) -> bytes:
    try:
        return base64.b64decode(_strict_expect(value, str, schema, where), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SchemaError(f"Invalid bytes field at {where}: {error}.") from None


def _strict_decimal(value: Any, schema: ConnectSchema, where: str) -> Decimal:
    scale = scale_of(schema)
    if isinstance(value, str):
        raw = _strict_bytes(value, schema, where)
        if len(raw) > LONGEST_DECIMAL:
            raise SchemaError(f"Invalid Decimal at {where}: it has more than {LONGEST_DECIMAL} bytes.")
        unscaled = int.from_bytes(raw, "big", signed=True)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise SchemaError(f"Invalid type for Decimal at {where}: {_shown(value)}; it takes a number or base64 text.")
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale:
        raise SchemaError(f"Invalid Decimal at {where}: {_shown(value)} has more digits than the scale {scale}.")
    if number.adjusted() > LONGEST_DECIMAL:
        raise SchemaError(f"Invalid Decimal at {where}: it has more than {LONGEST_DECIMAL} digits.")
    return number


def _strict_scalar(value: Any, schema: ConnectSchema, where: str) -> Any:
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


def _strict_expect(value: Any, kind: type, schema: ConnectSchema, where: str) -> Any:
    if not isinstance(value, kind):
        raise SchemaError(f"Invalid value for {schema.kind} at {where}: {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """The start of a value, for people."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    return (json.dumps(value) if isinstance(value, (str, bool)) else str(value))[:60]
