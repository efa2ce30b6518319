"""How are records written as JSON lines? One document per line, a newline after every record, UTF-8, gzip if asked (SEMANTICS A8.1)."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.joining import joined
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Objects, Plain, Values
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.connect.schemas.json_form import dumps, has_decimal, to_json
from kafka_s3.model.deflate import Bytes
from kafka_s3.objects.format import Format
from kafka_s3.objects.text_stream import WAITING_FOR_GZIP, TextStream

RARE_ESCAPES = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def json_format(*, gzip_level: int | None, decimals: str) -> Format:
    """JSON lines; `gzip_level` is -1 to 9 or None for plain text, `decimals` BASE64 or NUMERIC."""
    opened, plain = partial(JsonLines, gzip_level=gzip_level, decimals=decimals), gzip_level is None
    extension, lines = (".json", 1) if plain else (".json.gz", WAITING_FOR_GZIP)
    return Format("json", extension, opened, partial(_fit, decimals), copies=True, lines=lines)


def _fit(decimals: str, run: Run) -> Values | str:
    """JSON lines hold any value, but for a decimal that has more digits than its schema's scale: Protobuf's name a scale of their own.

    Of documents there will be nothing but their lines.
    """
    values = run.values
    if isinstance(values, JsonText):
        return replace(values, lines=True)
    if decimals != "NUMERIC" and run.schema is not None and isinstance(values, Objects) and has_decimal(run.schema):
        try:
            for item in values.objects():
                to_json(item, run.schema)
        except SchemaError as error:
            return f"JSON cannot hold the value: {error}"
    return values


class JsonLines(TextStream):
    """An open file of JSON lines."""

    __slots__ = ("_decimals", "_schema")

    def __init__(self, schema: ConnectSchema | None, *, gzip_level: int | None, decimals: str) -> None:
        super().__init__(gzip_level)
        self._schema = schema
        self._decimals = decimals

    def append(self, values: Values) -> None:
        """Adds one line per value."""
        self.write(self._lines(values))

    def _lines(self, values: Values) -> Bytes:
        if isinstance(values, JsonText):
            return joined(values.texts, b"\n")
        if isinstance(values, Plain) and (
            pa.types.is_string(values.array.type) or pa.types.is_binary(values.array.type)
        ):
            return joined(_quoted(values.array), b"\n")
        schema, decimals = self._schema, self._decimals
        if schema is None:
            return "".join(dumps(item) + "\n" for item in values.objects()).encode()
        return "".join(dumps(to_json(item, schema, decimals=decimals)) + "\n" for item in values.objects()).encode()


def _quoted(array: pa.Array) -> pa.Array:
    """Strings as JSON strings, bytes as base64 text in JSON strings."""
    if not pa.types.is_string(array.type):
        texts = [base64.b64encode(raw).decode() for raw in array.to_pylist()]
        array = pa.array(texts, pa.string())
    if pc.any(pc.match_substring_regex(array, RARE_ESCAPES)).as_py():
        return pa.array([dumps(text) for text in array.to_pylist()], pa.string())
    for plain, escaped in ESCAPES:
        if pc.any(pc.match_substring(array, plain)).as_py():
            array = pc.replace_substring(array, plain, escaped)
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, array, quote, pa.scalar(""))
