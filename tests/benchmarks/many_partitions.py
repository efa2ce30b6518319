"""What would a cluster of very many topic-partitions ask of the driver? Heads that grow and tasks that answer at once, all in numbers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_s3.model.files import DataFile, Reason, Upload
from kafka_s3.model.offsets import LogEnd, TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.model.tasks import Assignment, TaskReport
from kafka_s3.store.memory import MemoryStore
from tests.support.memory_world import START_MS


@dataclass
class ManyPartitions:
    """Brokers and engine of `topics` topics of `partitions` each. A task makes one file of a byte of all that it is to read.

    `seconds` is the CPU that went into the tasks' answers, which is no cost of the driver.
    """

    topics: int
    partitions: int
    store: MemoryStore
    head: int = 0
    seconds: float = 0.0
    groups: dict[TopicPartition, int] = field(default_factory=dict)

    def cluster_id(self) -> str:
        return "many"

    def topic_names(self) -> list[str]:
        return [f"topic-{number:05d}" for number in range(self.topics)]

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        return {name: Topic(name, f"id-{name}", tuple(range(self.partitions))) for name in names}

    def heads(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.head)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        return dict.fromkeys(partitions, LogEnd(self.head, 0))

    def cut_before(self, positions: Mapping[TopicPartition, LogEnd]) -> dict[TopicPartition, int]:
        return {}

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(times, None)

    def group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def group_progress(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        return {}

    def group_members(self, group: str) -> list[str]:
        return []

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.groups.update(offsets)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        began = time.process_time()
        reports = [self._report(wanted) for wanted in assignments]
        self.seconds += time.process_time() - began
        return reports

    def _report(self, wanted: Assignment) -> TaskReport:
        tp, first, until = wanted.topic_partition, wanted.start, wanted.until
        key = f"topics/{tp.topic}/partition={tp.partition}/{tp.topic}+{tp.partition}+{first:010d}.json"
        upload = self.store.create_upload(key)
        etag = self.store.upload_part(key, upload, 1, b"\n")
        file = DataFile(
            key, *tp, first, until - 1, until - first, 1, START_MS, START_MS, f"partition={tp.partition}", "", "json",
            Reason.FLUSH_SIZE, Upload(key, upload, (etag,), 1),
        )  # fmt: skip
        return TaskReport(tp, first, until, until, rows=until - first, read=until - first, files=(file,))
