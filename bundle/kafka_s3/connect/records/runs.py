"""What does a converter hand on? Runs: records of one topic-partition whose values share one schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_s3.connect.records.values import Longs, Nulls, Values
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.model.dead_letters import Failure
from kafka_s3.model.files import Role


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What is stored beside the values of a run: its records' keys, or their headers."""

    values: Values
    schema: ConnectSchema | None


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one topic-partition in offset order. `timestamps` are the Kafka records', epoch ms, or `NO_TIMESTAMP`.

    `sidecars` are keys and headers, where they are stored; their n-th value belongs to the n-th record. `topic` is the one to whose
    objects the records go, None where no transform has changed it. `placed_by` are keys and headers as the partitioner looks at them,
    stored or not; it is empty behind the partitioner.
    """

    offsets: Longs
    timestamps: Longs
    values: Values
    schema: ConnectSchema | None
    sidecars: Mapping[Role, Sidecar] = field(default_factory=dict)
    topic: str | None = None
    placed_by: Mapping[Role, Sidecar] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, rows: Longs) -> Run:
        """The records at these positions."""
        return self._with(self.offsets[rows], self.timestamps[rows], lambda values: values.take(rows))

    def slice(self, start: int, stop: int) -> Run:
        """The records `[start, stop)`."""
        if start == 0 and stop == len(self.offsets):
            return self
        offsets, times = self.offsets[start:stop], self.timestamps[start:stop]
        return self._with(offsets, times, lambda values: values.slice(start, stop))

    def _with(self, offsets: Longs, timestamps: Longs, some: Callable[[Values], Values]) -> Run:
        sidecars = _each(self.sidecars, some) if self.sidecars else self.sidecars
        placed_by = _each(self.placed_by, some) if self.placed_by else self.placed_by
        return Run(offsets, timestamps, some(self.values), self.schema, sidecars, self.topic, placed_by)

    def nbytes(self) -> int:
        """Bytes of the values, and of what is stored beside them."""
        return self.values.nbytes() + sum(sidecar.values.nbytes() for sidecar in self.sidecars.values())

    @property
    def schemas(self) -> dict[Role, ConnectSchema | None]:
        """The schema of what there is: of values, unless the records have none, and of what is stored beside them."""
        beside: dict[Role, ConnectSchema | None] = {role: sidecar.schema for role, sidecar in self.sidecars.items()}
        return beside if self.tombstones else {Role.VALUE: self.schema, **beside}

    @property
    def tombstones(self) -> bool:
        """Whether the records have no values."""
        return isinstance(self.values, Nulls)


def _each(sidecars: Mapping[Role, Sidecar], some: Callable[[Values], Values]) -> Mapping[Role, Sidecar]:
    return {role: Sidecar(some(sidecar.values), sidecar.schema) for role, sidecar in sidecars.items()}


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a batch: runs, failures, the offsets of null values (tombstones), and of records that a transform dropped.

    `malformed` counts the texts in which U+FFFD replaces bytes that are not UTF-8, by what they are of a record.

    Each run is in offset order, and so are the runs' first offsets; runs of different schemas may stretch over each other.
    """

    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    malformed: Counter[Role] = field(default_factory=Counter)
