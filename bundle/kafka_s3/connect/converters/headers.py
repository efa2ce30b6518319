"""How does the configured header converter read a header's bytes? To the text that is stored (SEMANTICS A8.5).

Connect's `Values` writes what a converter has read: text as it is, bytes in base64, numbers and booleans plainly, everything else as JSON.
The simple converter guesses types, the others know them. It reads text that looks like a number as the narrowest number, which loses what
that type does not keep (`1.50` becomes `1.5`, `7.0` becomes `7`); text in quotes loses them; everything else stays as it is.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np

from kafka_s3.connect.converters.json_values import parse_document
from kafka_s3.connect.converters.plain import NUMBERS
from kafka_s3.connect.java.numbers import double_text, float_text, narrow
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps

NUMBER: Final = re.compile(r"[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d{1,3})?")
QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
LONG: Final = 2**63
LONGEST_NUMBER: Final = 60
TEXT: Final = ConnectSchema(SchemaType.STRING)
HEADERS: Final = ConnectSchema(
    SchemaType.ARRAY,
    items=ConnectSchema(SchemaType.STRUCT, fields=(Field("key", TEXT), Field("value", TEXT))),
)
"""The schema of a record's headers: an array of name and text."""


def header_text(raw: bytes) -> str:
    """The text of one header value; malformed UTF-8 becomes replacement characters, as in Java."""
    text = raw.decode("utf-8", "replace")
    stripped = text.strip()
    if NUMBER.fullmatch(stripped) and len(stripped) <= LONGEST_NUMBER:
        return _number_text(Decimal(stripped))
    quoted = QUOTED.fullmatch(stripped)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text


def _number_text(value: Decimal) -> str:
    if -LONG <= value < LONG and value == value.to_integral_value():
        return str(int(value))
    if value.as_tuple().exponent == 0:
        return str(value)  # a whole number beyond 64 bits keeps its digits
    near = narrow(float(value))
    if math.isfinite(near):
        return float_text(near)
    wide = float(value)
    return double_text(wide) if math.isfinite(wide) else str(value)


HeaderReader: TypeAlias = Callable[[bytes], str | None]
"""The text of a header's bytes. Raises ValueError where they are none of the converter's."""


def header_row(headers: Sequence[Mapping[str, Any]] | None, read: HeaderReader) -> list[dict[str, str | None]]:
    """A record's headers by the schema `HEADERS`. Raises what `read` raises."""
    return [{"key": h["key"], "value": None if h["value"] is None else read(h["value"])} for h in headers or ()]


def header_reader(name: str, envelope: str = "payload") -> HeaderReader:
    """The reader of a header converter by our name; `envelope` is the member of JSON that holds the value, blank for plain JSON."""
    match name:
        case "string":
            return lambda raw: raw.decode("utf-8", "replace")
        case "bytes":
            return lambda raw: base64.b64encode(raw).decode()
        case "json":
            return lambda raw: _json_text(raw, envelope)
        case _ if name in NUMBERS:
            return lambda raw: _fixed_width_number(raw, name)
        case _:
            return header_text


def _json_text(raw: bytes, envelope: str) -> str | None:
    value, _ = parse_document(raw)
    if envelope and value is not None:
        if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
            raise ValueError('JSON with schemas.enable needs the members "schema" and "payload"')
        value = value[envelope]
    return value if value is None or isinstance(value, str) else dumps(value)


def _fixed_width_number(raw: bytes, name: str) -> str:
    kind, code, _ = NUMBERS[name]
    numbers: Any = np.dtype(code)
    if len(raw) != numbers.itemsize or (kind is SchemaType.BOOLEAN and raw[0] > 1):
        raise ValueError(f"{kind} takes {numbers.itemsize} byte(s)")
    value = np.frombuffer(raw, numbers)[0]
    return json.dumps(bool(value)) if kind is SchemaType.BOOLEAN else str(value)
