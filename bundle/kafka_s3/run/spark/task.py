"""What runs inside a Spark task? The pipeline over the task's Arrow batches, once per topic-partition in it."""

from __future__ import annotations

import gc
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from zipimport import zipimporter

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.report_form import outcome_text
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, TaskOutcome, TaskReport, postponed_report
from kafka_s3.run.spark.attempts import TaskTime, died, is_repeated, within
from kafka_s3.run.spark.rows import OversizedRecord, by_place, unpacked
from kafka_s3.run.wiring.conversion import names_schemas, reads_envelopes
from kafka_s3.run.wiring.pipeline import has_reporter, make_pipeline
from kafka_s3.store.options import store_options
from kafka_s3.store.s3 import S3Store

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
