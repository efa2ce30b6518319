"""What does one commit entry say of one topic-partition? Segments of offsets, and what can be judged of them without the bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kafka_s3.model.files import DataFile, Role, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.ops.verify.findings import Finding, FindingKind

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
    def is_current(self) -> bool:
        """Whether its offsets stand for what Kafka has there now."""
        return not self.superseded and self.resolved is None

    @property
    def identity(self) -> tuple[int, int]:
        """What tells it from the other segments of its topic-partition: entry and first offset."""
        return self.version, self.start

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


@dataclass(slots=True)
class Span:
    """What the selected segments of a topic-partition cover; `add` takes one after the other.

    Of all `count` of them offsets `[low, high)`; of the `current` ones, neither superseded nor replayed, `[start, until)`, and
    `[begin, end)` from the first to the last; where none is current, as of all. `first` is the first of those that `start` is about.
    `superseded` and `replayed` are how many are, `readable` objects whose content can be compared. `letter_files` are the dead letter
    files of all segments, selected or not; `older` the segments that are read again and not selected.
    """

    topic_partition: TopicPartition
    count: int = 0
    low: int = 0
    high: int = 0
    current: int = 0
    start: int = 0
    until: int = 0
    begin: int = 0
    end: int = 0
    first: tuple[int, int] | None = None
    superseded: int = 0
    replayed: int = 0
    readable: int = 0
    letter_files: int = 0
    older: int = 0

    def add(self, segment: Segment, readable: int) -> None:
        """Takes the next segment in."""
        here = segment.start, segment.until
        self.low, self.high = (min(self.low, here[0]), max(self.high, here[1])) if self.count else here
        self.count += 1
        self.readable += readable
        self.superseded += segment.superseded
        self.replayed += segment.resolved is not None and not segment.superseded
        if segment.is_current:
            self.start, self.until = (min(self.start, here[0]), max(self.until, here[1])) if self.current else here
            self.begin, self.end = (self.begin if self.current else here[0]), here[1]
            self.first = self.first if self.current else segment.identity
            self.current += 1
        elif not self.current:
            self.start, self.until, self.begin, self.end = self.low, self.high, self.low, self.high
            self.first = self.first or segment.identity


class Overlaps:
    """Finds files of one directory whose offsets overlap: directories of one commit interleave, but no directory does with itself.

    Segments come in the order of their offsets, so of each directory the file that reaches furthest is enough. `target` gives the topic
    in whose folder a file lies, None where files of several may lie in one; `targets` are those that were met.
    """

    def __init__(self, target: Callable[[DataFile], str | None]) -> None:
        self._target = target
        self.targets: set[str] = set()
        self._furthest: dict[tuple[bool, str, str], tuple[int, int, str]] = {}

    def within(self, segment: Segment) -> Iterator[Finding]:
        """What the next segment of a topic-partition adds."""
        named = ((file, self._target(file)) for file in segment.data)
        data = [(file, target) for file, target in named if target is not None]
        self.targets.update(target for _, target in data)
        if not segment.is_current:  # replayed records lie between those of other files
            return
        for file, target in sorted(data, key=lambda one: (one[0].first_offset, one[0].last_offset)):
            place = file.role is Role.KEY, file.encoded_partition, target
            first, last, key = self._furthest.get(place, (0, -1, ""))
            if first <= file.last_offset and file.first_offset <= last and file.key != key:
                text = f"Its offsets from {file.first_offset} on are also in {key} (up to {last}). {REPORT_IT}"
                yield Finding(FindingKind.TWICE, file.key, text)
            if file.last_offset >= last:
                self._furthest[place] = file.first_offset, file.last_offset, file.key


def gaps_within(gaps: Iterable[Gap], topic_partition: TopicPartition, start: int, *, until: int) -> Mapping[str, int]:
    """How many offsets of `[start, until)` are declared gaps, by cause."""
    counts: dict[str, int] = {}
    for gap in gaps:
        size = min(gap.last + 1, until) - max(gap.first, start)
        if (gap.topic, gap.partition) == topic_partition and size > 0:
            counts[gap.cause] = counts.get(gap.cause, 0) + size
    return counts
