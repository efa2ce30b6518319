"""How does the configured header converter read a header's bytes? To the text that is stored (SEMANTICS A8.5).

The simple converter guesses types, the others know them; Connect's `Values` then writes text as it is, bytes in base64, numbers and
booleans plainly, everything else as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from kafka_s3.connect.converters.header_text import header_text
from kafka_s3.connect.converters.json_documents import parse_document
from kafka_s3.connect.converters.plain import NUMBERS
from kafka_s3.connect.schemas.connect import SchemaType
from kafka_s3.connect.schemas.json_form import dumps

HeaderReader: TypeAlias = Callable[[bytes], str | None]
"""The text of a header's bytes. Raises ValueError where they are none of the converter's."""


def header_reader(name: str, envelope: str = "payload") -> HeaderReader:
    """The reader of a header converter by our name; `envelope` is the member of JSON that holds the value, blank for plain JSON."""
    match name:
        case "string":
            return lambda raw: raw.decode("utf-8", "replace")
        case "bytes":
            return lambda raw: base64.b64encode(raw).decode()
        case "json":
            return lambda raw: _json(raw, envelope)
        case _ if name in NUMBERS:
            return lambda raw: _number(raw, name)
        case _:
            return header_text


def _json(raw: bytes, envelope: str) -> str | None:
    value, _ = parse_document(raw)
    if envelope and value is not None:
        if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
            raise ValueError('JSON with schemas.enable needs the members "schema" and "payload"')
        value = value[envelope]
    return value if value is None or isinstance(value, str) else dumps(value)


def _number(raw: bytes, name: str) -> str:
    kind, code, _ = NUMBERS[name]
    numbers: Any = np.dtype(code)
    if len(raw) != numbers.itemsize or (kind is SchemaType.BOOLEAN and raw[0] > 1):
        raise ValueError(f"{kind} takes {numbers.itemsize} byte(s)")
    value = np.frombuffer(raw, numbers)[0]
    return json.dumps(bool(value)) if kind is SchemaType.BOOLEAN else str(value)
