"""How are records written as an Avro container file? Connect's mapping of the schema, bodies passed through if they fit (SEMANTICS A8.2).

The container is ours (a header, and blocks of count, size, compressed bodies and sync marker), so that a body that was written with
the very shape of the file's schema goes in without being decoded.
"""

from __future__ import annotations

import bz2
import json
import os
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import pyarrow as pa

from kafka_s3.connect.records.joining import joined
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import AvroBodies, JsonText, StructColumns, Values
from kafka_s3.connect.schemas.avro_schemas import avro_schema
from kafka_s3.connect.schemas.avro_types import AvroOptions, same_binary
from kafka_s3.connect.schemas.avro_values import ANYTHING, encoder, long_bytes
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.model.deflate import RAW, Bytes, packed
from kafka_s3.objects.format import Format, FormatError, Paused

BLOCK_BYTES: Final = 64 << 10
COMPRESSED_SHARE: Final = 0.5
MOST_ANSWERS: Final = 1000
_ANSWERS: Final[dict[tuple[int, int], tuple[Any, Any, bool]]] = {}


def avro_format(codec: str, options: AvroOptions) -> Format:
    """Avro container files; `codec` is null, deflate, snappy or bzip2 and does not show in the extension."""
    opened, in_bulk = partial(AvroFile, codec=codec, options=options), round(1 / COMPRESSED_SHARE)
    return Format("avro", ".avro", opened, partial(_accept, options), in_bulk=in_bulk)


def _accept(options: AvroOptions, run: Run) -> Values | str:
    try:
        avro, encode = _compiled(run.schema, options)
        if isinstance(run.values, AvroBodies) and _same(run.values.writer, avro):
            return run.values
        items = run.values.objects()
        bodies = [encode(value) for value in items]
    except (SchemaError, ValueError, TypeError, OverflowError) as error:
        return f"Avro cannot hold the value: {error}"
    table = run.values.table if isinstance(run.values, StructColumns | AvroBodies | JsonText) else None
    return AvroBodies(pa.array(bodies, pa.binary()), avro, _never_asked, table, items)


@lru_cache(maxsize=256)
def _compiled(schema: ConnectSchema | None, options: AvroOptions) -> tuple[Any, Callable[[Any], bytes]]:
    """The Avro schema of a Connect schema, and what encodes its values."""
    avro = ANYTHING if schema is None else avro_schema(schema, options=options)
    return avro, encoder(schema, avro)


def _never_asked(body: bytes) -> Any:
    raise FormatError("The values of these bodies are at hand.")


class AvroFile:
    """An open container file."""

    def __init__(self, schema: ConnectSchema | None, *, codec: str, options: AvroOptions) -> None:
        self._avro, self._encode = _compiled(schema, options)
        self._compress = CODECS[codec]
        self._sync = os.urandom(16)
        self._waiting = bytearray()
        self._count = 0
        self._out = bytearray(_header(self._avro, codec, self._sync))
        self._written = len(self._out)
        self._share = COMPRESSED_SHARE

    def append(self, values: Values) -> None:
        """Adds values; a full block is encoded."""
        if isinstance(values, AvroBodies) and _same(values.writer, self._avro):
            self._add(joined(values.bodies, b""), len(values))
            return
        try:
            bodies = [self._encode(value) for value in values.objects()]
        except (SchemaError, ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"Avro cannot hold the values: {error}") from error
        self._add(b"".join(bodies), len(bodies))

    def size(self) -> int:
        """Encoded bytes, and an estimate of the waiting ones by the compression seen so far."""
        return self._written + int(len(self._waiting) * self._share)

    def pending(self) -> int:
        return len(self._waiting)

    def compact(self) -> None:
        if not self._count:
            return
        self._write_block(self._waiting, self._count)
        self._waiting, self._count = bytearray(), 0

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        taken, self._out = self._out, bytearray()
        return taken

    def finish(self) -> None:
        self.compact()

    def pause(self) -> Paused:
        """The block that waits, and what its file and the blocks before it have settled."""
        return {
            "sync": self._sync,
            "waiting": bytes(self._waiting),
            "count": self._count,
            "written": self._written,
            "share": self._share,
        }

    def resume(self, paused: Paused) -> None:
        """Goes on behind the blocks of another one, whose header is in the file already."""
        self._sync, self._waiting, self._count = paused["sync"], bytearray(paused["waiting"]), paused["count"]
        self._written, self._share = paused["written"], paused["share"]
        self._out = bytearray()

    def _add(self, bodies: Bytes, count: int) -> None:
        if not self._count and len(bodies) >= BLOCK_BYTES:
            self._write_block(bodies, count)
            return
        self._waiting += bodies
        self._count += count
        if len(self._waiting) >= BLOCK_BYTES:
            self.compact()

    def _write_block(self, bodies: Bytes, count: int) -> None:
        data = self._compress(bodies)
        before = len(self._out)
        for part in (long_bytes(count), long_bytes(len(data)), data, self._sync):
            self._out += part
        self._share = max(len(data) / max(len(bodies), 1), 0.01)
        self._written += len(self._out) - before


def _same(writer: Any, target: Any) -> bool:
    """Whether bodies of a writer schema can go in as they are; the schemas live as long as the process, so the answer is kept."""
    if writer is target:
        return True
    key = (id(writer), id(target))
    known = _ANSWERS.get(key)
    if known is None or known[0] is not writer or known[1] is not target:
        if len(_ANSWERS) >= MOST_ANSWERS:
            _ANSWERS.clear()
        known = _ANSWERS[key] = (writer, target, same_binary(writer, target))
    return known[2]


def _header(avro: Any, codec: str, sync: bytes) -> bytes:
    text = json.dumps(avro, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )  # `?`, as Java's encoder
    members = [(b"avro.schema", text), (b"avro.codec", codec.encode())]
    written = b"".join(long_bytes(len(part)) + part for pair in members for part in pair)
    return b"Obj\x01" + long_bytes(len(members)) + written + long_bytes(0) + sync


def _as_it_is(data: Bytes) -> Bytes:
    return data


def _snappy(data: Bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


CODECS: Final[dict[str, Callable[[Bytes], Bytes]]] = {
    "null": _as_it_is, "deflate": partial(packed, frame=RAW), "snappy": _snappy, "bzip2": bz2.compress,
}  # fmt: skip
