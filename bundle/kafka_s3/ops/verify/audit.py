"""How is a sink verified? Log, listing, dead letters, then each topic-partition's segments against Kafka and their objects.

The log is read before the bucket is listed, and its newest entries once more after that: a sink at work does not disturb the audit, and
what it writes meanwhile is no orphan. Memory holds 16 bytes of each claimed key and the records of one segment, as digests; what else the
log says lies on local disk where it is long.
By example: docs/worked-examples.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.control.settings_notes import read_notes
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, RegistryError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.verify.bounds import Bounds, bounds_of
from kafka_s3.ops.verify.bucket import Bucket, Tell, silent
from kafka_s3.ops.verify.claims import read_claims
from kafka_s3.ops.verify.cluster import Cluster
from kafka_s3.ops.verify.findings import Finding, FindingKind, PartitionTally, Report
from kafka_s3.ops.verify.form import Form, first_version, same_since
from kafka_s3.ops.verify.partition import PartitionAudit, TextsDiffer
from kafka_s3.ops.verify.segments import SegmentSelection
from kafka_s3.store.store import ObjectStore


@dataclass
class Audit:
    """One verification. `kafka` None: from log and objects alone; `sample`: how many data objects are read, None all of them."""

    store: ObjectStore
    paths: StatePaths
    layout: DataKeys
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
        self._look_at_settings(bucket)
        bucket.choose(self.sample)
        bucket.ask()
        bounds = self._bounds([tp for tp, span in bucket.spans.items() if span.count], bucket)
        tallies = [self._tally(tp, bucket, bounds.get(tp)) for tp in bucket.spans]
        if bounds:
            bucket.notes += on_values(bucket.form, bucket.findings)
        return Report(self.paths.sink, claims.entries, tuple(tallies), tuple(bucket.findings), tuple(bucket.notes))

    def _look_at_settings(self, bucket: Bucket) -> None:
        """Since which entry values are made under the settings of now."""
        if self.kafka is None or self.form.expected is None:
            return
        try:
            epoch, names = same_since(read_notes(self.store, self.paths), self.form.shaping)
        except LogDamaged as error:
            bucket.notes.append(f"Values are compared as the settings say now. {error}")
            return
        if names:
            first = first_version(bucket.claims.epochs, epoch, last=bucket.claims.last_version)
            bucket.compared_from = first
            bucket.notes.append(
                f"What commit entries before {first} wrote was counted, not compared: other settings held ({', '.join(names)})."
            )

    def _tally(self, tp: TopicPartition, bucket: Bucket, bounds: Bounds | None) -> PartitionTally:
        """By the values' texts while these are the same in Kafka and objects; from the first difference on by value, and by counts alone
        from where a schema registry is needed that does not answer.
        """
        standing = bucket.standing()
        while True:
            try:
                return PartitionAudit(tp, bucket, self.kafka).tally(bounds)
            except TextsDiffer as differ:
                bucket.form = differ.by_value
            except RegistryError as error:
                bucket.form = bucket.form.without_values(f"the schema registry has not helped. {error}")
            bucket.back_to(standing, tp)

    def _bounds(self, partitions: Sequence[TopicPartition], bucket: Bucket) -> Mapping[TopicPartition, Bounds]:
        """Kafka's bounds of the topic-partitions that have something to verify."""
        if self.kafka is None or not partitions:
            return {}
        bounds, notes = bounds_of(self.kafka, partitions, claims=bucket.claims, sink=self.paths.sink)
        bucket.notes += notes
        return bounds


def on_values(form: Form, findings: Sequence[Finding]) -> Iterator[str]:
    """What is to be known of the comparison of values: why there was none, and what may have misled it."""
    if form.counted:
        yield f"Values were counted, not compared: {form.counted}"
    if form.own_steps and any(one.kind in (FindingKind.WRONG_CONTENT, FindingKind.NOT_ACCOUNTED) for one in findings):
        yield (
            f"Values were compared as {', '.join(form.own_steps)} makes them now. Where a transform of your own may make something else of "
            "the same record the next time, give it the attribute deterministic = False: then values are counted."
        )
