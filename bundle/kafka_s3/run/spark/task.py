"""What runs inside a Spark task? Records go through the pipeline: those that the task reads from Kafka, or those that Spark hands to it.

Spark tries a task again whose process died; ours then only says so. Another attempt would read and upload everything once more, at the
worst moment, and would leave what the first one uploaded. So the first attempt works, any later one reports that the process before it
died, and the driver decides what is tried again, and when. What a task does runs in a thread beside Spark's own, which waits for it no
longer than `task.timeout.ms`.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property, lru_cache
from itertools import pairwise
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final, TypeVar
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.log.report_form import outcome_text
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import EngineDied, SinkError, TaskTimedOut
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.model.process import start_daemon
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, TaskReport, postponed_report
from kafka_s3.run.spark.failures import AFTER_DEATH
from kafka_s3.run.wiring.conversion import names_schemas, reads_envelopes
from kafka_s3.run.wiring.pipeline import has_reporter, make_pipeline
from kafka_s3.store.options import store_options
from kafka_s3.store.s3 import S3Store

ROWS_PER_BATCH: Final = 16_384
SMALL_BYTES: Final = 4096
"""Times the rows of a batch: 64 MiB, which is Spark's own bound of bytes."""
NO_TIMESTAMP_MS: Final = -1
PLACE: Final = "place"


class ReadMode(Enum):
    """Which records of a range cross."""

    PLAIN = auto()
    """The small ones whose schema, if any, is named in their bytes; the rows of a batch are limited."""
    ALL = auto()
    """Every one; the bytes of a batch are limited, too."""


class OversizedRecord(SinkError):
    """A range of which the plain records were read holds others."""


def by_place(batches: Iterable[pa.RecordBatch], offset_bits: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches, cut where a topic-partition ends and the next begins, with the topic-partition's number."""
    for batch in batches:
        if not len(batch):
            continue
        places = _positive(batch) >> offset_bits
        starts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for start, stop in pairwise(starts):
            yield int(places[start]), batch.slice(start, stop - start)


def unpacked(batch: pa.RecordBatch, offset_bits: int) -> pa.RecordBatch:
    """The batch with its offsets, and null for Kafka's "no timestamp". Raises OversizedRecord."""
    packed = batch.column(PLACE).to_numpy()
    if packed.min() < 0:
        raise OversizedRecord(f"a record has more than {SMALL_BYTES} bytes or names its schema in a header")
    offsets = pa.array(packed & ((1 << offset_bits) - 1))
    batch = batch.set_column(batch.schema.get_field_index(PLACE), "offset", offsets)
    index = batch.schema.get_field_index("timestamp")
    times = batch.column(index)
    none = pc.equal(times, NO_TIMESTAMP_MS)
    if not pc.any(none).as_py():
        return batch
    return batch.set_column(index, "timestamp", pc.if_else(none, pa.scalar(None, pa.int64()), times))


def last_offset(batch: pa.RecordBatch, offset_bits: int) -> int:
    """The offset of a batch's last record."""
    return int(_positive(batch)[-1]) & ((1 << offset_bits) - 1)


def _positive(batch: pa.RecordBatch) -> Longs:
    """Number and offset of each record, also of one that did not cross."""
    packed: Longs = batch.column(PLACE).to_numpy()
    return packed if packed.min() >= 0 else np.where(packed < 0, -1 - packed, packed)


T = TypeVar("T")
LATE_SHARE: Final = 0.75
"""A task that still reads after this share of its time reports what it has."""


def is_repeated() -> bool:
    """Whether Spark has tried this task before."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def died(topic_partition: TopicPartition) -> TaskFailure:
    """The outcome of an assignment whose process died in an earlier attempt."""
    text = f"{topic_partition}: the process of Spark that read it died at its work. {AFTER_DEATH}"
    return TaskFailure(topic_partition, EngineDied(text))


@dataclass(frozen=True, slots=True)
class TaskTime:
    """The time that a task has, from its beginning on."""

    seconds: float
    begun_s: float = field(default_factory=time.monotonic)

    def is_late(self) -> bool:
        """Whether no more should be begun."""
        return time.monotonic() - self.begun_s > self.seconds * LATE_SHARE

    def left_s(self) -> float:
        """Seconds until it is given up."""
        return max(0.0, self.begun_s + self.seconds - time.monotonic())


def within(limit: TaskTime, items: Iterator[T], *, give_up: Callable[[], None]) -> Iterator[T]:
    """The items, made by a thread of their own. Raises TaskTimedOut once the time is over, after `give_up`; what the items raise."""
    found: Queue[tuple[str, T | None, BaseException | None]] = Queue()

    def make() -> None:
        try:
            for item in items:
                found.put(("item", item, None))
            found.put(("end", None, None))
        except BaseException as error:  # whoever waits raises it
            found.put(("error", None, error))

    start_daemon(make, "kafka-s3 task")
    while True:
        try:
            what, item, error = found.get(timeout=limit.left_s() or 0.001)
        except Empty:
            give_up()
            raise TaskTimedOut(
                f"A task did not end within {limit.seconds:g} s (task.timeout.ms): a connection or a disk may hang."
            ) from None
        if error is not None:
            raise error
        if what == "end":
            return
        yield item  # type: ignore[misc]  # an item is what the iterator gave


READ_AGAIN = "read_again"
COLLECT_AFTER = 50_000
"""So many new objects, and a worker looks for garbage among them. By itself Python looks after 700: with thousands of open files, which
are no garbage, it would spend a third of its time on that. What a task leaves Spark's worker collects."""
SINKS = 32
"""For so many configurations a worker keeps what it has made; those not used for the longest go first."""


@dataclass(frozen=True)
class Task:
    """The function that Spark ships to its workers: resolved settings (secrets inside, never in Spark's configuration) and assignments."""

    settings: Settings
    assignments: tuple[Assignment, ...]

    @property
    def keeps_envelopes(self) -> bool:
        """Whether keys and headers are read: where they are stored, or a record may become a dead letter.

        Without tolerance a reporter makes dead letters, too: of null values, and of the record at which the sink stops.
        """
        tolerant = self.settings.text("errors.tolerance") == "all"
        return tolerant or has_reporter(self.settings) or reads_envelopes(self.settings)

    @property
    def keeps_schema_names(self) -> bool:
        """Whether the headers that name a record's schema are read."""
        return names_schemas(self.settings)

    @cached_property
    def first_places(self) -> dict[str, int]:
        """The number of each topic's partition 0 among the topic-partitions of this job; the others follow it."""
        partitions: dict[str, int] = {}
        for topic, partition in sorted(a.topic_partition for a in self.assignments):
            partitions[topic] = partition + 1
        return dict(zip(partitions, itertools.accumulate(partitions.values(), initial=0), strict=False))

    @cached_property
    def offset_bits(self) -> int:
        """How many of a record's 63 bits hold its offset, below its topic-partition's number. Raises SinkError where they do not do."""
        bits = 63 - max([1, *map(self.place, self.assignments)]).bit_length()
        highest = max((a.until for a in self.assignments), default=0)
        if highest >= 1 << bits:
            raise SinkError(
                f"Offset {highest} and {len(self.assignments)} topic-partitions are too much for one job: lower tasks.max."
            )
        return bits

    def place(self, wanted: Assignment) -> int:
        """The number that stands for the topic-partition in the rows of this job."""
        return self.first_places[wanted.topic_partition.topic] + wanted.topic_partition.partition

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per topic-partition of this task: its outcome. Raises TaskTimedOut."""
        gc.set_threshold(COLLECT_AFTER)
        limit = TaskTime(self.settings.number("task.timeout.ms") / 1000)
        rows = self._deaths(batches) if is_repeated() else self._rows(batches, limit)
        yield from map(report_row, within(limit, rows, give_up=lambda: give_up(self.settings)))
        forget_archives()

    def _rows(self, batches: Iterable[pa.RecordBatch], limit: TaskTime) -> Iterator[str]:
        pipeline, store = tools(self.settings)
        places, bits = {self.place(a): a for a in self.assignments}, self.offset_bits
        for place, group in itertools.groupby(by_place(batches, bits), key=lambda item: item[0]):
            unpacked_batches = (unpacked(batch, bits) for _, batch in group)
            yield self._row(pipeline, places[place], unpacked_batches, store, limit)

    def _deaths(self, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        places, bits = {self.place(a): a.topic_partition for a in self.assignments}, self.offset_bits
        for place, _ in itertools.groupby(by_place(batches, bits), key=lambda item: item[0]):
            yield outcome_text(died(places[place]))

    def without_records(self, wanted: Assignment) -> TaskOutcome:
        """The outcome of a range that holds no records (only gaps): made where the loop runs."""
        return self.here(wanted, [])

    def here(self, wanted: Assignment, batches: Iterable[pa.RecordBatch]) -> TaskOutcome:
        """The outcome of a range whose records are at hand where the loop runs, in the columns that `Pipeline.process` takes."""
        pipeline, store = tools(self.settings)
        limit = TaskTime(self.settings.number("task.timeout.ms") / 1000)
        return with_requests(pipeline.outcome(wanted, batches, store, is_late=limit.is_late), store)

    def _row(
        self, pipeline: Pipeline, wanted: Assignment, batches: Iterable[pa.RecordBatch], store: S3Store, limit: TaskTime
    ) -> str:
        if limit.is_late():
            for _ in batches:  # Spark sends what it has read
                pass
            return outcome_text(postponed_report(wanted))
        watched = _Oversized(batches)
        outcome = pipeline.outcome(wanted, watched, store, is_late=limit.is_late)
        if watched.met:
            return json.dumps({READ_AGAIN: wanted.topic_partition})
        return outcome_text(with_requests(outcome, store))


class _Oversized:
    """Batches, and whether one of them holds a record that only another selection of columns can bring."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.met = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except OversizedRecord:
            self.met = True
            raise


def place_to_read_again(row: str) -> TopicPartition | None:
    """The topic-partition that has to be read in full, where the row says that instead of a report."""
    place = json.loads(row).get(READ_AGAIN)
    return None if place is None else TopicPartition(*place)


def with_requests(outcome: TaskOutcome, store: S3Store) -> TaskOutcome:
    """The outcome; a report with the requests that the store has sent since the last one."""
    return replace(outcome, requests=store.requests.taken()) if isinstance(outcome, TaskReport) else outcome


def give_up(settings: Settings) -> None:
    """A task of this process hangs: it ends where it asks the bucket or Kafka for anything more, and the next one has tools of its own."""
    from kafka_s3.kafka.reader.consumer import abandon_consumers

    _, store = tools(settings)
    store.retire()
    _cached_tools.cache_clear()
    abandon_consumers()


def report_row(report: str) -> pa.RecordBatch:
    """A report, or what stands for it, as the row that the driver gets."""
    return pa.RecordBatch.from_arrays([pa.array([report])], names=["report"])


def tools(settings: Settings) -> tuple[Pipeline, S3Store]:
    """Pipeline and store, kept for the life of the Python worker: the same configuration comes with every job."""
    return _cached_tools(_Key(settings))


class _Key:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._identity = (tuple(sorted(settings.source.items())), tuple(sorted(settings.worker.items())))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Key)
            and self._identity == other._identity
            and self.settings.values == other.settings.values
        )

    def __hash__(self) -> int:
        return hash(self._identity)


@lru_cache(maxsize=SINKS)
def _cached_tools(key: _Key) -> tuple[Pipeline, S3Store]:
    tools = make_pipeline(key.settings), S3Store(store_options(key.settings))
    gc.freeze()  # Spark's worker collects garbage after every task: not over all modules each time, a tenth of a second
    return tools


def forget_archives() -> None:
    """Spark's worker drops import caches before every task, and Python then reads the directory of each zip file on its path anew.

    That takes as long as 100,000 records. Finders that are not there are not asked; an import that needs one makes it again.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if TYPE_CHECKING:
    from kafka_s3.kafka.reader.messages import ReadScope

NUMBER = "id"
"""The column of `spark.range` that tells a task which of the shares is its own."""


@dataclass(frozen=True)
class ReadingTask:
    """The function that Spark ships to its workers. `shares` are what each task reads; `properties` the consumer's, by their Java names."""

    task: Task
    shares: tuple[tuple[Assignment, ...], ...]
    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per topic-partition of this task's share: its outcome. None of them is a matter of the others."""
        for batch in batches:
            for number in batch.column(NUMBER).to_pylist():
                yield from map(report_row, map(outcome_text, self._outcomes(self.shares[number])))
        forget_archives()

    def _outcomes(self, share: tuple[Assignment, ...]) -> Iterator[TaskOutcome]:
        if is_repeated():
            yield from (died(wanted.topic_partition) for wanted in share)
            return
        settings, done = self.task.settings, 0
        limit = TaskTime(settings.number("task.timeout.ms") / 1000)
        try:
            for outcome in within(limit, self._read(share, limit), give_up=lambda: give_up(settings)):
                done += 1
                yield outcome
        except SinkError as error:
            yield TaskFailure(share[done].topic_partition, _about(share[done], error))
            yield from map(postponed_report, share[done + 1 :])

    def _read(self, share: tuple[Assignment, ...], limit: TaskTime) -> Iterator[TaskOutcome]:
        from kafka_s3.kafka.reader.reader import RangeReader  # here: the driver need not load and compile it

        pipeline, store = tools(self.task.settings)
        reader = RangeReader(self.bootstrap_servers, self.properties, self._part())
        ranges = [OffsetRange(wanted.topic_partition, wanted.first_unread, wanted.until) for wanted in share]
        with closing(reader.read(ranges)) as readings:
            for wanted, (_, batches) in zip(share, readings, strict=True):
                if limit.is_late():
                    yield postponed_report(wanted)
                else:
                    yield with_requests(pipeline.outcome(wanted, batches, store, is_late=limit.is_late), store)

    def _part(self) -> ReadScope:
        from kafka_s3.kafka.reader.messages import ReadScope

        if self.task.keeps_envelopes:
            return ReadScope.ENVELOPES
        return ReadScope.SCHEMA_NAMES if self.task.keeps_schema_names else ReadScope.VALUES


def _about(wanted: Assignment, error: SinkError) -> SinkError:
    """The error, whose text names the topic-partition."""
    text = str(error)
    return error if str(wanted.topic_partition) in text else type(error)(f"{wanted.topic_partition}: {text}")
