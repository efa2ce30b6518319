"""Which records does a transform get, and which records, keys and values go away?

The predicates `HasHeaderKey`, `RecordIsTombstone`, `TopicNameMatches`; the transforms `Filter`, `Drop`, `TombstoneHandler`.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Nulls
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, Refused, part_of, put_values
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Whether a record has a header of that name."""

    name: str

    def test(self, record: ConnectRecord) -> bool:
        return any(one.key == self.name for one in record.headers)

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """The records of a run for which it holds."""
        if Role.HEADER not in run.sidecars:
            return np.zeros(len(run), bool)
        headers = run.sidecars[Role.HEADER].values.objects()
        return np.array([any(one["key"] == self.name for one in own or ()) for own in headers], bool)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Whether a record has no value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), run.tombstones)


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Whether the pattern matches the whole topic."""

    pattern: re.Pattern[str]

    def test(self, record: ConnectRecord) -> bool:
        return self.pattern.fullmatch(record.topic) is not None

    def rows(self, run: Run, topic_partition: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), self.pattern.fullmatch(topic_partition.topic) is not None)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops every record that it gets, which is why it has a predicate."""

    def apply(self, record: ConnectRecord) -> None:
        """Nothing."""

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return run.slice(0, 0)


@dataclass(frozen=True, slots=True)
class Drop:
    """Makes a part null. `behavior` is what becomes of its schema: nullify, retain, validate or force_optional."""

    part: RecordPart
    behavior: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return self.part.put(record, None, self._schema(self.part.value_of(record)[1]))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        found = part_of(run, self.part)
        try:
            schema = self._schema(None if found is None else found.schema)
        except Refused:
            return None
        return put_values(run, self.part, Nulls(len(run)), schema)

    def _schema(self, schema: ConnectSchema | None) -> ConnectSchema | None:
        if schema is None or self.behavior == "nullify":
            return None
        if self.behavior == "validate" and not schema.optional:
            raise Refused(f"The {self.part} cannot be dropped: its schema {schema.label()} is not optional.")
        return replace(schema, optional=True) if self.behavior == "force_optional" else schema


@dataclass(frozen=True, slots=True)
class TombstoneHandler:
    """What becomes of null values (`behavior`): ignore and warn drop the record, fail refuses it."""

    behavior: str

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record, if it has a value."""
        if record.value is not None:
            return record
        place = f"{record.topic}-{record.partition} offset {record.offset}"
        if self.behavior == "fail":
            raise Refused(f"A tombstone record was found at {place}.")
        if self.behavior == "warn":
            _log.warning("The tombstone record at %s is dropped.", place)
        return None

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """Runs with values pass."""
        return None if run.tombstones else run
