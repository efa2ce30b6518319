"""How is a sink verified? Log, listing, dead letters, then each topic-partition's segments against Kafka and their objects.

The log is read before the bucket is listed, and its newest entries once more after that: a sink at work does not disturb the audit, and
what it writes meanwhile is no orphan. Memory holds 16 bytes of each claimed key and the records of one segment, as digests; what else the
log says lies on local disk where it is long.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_s3.model.cluster import Cluster
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tools.verify.bounds import Bounds, bounds_of
from kafka_s3.tools.verify.bucket import Bucket, Tell, silent
from kafka_s3.tools.verify.claims import read_claims
from kafka_s3.tools.verify.findings import PartitionTally, Report
from kafka_s3.tools.verify.form import Form
from kafka_s3.tools.verify.layout import ObjectLayout
from kafka_s3.tools.verify.partition import PartitionAudit, TextsDiffer
from kafka_s3.tools.verify.segments import SegmentSelection


@dataclass
class Audit:
    """One verification. `kafka` None: from log and objects alone; `sample`: how many data objects are read, None all of them."""

    store: ObjectStore
    paths: StatePaths
    layout: ObjectLayout
    form: Form
    kafka: Cluster | None = None
    selection: SegmentSelection = field(default_factory=SegmentSelection)
    sample: int | None = None
    tell: Tell = silent

    def run(self) -> Report:
        """Verifies. Raises StorageError and SourceError where bucket or brokers cannot be asked."""
        claims = read_claims(self.store, self.paths)
        bucket = Bucket(self.store, self.paths, claims, self.layout, self.form, self.selection, self.tell)
        bucket.findings += claims.findings
        bucket.choose(self.sample)
        bucket.ask({tp.topic for tp in bucket.spans})
        bounds = self._bounds([tp for tp, span in bucket.spans.items() if span.count], bucket)
        tallies = [self._tally(tp, bucket, bounds.get(tp)) for tp in bucket.spans]
        return Report(self.paths.sink, claims.entries, tuple(tallies), tuple(bucket.findings), tuple(bucket.notes))

    def _tally(self, tp: TopicPartition, bucket: Bucket, bounds: Bounds | None) -> PartitionTally:
        """By the values' texts while these are the same in Kafka and objects; from the first difference on by value."""
        standing = bucket.standing()
        try:
            return PartitionAudit(tp, bucket, self.kafka).tally(bounds)
        except TextsDiffer as differ:
            bucket.form = differ.by_value
            bucket.back_to(standing, tp)
            return PartitionAudit(tp, bucket, self.kafka).tally(bounds)

    def _bounds(self, partitions: Sequence[TopicPartition], bucket: Bucket) -> Mapping[TopicPartition, Bounds]:
        """Kafka's bounds of the topic-partitions that have something to verify."""
        if self.kafka is None or not partitions:
            return {}
        bounds, notes = bounds_of(self.kafka, partitions, claims=bucket.claims, sink=self.paths.sink)
        bucket.notes += notes
        return bounds
