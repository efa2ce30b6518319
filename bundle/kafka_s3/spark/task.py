"""What runs inside a Spark task? The pipeline over the task's Arrow batches, once per topic-partition in it."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from zipimport import zipimporter

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.config.settings import Settings
from kafka_s3.conversion import names_schemas, reads_envelopes
from kafka_s3.errors import SinkError
from kafka_s3.pipeline import make_pipeline
from kafka_s3.report_form import report_text
from kafka_s3.spark.failures import failure_text
from kafka_s3.storage.options import store_options
from kafka_s3.storage.s3 import S3Store
from kafka_s3.tasks import Assignment, TaskReport
from kafka_s3.worker import Pipeline

NO_TIMESTAMP_MS = -1
PLACES_PER_TOPIC = 2**32


@dataclass(frozen=True)
class Task:
    """The function that Spark ships to its workers: resolved settings (secrets inside, never in Spark's configuration) and assignments."""

    settings: Settings
    assignments: tuple[Assignment, ...]

    @property
    def keeps_envelopes(self) -> bool:
        """Whether keys and headers are read: where they are stored, or a record may become a dead letter."""
        topic = self.settings.text("errors.deadletterqueue.topic.name")
        return self.settings.text("errors.tolerance") == "all" or bool(topic) or reads_envelopes(self.settings)

    @property
    def keeps_schema_names(self) -> bool:
        """Whether the headers that name a record's schema are read."""
        return names_schemas(self.settings)

    @property
    def topics(self) -> list[str]:
        """The topics of this job, sorted: a record's place is `index of its topic * 2**32 + partition`."""
        return sorted({a.topic_partition.topic for a in self.assignments})

    def place(self, wanted: Assignment) -> int:
        """The number that stands for the topic-partition in the rows of this job."""
        return self.topics.index(wanted.topic_partition.topic) * PLACES_PER_TOPIC + wanted.topic_partition.partition

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per topic-partition of this task: its report."""
        pipeline, store = _tools(self.settings)
        places = {self.place(a): a for a in self.assignments}
        for place, group in itertools.groupby(_by_place(batches), key=lambda item: item[0]):
            wanted = places[place]
            yield _row(self._report(pipeline, wanted, (batch for _, batch in group), store))
        _forget_archives()

    def without_records(self, wanted: Assignment) -> TaskReport:
        """The report of a range that holds no records (only gaps): made where the loop runs."""
        pipeline, store = _tools(self.settings)
        return pipeline.process(wanted, [], store)

    def _report(self, pipeline: Pipeline, wanted: Assignment, batches: Iterable[pa.RecordBatch], store: S3Store) -> str:
        try:
            return report_text(pipeline.process(wanted, batches, store))
        except SinkError as error:
            return failure_text(error, wanted.topic_partition)


def _by_place(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        if not len(batch):
            continue
        place = batch.column("place")
        first, last = place[0].as_py(), place[-1].as_py()
        if first == last:
            yield first, _clean(batch)
            continue
        for value in pc.unique(place).to_pylist():  # the end of one topic-partition and the beginning of the next
            yield value, _clean(batch.filter(pc.equal(place, value)))


def _clean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null for Kafka's "no timestamp"."""
    index = batch.schema.get_field_index("timestamp")
    times = batch.column(index)
    none = pc.equal(times, NO_TIMESTAMP_MS)
    if not pc.any(none).as_py():
        return batch
    return batch.set_column(index, "timestamp", pc.if_else(none, pa.scalar(None, pa.int64()), times))


def _row(report: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([report])], names=["report"])


def _tools(settings: Settings) -> tuple[Pipeline, S3Store]:
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


@lru_cache(maxsize=4)
def _cached_tools(key: _Key) -> tuple[Pipeline, S3Store]:
    tools = make_pipeline(key.settings), S3Store(store_options(key.settings))
    gc.freeze()  # Spark's worker collects garbage after every task: not over all modules each time, a tenth of a second
    return tools


def _forget_archives() -> None:
    """Spark's worker drops import caches before every task, and Python then reads the directory of each zip file on its path anew.

    That takes as long as 100,000 records. Finders that are not there are not asked; an import that needs one makes it again.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
