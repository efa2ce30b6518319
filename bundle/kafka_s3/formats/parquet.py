"""How are records written as Parquet? Connect's mapping for values with a schema (SEMANTICS A8.3), inference for schemaless JSON.

Rows wait as Arrow tables until a row group is full; a file with an inferred schema takes its columns from its first row group, and
`fits` tells the writer when later rows need other columns, so that it rolls the file.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_s3.formats.format import Format, FormatError
from kafka_s3.records.avro_bodies import AvroBodies
from kafka_s3.records.runs import Run
from kafka_s3.records.values import JsonText, StructColumns, Values
from kafka_s3.schemas.arrow import arrow_table
from kafka_s3.schemas.avro_out import avro_schema
from kafka_s3.schemas.avro_types import AvroOptions
from kafka_s3.schemas.connect import ConnectSchema, SchemaError, SchemaType
from kafka_s3.schemas.inference import conform, unify, wider

ROW_GROUP_BYTES: Final = 64 << 20
PAGE_BYTES: Final = 64 << 10
OBJECT_BYTES: Final = 1536  # what an Arrow column costs beside its data; counts where a file gets a few rows at a time
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


def parquet_format(codec: str, options: AvroOptions) -> Format:
    """Parquet with one of Connect's codec names; `options` are for the Avro schema in the footer."""
    arrow_codec, extension = CODECS[codec]
    return Format(
        "parquet",
        extension,
        partial(ParquetFile, codec=arrow_codec, options=options),
        _fit,
        stops_original=_kills_original,
    )


def _kills_original(run: Run) -> bool:
    return run.schema is None or run.schema.kind is not SchemaType.STRUCT


def _fit(run: Run) -> Values | str:
    if isinstance(run.values, JsonText):
        inferred = run.values.table is not None
        return run.values if inferred else "Parquet cannot hold schemaless values (see value.schema.inference)."
    if run.schema is None or run.schema.kind is not SchemaType.STRUCT:
        return "Parquet needs values with a struct schema."
    if _has_empty_struct(run.schema):
        return "Parquet cannot hold a struct without fields."
    if isinstance(run.values, StructColumns | AvroBodies) and run.values.table is not None:
        return run.values
    try:
        return StructColumns(arrow_table(run.values.objects(), run.schema))
    except (SchemaError, ValueError, pa.ArrowException) as error:
        return f"Parquet cannot hold the value: {error}"


def _has_empty_struct(schema: ConnectSchema) -> bool:
    inner = [field.schema for field in schema.fields] + [s for s in (schema.items, schema.keys, schema.values) if s]
    return (schema.kind is SchemaType.STRUCT and not schema.fields) or any(map(_has_empty_struct, inner))


class Tap:
    """A file object that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.position = 0

    def write(self, data: bytes) -> int:
        """Appends bytes."""
        self._bytes += data
        self.position += len(data)
        return len(data)

    def take(self) -> bytes:
        """What was written since the last take."""
        taken = bytes(self._bytes)
        self._bytes = bytearray()
        return taken

    def tell(self) -> int:
        """Bytes written in all."""
        return self.position

    def flush(self) -> None:
        """Nothing to do: the writer's bytes are already here."""

    def close(self) -> None:
        """Nothing to do: the bytes stay until they are taken."""


class ParquetFile:
    """An open Parquet file."""

    def __init__(self, schema: ConnectSchema | None, *, codec: str, options: AvroOptions) -> None:
        self._schema = schema
        self._codec = codec
        self._avro = footer(schema, options)
        self._tables: list[pa.Table] = []
        self._waiting = 0
        self._few = 0
        self._share = COMPRESSED_SHARE
        self._tap = Tap()
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def fits(self, values: Values) -> bool:
        """Whether the values can join this file, whose columns are settled once a row group is written."""
        if self._writer is None or self._schema is not None or not isinstance(values, JsonText) or values.table is None:
            return True
        settled = {field.name: field.type for field in self._writer.schema}
        return all(
            field.name in settled and wider(settled[field.name], field.type) == settled[field.name]
            for field in values.table.schema
            if values.table.column(field.name).null_count < values.table.num_rows
        )

    def append(self, values: Values) -> None:
        """Adds rows; a full row group is encoded."""
        table = self._table(values)
        self._tables.append(table)
        self._waiting += table.nbytes + OBJECT_BYTES * table.num_columns
        self._few += 1 if table.num_rows < FEW_ROWS else 0
        if self._few == MANY_TABLES:
            self._join_small()
        if self._waiting >= ROW_GROUP_BYTES:
            self.compact()

    def size(self) -> int:
        """Encoded bytes, and an estimate of the waiting rows by the compression seen so far."""
        return self._tap.position + int(self._waiting * self._share)

    def pending(self) -> int:
        """Bytes of the rows that wait for their row group."""
        return self._waiting

    def compact(self) -> None:
        """Writes the waiting rows as a row group."""
        if not self._tables:
            return
        table = pa.concat_tables(self._tables) if self._schema is not None else unify(self._tables)
        if self._writer is None:
            self._writer = self._opened(table)
        before = self._tap.position
        self._writer.write_table(conform(table, self._writer.schema), row_group_size=max(table.num_rows, 1))
        self._share = max((self._tap.position - before) / max(self._waiting, 1), 0.01)
        self._tables, self._waiting, self._few = [], 0, 0

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        return self._tap.take()

    def finish(self) -> None:
        """Writes the last row group and the footer."""
        self.compact()
        if self._writer is not None:
            self._writer.close()

    def written_schema(self) -> pa.Schema:
        """The columns of the finished file, as its footer has them."""
        return self._footers[-1].schema.to_arrow_schema()

    def _join_small(self) -> None:
        """Makes many tables of a few rows each into one: with a thousand open files their Arrow objects outweigh the data four to one."""
        joined: list[pa.Table] = []
        for (few, schema), run in groupby(self._tables, key=lambda table: (table.num_rows < FEW_ROWS, table.schema)):
            tables = list(run)
            joinable = few and len(schema)  # tables without columns lose their number of rows when joined
            joined += [pa.concat_tables(tables).combine_chunks()] if joinable else tables
        self._tables, self._few = joined, 0
        self._waiting = sum(table.nbytes + OBJECT_BYTES * table.num_columns for table in joined)

    def _table(self, values: Values) -> pa.Table:
        if isinstance(values, StructColumns | AvroBodies | JsonText) and values.table is not None:
            return values.table
        if self._schema is not None:
            try:
                return arrow_table(values.objects(), self._schema)
            except (SchemaError, ValueError, pa.ArrowException) as error:
                raise FormatError(f"Parquet cannot hold the values: {error}") from error
        raise FormatError("Parquet needs values with a struct schema.")

    def _opened(self, table: pa.Table) -> pq.ParquetWriter:
        schema = table.schema
        repeated = [
            field.name for field in schema if pa.types.is_string(field.type) and _repeats(table.column(field.name))
        ]
        writer = pq.ParquetWriter(
            pa.PythonFile(self._tap, mode="w"),
            schema,
            compression=self._codec,
            data_page_size=PAGE_BYTES,
            use_dictionary=repeated or False,
            store_schema=False,
            write_statistics=True,
            write_time_adjusted_to_utc=True,
            metadata_collector=self._footers,
        )
        writer.add_key_value_metadata(self._avro)
        return writer


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary pays: values come again among the first ones. Where they do not, hashing them all costs as much as writing."""
    first = column.slice(0, SAMPLE)
    return pc.count_distinct(first).as_py() <= len(first) // 2 or len(first) < SAMPLE


def footer(schema: ConnectSchema | None, options: AvroOptions) -> dict[str, str]:
    """The footer's metadata: the Avro schema, where Avro can express the Connect schema (SEMANTICS A8.3)."""
    if schema is None:
        return {}
    try:
        text = json.dumps(avro_schema(schema, options=options), ensure_ascii=False, separators=(",", ":"))
    except SchemaError:  # a name that Avro does not allow: Parquet itself holds it
        return {}
    return {"parquet.avro.schema": text, "writer.model.name": "avro"}
