"""What does one commit entry say of one topic-partition? Segments of offsets, and what can be judged of them without the bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from kafka_s3.model.files import DataFile, Role, counted
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import Gap, TopicPartition
from kafka_s3.tools.verify.findings import Finding, FindingKind

REPORT_IT = "The log was changed by hand, or this is a defect of kafka-s3: keep the log, and please report it."


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets `[start, until)` of a topic-partition as commit entry `version` accounts for them.

    `sure` is False where an entry before it cannot be read, so that `start` is a guess. `superseded` says that the log went back behind
    it, or that its topic was recreated, and Kafka's records of these offsets are others now; `read_again` that the position was set back,
    and they are the same, which come once more. With `resolved` the entry is a replay: dead letters of earlier segments, now in its
    files or skipped.
    """

    topic_partition: TopicPartition
    version: int
    committed_at: str
    start: int
    until: int
    files: tuple[DataFile, ...] = ()
    dead_letters: int = 0
    skipped: int = 0
    sure: bool = True
    superseded: bool = False
    read_again: bool = False
    resolved: OffsetSet | None = None

    @property
    def place(self) -> str:
        """Where it is, for findings."""
        return f"{self.topic_partition} [{self.start}, {self.until}), commit entry {self.version}"

    @property
    def data(self) -> list[DataFile]:
        """The objects that stand for records."""
        return counted(self.files)

    @property
    def written(self) -> int:
        """Records in objects."""
        return sum(file.records for file in self.data)


@dataclass(frozen=True, slots=True)
class Reset:
    """A position set by entry `version`: dead letters from `frontier` on are read again, but those still `recorded`."""

    topic_partition: TopicPartition
    version: int
    frontier: int
    recorded: OffsetSet

    def covers(self, offset: int) -> bool:
        """Whether a dead letter of this offset no longer counts."""
        return offset >= self.frontier and not any(first <= offset <= last for first, last in self.recorded.ranges)


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    """Which segments to look at: every one unless narrowed; offsets select every segment that they touch."""

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    since: datetime | None = None

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether a topic-partition is selected."""
        return self.topic in (None, topic_partition.topic) and self.partition in (None, topic_partition.partition)

    def takes(self, segment: Segment) -> bool:
        """Whether a segment is selected."""
        late = self.since is None or datetime.fromisoformat(segment.committed_at) >= self.since
        return late and self.has(segment.topic_partition) and self.touches(segment.start, segment.until - 1)

    def touches(self, first: int, last: int) -> bool:
        """Whether offsets `first..last` are selected at least in part; without any offset (dead letters only), whether `first` is."""
        return (self.first is None or max(first, last) >= self.first) and (self.last is None or first <= self.last)


def misplaced(segment: Segment) -> list[str]:
    """What is wrong with the offsets of a segment's files."""
    texts = []
    for file in segment.files:
        inside = file.role is Role.DEAD_LETTER or segment.start <= file.first_offset <= file.last_offset < segment.until
        room = file.last_offset - file.first_offset + 1
        if file.first_offset > file.last_offset or not inside:
            texts.append(
                f"{file.key} has offsets {file.first_offset} to {file.last_offset}, outside of [{segment.start}, {segment.until})."
            )
        elif not 0 < file.records <= room:
            texts.append(f"{file.key} claims {file.records} records in {room} offsets.")
        if file.bytes != file.upload.size or file.key != file.upload.key:
            texts.append(f"{file.key} and its upload differ in key or size.")
    return texts


def overlaps(segments: Sequence[Segment]) -> list[Finding]:
    """Files of one directory whose offsets overlap: directories of one commit interleave, but no directory does with itself."""
    directories: dict[tuple[bool, str], list[DataFile]] = {}
    for segment in segments:
        if not segment.superseded and segment.resolved is None:  # replayed records lie between those of other files
            for file in segment.data:
                directories.setdefault((file.role is Role.KEY, file.encoded_partition), []).append(file)
    found = []
    for files in directories.values():
        for one, other in pairwise(sorted(files, key=lambda file: (file.first_offset, file.last_offset))):
            if other.first_offset <= one.last_offset and other.key != one.key:
                text = f"Its offsets from {other.first_offset} on are also in {one.key} (up to {one.last_offset}). {REPORT_IT}"
                found.append(Finding(FindingKind.TWICE, other.key, text))
    return found


def gaps_within(gaps: Iterable[Gap], topic_partition: TopicPartition, start: int, *, until: int) -> Mapping[str, int]:
    """How many offsets of `[start, until)` are declared gaps, by cause."""
    counts: dict[str, int] = {}
    for gap in gaps:
        size = min(gap.last + 1, until) - max(gap.first, start)
        if (gap.topic, gap.partition) == topic_partition and size > 0:
            counts[gap.cause] = counts.get(gap.cause, 0) + size
    return counts
