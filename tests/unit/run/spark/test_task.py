"""What Spark hands to a task is cut where a topic-partition ends, as the pipeline takes it."""

from __future__ import annotations

import pyarrow as pa

from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.spark.task import by_topic_partition

ROWS = [("a", 0, 5, 1), ("a", 0, 6, 2), ("a", 1, 5, 3), ("b", 1, 0, -1), ("b", 1, 1, 4)]


def batch(*names: str) -> pa.RecordBatch:
    rows = [dict(zip(("topic", "partition", "offset", "timestamp"), row, strict=True)) for row in ROWS]
    return pa.RecordBatch.from_pylist([{name: row[name] for name in names} for row in rows])


def test_a_batch_is_cut_where_topic_or_partition_changes_and_no_timestamp_is_null() -> None:
    cut = by_topic_partition([batch("topic", "partition", "offset", "timestamp")], one_topic="a")
    assert [(tp, piece.column("offset").to_pylist(), piece.column("timestamp").to_pylist()) for tp, piece in cut] == [
        (TopicPartition("a", 0), [5, 6], [1, 2]), (TopicPartition("a", 1), [5], [3]), (TopicPartition("b", 1), [0, 1], [None, 4]),
    ]  # fmt: skip


def test_without_a_column_of_topics_all_records_are_of_the_only_one() -> None:
    cut = by_topic_partition(
        [batch("partition", "offset", "timestamp")[:3], batch("partition", "offset", "timestamp")[:0]], one_topic="c"
    )
    assert [(tp, len(piece)) for tp, piece in cut] == [(TopicPartition("c", 0), 2), (TopicPartition("c", 1), 1)]
