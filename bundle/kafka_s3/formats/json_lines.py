"""How are records written as JSON lines? One document per line, a newline after every record, UTF-8, gzip if asked (SEMANTICS A8.1)."""

from __future__ import annotations

import base64
import zlib
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.formats.format import Format, FormatError
from kafka_s3.records import JsonText, Objects, Plain, Run, Values
from kafka_s3.schemas.connect import ConnectSchema
from kafka_s3.schemas.json_form import dumps, to_json

GZIP_FRAME = 31
NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
COMPRESS_EVERY = 1 << 16


def json_format(*, compression: str, level: int, decimals: str) -> Format:
    """JSON lines; `compression` is `none` or `gzip`, `level` -1 to 9, `decimals` BASE64 or NUMERIC."""
    gzip_level = level if compression == "gzip" else None
    opened = partial(JsonLines, gzip_level=gzip_level, decimals=decimals)
    return Format("json", ".json.gz" if compression == "gzip" else ".json", opened, _takes_all)


def _takes_all(run: Run) -> None:
    """JSON lines hold any value."""


class JsonLines:
    """An open file of JSON lines."""

    def __init__(self, schema: ConnectSchema | None, *, gzip_level: int | None, decimals: str) -> None:
        self._schema = schema
        self._decimals = decimals
        self._gzip = None if gzip_level is None else zlib.compressobj(gzip_level, zlib.DEFLATED, GZIP_FRAME)
        self._plain = bytearray()
        self._encoded = bytearray()
        self._taken = 0
        self._held = 0
        self._size = 0

    def append(self, values: Values) -> None:
        """Adds one line per value."""
        self._plain += self._lines(values)
        if self._gzip is None or len(self._plain) >= COMPRESS_EVERY:
            self.compact()

    def size(self) -> int:
        """Encoded bytes, and a quarter of the text that waits for gzip or is held back in it; never less than said before."""
        waiting = (len(self._plain) + self._held) // 4
        self._size = max(self._size, self._taken + len(self._encoded) + waiting)
        return self._size

    def pending(self) -> int:
        """Bytes of text that wait for gzip."""
        return len(self._plain)

    def compact(self) -> None:
        """Feeds the waiting text to gzip."""
        if self._gzip is None:
            self._encoded += self._plain
        else:
            compressed = self._gzip.compress(self._plain)
            self._held = 0 if compressed else self._held + len(self._plain)
            self._encoded += compressed
        self._plain = bytearray()

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        taken = bytes(self._encoded)
        self._taken += len(taken)
        self._encoded = bytearray()
        return taken

    def finish(self) -> None:
        """Ends the gzip member."""
        self.compact()
        if self._gzip is not None:
            self._encoded += self._gzip.flush()
        self._held = self._size = 0  # nothing is estimated any more

    def _lines(self, values: Values) -> bytes:
        if isinstance(values, JsonText):
            return _joined(values.texts)
        if isinstance(values, Plain):
            return _joined(_quoted(values.array))
        if isinstance(values, Objects) and self._schema is not None:
            schema, decimals = self._schema, self._decimals
            return "".join(dumps(to_json(item, schema, decimals=decimals)) + "\n" for item in values.items).encode()
        raise FormatError(f"JSON files cannot hold {type(values).__name__}.")


def _joined(texts: pa.Array) -> bytes:
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(lists, b"\n" if pa.types.is_binary(texts.type) else "\n")[0].as_buffer().to_pybytes()
    return joined + b"\n"


def _quoted(array: pa.Array) -> pa.Array:
    """Strings as JSON strings, bytes as base64 text in JSON strings."""
    if not pa.types.is_string(array.type):
        texts = [base64.b64encode(raw).decode() for raw in array.to_pylist()]
        array = pa.array(texts, pa.string())
    if pc.any(pc.match_substring_regex(array, NEEDS_ESCAPE)).as_py():
        return pa.array([dumps(text) for text in array.to_pylist()], pa.string())
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, array, quote, pa.scalar(""))
