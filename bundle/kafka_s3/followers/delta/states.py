"""What does a table say of itself, and what becomes one version of it? The data that tables of every writer share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.engine.task.table_guard.columns import TableColumns

APP: Final = "kafka-s3-"
"""With a sink's name the application of its transactions, whoever writes the table."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """An object as a table has it; `stats` is Delta's text."""

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table says: its version, columns, partition columns, and the log entry up to which the sink's files are in it (-1: none)."""

    version: int
    columns: TableColumns
    partition_by: tuple[str, ...]
    position: int
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """What becomes one version of the table: files in, paths out, up to log entry `position`; `note` is for the table's history."""

    position: int
    files: Sequence[TableFile] = ()
    removed: Sequence[str] = ()
    note: Mapping[str, Any] = field(default_factory=dict)
    at_ms: int = 0
