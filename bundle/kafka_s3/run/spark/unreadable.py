"""What becomes of a range with a record that Spark's Kafka source cannot represent? The other client reads it here, and all of it counts.

Spark turns a record's time into microseconds before anything else, and fails where that is beyond 64 bits: a producer that counts in
nanoseconds is enough. No selection of columns avoids it, and the failure does not say the offset. The range then goes through the same
pipeline in the driver's process, one topic-partition at a time, in batches bounded by bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.config.settings import Settings
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.kafka.envelopes import envelopes
from kafka_s3.model.errors import UnreadableRecord
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskOutcome
from kafka_s3.run.spark.task import Task

LATEST_MS: Final = (2**63 - 1) // 1000
"""The last time, in epoch ms, that Spark can count in microseconds."""


class ReadHereInstead:
    """An engine on Spark that nothing in a record can stop. `properties` are the consumer's Java properties.

    A topic-partition that Spark could not read once is read here from then on, until a range of it holds nothing of the kind.
    """

    def __init__(self, inner: Source, settings: Settings, *, properties: Mapping[str, str]) -> None:
        self._inner = inner
        self._settings = settings
        self._properties = properties
        self._here: set[TopicPartition] = set()

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment. Raises what the engine raises."""
        by_spark = [wanted for wanted in assignments if wanted.topic_partition not in self._here]
        reports = self._by_spark(by_spark) if by_spark else []
        return [*reports, *(self._read(wanted) for wanted in assignments if wanted not in by_spark)]

    def _by_spark(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """The reports; where the job cannot read a record, each topic-partition is tried alone, to find whose it is."""
        try:
            return self._inner.read(assignments)
        except UnreadableRecord:
            if len(assignments) == 1:
                self._here.add(assignments[0].topic_partition)
                return [self._read(assignments[0])]
        return [report for wanted in assignments for report in self._by_spark([wanted])]

    def _read(self, wanted: Assignment) -> TaskOutcome:
        brokers = KafkaBrokers(self._settings.text("kafka.bootstrap.servers"), properties=self._properties)
        seen = _Seen(envelopes(brokers.clients, wanted.topic_partition, start=wanted.first_unread, until=wanted.until))
        outcome = Task(self._settings, (wanted,)).here(wanted, seen)
        if not seen.beyond:
            self._here.discard(wanted.topic_partition)
        return outcome


class _Seen:
    """Batches, and whether one of them held a time that Spark cannot count."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.beyond = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            latest = pc.max(batch.column("timestamp")).as_py()
            self.beyond |= latest is not None and latest > LATEST_MS
            yield batch
