"""How are text and bytes written, plain or as one gzip member? JSON lines (SEMANTICS A8.1), byte arrays (A8.4), gzip (A8.6).

A gzip member can grow in several processes: its deflate stream is flushed to a byte boundary, behind which deflate may go on without
knowing what came before. Header, checksum and length are written here (RFC 1952), and the checksum goes along with the paused file.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.joining import joined
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Objects, Plain, Values
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import dumps, has_decimal, to_json
from kafka_s3.model.deflate import DEFAULT_LEVEL, ENGINE_BYTES, FULL_FLUSH, RAW, Bytes, Packer, checksum, packer
from kafka_s3.objects.format import Format, Paused

HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
"""No name, no time, and nothing about level and system."""


class GzipMember:
    """Bytes in, compressed bytes out; `level` is -1 to 9.

    Its engine is there from the first byte until the next time that all is `flushed`: ten thousand open files would hold a gigabyte.
    """

    __slots__ = ("_checksum", "_engine", "_fed", "_header", "_length", "_level")

    def __init__(self, level: int = DEFAULT_LEVEL) -> None:
        self._level = level
        self._engine: Packer | None = None
        self._header = HEADER
        self._checksum, self._length, self._fed = 0, 0, False

    def held(self) -> int:
        """Bytes of memory that the engine holds."""
        return 0 if self._engine is None else ENGINE_BYTES

    def compress(self, data: Bytes) -> bytes:
        """Adds data; gives what is ready, which may be nothing."""
        self._checksum = checksum(data, self._checksum)
        self._length += len(data)
        self._fed = self._fed or len(data) > 0
        return self._behind_header(self._packer().compress(data))

    def end(self) -> bytes:
        """The rest of the member."""
        trailer = self._checksum.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little")
        return self._behind_header(self._packer().flush() + trailer)

    def flushed(self) -> bytes:
        """The rest of what was added so far, up to a byte boundary: what `pause` has to find."""
        rest = self._packer().flush(FULL_FLUSH) if self._fed else b""
        self._engine, self._fed = None, False
        return self._behind_header(rest)

    def pause(self) -> Paused:
        """What another object needs to go on, once all is `flushed`."""
        return {"checksum": self._checksum, "length": self._length, "begun": not self._header}

    def resume(self, paused: Paused) -> None:
        """Makes a new object go on behind what was flushed."""
        self._checksum, self._length = paused["checksum"], paused["length"]
        self._header = b"" if paused["begun"] else HEADER

    def _behind_header(self, compressed: bytes) -> bytes:
        if not compressed:
            return b""
        header, self._header = self._header, b""
        return header + compressed

    def _packer(self) -> Packer:
        if self._engine is None:
            self._engine = packer(self._level, frame=RAW)
        return self._engine


COMPRESS_EVERY: Final = 1 << 16
WAITING_FOR_GZIP: Final = 4
"""So many bytes of text that wait for gzip count as one that is encoded."""


class TextStream:
    """Bytes in, encoded bytes out; `gzip_level` is -1 to 9, None for plain."""

    __slots__ = ("_encoded", "_gzip", "_held", "_plain", "_ready", "_size", "_taken", "_waiting")

    def __init__(self, gzip_level: int | None) -> None:
        self._gzip = None if gzip_level is None else GzipMember(gzip_level)
        self._plain: list[Bytes] = []
        self._waiting = 0
        self._encoded: list[Bytes] = []
        self._ready = 0
        self._taken = 0
        self._held = 0
        self._size = 0

    def write(self, text: Bytes) -> None:
        """Adds bytes, which nobody changes any more; gzip gets them in pieces worth its while."""
        self._plain.append(text)
        self._waiting += len(text)
        if self._gzip is None or self._waiting >= COMPRESS_EVERY:
            self._encode()

    def size(self) -> int:
        """Encoded bytes, and a quarter of the text that waits for gzip or is held back in it; never less than reported before."""
        waiting = (self._waiting + self._held) // WAITING_FOR_GZIP
        self._size = max(self._size, self._taken + self._ready + waiting)
        return self._size

    def pending(self) -> int:
        """Bytes of text that wait for gzip, and what that holds itself."""
        return self._waiting if self._gzip is None else self._waiting + self._gzip.held()

    def compact(self) -> None:
        """Feeds the waiting text to gzip, which gives all that it has and lets go of its engine."""
        self._encode()
        if self._gzip is not None:
            self._add(self._gzip.flushed())
            self._held = 0

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        taken = whole(self._encoded)
        self._taken += self._ready
        self._encoded, self._ready = [], 0
        return taken

    def finish(self) -> None:
        self._encode()
        if self._gzip is not None:
            self._add(self._gzip.end())
        self._held = self._size = 0  # nothing is estimated any more

    def pause(self) -> Paused:
        """Text is kept as it is; gzip is flushed, and goes on as the same member."""
        self.compact()
        member = self._gzip.pause() if self._gzip is not None else None
        return {"taken": self._taken + self._ready, "size": self._size, "gzip": member}

    def resume(self, paused: Paused) -> None:
        """Goes on behind the bytes of another one."""
        self._taken, self._size = paused["taken"], paused["size"]
        if self._gzip is not None:
            self._gzip.resume(paused["gzip"])

    def _encode(self) -> None:
        plain, waiting = self._plain, self._waiting
        self._plain, self._waiting = [], 0
        if self._gzip is None:
            self._encoded += plain
            self._ready += waiting
        elif waiting:
            compressed = self._gzip.compress(whole(plain))
            self._held = 0 if compressed else self._held + waiting
            self._add(compressed)

    def _add(self, encoded: bytes) -> None:
        self._encoded.append(encoded)
        self._ready += len(encoded)


def whole(pieces: list[Bytes]) -> Bytes:
    """Pieces behind each other; a piece alone is not copied."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


RARE_ESCAPES = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def json_format(*, gzip_level: int | None, decimals: str) -> Format:
    """JSON lines; `gzip_level` is -1 to 9 or None for plain text, `decimals` BASE64 or NUMERIC."""
    opened, plain = partial(JsonLines, gzip_level=gzip_level, decimals=decimals), gzip_level is None
    extension, in_bulk = (".json", 1) if plain else (".json.gz", WAITING_FOR_GZIP)
    return Format("json", extension, opened, partial(_accept_json, decimals), in_bulk=in_bulk)


def _accept_json(decimals: str, run: Run) -> Values | str:
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


def byte_array_format(*, extension: str, separator: bytes, gzip_level: int | None) -> Format:
    """Raw bytes; `extension` as `format.bytearray.extension` says, with `.gz` under gzip."""
    opened = partial(ByteArrayFile, separator=separator, gzip_level=gzip_level)
    return Format("bytearray", extension + (".gz" if gzip_level is not None else ""), opened, _accept_bytes)


def _accept_bytes(run: Run) -> Values | str:
    if isinstance(run.values, Plain) and pa.types.is_binary(run.values.array.type):
        return run.values
    if run.schema is not None and run.schema.kind is SchemaType.BYTES and run.schema.name != DECIMAL:
        return Plain(pa.array(run.values.objects(), pa.binary()))
    kind = "a value without schema" if run.schema is None else run.schema.label()
    return f"ByteArrayFormat takes bytes only, not {kind}. Use ByteArrayConverter, or another format."


class ByteArrayFile(TextStream):
    """An open object of raw bytes."""

    __slots__ = ("_separator",)

    def __init__(self, schema: ConnectSchema | None, *, separator: bytes, gzip_level: int | None) -> None:
        super().__init__(gzip_level)
        self._separator = separator

    def append(self, values: Values) -> None:
        """Adds each value and the separator."""
        if not len(values):
            return
        array = values.array if isinstance(values, Plain) else pa.array(values.objects(), pa.binary())
        self.write(joined(array, self._separator))
