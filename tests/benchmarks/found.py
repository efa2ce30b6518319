"""Is every record there, and none twice? The ids of all records in a sink's objects, or in plain Spark's files, sorted and compared."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from isal import igzip

from kafka_s3.store.s3 import S3Store

Ids = npt.NDArray[np.int64]
JSON_OPTIONS = pj.ParseOptions(explicit_schema=pa.schema([("id", pa.int64())]), unexpected_field_behavior="ignore")


def objects_of(store: S3Store, folder: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of each published object of a sink."""
    for found in store.list(f"{folder}/"):
        yield found.key, store.get(found.key)


def files_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each Parquet file below a folder."""
    for path in sorted(folder.glob("*.parquet")):
        yield path.name, path.read_bytes()


def check_all_there(contents: Iterable[tuple[str, bytes]], records: int) -> None:
    """Fails unless the ids are 0 to `records`-1, each once."""
    found = np.sort(np.concatenate([np.empty(0, np.int64), *(ids_of(name, content) for name, content in contents)]))
    assert len(found) == records, f"{len(found)} records of {records} were found"
    assert (found == np.arange(records)).all(), "records are missing, and others are there twice"


def ids_of(name: str, content: bytes) -> Ids:
    """The ids of the records of an object or file, by the ending of its name."""
    if name.endswith(".parquet"):
        return pq.read_table(pa.BufferReader(content), columns=["id"]).column("id").to_numpy()
    if name.endswith(".avro"):
        return np.array([row["id"] for row in fastavro.reader(io.BytesIO(content))], np.int64)
    plain = igzip.decompress(content) if name.endswith(".gz") else content
    reading = pj.ReadOptions(block_size=max(len(plain), 2))
    return pj.read_json(pa.BufferReader(plain), reading, JSON_OPTIONS).column("id").to_numpy()
