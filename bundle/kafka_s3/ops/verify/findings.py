"""What can be wrong with a sink's objects? Findings, and the tally of what was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from kafka_s3.model.offsets import TopicPartition


class FindingKind(StrEnum):
    """What is wrong."""

    MISSING_OBJECT = "missing object"
    WRONG_SIZE = "wrong size"
    WRONG_ETAG = "wrong ETag"
    WRONG_COUNT = "wrong count"
    WRONG_CONTENT = "wrong content"
    UNREADABLE = "unreadable object"
    ARCHIVED = "archived object"
    ORPHAN = "orphan object"
    NOT_ACCOUNTED = "record not accounted"
    TWICE = "record twice"
    LOG = "log inconsistency"
    DAMAGED_ENTRY = "damaged entry"
    UNKNOWN_TOPIC = "unknown topic"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, where (a key, a commit entry, or offsets), and a text that ends with the remedy."""

    kind: FindingKind
    place: str
    text: str


@dataclass(slots=True)
class PartitionTally:
    """What was looked at of one topic-partition, offsets `[start, until)`.

    `kafka` are records found in Kafka (None: not asked); `without_record` offsets at which Kafka has none: transaction markers and what
    compaction removed; `retention` offsets before Kafka's log start, checked from log and objects alone; `gaps` offsets by the cause that
    the log gives; `compared` records whose value was compared; `twice` records that were written, and written once more after the position
    was set back, as far as the earlier objects are there; `erased` records and dead letters whose content is gone, as was asked for.
    """

    topic_partition: TopicPartition
    start: int
    until: int
    written: int = 0
    dead_letters: int = 0
    skipped: int = 0
    gaps: Mapping[str, int] = field(default_factory=dict)
    kafka: int | None = None
    without_record: int = 0
    retention: int = 0
    objects: int = 0
    read: int = 0
    compared: int = 0
    twice: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome: tallies and findings, and notes on what could not be compared or needs no action."""

    sink: str
    entries: int
    tallies: tuple[PartitionTally, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def empty(self) -> bool:
        """Whether there was nothing to look at: no offset, and no dead letter beyond the frontier."""
        return not any(tally.until > tally.start or tally.objects for tally in self.tallies)

    @property
    def twice(self) -> int:
        """How many records are in the bucket twice, because the position was set back."""
        return sum(tally.twice for tally in self.tallies)

    def verdict(self) -> str:
        """What the report says, in a sentence."""
        if self.findings:
            return f"{len(self.findings)} findings"
        if self.empty:
            return "Nothing to verify: the log has no entry for what was selected."
        if not self.twice:
            without_kafka = all(tally.kafka is None for tally in self.tallies)
            by = " by the log and its objects; Kafka was not asked" if without_kafka else ""
            return f"Nothing found: {self._extent()} are accounted for exactly once{by}."
        why = "the position was set back, and what was written before is still there"
        return f"Nothing is lost, but {self.twice:,} records are in the bucket twice: {why}."

    def _extent(self) -> str:
        """Return which offsets were looked at."""
        tallies = [tally for tally in self.tallies if tally.until > tally.start]
        if not tallies:
            return "all dead letters"
        if len(tallies) == 1:
            return f"offsets {tallies[0].start} to {tallies[0].until - 1} of 1 topic-partition"
        return f"{sum(tally.until - tally.start for tally in tallies):,} offsets of {len(tallies)} topic-partitions"

    def document(self) -> dict[str, Any]:
        """The report as JSON has it."""
        tallies = []
        for tally in self.tallies:
            fields = asdict(tally)
            topic, partition = fields.pop("topic_partition")
            tallies.append({"topic": topic, "partition": partition, **fields})
        return {
            "sink": self.sink,
            "clean": self.clean,
            "entries": self.entries,
            "partitions": tallies,
            "findings": [asdict(finding) for finding in self.findings],
            "notes": list(self.notes),
        }
