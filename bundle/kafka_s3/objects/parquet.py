"""How are records written as Parquet? Connect's mapping for values with a schema (SEMANTICS A8.3), inference for schemaless JSON.

Rows wait as Arrow tables until a row group is full; a file with an inferred schema takes its columns from its first row group, and
`fits` answers whether later rows need other columns; the writer then rolls the file.

Several processes may write one file, each some row groups behind the bytes that are there, and the last one a footer for all. A piece is
written as if it were the whole file: blanks that nobody keeps stand for the bytes in front of it, so that its footer counts positions
from the file's beginning. Joined footers are what Parquet calls a file of several row groups. For example

    piece 1: `PAR1`, row group at 4, footer            kept: bytes 0 to 99, footer (row group at 4)
    piece 2: `PAR1`, 96 blanks, row group at 100       kept: bytes 100 to 180, footer (row group at 100)
    file: bytes 0 to 180, and one footer with row groups at 4 and 100
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import (
    COLUMN_BYTES,
    AvroBodies,
    JsonText,
    StructColumns,
    Values,
    stream_of,
    table_bytes,
    table_of,
)
from kafka_s3.connect.schemas.arrow import arrow_table, conform, precision_of, unify, wider
from kafka_s3.connect.schemas.avro_schemas import avro_schema
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import DECIMAL, ConnectSchema, Recursion, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import scale_of
from kafka_s3.connect.schemas.numbering import numbered
from kafka_s3.objects.format import Format, FormatError, Paused

MAGIC: Final = b"PAR1"
PAGE_BYTES: Final = 64 << 10
"""As the original has it (SEMANTICS A8.3). With 1 MiB, as parquet-java has it, Zstandard would make files up to an eighth smaller."""
MANY_ROWS: Final = 1 << 15  # of a first row group
ENOUGH_ROWS: Final = 1000
"""So many rows say something about those of other files."""
LOOK_EVERY: Final = 16
"""One of so many small files is looked at."""
KNOWN_BYTES: Final = 1 << 20
"""Of schemas of which something is known, about, or one."""
BLANKS: Final = pa.py_buffer(bytes(1 << 20))


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What holds for all pieces of a file: its columns, the names of those whose values repeat, and how hard Zstandard tries."""

    schema: pa.Schema
    repeated: tuple[str, ...]
    zstd_level: int


def _writer(
    sink: Any, layout: FileLayout, *, codec: str, metadata: Mapping[str, str], collected: list[pq.FileMetaData]
) -> pq.ParquetWriter:
    writer = pq.ParquetWriter(
        sink,
        layout.schema,
        compression=codec,
        compression_level=layout.zstd_level if codec == "ZSTD" else None,
        data_page_size=PAGE_BYTES,
        use_dictionary=list(layout.repeated) or False,
        store_schema=False,
        write_statistics=True,
        write_time_adjusted_to_utc=True,
        metadata_collector=collected,
    )
    writer.add_key_value_metadata(dict(metadata))
    return writer


def whole_file(table: pa.Table, layout: FileLayout, *, codec: str, metadata: Mapping[str, str]) -> memoryview:
    """A file of one row group, as one `Piece` with its footer would be, for less: Arrow writes it without asking Python."""
    sink = pa.BufferOutputStream()
    with _writer(sink, layout, codec=codec, metadata=metadata, collected=[]) as writer:
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
    return memoryview(sink.getvalue())


class Piece:
    """Consecutive row groups of a file, written from `begin` on; their bytes are added to `out`."""

    def __init__(
        self, out: bytearray, begin: int, layout: FileLayout, *, codec: str, metadata: Mapping[str, str]
    ) -> None:
        self._collected: list[pq.FileMetaData] = []
        self._tap = _Tap(out, begin)
        sink = pa.PythonFile(self._tap, mode="w")
        self._writer = _writer(sink, layout, codec=codec, metadata=metadata, collected=self._collected)
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
    if len(footers) == 1:
        return footers[0][len(MAGIC) :]
    first, *others = (pq.read_metadata(io.BytesIO(footer)) for footer in footers)
    for other in others:
        first.append_row_groups(other)
    return _alone(first)[len(MAGIC) :]


def _alone(footer: pq.FileMetaData) -> bytes:
    content = io.BytesIO()
    footer.write_metadata_file(content)
    return content.getvalue()


ROW_GROUP_BYTES: Final = 64 << 20
WRITER_BYTES: Final = 16 << 10  # what Arrow's writer holds for a column between two row groups
FEW_ROWS: Final = 256
SAMPLE: Final = 4096
MANY_TABLES: Final = 4
COMPRESSED_SHARE: Final = 0.25
CODECS: Final = {
    "none": ("NONE", ".parquet"),
    "snappy": ("SNAPPY", ".snappy.parquet"),
    "gzip": ("GZIP", ".gz.parquet"),
    "brotli": ("BROTLI", ".br.parquet"),
    "lz4": ("LZ4", ".lz4.parquet"),
    "lz4_raw": ("LZ4", ".lz4raw.parquet"),
    "zstd": ("ZSTD", ".zstd.parquet"),
}


def parquet_format(codec: str, options: AvroOptions, *, with_ids: bool = False) -> Format:
    """Parquet with one of Connect's codec names; `options` are for the Avro schema in the footer.

    `with_ids`: columns have the numbers by which Iceberg's readers find them.
    """
    arrow_codec, extension = CODECS[codec]
    return Format(
        "parquet",
        extension,
        partial(ParquetFile, codec=arrow_codec, options=options, known=RepeatedColumns(), with_ids=with_ids),
        _accept,
        stops_original=_kills_original,
        in_bulk=round(1 / COMPRESSED_SHARE),
    )


def _kills_original(run: Run) -> bool:
    return run.schema is None or run.schema.kind is not SchemaType.STRUCT


def _accept(run: Run) -> Values | str:
    if isinstance(run.values, JsonText):
        inferred = run.values.table is not None
        return run.values if inferred else "Parquet cannot hold schemaless values (see value.schema.inference)."
    if run.schema is None or run.schema.kind is not SchemaType.STRUCT:
        return "Parquet needs values with a struct schema."
    try:
        if unfit := _unfit(run.schema, "the value"):
            return f"Parquet cannot hold {unfit}. Leave the field out, for example with ReplaceField, or write JSON or Avro."
        if isinstance(run.values, StructColumns):
            return run.values
        if isinstance(run.values, AvroBodies) and run.values.table is not None:
            return StructColumns(run.values.table)  # the bodies would be taken apart by directory for nothing
        return StructColumns(arrow_table(run.values.objects(), run.schema))
    except (SchemaError, ValueError, pa.ArrowException) as error:
        return f"Parquet cannot hold the value: {error}"


def _unfit(schema: ConnectSchema, where: str) -> str:
    """Return what Parquet has no type for and where it is, blank if it has one for all of it.

    Raises SchemaError or ValueError for parameters of no meaning.
    """
    if isinstance(schema.fields, Recursion):
        return f"a type that contains itself: {schema.label()} ({where})"
    if schema.kind is SchemaType.STRUCT and not schema.fields:
        return f"a struct without fields ({where})"
    if schema.name == DECIMAL and not 0 <= scale_of(schema) <= precision_of(schema):
        return f"a decimal of scale {scale_of(schema)} and precision {precision_of(schema)} ({where})"
    inner = [(f"{where}.{field.name}", field.schema) for field in schema.fields]
    inner += [(f"{where}[]", part) for part in (schema.items, schema.keys, schema.values) if part is not None]
    return next(filter(None, (_unfit(part, place.removeprefix("the value.")) for place, part in inner)), "")


class ParquetFile:
    """An open Parquet file."""

    def __init__(
        self,
        schema: ConnectSchema | None,
        *,
        codec: str,
        options: AvroOptions,
        known: RepeatedColumns,
        with_ids: bool = False,
    ) -> None:
        self._schema = schema
        self._known = known
        self._with_ids = with_ids
        self._codec = codec
        self._avro = footer(schema, options)
        self._tables: list[pa.Table] = []
        self._waiting = 0
        self._copies = 0
        self._few = 0
        self._share = COMPRESSED_SHARE
        self._out = bytearray()
        self._taken = 0
        self._layout: FileLayout | None = None
        self._piece: Piece | None = None
        self._footers: list[bytes] = []

    def fits(self, values: Values) -> bool:
        """Whether the values can join this file, whose columns are settled once a row group is written."""
        if self._layout is None or self._schema is not None or not isinstance(values, JsonText) or values.table is None:
            return True
        settled = {field.name: field.type for field in self._layout.schema}
        return all(
            field.name in settled and wider(settled[field.name], field.type) == settled[field.name]
            for field in values.table.schema
            if values.table.column(field.name).null_count < values.table.num_rows
        )

    def append(self, values: Values) -> None:
        """Adds rows; a full row group is encoded."""
        table = self._table(values)
        self._tables.append(table)
        self._waiting += table_bytes(table) + COLUMN_BYTES * table.num_columns
        self._few += 1 if table.num_rows < FEW_ROWS else 0
        if self._few == MANY_TABLES:  # with a thousand open files their Arrow objects outweigh the data four to one
            self.detach()
        if self._waiting >= ROW_GROUP_BYTES:
            self._encode()

    def size(self) -> int:
        """Encoded bytes, and an estimate of the waiting rows by the compression seen so far."""
        return self._position() + int(self._waiting * self._share)

    def pending(self) -> int:
        """Bytes of the rows that wait for their row group, and what Arrow's writer holds."""
        held = WRITER_BYTES * len(self._layout.schema) if self._piece is not None and self._layout is not None else 0
        return self._waiting + held

    def detach(self) -> None:
        """Copies what waits in parts of batches; neighbours of equal columns become one table, and with them small ones that are copies."""
        first = self._copies
        if first == len(self._tables):
            return
        while first and self._tables[first - 1].num_rows < FEW_ROWS:
            first -= 1
        parts, self._tables[first:] = self._tables[first:], []
        for schema, run in groupby(parts, key=lambda table: table.schema):
            tables = list(run)
            if len(schema):  # tables without columns lose their number of rows when joined
                self._waiting -= COLUMN_BYTES * len(schema) * (len(tables) - 1)
                tables = [_copy(tables)]
            self._tables += tables
        self._copies, self._few = len(self._tables), 0

    def compact(self) -> None:
        """Writes the waiting rows as a row group, and lets go of Arrow's writer."""
        self._encode()
        self._end_piece()

    def _encode(self) -> None:
        if not self._tables:
            return
        table, layout = self._settled()
        before = self._position()
        self._opened(layout).write(table)
        self._share = max((self._position() - before) / max(self._waiting, 1), 0.01)
        self._forget()

    def _settled(self) -> tuple[pa.Table, FileLayout]:
        """The waiting rows in the columns of the file, which its first rows settle."""
        table = pa.concat_tables(self._tables) if self._schema is not None else unify(self._tables)
        if self._layout is None:
            schema = numbered(table.schema, self._schema) if self._with_ids else table.schema
            self._layout = _layout(table, schema, self._known)
        return conform(table, self._layout.schema), self._layout

    def _forget(self) -> None:
        self._tables, self._copies, self._waiting, self._few = [], 0, 0, 0

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        taken = bytes(self._out)
        self._taken += len(taken)
        self._out.clear()  # the open piece writes into it
        return taken

    def finish(self) -> None:
        """Writes the last row group and the footer; a file that has nothing yet is written as a whole."""
        if self._tables and self._layout is None:
            whole = whole_file(*self._settled(), codec=self._codec, metadata=self._avro)
            self._out += whole
            length = int.from_bytes(whole[-8:-4], "little")
            self._footers.append(MAGIC + bytes(whole[-length - 8 :]))
            self._forget()
            return
        self.compact()
        if self._footers:
            self._out += footer_of(self._footers)

    def pause(self) -> Paused:
        """The rows that wait, the footers of the row groups that are written, and what the first of them settled."""
        self._end_piece()
        tables, self._tables = self._tables[::-1], []
        return {
            "tables": [stream_of(tables.pop()) for _ in range(len(tables))],  # each lets go of its memory
            "waiting": self._waiting,
            "few": self._few,
            "share": self._share,
            "taken": self._position(),
            "columns": None if self._layout is None else self._layout.schema.serialize().to_pybytes(),
            "repeated": None if self._layout is None else list(self._layout.repeated),
            "zstd_level": None if self._layout is None else self._layout.zstd_level,
            "footers": self._footers,
        }

    def resume(self, paused: Paused) -> None:
        """Goes on behind the row groups of another one."""
        self._tables = [table_of(content) for content in paused["tables"]]
        self._copies = len(self._tables)
        self._waiting, self._few, self._share = paused["waiting"], paused["few"], paused["share"]
        self._taken, self._footers = paused["taken"], list(paused["footers"])
        if paused["columns"] is not None:
            columns = pa.ipc.read_schema(pa.py_buffer(paused["columns"]))
            self._layout = FileLayout(columns, tuple(paused["repeated"]), paused.get("zstd_level", 1))

    def written_schema(self) -> pa.Schema:
        """The columns of the finished file, as its footer has them."""
        return pq.read_schema(pa.BufferReader(self._footers[0]))

    def _position(self) -> int:
        return self._taken + len(self._out)

    def _opened(self, layout: FileLayout) -> Piece:
        if self._piece is None:
            self._piece = Piece(self._out, self._position(), layout, codec=self._codec, metadata=self._avro)
        return self._piece

    def _end_piece(self) -> None:
        if self._piece is not None:
            self._footers.append(self._piece.end())
            self._piece = None

    def _table(self, values: Values) -> pa.Table:
        if isinstance(values, StructColumns | JsonText) and values.table is not None:
            return values.table
        if self._schema is not None:
            try:
                return arrow_table(values.objects(), self._schema)
            except (SchemaError, ValueError, pa.ArrowException) as error:
                raise FormatError(f"Parquet cannot hold the values: {error}") from error
        raise FormatError("Parquet needs values with a struct schema.")


def _copy(tables: list[pa.Table]) -> pa.Table:
    """The rows of tables with equal columns as one that shares no memory with them."""
    if len(tables) == 1:
        return tables[0].take(pa.array(np.arange(len(tables[0]))))
    return pa.concat_tables(tables).combine_chunks()


class RepeatedColumns:
    """The columns in which a dictionary pays. Of small files with the same columns one of `LOOK_EVERY` is looked at: in a sink with a
    hundred directories to look took longer than to compress. Of very small ones that is one in as many of about the same size.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[pa.Schema, int], tuple[int, tuple[str, ...]]] = {}
        self._known_bytes = 0

    def of(self, table: pa.Table) -> tuple[str, ...]:
        """The names of those columns of a file's first rows; of few rows only where nothing is known of files with enough of them."""
        few = table.num_rows.bit_length() if table.num_rows < ENOUGH_ROWS else 0
        if few and (known := self._known.get((table.schema, 0))):
            return known[1]
        left, names = self._known.get((table.schema, few), (0, ()))
        if not left or table.num_rows >= MANY_ROWS:
            left, names = LOOK_EVERY, _repeated(table)
        if (table.schema, few) not in self._known:
            self._make_room(int(table.schema.serialize().size))
        self._known[table.schema, few] = left - 1, names
        return names

    def _make_room(self, size: int) -> None:
        """For a schema of so many bytes: inferred ones may be of any size, and each file may have another."""
        if self._known_bytes + size > KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known_bytes += size


def _layout(table: pa.Table, schema: pa.Schema, known: RepeatedColumns) -> FileLayout:
    """What a file settles by its first row group; `schema` is that of the table, with the numbers of its columns if it has any.

    Few rows are compressed at level 3, as parquet-java does: at Arrow's own level 1 a file of 2,500 rows is a tenth larger, and one of
    250,000 is not.
    """
    return FileLayout(schema, known.of(table), 1 if table.num_rows >= MANY_ROWS else 3)


def _repeated(table: pa.Table) -> tuple[str, ...]:
    """The names of the columns whose values come again among the first ones.

    Where they do not, hashing them all costs as much as writing, and the dictionary makes a small file a third larger.
    """
    by_number = zip(table.schema, table.columns, strict=True)  # two columns may have the same name
    return tuple(one.name for one, column in by_number if _may_repeat(one.type) and _repeats(column))


def _may_repeat(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _repeats(column: pa.ChunkedArray) -> bool:
    first = column.slice(0, SAMPLE)
    return bool(pc.count_distinct(first).as_py() <= len(first) // 2)


@lru_cache(maxsize=8)
def footer(schema: ConnectSchema | None, options: AvroOptions) -> Mapping[str, str]:
    """The footer's metadata: the Avro schema, where Avro can express the Connect schema (SEMANTICS A8.3).

    Half a surrogate pair, which no encoding takes, is `?` there, as Java's encoder has it.
    """
    if schema is None:
        return {}
    try:
        text = json.dumps(avro_schema(schema, options=options), ensure_ascii=False, separators=(",", ":"))
    except SchemaError:  # a name that Avro does not allow: Parquet itself holds it
        return {}
    return {"parquet.avro.schema": text.encode(errors="replace").decode(), "writer.model.name": "avro"}
