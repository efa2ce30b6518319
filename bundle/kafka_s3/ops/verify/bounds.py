"""Which offsets does Kafka still have? The bounds of its logs, for topic-partitions that are in Kafka as the commit log knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_s3.engine.loop.topics import check_cluster
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Topic
from kafka_s3.ops.verify.claims import Claims
from kafka_s3.ops.verify.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Bounds:
    """What Kafka has of a topic-partition: `[start, head)`; `whole` where compaction removes nothing."""

    start: int
    head: int
    whole: bool


def bounds_of(
    kafka: Cluster, partitions: Sequence[TopicPartition], *, claims: Claims, sink: str
) -> tuple[dict[TopicPartition, Bounds], list[str]]:
    """What Kafka still has of each topic-partition that is the log's own, and a note on each that it cannot be asked for.

    Raises SourceError where this is another cluster than the log's.
    """
    check_cluster(claims.cluster_id, kafka.cluster_id(), sink=sink, remedy="verify with --no-kafka")
    topics, notes = _unchanged(kafka, partitions, claims)
    there = [tp for tp in partitions if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
    starts, heads, compacted = kafka.starts(there), kafka.heads(there), kafka.compacted(sorted(topics))
    silent = sorted(tp for tp in there if tp not in starts or tp not in heads)
    notes += [f"No broker answers for {tp}: checked from log and objects alone." for tp in silent]
    bounds = {tp: Bounds(starts[tp], heads[tp], tp.topic not in compacted) for tp in there if tp not in silent}
    return bounds, notes


def _unchanged(
    kafka: Cluster, partitions: Sequence[TopicPartition], claims: Claims
) -> tuple[dict[str, Topic], list[str]]:
    """The topics that are in Kafka under the id that the log knows, and a note on each other one."""
    names = sorted({tp.topic for tp in partitions})
    topics, notes = kafka.describe(names), []
    for name in names:
        if name not in topics or topics[name].id != claims.topic_ids.get(name, topics[name].id):
            notes.append(f"Topic {name} is not in Kafka, or was created again: checked from log and objects alone.")
            topics.pop(name, None)
    return topics, notes
