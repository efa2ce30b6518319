"""Into which directory does a record go? The partitioners of SEMANTICS A4.2, vectorised over runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Longs
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Encoded:
    """`names[codes[i]]` is the encoded partition of record i; -1 where `failures` says why there is none. No name is there twice."""

    codes: npt.NDArray[np.int32]
    names: list[str]
    failures: list[Failure] = field(default_factory=list)


def distinct(encoded: Encoded) -> Encoded:
    """The same with each name once: different values may make one path (`x/b=y` and `z`, `x` and `y/b=z`), and that is one directory."""
    places = {name: place for place, name in enumerate(dict.fromkeys(encoded.names))}
    if len(places) == len(encoded.names):
        return encoded
    codes = np.array([*(places[name] for name in encoded.names), -1], np.int32)  # code -1 is the last of them, -1
    return Encoded(codes[encoded.codes], list(places), encoded.failures)


def encoded_each(run: Run, times: Longs, directory: Callable[[Any, int], str]) -> Encoded:
    """The encoded partitions of a run by a function of a record's value and time (epoch ms), called record by record.

    Where it raises ValueError, TypeError or LookupError, the record is a bad one, and the error's text says why.
    """
    codes = np.full(len(run), -1, np.int32)
    places: dict[str, int] = {}
    failures: list[Failure] = []
    for row, (value, time) in enumerate(zip(run.values.objects(), times.tolist(), strict=True)):
        try:
            codes[row] = places.setdefault(directory(value, time), len(places))
        except (ValueError, TypeError, LookupError) as error:
            why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            failures.append(rejection(int(run.offsets[row]), f"The record has no directory: {why}"))
    return Encoded(codes, list(places), failures)


class Partitioner(Protocol):
    """Gives each record its encoded partition."""

    @property
    def uses_time(self) -> bool:
        """Whether `encode` looks at the times, so that they have to be extracted."""
        ...

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The encoded partitions of a run; `times` are the extracted timestamps (zeros unless `uses_time`)."""
        ...

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Whether records of the run can belong into a directory, as far as the run's schema and kind alone say."""
        ...


class OwnPartitioner(Protocol):
    """What a plugin makes (`connect.config.plugins`): a partitioner whose directories any run may have."""

    @property
    def uses_time(self) -> bool:
        """See `Partitioner`."""
        ...

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """See `Partitioner`."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    """An own partitioner among ours."""

    own: OwnPartitioner

    @property
    def uses_time(self) -> bool:
        """As the own one says."""
        return self.own.uses_time

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """As the own one says."""
        return distinct(self.own.encode(topic_partition, run, times))

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: nothing is known of its directories."""
        return True


class DefaultPartitioner:
    """One directory per Kafka partition."""

    uses_time = False

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """`partition=<kafka partition>`."""
        return Encoded(np.zeros(len(run), np.int32), [f"partition={topic_partition.partition}"])

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True


class TimePartitioner:
    """One directory per time bucket, named by a Joda pattern."""

    uses_time = True

    def __init__(self, buckets: BucketNames) -> None:
        self._buckets = buckets

    def encode(self, topic_partition: TopicPartition, run: Run, times: Longs) -> Encoded:
        """The bucket's start, formatted."""
        codes, names = self._buckets.encode(times)
        return Encoded(codes, names)

    def may_hold(self, encoded_partition: str, run: Run) -> bool:
        """Always: the directory does not depend on schema or kind."""
        return True
