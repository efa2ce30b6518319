"""How does the dashboard start quickly the second time? What was read of a commit log is kept on this machine, block by block.

A log's entries never change, so a block is written once. The folder's name comes from the log's first entry: another log, even one of the
same name, has another folder. A file that cannot be read is removed, and its entries are read from the bucket again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from reading.frames import SCHEMAS, LogPart, cut, joined

BLOCK: Final = 1000
SMALL: Final = 100
FORM: Final = 2
"""Of the files; another number leaves the older ones alone."""


def default_folder(environment: Mapping[str, str]) -> Path | None:
    """`KAFKA_S3_DASHBOARD_CACHE`, else a folder of the user's caches; None where the variable is blank."""
    chosen = environment.get("KAFKA_S3_DASHBOARD_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen.strip() else None
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/kafka-s3/dashboard"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-s3/dashboard"


class CacheFiles:
    """The blocks of one log. What fails on the disk only costs time, and is not told."""

    def __init__(self, folder: Path, *identity: str) -> None:
        digest = hashlib.sha256("\0".join((str(FORM), *identity)).encode()).hexdigest()[:24]
        self.folder = folder / digest

    def read(self) -> Iterator[LogPart]:
        """The blocks that are there, newest first, none inside of another."""
        found = sorted(
            ((_span(path), path) for path in self.folder.glob("*.arrow")), key=lambda one: (-one[0].stop, -len(one[0]))
        )
        covered = range(0)
        for span, path in found:
            if not span or span.start in covered:
                continue
            part = _read(path, span)
            if part is not None:
                covered = span
                yield part

    def write(self, parts: Sequence[LogPart]) -> None:
        """Keeps every whole block of these parts that is not kept yet."""
        with suppress(OSError, pa.ArrowException):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part in joined(parts):
                self._write(part)

    def _write(self, part: LogPart) -> None:
        for size in (BLOCK, SMALL):
            first = -(-part.first // size) * size
            for start in range(first, part.last - size + 2, size):
                self._keep(part, range(start, start + size))

    def _keep(self, part: LogPart, span: range) -> None:
        whole = range(span.start // BLOCK * BLOCK, span.start // BLOCK * BLOCK + BLOCK)
        if self._path(span).exists() or self._path(whole).exists():
            return
        content = self._path(span).with_suffix(f".{os.getpid()}.new")
        with pa.OSFile(str(content), "wb") as file:
            for name, table in cut(part, first=span.start, last=span.stop - 1).tables.items():
                with pa.ipc.new_stream(file, SCHEMAS[name], options=_COMPRESSED) as stream:
                    stream.write_table(_small(table))
        content.replace(self._path(span))
        if len(span) == BLOCK:
            for start in range(span.start, span.stop, SMALL):
                self._path(range(start, start + SMALL)).unlink(missing_ok=True)

    def _path(self, span: range) -> Path:
        return self.folder / f"{span.start:012d}-{len(span)}.arrow"


_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=False)


def _span(path: Path) -> range:
    start, _, size = path.stem.partition("-")
    return range(int(start), int(start) + int(size)) if start.isdigit() and size.isdigit() else range(0)


def _read(path: Path, span: range) -> LogPart | None:
    tables = {}
    try:
        with pa.OSFile(str(path), "rb") as file:
            for name, schema in SCHEMAS.items():
                with pa.ipc.open_stream(file) as stream:
                    tables[name] = stream.read_all().cast(schema)
    except (OSError, pa.ArrowException, KeyError):
        with suppress(OSError):
            path.unlink()
        return None
    return LogPart(span.start, span.stop - 1, tables)


def _small(table: pa.Table) -> pa.Table:
    """The table with no words in its dictionaries that no row has."""
    columns = [
        column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(column.type) else column
        for column in table.combine_chunks().columns
    ]
    kinds = [field.type for field in table.schema]
    return pa.table([_single(column, kind) for column, kind in zip(columns, kinds, strict=True)], table.schema)


def _single(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return column.combine_chunks() if column.num_chunks else pa.array([], kind)
