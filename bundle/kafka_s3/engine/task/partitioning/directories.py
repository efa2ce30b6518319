"""Which directories lie around a partitioner's? The schema's name, the one place of tombstones (SEMANTICS A4.2, A7), and none outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np

from kafka_s3.connect.naming.keys import ObjectNames, refusals
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.task.partitioning.partitioners import Encoded, Partitioner, may_hold
from kafka_s3.model.dead_letters import SINK_TASK, Failure, Stage
from kafka_s3.model.offsets import TopicPartition

LARGEST_OFFSET: Final = 2**63 - 1
"""Keys are judged at their longest."""


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
        own = self._schema_directory(run)
        found = self.inner.encode(topic_partition, run, times)
        return Encoded(found.codes, [self._around(directory, own) for directory in found.names], found.failures)

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Whether the directory is one of the run's schema."""
        own = self._schema_directory(run)
        if self.affix is Affix.PREFIX:
            return encoded_partition.startswith(own + self.delimiter)
        return encoded_partition.endswith(self.delimiter + own)

    def _schema_directory(self, run: Run) -> str:
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

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Whether null values meet their own directory, or others another one that may hold them."""
        if run.tombstones or encoded_partition == self.name:
            return run.tombstones and encoded_partition == self.name
        return may_hold(self.inner, encoded_partition, run)


@dataclass(frozen=True, slots=True)
class InsideOnly:
    """Another partitioner's directories, but for those whose objects would have keys that are never written (`object_keys`).

    Whatever a directory is made of, a field, a schema's name, an own partitioner's idea: its records are failures (stage TASK_PUT).
    """

    inner: Partitioner
    naming: ObjectNames
    extension: str
    state_prefix: str
    _found_good: dict[TopicPartition, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What the last batch had: with thousands of directories the next has most of them again."""

    @property
    def uses_time(self) -> bool:
        """As the partitioner inside."""
        return self.inner.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The directories of a run, code -1 and a failure for each record whose object may not be."""
        found = self.inner.encode(topic_partition, run, times)
        refused = self._refusals(topic_partition, found.names)
        if not refused:
            return found
        rows = np.flatnonzero(np.isin(found.codes, list(refused)))
        failures = [_refused(int(run.offsets[row]), refused[int(found.codes[row])]) for row in rows]
        codes = found.codes.copy()
        codes[rows] = -1
        return Encoded(codes, found.names, sorted([*found.failures, *failures], key=lambda failure: failure.offset))

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """As the partitioner inside."""
        return may_hold(self.inner, encoded_partition, run)

    def _refusals(self, topic_partition: TopicPartition, names: list[str]) -> dict[int, str]:
        """Why nothing is written to some of these directories, by their codes."""
        good = self._found_good.get(topic_partition, frozenset())
        codes = [code for code, name in enumerate(names) if name not in good]
        key = partial(self.naming.key, topic_partition, offset=LARGEST_OFFSET, extension=self.extension)
        judged = refusals([key(names[code]) for code in codes], state_prefix=self.state_prefix)
        slashed = "The directory {!r} begins with a slash, and so would leave its folder for many readers."
        refused = {codes[place]: reason for place, reason in judged.items()}
        refused |= {code: slashed.format(names[code]) for code in codes if names[code].startswith("/")}
        self._found_good.clear()
        self._found_good[topic_partition] = frozenset(names).difference(names[code] for code in refused)
        return refused


def _refused(offset: int, reason: str) -> Failure:
    exception = "io.confluent.connect.storage.errors.PartitionException"
    text = f"{reason} Mend what the directory is made of, or set partition.value.encoding=percent."
    return Failure(offset, Stage.TASK_PUT, SINK_TASK, exception, text)
