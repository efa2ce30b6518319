"""How do Connect values read from and written as JSON? By the rules of the JSON or the JSON Schema converter (SEMANTICS A8.1).

Python forms of Connect values: int, float, bool, str, bytes, `Decimal`; dict for struct, list for array, list of pairs for map;
Timestamp as epoch ms, Date as days since 1970, Time as ms of the day. A decimal is held as bytes by its unscaled integer, in big-endian
two's complement; all digits are kept.
"""

from __future__ import annotations

import base64
import json
import math
import re
import secrets
from collections.abc import Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum, auto
from typing import Any, Final

import numpy as np

from kafka_s3.connect.schemas.connect import (
    DECIMAL,
    ConnectSchema,
    Recursion,
    SchemaError,
    SchemaType,
    inner_schema,
    nested_schemas,
)
from kafka_s3.connect.schemas.expansion import Allowance, recursion_width, spend_items

BOUNDS = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}
MARK = secrets.token_hex(16)
"""Surrounds the digits of decimals, as `json` writes numbers of its own types only. It is random, so that no record's text holds it."""
DIGITS = re.compile(f'"{MARK}(-?[0-9]+(?:[.][0-9]+)?){MARK}"')
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)
ONE_OF: Final = "io.confluent.connect.json.OneOf"
LONGEST_DECIMAL: Final = 1000
"""Longer numbers of a JSON Schema are no decimals but an attack: 1E+999999999 would fill the memory."""


class JsonRules(Enum):
    """Whose rules JSON is read by."""

    CONNECT = auto()
    """The JSON converter's: a fraction is cut off where a whole number is expected, maps are objects or arrays of pairs."""
    JSON_SCHEMA = auto()
    """The JSON Schema converter's, but strict: what does not fit its type is an error, where the original takes 0, a wrapped number or
    null. Maps whose keys are no strings are arrays of `{"key": ..., "value": ...}`, and unions are structs of branches.
    """


def from_json(
    value: Any,
    schema: ConnectSchema,
    *,
    where: str = "value",
    allowance: Allowance | None = None,
    rules: JsonRules = JsonRules.CONNECT,
) -> Any:
    """The Connect value that a JSON payload means under a schema. Raises SchemaError with the place, and beyond its allowance."""
    if value is None:
        if schema.default is not None:
            return from_json(json.loads(schema.default), schema, where=where)
        if schema.optional:
            return None
        raise SchemaError(f"Invalid null value for required {schema.kind} field at {where}.")
    if schema.name == DECIMAL and (schema.kind is SchemaType.BYTES or rules is JsonRules.CONNECT):
        return _decimal(value, schema, where, rules=rules)
    match schema.kind:
        case SchemaType.STRUCT if schema.name == ONE_OF and rules is JsonRules.JSON_SCHEMA:
            return _one_of(value, schema, where, allowance)
        case SchemaType.STRUCT:
            members = _expect(value, dict, schema, where)
            if allowance is not None and isinstance(schema.fields, Recursion):
                allowance.spend(1, recursion_width(schema))
            return {
                f.name: from_json(
                    members.get(f.name), f.schema, where=f"{where}.{f.name}", allowance=allowance, rules=rules
                )
                for f in schema.fields
            }
        case SchemaType.ARRAY:
            items, inside, element = _expect(value, list, schema, where), f"{where}[]", inner_schema(schema.items)
            spend_items(allowance, items, schema)
            return [from_json(item, element, where=inside, allowance=allowance, rules=rules) for item in items]
        case SchemaType.MAP:
            return _map(value, schema, where, allowance, rules=rules)
        case SchemaType.BYTES:
            return _bytes(value, schema, where)
        case _:
            return _scalar(value, schema, where, rules=rules)


def default_value(schema: ConnectSchema) -> Any:
    """The default as a Connect value, a new one at each call; None where there is none.

    Raises SchemaError where it is not a value of the schema.
    """
    return None if schema.default is None else from_json(json.loads(schema.default), schema, where="the default")


def _map(
    value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None, *, rules: JsonRules
) -> list[tuple[Any, Any]]:
    keys, values = inner_schema(schema.keys), inner_schema(schema.values)
    pairs = _pairs(value, schema, where, rules=rules)
    spend_items(allowance, pairs, schema)
    return [
        (
            from_json(k, keys, where=f"{where}.key", allowance=allowance, rules=rules),
            from_json(
                v, values, where=f"{where}.{k}" if isinstance(k, str) else where, allowance=allowance, rules=rules
            ),
        )
        for k, v in pairs
    ]


def _pairs(value: Any, schema: ConnectSchema, where: str, *, rules: JsonRules) -> list[Any]:
    keys = inner_schema(schema.keys)
    if rules is JsonRules.CONNECT:
        pairs = list(value.items()) if isinstance(value, dict) else _expect(value, list, schema, where)
        if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in pairs):
            raise SchemaError(f"Invalid value for map at {where}: its members are not pairs of key and value.")
        return pairs
    if keys.kind is SchemaType.STRING and not keys.optional:
        return list(_expect(value, dict, schema, where).items())
    entries = _expect(value, list, schema, where)
    if any(not isinstance(entry, dict) or entry.keys() != {"key", "value"} for entry in entries):
        raise SchemaError(f'Invalid map at {where}: its entries are not all objects of "key" and "value".')
    return [(entry["key"], entry["value"]) for entry in entries]


def _one_of(value: Any, schema: ConnectSchema, where: str, allowance: Allowance | None) -> dict[str, Any]:
    reason = ""
    if allowance is not None and isinstance(schema.fields, Recursion):
        allowance.spend(1, recursion_width(schema))
    for name, branch in _branches(value, schema):
        try:
            chosen = from_json(value, branch, where=where, allowance=allowance, rules=JsonRules.JSON_SCHEMA)
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


def _bytes(value: Any, schema: ConnectSchema, where: str) -> bytes:
    try:
        return base64.b64decode(_expect(value, str, schema, where), validate=True)
    except ValueError as error:
        raise SchemaError(f"Invalid bytes field at {where}: {error}.") from None


def _decimal(value: Any, schema: ConnectSchema, where: str, *, rules: JsonRules) -> Decimal:
    scale, short = scale_of(schema), rules is JsonRules.JSON_SCHEMA
    if isinstance(value, str):
        raw = _bytes(value, schema, where)
        if short and len(raw) > LONGEST_DECIMAL:
            raise SchemaError(f"Invalid Decimal at {where}: it has more than {LONGEST_DECIMAL} bytes.")
        return decimal_from(raw, scale)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise SchemaError(f"Invalid type for Decimal at {where}: {_shown(value)}; it takes a number or base64 text.")
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale:
        raise SchemaError(f"Invalid Decimal at {where}: {_shown(value)} has more digits than the scale {scale}.")
    if short and number.adjusted() > LONGEST_DECIMAL:
        raise SchemaError(f"Invalid Decimal at {where}: it has more than {LONGEST_DECIMAL} digits.")
    return number


def _scalar(value: Any, schema: ConnectSchema, where: str, *, rules: JsonRules) -> Any:
    kind, strict = schema.kind, rules is JsonRules.JSON_SCHEMA
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        if (
            kind in BOUNDS
            and -(2 ** BOUNDS[kind]) <= value < 2 ** BOUNDS[kind]
            and not (strict and value != int(value))
        ):
            return int(value)
        if kind in FLOATS and (not strict or _is_finite(value)):
            return float(value)
    if isinstance(value, {SchemaType.BOOLEAN: bool, SchemaType.STRING: str}.get(kind, ())):
        return value
    raise SchemaError(f"Invalid value for {kind} at {where}: {_shown(value)}.")


def _is_finite(value: int | float | Decimal) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _expect(value: Any, kind: type, schema: ConnectSchema, where: str) -> Any:
    if not isinstance(value, kind):
        raise SchemaError(f"Invalid value for {schema.kind} at {where}: {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """The start of a value, for people."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    return (json.dumps(value) if isinstance(value, (str, bool)) else str(value))[:60]


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
            element = inner_schema(schema.items)
            return [to_json(item, element, decimals=decimals) for item in value]
        case SchemaType.MAP:
            keys, values = inner_schema(schema.keys), inner_schema(schema.values)
            pairs = [(to_json(k, keys, decimals=decimals), to_json(v, values, decimals=decimals)) for k, v in value]
            return dict(pairs) if keys.kind is SchemaType.STRING else [list(pair) for pair in pairs]
        case SchemaType.BYTES:
            return base64.b64encode(value).decode()
        case SchemaType.FLOAT32:
            with np.errstate(over="ignore"):  # beyond a float is infinite, as in Java
                shortest = str(np.float32(value))  # the text that means this number, as Java writes it
            return _number(float(shortest))
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


def has_decimal(schema: ConnectSchema) -> bool:
    """Whether a schema is a decimal or holds one, so that numbers need all their digits."""
    return any(inner.name == DECIMAL for inner in nested_schemas(schema))


def scale_of(schema: ConnectSchema) -> int:
    """The scale of a Decimal schema."""
    try:
        scale = int(dict(schema.parameters)["scale"])
    except (KeyError, ValueError):
        raise SchemaError("A Decimal schema needs the parameter scale, a whole number.") from None
    if not -(2**31) <= scale < 2**31:
        raise SchemaError(f"A Decimal schema has the scale {scale}, which is not a Java int.")
    return scale


# The default context would round to 28 digits.
EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
MOST_DIGITS: Final = 10_000


def decimal_from(raw: bytes, scale: int) -> Decimal:
    """The number that the bytes hold at a scale. Raises SchemaError beyond 10,000 digits."""
    if len(raw) > MOST_DIGITS // 3:
        raise SchemaError(f"A decimal has {len(raw)} bytes; the most that are read are {MOST_DIGITS // 3}.")
    return EXACT.scaleb(Decimal(int.from_bytes(raw, "big", signed=True)), -scale)


def unscaled_bytes(value: Any, scale: int) -> bytes:
    """The shortest bytes that hold a number at a scale. Raises SchemaError where digits would be lost, or where it is not a decimal:
    a schema may have that name and another type.
    """
    if not isinstance(value, Decimal):
        raise SchemaError(
            f"{str(value)[:60]} is not a decimal, as its schema is called, but of type {type(value).__name__}."
        )
    if not value.is_finite() or value.adjusted() + scale > MOST_DIGITS:
        raise SchemaError(f"{str(value)[:60]} cannot be written as a decimal: it is not finite or too large.")
    scaled = EXACT.scaleb(value, scale)
    number = int(scaled)
    if number != scaled:
        raise SchemaError(f"{str(value)[:60]} has more digits after the point than the scale {scale} of its schema.")
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
