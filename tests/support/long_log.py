"""A log of a million entries: closed stretches straight as tables, checkpoints, and the short tail as entries.

The entries of closed stretches are left out but for the one that proves the tables the log's own: nobody reads them, and a folder of a
million files would measure the file system. Tables are made column by column; `tests/unit/followers/test_log_tables.py` compares some
with what the product makes of the same entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import LogState, checkpoint_json
from kafka_s3.engine.log.history import (
    DEAD_LETTER_FILES,
    ENTRIES,
    FILES,
    SCHEMAS,
    Tables,
    digest,
    entries_of,
    parquet_of,
)
from kafka_s3.engine.log.log import CHECKPOINT_EVERY
from kafka_s3.engine.log.reading import Manifest, Stretch
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.log_tables import STRETCH_ENTRIES
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import TopicPartition
from tests.support.big_log import MINUTE_MS, PARTITIONS, REASONS

PATHS: Final = StatePaths("_kafka_s3", "long")
PART: Final = "0123456789abcdef0123456789abcdef"


def stretch_tables(
    first: int, count: int, *, files: int, until_ms: int, total: int, bases: np.ndarray
) -> tuple[Tables, list[CommitEntry]]:
    """Tables and, without their files, entries: `count` from version `first`, a minute apart, of `total` whose last is at `until_ms`.

    `bases` are the next offsets of PARTITIONS, and move on.
    """
    versions = np.arange(first, first + count)
    at_ms = until_ms - (total - 1 - versions) * MINUTE_MS
    jitter = np.random.default_rng(first)
    rounds = files // len(PARTITIONS)
    records = jitter.integers(50, 5000, (count * rounds, len(PARTITIONS)))
    ends = bases + records.cumsum(axis=0)
    found = _files(versions, at_ms, (ends - records).ravel(), records.ravel(), jitter)
    made = _made(versions, at_ms, ends.reshape(count, rounds, -1)[:, -1], found)
    bases[:] = ends[-1]
    none = SCHEMAS[DEAD_LETTER_FILES].empty_table()
    return {FILES: found, ENTRIES: _entries(made, at_ms), DEAD_LETTER_FILES: none}, made


def _files(
    versions: np.ndarray, at_ms: np.ndarray, first: np.ndarray, records: np.ndarray, jitter: np.random.Generator
) -> pa.Table:
    each = len(first) // len(versions)
    times, places = at_ms.repeat(each), len(first) // len(PARTITIONS)
    topic = pa.array([tp.topic for tp in PARTITIONS] * places)
    partition = np.tile([tp.partition for tp in PARTITIONS], places)
    hours = [f"{datetime.fromtimestamp(ms / 1000, UTC):year=%Y/month=%m/day=%d/hour=%H}" for ms in at_ms.tolist()]
    encoded = pa.array(hours).take(pa.array(np.arange(len(hours)).repeat(each)))
    offset = pc.utf8_lpad(pa.array(first).cast(pa.string()), 10, "0")
    folder = pc.binary_join_element_wise("topics", topic, encoded, topic, "/")
    key = pc.binary_join_element_wise(folder, pa.array(partition).cast(pa.string()), offset, "+")
    size = records * jitter.integers(60, 90, len(records))
    columns = {
        "version": versions.repeat(each), "committed_at": times, "number": np.tile(np.arange(each), len(versions)),
        "key": pc.binary_join_element_wise(key, "parquet", "."), "topic": topic, "partition": partition, "first_offset": first,
        "last_offset": first + records - 1, "records": records, "bytes": size, "min_timestamp": times - 90_000,
        "max_timestamp": times - 1000, "encoded_partition": encoded, "schema": _same("order v3", len(times)),
        "format": _same("parquet", len(times)), "role": _same("value", len(times)),
        "reason": pa.array([str(reason) for reason in REASONS]).take(pa.array(jitter.integers(0, 3, len(times)))),
        "parts": pa.ListArray.from_arrays(np.arange(len(times) + 1, dtype=np.int32), _same(PART, len(times))),
        "counted": pa.repeat(True, len(times)), "as_logged": pa.nulls(len(times), pa.string()),
    }  # fmt: skip
    return _shaped(FILES, columns)


def _made(versions: np.ndarray, at_ms: np.ndarray, ends: np.ndarray, files: pa.Table) -> list[CommitEntry]:
    sums = {name: files[name].to_numpy().reshape(len(versions), -1).sum(axis=1) for name in ("records", "bytes")}
    count = len(files) // len(versions)
    rows = zip(
        versions.tolist(), at_ms.tolist(), ends.tolist(), sums["records"].tolist(), sums["bytes"].tolist(), strict=True
    )
    return [_entry(version, ms, end, Totals(read, read, 0, 0, count, size)) for version, ms, end, read, size in rows]


def _entries(made: Sequence[CommitEntry], at_ms: np.ndarray) -> pa.Table:
    totals = {name: [getattr(entry.totals, name) for entry in made] for name in Totals.__slots__}
    columns = {
        **totals, "version": [entry.version for entry in made], "committed_at": at_ms, "commit_id": [entry.commit_id for entry in made],
        "epoch": [1] * len(made), "kind": [str(entry.kind) for entry in made], "driver": _same("host/1", len(made)),
        "objects": totals["files"], "document": [entry.to_json().decode() for entry in made],
    }  # fmt: skip
    return _shaped(ENTRIES, columns)


def _entry(version: int, at_ms: int, ends: list[int], totals: Totals) -> CommitEntry:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    progress: dict[TopicPartition, Progress] = {
        tp: Progress(end, end) for tp, end in zip(PARTITIONS, ends, strict=True)
    }
    kind = EntryKind.DATA if version else EntryKind.POSITION
    commit_id = f"commit-{version}"
    return CommitEntry(version, commit_id, 1, "long", kind, at, "memory", progress, totals=totals, driver="host/1")


def _same(text: str, times: int) -> pa.Array:
    return pa.repeat(text, times)


def _shaped(name: str, columns: dict[str, object]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.table([_array(columns[field.name]).cast(field.type) for field in schema], schema=schema)


def _array(values: object) -> pa.Array:
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)


def long_log(count: int, files: int, *, until_ms: int, tail: int = 500) -> Iterator[tuple[str, bytes]]:
    """The objects of a log of `count` entries with `files` files each, of which the last `tail` or more are in no stretch."""
    bases, totals, stretches = np.zeros(len(PARTITIONS), np.int64), Totals(), list[Stretch]()
    closed = (count - tail) // STRETCH_ENTRIES * STRETCH_ENTRIES
    for first in range(0, count, STRETCH_ENTRIES):
        size = min(STRETCH_ENTRIES, count - first)
        tables, made = stretch_tables(first, size, files=files, until_ms=until_ms, total=count, bases=bases)
        if first < closed:
            content = parquet_of(tables)
            stretches.append(_stretch(made, tables, content))
            for name, parquet in content.items():
                yield PATHS.log_table(name, first, last=first + size - 1), parquet
        for entry in made if first < closed else entries_of(tables):
            totals = Totals(*(getattr(totals, name) + getattr(entry.totals, name) for name in Totals.__slots__))
            if first >= closed or entry.version in (0, closed - 1):
                yield PATHS.commit(entry.version), entry.to_json()
            if entry.version % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                state = LogState(entry.version, 1, dict(entry.progress), {}, totals, "memory")
                yield PATHS.checkpoint(entry.version), checkpoint_json(state, entry)
    yield PATHS.log_manifest(), Manifest(tuple(stretches)).to_json()
    yield PATHS.published(1), json.dumps({"version": count - 1, "commit_id": f"commit-{count - 1}"}).encode()


def _stretch(made: Sequence[CommitEntry], tables: Tables, content: Mapping[str, bytes]) -> Stretch:
    first, last = made[0], made[-1]
    return Stretch(
        first.version, last.version,
        commits=(first.commit_id, last.commit_id),
        committed_at=(first.committed_at, last.committed_at),
        files=len(tables[FILES]),
        rows={name: len(table) for name, table in tables.items()},
        sha256={name: digest(parquet) for name, parquet in content.items()},
    )  # fmt: skip
