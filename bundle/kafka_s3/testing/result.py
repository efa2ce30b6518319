"""What did a sink make of the records of a test? Its objects as files, tables and DataFrames; its dead letters; its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_s3.engine.log.dead_letters import LetterSelection, letters, read_ledger
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.files import DataFile, Role
from kafka_s3.store.store import ObjectStore
from kafka_s3.testing.tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SinkRun:
    """A bucket after a sink has worked off its records and closed its files.

    `objects` are the values' objects, by key, in the order in which they were committed; `bucket` is everything but the sink's state, so
    also objects of keys and headers, indexes, and the log of a Delta table. `entries` are the commit log's, the claim first.
    """

    objects: Mapping[str, bytes]
    dead_letters: tuple[DeadLetter, ...]
    entries: tuple[CommitEntry, ...]
    bucket: Mapping[str, bytes]

    def table(self, topic: str | None = None) -> pa.Table:
        """The rows of a topic's objects (None: of all), in that order; columns as `testing.tables` has them."""
        return table_of([(file.format, self.objects[file.key]) for file in self._files(topic)])

    def dataframe(self, spark: SparkSession, topic: str | None = None) -> DataFrame:
        """The same as a DataFrame of Spark."""
        return spark.createDataFrame(self.table(topic))

    def save(self, folder: Path) -> Path:
        """Writes `bucket` below a folder, for readers of files and of Delta tables; gives that folder."""
        for key, content in self.bucket.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder

    def _files(self, topic: str | None) -> Iterator[DataFile]:
        files = (file for entry in self.entries for file in entry.files if file.role is Role.VALUE)
        return (file for file in files if topic in (None, file.topic))


def result_of(store: ObjectStore, paths: StatePaths) -> SinkRun:
    """What is in a bucket with one sink. Raises LogDamaged, StorageError."""
    entries = tuple(read_history(store, paths))
    filed = letters(read_ledger(store, paths), store, selection=LetterSelection(), missing=lambda _: None)
    bucket = {info.key: store.get(info.key) for info in store.list("") if not info.key.startswith(paths.root)}
    files = [file for entry in entries for file in entry.files if file.role is Role.VALUE]
    return SinkRun({file.key: bucket[file.key] for file in files}, tuple(one.letter for one in filed), entries, bucket)
