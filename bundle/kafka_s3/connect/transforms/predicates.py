"""Which records does a transform get? `HasHeaderKey`, `RecordIsTombstone`, `TopicNameMatches`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.transforms.record import ConnectRecord
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
