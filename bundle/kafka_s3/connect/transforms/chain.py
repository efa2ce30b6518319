"""What becomes of the records of a topic-partition on their way through `transforms`? Other records, failures, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.transforms.columns import ByColumns
from kafka_s3.connect.transforms.record import ConnectRecord, Predicate, Refused, Transform
from kafka_s3.connect.transforms.required import missing_required
from kafka_s3.connect.transforms.runs import as_json, records_of, runs_of
from kafka_s3.model.dead_letters import Failure, Stage, rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

UNEXPECTED = "org.apache.kafka.connect.errors.ConnectException"


@runtime_checkable
class OfRuns(Protocol):
    """A predicate that can answer for all records of a run at once."""

    def rows(self, run: Run, place: TopicPartition) -> npt.NDArray[np.bool_]:
        """Which of the records it holds for."""
        ...


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A transform under its Java name, and the records that it gets: those for which the predicate answers `wanted`."""

    component: str
    transform: Transform
    predicate: Predicate | None = None
    wanted: bool = True

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record after this step, None where it is dropped. Raises Refused."""
        if self.predicate is not None and self.predicate.test(record) is not self.wanted:
            return record
        return self.transform.apply(record)


@dataclass(frozen=True, slots=True)
class Transformed:
    """What became of runs: runs, each in offset order; failures; and the offsets of records that were dropped."""

    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps in order. `reads` are the parts beside the value that a step looks at; with `tables` values without schema get tables."""

    steps: tuple[ChainLink, ...]
    reads: frozenset[Role] = frozenset()
    tables: bool = False

    @property
    def not_deterministic(self) -> tuple[str, ...]:
        """The steps that say of themselves that they may make something else of the same record the next time."""
        return tuple(step.component for step in self.steps if not getattr(step.transform, "deterministic", True))

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """One record through all steps, None where it is dropped. Raises Refused."""
        found: ConnectRecord | None = record
        for step in self.steps:
            if found is None:
                break
            found = step.apply(found)
        return found

    def through(self, runs: Sequence[Run], place: TopicPartition) -> Transformed:
        """The records of runs that come from `place`, as they go on to the writer. Bad records never raise."""
        out = Transformed()
        for run in runs:
            for found in self._run(run, place, 0, out):
                complete = _without_nulls(found, out)
                if len(complete):
                    out.runs.append(self._finished(complete, place))
        out.runs.sort(key=lambda run: int(run.offsets[0]))
        out.failures.sort(key=lambda failure: failure.offset)
        out.dropped.sort()
        return out

    def _run(self, run: Run, place: TopicPartition, first: int, out: Transformed) -> Iterator[Run]:
        """The run through the steps from `first` on; failures and what is dropped go to `out`."""
        for at in range(first, len(self.steps)):
            step = self.steps[at]
            here = place if run.topic is None else TopicPartition(run.topic, place.partition)
            chosen = _chosen(step, run, here)
            if chosen is None:
                yield from self._one_by_one(run, place, at, out)
                return
            if not chosen.any():
                continue
            if not chosen.all():
                others = run.take(np.flatnonzero(~chosen))
                yield from self._run(others, place, at + 1, out)
                run = run.take(np.flatnonzero(chosen))
            found = step.transform.columns(run, here) if isinstance(step.transform, ByColumns) else None
            if found is None:
                yield from self._one_by_one(run, place, at, out, chosen=True)
                return
            if len(found) < len(run):
                out.dropped.extend(run.offsets[~np.isin(run.offsets, found.offsets)].tolist())
            if not len(found):
                return
            run = found
        yield run

    def _one_by_one(
        self, run: Run, place: TopicPartition, first: int, out: Transformed, *, chosen: bool = False
    ) -> Iterator[Run]:
        steps = list(self.steps[first:])
        if chosen:
            steps[0] = replace(steps[0], predicate=None)
        kept: list[ConnectRecord] = []
        for record in records_of(run, place):
            found: ConnectRecord | None = record
            for step in steps:
                try:
                    found = step.apply(found) if found is not None else None
                except Refused as refused:
                    out.failures.append(_failure(record.offset, step, refused.exception, refused.message))
                    break
                except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
                    out.failures.append(_failure(record.offset, step, UNEXPECTED, f"{type(error).__name__}: {error}"))
                    break
            else:
                if found is None:
                    out.dropped.append(record.offset)
                else:
                    kept.append(found)
        yield from runs_of(kept, run, place)

    def _finished(self, run: Run, place: TopicPartition) -> Run:
        """A run as converters hand it on."""
        sidecars = {}
        for role, sidecar in run.sidecars.items():
            values = as_json(sidecar.values, tables=False) if sidecar.schema is None else sidecar.values
            sidecars[role] = replace(sidecar, values=values)
        values = as_json(run.values, tables=self.tables) if run.schema is None else run.values
        schema = None if run.tombstones else run.schema
        topic = None if run.topic == place.topic else run.topic
        return replace(run, values=values, schema=schema, sidecars=sidecars, topic=topic)


def _without_nulls(run: Run, out: Transformed) -> Run:
    """The records that have what their schemas require; the others become failures."""
    missing = missing_required(run)
    if not missing:
        return run
    out.failures.extend(rejection(int(run.offsets[row]), text) for row, text in missing.items())
    return run.take(np.delete(np.arange(len(run)), list(missing)))


def _chosen(step: ChainLink, run: Run, place: TopicPartition) -> npt.NDArray[np.bool_] | None:
    """Which records of a run a step gets; None where only its predicate can tell, record by record."""
    if step.predicate is None:
        return np.ones(len(run), bool)
    if not isinstance(step.predicate, OfRuns):
        return None
    holds = step.predicate.rows(run, place)
    return holds if step.wanted else ~holds


def _failure(offset: int, step: ChainLink, exception: str, message: str) -> Failure:
    return Failure(offset, Stage.TRANSFORMATION, step.component, exception, message)
