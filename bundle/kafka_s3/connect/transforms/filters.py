"""Which records does a transform get, and which records, keys and values go away?

The predicates `HasHeaderKey`, `RecordIsTombstone`, `TopicNameMatches`; the transforms `Filter`, `Drop`, `TombstoneHandler`.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import Nulls
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, Refused
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Whether a record has a header of that name."""

    name: str

    def test(self, record: ConnectRecord) -> bool:
        """Whether it holds."""
        return any(one.key == self.name for one in record.headers)

    def rows(self, run: Run, place: TopicPartition) -> npt.NDArray[np.bool_]:
        """The records of a run for which it holds."""
        if Role.HEADER not in run.sidecars:
            return np.zeros(len(run), bool)
        headers = run.sidecars[Role.HEADER].values.objects()
        return np.array([any(one["key"] == self.name for one in own or ()) for own in headers], bool)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Whether a record has no value."""

    def test(self, record: ConnectRecord) -> bool:
        """Whether it holds."""
        return record.value is None

    def rows(self, run: Run, place: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), run.tombstones)


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Whether the pattern matches the whole topic."""

    pattern: re.Pattern[str]

    def test(self, record: ConnectRecord) -> bool:
        """Whether it holds."""
        return self.pattern.fullmatch(record.topic) is not None

    def rows(self, run: Run, place: TopicPartition) -> npt.NDArray[np.bool_]:
        """All records of a run, or none."""
        return np.full(len(run), self.pattern.fullmatch(place.topic) is not None)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops every record that it gets, which is why it has a predicate."""

    def apply(self, record: ConnectRecord) -> None:
        """Nothing."""

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """Nothing of the run."""
        return run.slice(0, 0)


@dataclass(frozen=True, slots=True)
class Drop:
    """Makes a part null. `behavior` is what becomes of its schema: nullify, retain, validate or force_optional."""

    part: RecordPart
    behavior: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record without the part."""
        return self.part.put(record, None, self._schema(self.part.of(record)[1]))

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """Nulls."""
        schema = run.schema if self.part is RecordPart.VALUE else None
        if self.part is RecordPart.KEY and Role.KEY in run.sidecars:
            schema = run.sidecars[Role.KEY].schema
        try:
            schema = self._schema(schema)
        except Refused:
            return None
        if self.part is RecordPart.VALUE:
            return replace(run, values=Nulls(len(run)), schema=schema)
        return replace(run, sidecars={**run.sidecars, Role.KEY: Sidecar(Nulls(len(run)), schema)})

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

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """Runs with values pass."""
        return None if run.tombstones else run
