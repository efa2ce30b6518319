"""How do records become gzip members that can be read one by one? The data objects of the Block-GZIP sink (SEMANTICS B3).

A block is a whole gzip member, so that any gzip tool reads the object as one stream, and one range request reads a block alone. A record
that does not fit ends the block: the first record of a file that is larger than a block leaves an empty block in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.naming.keys import DATA_EXTENSION, index_key_of
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Longs, Nulls, Plain, Values
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.model.files import Role
from kafka_s3.objects.block_gzip_form import (
    Block,
    BlockGzip,
    Delimited,
    Framing,
    Lines,
    Prefixed,
    Span,
    extend,
    index_bytes,
    packed_spans,
    unpacked_spans,
)
from kafka_s3.objects.format import Encoder, Format, FormatError, Paused, SidecarObject
from kafka_s3.objects.text import GzipMember

Keys = Sequence[bytes | str | None] | None
_BYTES = pa.large_binary()
_TEXT = pa.large_string()


def block_gzip_format(variant: BlockGzip) -> Format:
    """The format of a sink's data objects, each with its index beside it."""
    opened = partial(BlockGzipFile, variant=variant)
    return Format("block_gzip", DATA_EXTENSION, opened, partial(_accept, variant.framing), _with_index)


def unfit(framing: Framing, values: Values) -> list[tuple[int, str]]:
    """The rows that cannot be written, and why: null values in the original, which are empty values in the successor."""
    if not isinstance(framing, Lines):
        return []
    text = "The Block-GZIP sink cannot write a null value. Filter tombstones out, or use the successor's dialect."
    if isinstance(values, Nulls):
        return [(row, text) for row in range(len(values))]
    if isinstance(values, Plain) and values.array.null_count:
        return [(row, text) for row in np.flatnonzero(values.array.is_null().to_numpy(zero_copy_only=False)).tolist()]
    return []


def _with_index(encoder: Encoder, key: str, first_offset: int) -> list[SidecarObject]:
    if not isinstance(encoder, BlockGzipFile):
        raise TypeError(f"{type(encoder).__name__} has no index of blocks.")
    return [SidecarObject(Role.INDEX, index_key_of(key), encoder.index(first_offset))]


def _accept(framing: Framing, run: Run) -> Values | str:
    wrong = _wrong_kind(framing, run.values)
    rows = unfit(framing, run.values) if wrong is None else []
    return wrong or (rows[0][1] if rows else run.values)


def _wrong_kind(framing: Framing, values: Values) -> str | None:
    if isinstance(values, Nulls):
        return None
    if isinstance(values, JsonText) and not isinstance(framing, Lines):
        return None
    if isinstance(values, Plain) and (_is_text(values.array.type) or _is_bytes(values.array.type)):
        return None
    kind = str(values.array.type) if isinstance(values, Plain) else type(values).__name__
    return f"Block-GZIP objects hold texts and bytes, not {kind}. Use StringConverter or ByteArrayConverter as value.converter."


@dataclass(frozen=True, slots=True)
class _Framed:
    """Records as they will lie in a block, end to end: record n is `content[ends[n]:ends[n+1]]` and measures `sizes[n+1] - sizes[n]`."""

    content: memoryview
    ends: Longs
    sizes: Longs


class BlockGzipFile:
    """An open data object: an `Encoder` that also knows its index. Every record is compressed at once."""

    def __init__(self, schema: ConnectSchema | None, *, variant: BlockGzip) -> None:
        self._variant = variant
        self._blocks: list[Block] = []
        self._gzip = GzipMember()
        self._begin, self._measured, self._records = 0, 0, 0
        self._encoded = bytearray()
        self._taken, self._held, self._largest = 0, 0, 0
        self._finished = False
        self._offsets: Longs | None = None
        self._spans: list[Span] = []

    def set_offsets(self, offsets: Longs) -> None:
        """Says the offsets of the records that the next append adds."""
        self._offsets = offsets if self._variant.true_offsets else None

    def append(self, values: Values) -> None:
        """Adds records without keys. Raises FormatError before anything is added."""
        self.append_keyed(values, None)

    def append_keyed(self, values: Values, keys: Keys) -> None:
        """Adds records with their keys, which count only where the variant stores keys; no key at all is an empty one.

        Raises FormatError before anything is added.
        """
        offsets, self._offsets = self._offsets, None
        if len(values):
            self._write(_framed(self._variant, values, keys), offsets)

    def size(self) -> int:
        """Encoded bytes, and a quarter of what gzip holds back; never less than before."""
        self._largest = max(self._largest, self._position() + self._held // 4)
        return self._largest

    def pending(self) -> int:
        """What gzip holds: records are compressed when they are added."""
        return self._gzip.held()

    def compact(self) -> None:
        """Has gzip give all that it has, and let go of its engine."""
        self._encoded += self._gzip.flushed()
        self._held = 0

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        taken = bytes(self._encoded)
        self._taken += len(taken)
        self._encoded = bytearray()
        return taken

    def finish(self) -> None:
        self._end_block()
        self._finished, self._largest = True, 0

    def pause(self) -> Paused:
        """The blocks so far, and the one that is open, which goes on as the same member."""
        self.compact()
        return {
            "blocks": [
                {**asdict(replace(block, spans=())), "spans": packed_spans(block.spans)} for block in self._blocks
            ],
            "begin": self._begin,
            "measured": self._measured,
            "records": self._records,
            "spans": packed_spans(self._spans),
            "taken": self._position(),
            "said": self._largest,
            "gzip": self._gzip.pause(),
        }

    def resume(self, paused: Paused) -> None:
        """Goes on in the open block of another one."""
        self._blocks = [Block(**{**block, "spans": unpacked_spans(block["spans"])}) for block in paused["blocks"]]
        self._spans = list(unpacked_spans(paused["spans"]))
        self._begin, self._measured, self._records = paused["begin"], paused["measured"], paused["records"]
        self._taken, self._largest = paused["taken"], paused["said"]
        self._gzip.resume(paused["gzip"])

    def index(self, first_offset: int) -> bytes:
        """The content of the index object of a finished file whose first record has this offset.

        Without `set_offsets` the later records are taken for those that follow it.
        """
        if not self._finished:
            raise RuntimeError("The index is asked for before the file is finished.")
        blocks, start = [], first_offset
        for block in self._blocks:
            first = block.spans[0][0] if block.spans else start
            blocks.append(replace(block, first_record_offset=first))
            start = blocks[-1].until
        return index_bytes(blocks)

    def _write(self, framed: _Framed, offsets: Longs | None) -> None:
        row, rows = 0, len(framed.ends) - 1
        while row < rows:
            stop = self._stop(framed, row)
            if stop == row:
                self._end_block()
                stop = max(self._stop(framed, row), row + 1)  # a record larger than a block has one for itself
            compressed = self._gzip.compress(framed.content[framed.ends[row] : framed.ends[stop]])
            self._held = 0 if compressed else self._held + int(framed.ends[stop] - framed.ends[row])
            self._encoded += compressed
            self._measured += int(framed.sizes[stop] - framed.sizes[row])
            self._records += stop - row
            if offsets is not None:
                extend(self._spans, offsets[row:stop])
            row = stop

    def _stop(self, framed: _Framed, row: int) -> int:
        """One past the last record, from `row` on, that still fits the block; an exact fit does."""
        room = self._variant.block_size - self._measured
        return max(int(np.searchsorted(framed.sizes, framed.sizes[row] + room, side="right")) - 1, row)

    def _end_block(self) -> None:
        self._encoded += self._gzip.end()
        end = self._position()
        spans, self._spans = tuple(self._spans), []
        self._blocks.append(Block(self._measured, self._records, end - self._begin, self._begin, 0, spans))
        self._gzip = GzipMember()
        self._begin, self._measured, self._records, self._held = end, 0, 0, 0

    def _position(self) -> int:
        return self._taken + len(self._encoded)


def _framed(variant: BlockGzip, values: Values, keys: Keys) -> _Framed:
    framing = variant.framing
    wrong = _wrong_kind(framing, values)
    if wrong is not None:
        raise FormatError(wrong)
    if isinstance(framing, Lines):
        bad = unfit(framing, values)
        if bad:
            raise FormatError(bad[0][1])
        return _in_units(_lines(values))
    column = _bytes_of(values)
    parts = [_behind_length(column), column] if isinstance(framing, Prefixed) else [column, framing.value_delimiter]
    if variant.stores_keys:
        parts = [*_key_parts(framing, _key_column(keys, len(column))), *parts]
    return _in_bytes(_joined(parts))


def _key_column(keys: Keys, rows: int) -> pa.Array:
    given = [b""] * rows if keys is None else [key.encode() if isinstance(key, str) else key or b"" for key in keys]
    if len(given) != rows:
        raise FormatError(f"There are {len(given)} keys for {rows} values.")
    return pa.array(given, _BYTES)


def _key_parts(framing: Delimited | Prefixed, keys: pa.Array) -> list[pa.Array | bytes]:
    if isinstance(framing, Prefixed):
        return [_behind_length(keys), keys]
    return [keys, framing.key_delimiter or b""]


def _lines(values: Values) -> pa.Array:
    texts = values.array if isinstance(values, Plain) else pa.nulls(0, _TEXT)
    if _is_bytes(texts.type):
        texts = pa.array([raw.decode(errors="replace") for raw in texts.to_pylist()], _TEXT)
    texts = texts.cast(_TEXT)
    end = pc.if_else(pc.ends_with(texts, "\n"), pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
    return pc.binary_join_element_wise(texts, end, pa.scalar("", _TEXT))


def _bytes_of(values: Values) -> pa.Array:
    """Texts in UTF-8, bytes as they are, null as nothing."""
    if isinstance(values, Nulls):
        return pa.array([b""] * len(values), _BYTES)
    texts: pa.Array = values.texts if isinstance(values, JsonText) else getattr(values, "array", None)
    return pc.fill_null(texts.cast(_BYTES), b"")


def _behind_length(column: pa.Array) -> pa.Array:
    """The length of each value, in 4 bytes, big-endian."""
    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(">u4").tobytes()
    ends = np.arange(len(column) + 1, dtype=np.int64) * 4
    return pa.Array.from_buffers(_BYTES, len(column), [None, pa.py_buffer(ends), pa.py_buffer(lengths)])


def _joined(parts: Sequence[pa.Array | bytes]) -> pa.Array:
    columns = [pa.scalar(part, _BYTES) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", _BYTES))


def _in_bytes(array: pa.Array) -> _Framed:
    ends, content = _buffers(array)
    return _Framed(content.data, ends, ends)


def _in_units(array: pa.Array) -> _Framed:
    """Measured in UTF-16 units: one for a character's first byte, another one where the character has four bytes."""
    ends, content = _buffers(array)
    if not content.size or content.max() < 0x80:
        return _Framed(content.data, ends, ends)
    units = ((content & 0xC0) != 0x80).astype(np.int64) + (content >= 0xF0)
    return _Framed(content.data, ends, np.concatenate(([0], np.cumsum(units)))[ends])


def _buffers(array: pa.Array) -> tuple[Longs, npt.NDArray[np.uint8]]:
    """Where the values of a column end, from 0 on, and their bytes end to end."""
    _, starts, data = array.buffers()
    ends = np.frombuffer(starts, np.int64)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return ends - ends[0], whole[ends[0] : ends[-1]]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
