"""How do several processes write one Parquet file? Each some row groups behind the bytes that are there, and the last one a footer for all.

A piece is written as if it were the whole file: its writer is told of the bytes in front of it by blanks, which nobody keeps, so that its
footer counts places from the file's beginning. Joined footers are what Parquet calls a file of several row groups. For example

    piece 1: `PAR1`, row group at 4, footer            kept: bytes 0 to 99, footer (row group at 4)
    piece 2: `PAR1`, 96 blanks, row group at 100       kept: bytes 100 to 180, footer (row group at 100)
    file: bytes 0 to 180, and one footer with row groups at 4 and 100
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

MAGIC: Final = b"PAR1"
PAGE_BYTES: Final = 64 << 10
BLANKS: Final = pa.py_buffer(bytes(1 << 20))


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What holds for all pieces of a file: its columns, and the names of those of text whose values repeat."""

    schema: pa.Schema
    repeated: tuple[str, ...]


class Piece:
    """Consecutive row groups of a file, written from `begin` on; their bytes are added to `out`."""

    def __init__(
        self, out: bytearray, begin: int, layout: FileLayout, *, codec: str, metadata: Mapping[str, str]
    ) -> None:
        self._collected: list[pq.FileMetaData] = []
        self._tap = _Tap(out, begin)
        sink = pa.PythonFile(self._tap, mode="w")
        self._writer = pq.ParquetWriter(
            sink,
            layout.schema,
            compression=codec,
            data_page_size=PAGE_BYTES,
            use_dictionary=list(layout.repeated) or False,
            store_schema=False,
            write_statistics=True,
            write_time_adjusted_to_utc=True,
            metadata_collector=self._collected,
        )
        self._writer.add_key_value_metadata(dict(metadata))
        for at in range(len(MAGIC), begin, BLANKS.size):
            sink.write(BLANKS.slice(0, min(BLANKS.size, begin - at)))

    def write(self, table: pa.Table) -> None:
        """Writes the rows as one row group."""
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def end(self) -> bytes:
        """Ends the piece without a footer of its own, and gives that, as a file of nothing else."""
        self._tap.closed_to_bytes = True
        self._writer.close()
        return _alone(self._collected[-1])


class _Tap:
    """A file object that hands on what is written behind the first `begin` bytes."""

    closed = False

    def __init__(self, out: bytearray, begin: int) -> None:
        self._out = out
        self._blank = begin
        self._position = 0
        self.closed_to_bytes = False

    def write(self, data: bytes) -> int:
        """Hands bytes on."""
        dropped = min(self._blank, len(data))
        self._blank -= dropped
        self._position += len(data)
        if not self.closed_to_bytes and dropped < len(data):
            self._out += memoryview(data)[dropped:]
        return len(data)

    def tell(self) -> int:
        """Bytes written in all."""
        return self._position

    def flush(self) -> None:
        """Nothing to do: the bytes are already handed on."""

    def close(self) -> None:
        """Nothing to do."""


def footer_of(footers: Sequence[bytes]) -> bytes:
    """The end of a file whose pieces have these footers, in order."""
    first, *others = (pq.read_metadata(io.BytesIO(footer)) for footer in footers)
    for other in others:
        first.append_row_groups(other)
    return _alone(first)[len(MAGIC) :]


def _alone(footer: pq.FileMetaData) -> bytes:
    content = io.BytesIO()
    footer.write_metadata_file(content)
    return content.getvalue()
