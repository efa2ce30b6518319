"""How do objects become rows of one table? By their format, as a reader of the bucket would have them.

Parquet keeps its columns and types. JSON and Avro rows are put together by name, with types that Arrow finds in the values; a JSON value
that is no object, and what is no table (bytes, Block-GZIP, formats of one's own), stands in the column `value`: there one row per object.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.model.deflate import GZIP_MAGIC


def table_of(objects: Sequence[tuple[str, bytes]]) -> pa.Table:
    """The rows of objects, each given by its format's name in the log and its bytes; no columns where there are no rows."""
    if objects and all(name == "parquet" for name, _ in objects):
        tables = [pq.read_table(io.BytesIO(content)) for _, content in objects]
        return pa.concat_tables(tables, promote_options="permissive")
    rows = [row for name, content in objects for row in _rows(name, content)]
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _rows(name: str, content: bytes) -> Iterable[Mapping[str, Any]]:
    plain = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    match name:
        case "parquet":
            return list(pq.read_table(io.BytesIO(content)).to_pylist())
        case "avro":
            return [_row(value) for value in fastavro.reader(io.BytesIO(content))]
        case "json":
            return [_row(json.loads(line)) for line in plain.splitlines()]
    return [{"value": plain}]


def _row(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {"value": value}
