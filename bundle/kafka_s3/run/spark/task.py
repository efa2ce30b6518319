"""What runs inside a Spark task? Records go through the pipeline: those that the task reads from Kafka, or those that Spark hands to it.

Spark tries a task again whose process died; ours then only says so. Another attempt would read and upload everything once more, at the
worst moment, and would leave what the first one uploaded. So the first attempt works, any later one reports that the process before it
died, and the driver decides what is tried again, and when. What a task does runs in a thread beside Spark's own, which waits for it no
longer than `task.timeout.ms`.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from operator import itemgetter
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import EngineDied, SinkError, TaskTimedOut
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.model.process import start_daemon
from kafka_s3.model.tasks import Assignment, Fetched, TaskFailure, TaskOutcome, TaskReport, postponed_report
from kafka_s3.run.spark.failures import AFTER_DEATH
from kafka_s3.run.spark.report_form import outcome_text
from kafka_s3.run.wiring.pipeline import TaskPlan
from kafka_s3.store.s3 import S3Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_TIMESTAMP_MS: Final = -1
REPORT: Final = "report string"
"""What tasks give back to the driver: a row for each topic-partition, with its outcome as text."""


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


COLLECT_AFTER = 50_000
"""So many new objects, and a worker looks for garbage among them. By itself Python looks after 700: with thousands of open files, which
are no garbage, it would spend a third of its time on that. What a task leaves Spark's worker collects."""
SINKS = 256
"""For so many configurations a worker keeps what it has made; those not used for the longest go first. With fewer than a process has sinks
in turns, each job would make all of it again."""


def texts_by_numbers(spark: SparkSession, tasks: int, work: Callable[[Iterable[int]], Iterator[str]]) -> list[str]:
    """What so many tasks make of their numbers, from 0 on. Raises Spark's errors.

    A classic session has an RDD do it: there is no query to plan, and its worker loads nothing of Spark's SQL. Spark Connect has DataFrames
    only.
    """
    context = getattr(spark, "_sc", None)
    if context is not None:
        found: list[str] = context.parallelize(range(tasks), tasks).mapPartitions(work).collect()
        return found
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(partial(_in_arrow, work), REPORT).collect()
    return [row.report for row in rows]


def _in_arrow(
    work: Callable[[Iterable[int]], Iterator[str]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in work(batch.column(0).to_pylist()):
            yield pa.RecordBatch.from_arrays([pa.array([text])], names=["report"])


@dataclass(frozen=True)
class ReadingTask:
    """The function that Spark ships to its workers where they read for themselves.

    `shares` are what each task reads; `properties` the consumer's, by their Java names.
    """

    plan: TaskPlan
    shares: tuple[tuple[Assignment, ...], ...]
    bootstrap_servers: str
    properties: Mapping[str, str] = field(repr=False)

    def run(self, numbers: Iterable[int]) -> Iterator[str]:
        """The outcome, as text, of each topic-partition of these shares. None of them is a matter of the others."""
        for number in numbers:
            yield from map(outcome_text, self._outcomes(self.shares[number]))

    def _outcomes(self, share: tuple[Assignment, ...]) -> Iterator[TaskOutcome]:
        if is_repeated():
            yield from (died(wanted.topic_partition) for wanted in share)
            return
        limit, done = TaskTime(self.plan.timeout_s), 0
        try:
            for outcome in within(limit, self._process_share(share, limit), give_up=lambda: give_up(self.plan)):
                done += 1
                yield outcome
        except SinkError as error:
            yield TaskFailure(share[done].topic_partition, _about(share[done], error))
            yield from map(postponed_report, share[done + 1 :])

    def _process_share(self, share: tuple[Assignment, ...], limit: TaskTime) -> Iterator[TaskOutcome]:
        from kafka_s3.kafka.reader.reader import RangeReader  # here: the driver need not load and compile it

        reader = RangeReader(self.bootstrap_servers, self.properties, self.plan.scope)
        ranges = [OffsetRange(wanted.topic_partition, wanted.first_unread, wanted.until) for wanted in share]
        with closing(reader.read_ranges(ranges)) as readings:
            for wanted, (_, batches) in zip(share, readings, strict=True):
                if limit.is_late():
                    yield postponed_report(wanted)
                else:
                    yield _with_fetched(process(self.plan, wanted, batches, limit))


def _with_fetched(outcome: TaskOutcome) -> TaskOutcome:
    """A report has what this process has fetched since the last one, also ahead for the ranges behind."""
    from kafka_s3.kafka.reader.consumer import take_fetched

    if not isinstance(outcome, TaskReport):
        return outcome
    return replace(outcome, fetched=tuple(Fetched(*zones, count) for zones, count in take_fetched().items()))


def _about(wanted: Assignment, error: SinkError) -> SinkError:
    """The error, whose text names the topic-partition."""
    text = str(error)
    return error if str(wanted.topic_partition) in text else type(error)(f"{wanted.topic_partition}: {text}")


@dataclass(frozen=True)
class Task:
    """The function that Spark ships to its workers for records that Spark reads, with the assignments of the whole job."""

    plan: TaskPlan
    assignments: tuple[Assignment, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per topic-partition of this task: its outcome. Raises TaskTimedOut."""
        gc.set_threshold(COLLECT_AFTER)
        limit = TaskTime(self.plan.timeout_s)
        outcomes = within(limit, self._outcomes(batches, limit), give_up=lambda: give_up(self.plan))
        yield from map(report_row, outcomes)

    def _outcomes(self, batches: Iterable[pa.RecordBatch], limit: TaskTime) -> Iterator[TaskOutcome]:
        wanted, repeated = {one.topic_partition: one for one in self.assignments}, is_repeated()
        cut = by_topic_partition(batches, one_topic=self.assignments[0].topic_partition.topic)
        for topic_partition, group in itertools.groupby(cut, key=itemgetter(0)):
            if repeated:
                yield died(topic_partition)
            elif limit.is_late():
                for _ in group:  # Spark sends what it has read
                    pass
                yield postponed_report(wanted[topic_partition])
            else:
                yield process(self.plan, wanted[topic_partition], (batch for _, batch in group), limit)


def by_topic_partition(
    batches: Iterable[pa.RecordBatch], *, one_topic: str
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The batches as the pipeline takes them, cut where a topic-partition ends and the next begins. Without a column that names the topic
    all are of `one_topic`.
    """
    for batch in batches:
        partitions = batch.column("partition").to_numpy()
        changes = np.diff(partitions) != 0
        topics = batch.column("topic").dictionary_encode() if "topic" in batch.schema.names else None
        if topics is not None:
            changes |= np.diff(topics.indices.to_numpy()) != 0
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(batch)] if len(batch) else []
        for start, stop in pairwise(starts):
            topic = one_topic if topics is None else topics[start].as_py()
            yield TopicPartition(topic, int(partitions[start])), _with_null_times(batch[start:stop])


def _with_null_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null for Kafka's "no timestamp"."""
    index = batch.schema.get_field_index("timestamp")
    times = batch.column(index)
    none = pc.equal(times, NO_TIMESTAMP_MS)
    if not pc.any(none).as_py():
        return batch
    return batch.set_column(index, "timestamp", pc.if_else(none, pa.scalar(None, pa.int64()), times))


def process(
    plan: TaskPlan, wanted: Assignment, batches: Iterable[pa.RecordBatch], limit: TaskTime | None = None
) -> TaskOutcome:
    """The outcome of a range whose records are at hand in this process; a report has the requests that the store has sent for it."""
    pipeline, store = tools(plan)
    outcome = pipeline.outcome(wanted, batches, store, is_late=lateness(wanted, limit or TaskTime(plan.timeout_s)))
    return replace(outcome, requests=store.requests.taken()) if isinstance(outcome, TaskReport) else outcome


def lateness(wanted: Assignment, limit: TaskTime) -> Callable[[], bool]:
    """Says whether an assignment that begins now goes on too long, by itself or with its task."""
    if wanted.within_s is None:
        return limit.is_late
    end_s = time.monotonic() + wanted.within_s
    return lambda: limit.is_late() or time.monotonic() > end_s


def give_up(plan: TaskPlan) -> None:
    """A task of this process hangs: it ends where it asks the bucket or Kafka for anything more, and the next one has tools of its own."""
    from kafka_s3.kafka.reader.consumer import abandon_consumers

    _, store = tools(plan)
    store.retire()
    tools.cache_clear()
    abandon_consumers()


def report_row(outcome: TaskOutcome) -> pa.RecordBatch:
    """An outcome as the row that the driver gets."""
    return pa.RecordBatch.from_arrays([pa.array([outcome_text(outcome)])], names=["report"])


@lru_cache(maxsize=SINKS)
def tools(plan: TaskPlan) -> tuple[Pipeline, S3Store]:
    """Pipeline and store, kept for the life of the Python worker: the same configuration comes with every job."""
    made = plan.make_tools()
    gc.freeze()  # Spark's worker collects garbage after every task: not over all modules each time, a tenth of a second
    return made
