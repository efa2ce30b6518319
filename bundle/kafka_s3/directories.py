"""Which directories lie around a partitioner's? The schema's name, and the one place of tombstones (SEMANTICS A4.2, A7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kafka_s3.model import TopicPartition
from kafka_s3.partitioners import Encoded, Partitioner
from kafka_s3.records import Longs, Run


class Affix(StrEnum):
    """Where the schema's name goes (`s3.schema.partition.affix.type`)."""

    NONE = "NONE"
    PREFIX = "PREFIX"
    SUFFIX = "SUFFIX"


@dataclass(frozen=True, slots=True)
class SchemaDirectory:
    """Puts `schema_name=<name>` before or after another partitioner's directories; `null` where the schema has no name."""

    inner: Partitioner
    affix: Affix
    delimiter: str

    @property
    def uses_time(self) -> bool:
        """As the partitioner inside."""
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, which has one schema."""
        own = self.schema_directory(run)
        found = self.inner.encode(topic_partition, run, times)
        return Encoded(found.codes, [self._around(directory, own) for directory in found.names], found.failures)

    def schema_directory(self, run: Run) -> str:
        """The directory of the run's schema."""
        return f"schema_name={(run.schema.name if run.schema is not None else None) or 'null'}"

    def _around(self, directory: str, own: str) -> str:
        parts = [own, directory]
        return self.delimiter.join(parts if self.affix is Affix.PREFIX else reversed(parts))


@dataclass(frozen=True, slots=True)
class TombstoneDirectory:
    """Puts all null values into one directory, everything else where another partitioner says."""

    inner: Partitioner
    name: str

    @property
    def uses_time(self) -> bool:
        """As the partitioner inside."""
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, which holds null values only or none."""
        if run.tombstones:
            return Encoded(np.zeros(len(run), np.int32), [self.name])
        return self.inner.encode(topic_partition, run, times)


def may_hold(partitioner: Partitioner, encoded_partition: str, run: Run) -> bool:
    """Whether the directories of schema names and tombstones let records of the run into a directory."""
    if isinstance(partitioner, TombstoneDirectory):
        if run.tombstones or encoded_partition == partitioner.name:
            return run.tombstones and encoded_partition == partitioner.name
        return may_hold(partitioner.inner, encoded_partition, run)
    if isinstance(partitioner, SchemaDirectory):
        own = partitioner.schema_directory(run)
        if partitioner.affix is Affix.PREFIX:
            return encoded_partition.startswith(own + partitioner.delimiter)
        return encoded_partition.endswith(partitioner.delimiter + own)
    return True
