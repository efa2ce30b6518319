"""What does the log say, entry after entry? The state that its writer goes on from, and what each entry accounts for, or takes back.

`LogState` is the sum of all entries. `LogFold` is for those who ask what counts, and why (verify, explain, restore): it takes entries in
order and gives what follows from each, as segments, resets and gaps. What they keep of these is theirs, so that a fold holds no more than
a position of each topic-partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from kafka_s3.engine.log.entry import (
    FORMAT,
    LAST_OFFSET,
    PLAIN_FORMAT,
    CommitEntry,
    EntryKind,
    Progress,
    read_entry,
)
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, Totals, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition

BY_HAND: Final = "position"
"""The cause of a gap that no entry declares: a position set by hand skipped its offsets."""
EVERYTHING: Final = OffsetSet(((0, LAST_OFFSET),))


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says after its last entry. A blank topic id: the topic was looked for, and was not in Kafka yet."""

    version: int = -1
    epoch: int = 0
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    cluster_id: str = ""

    def after(self, entry: CommitEntry) -> LogState:
        """The state after one more entry."""
        return LogState(
            version=entry.version,
            epoch=entry.epoch,
            progress={**self.progress, **entry.progress},
            topic_ids={**self.topic_ids, **entry.topic_ids},
            totals=self.totals.plus(entry.totals),
            cluster_id=entry.cluster_id or self.cluster_id,
        )

    def recounted(self, more_bytes: int) -> LogState:
        """The state after an entry was found to count so many bytes more."""
        return replace(self, totals=replace(self.totals, bytes=self.totals.bytes + more_bytes))

    @property
    def frontier(self) -> dict[TopicPartition, int]:
        """Per topic-partition the next offset to write."""
        return {tp: progress.frontier for tp, progress in self.progress.items()}

    def is_recreated(self, topic: str, topic_id: str) -> bool:
        """Whether a topic of this id is another one than the log knows by the name."""
        return (self.topic_ids.get(topic) or topic_id) != topic_id


def checkpoint_json(state: LogState, last: CommitEntry) -> bytes:
    """A checkpoint as stored: the state, and the last entry as it is."""
    whole = replace(last, progress=state.progress, topic_ids=state.topic_ids, cluster_id=state.cluster_id)
    document = {
        "format": FORMAT if last.waiting else PLAIN_FORMAT,
        "entry": json.loads(whole.to_json()),
        "last": json.loads(last.to_json()),
        "totals": asdict(state.totals),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def read_checkpoint(content: bytes, *, key: str) -> tuple[LogState, CommitEntry]:
    """State and last entry of a checkpoint. Raises LogDamaged with the key where it cannot be read, or is of a later version."""
    try:
        document = json.loads(content)
        if document.get("format", FORMAT) > FORMAT:
            raise LogDamaged(
                f"Checkpoint {key} has format {document['format']}; this version reads up to {FORMAT}. Upgrade kafka-s3 to go on."
            )
        whole = read_entry(json.dumps(document["entry"]).encode(), key=key)
        last = read_entry(json.dumps(document["last"]).encode(), key=key)
        totals = Totals(**document["totals"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Checkpoint {key} is damaged ({type(error).__name__}: {error}). Delete it: the commit entries say the same."
        ) from error
    state = LogState(whole.version, whole.epoch, dict(whole.progress), dict(whole.topic_ids), totals, whole.cluster_id)
    return state, last


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets `[start, until)` of a topic-partition as commit entry `version` accounts for them.

    `sure` is False where an entry before it cannot be read, so that `start` is a guess. With `resolved` the entry is a replay: dead letters
    of earlier segments, now in its files or skipped. What later entries say of a segment is known at the end of the log only: `superseded`,
    where the log went back behind it, or its topic was recreated, so that Kafka's records of these offsets count elsewhere; `read_again`,
    where the position was set back, and the same records come once more.
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

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.start}, {self.until}), commit entry {self.version}"

    @property
    def is_current(self) -> bool:
        """Whether its offsets are those of what Kafka has there now."""
        return not self.superseded and self.resolved is None

    @property
    def identity(self) -> tuple[int, int]:
        """Entry and first offset: no other segment of its topic-partition has both."""
        return self.version, self.start

    @property
    def data(self) -> list[DataFile]:
        """The objects that hold records."""
        return counted(self.files)

    @property
    def written(self) -> int:
        """Records in objects."""
        return sum(file.records for file in self.data)


@dataclass(frozen=True, slots=True)
class Reset:
    """Entry `version` sets the position of a topic-partition, or its topic was `recreated`: `to_read` are the offsets read from here on.

    Dead letters of earlier entries at these offsets no longer count. `before` is the position until then, None where there was none.
    """

    topic_partition: TopicPartition
    version: int
    before: int | None
    frontier: int
    to_read: OffsetSet
    recreated: bool = False

    @property
    def goes_back(self) -> bool:
        """Whether earlier entries may account for some of the offsets."""
        return self.recreated or (self.before is not None and self.frontier < self.before)

    def supersedes(self, until: int) -> bool:
        """Whether an earlier segment that ends before offset `until` no longer counts, at least in part."""
        return self.goes_back and (self.recreated or self.frontier < until)


class LogFold:
    """Takes the entries of a log in order. `frontier` and `topic_ids` are as after the last one; `complete`: none was missing.

    `sure` are the topic-partitions whose frontier is known, for no entry was missing since the last one that has it.
    """

    def __init__(self) -> None:
        self.frontier: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.complete = True
        self.sure: set[TopicPartition] = set()

    def lose_track(self) -> None:
        """An entry is missing: the position of a topic-partition is not sure until the next entry has it."""
        self.complete = False
        self.sure.clear()

    def add(self, entry: CommitEntry) -> list[Segment | Reset | Gap]:
        """What follows from the next entry, in an order in which each may be applied to what is known so far."""
        files: dict[TopicPartition, list[DataFile]] = {}
        for file in entry.files:
            files.setdefault(file.topic_partition, []).append(file)
        found: list[Segment | Reset | Gap] = [*self._recreated(entry)]
        for tp, progress in entry.progress.items():
            if entry.kind is EntryKind.DATA:
                found.append(self._segment(entry, tp, progress.frontier, files=tuple(files.get(tp, ()))))
            else:
                found += self._position(entry, tp, progress)
            self.frontier[tp] = progress.frontier
            self.sure.add(tp)
        found += entry.gaps
        for tp, offsets in entry.resolved.items():
            found.append(self._replay(entry, tp, offsets, files=tuple(files.get(tp, ()))))
        return found

    def _recreated(self, entry: CommitEntry) -> Iterator[Reset]:
        """A topic with a new id was recreated: what was written before is about other records. A blank id is of a topic not there yet."""
        for topic, new in entry.topic_ids.items():
            if not new:
                continue
            if self.topic_ids.get(topic, new) != new:
                for tp in [tp for tp in self.frontier if tp.topic == topic]:
                    yield Reset(tp, entry.version, self.frontier.pop(tp), 0, EVERYTHING, recreated=True)
            self.topic_ids[topic] = new

    def _position(self, entry: CommitEntry, tp: TopicPartition, progress: Progress) -> Iterator[Reset | Gap]:
        before = self.frontier.get(tp)
        yield Reset(tp, entry.version, before, progress.frontier, progress.to_read)
        if before is not None and before < progress.frontier and all(gap.topic_partition != tp for gap in entry.gaps):
            yield Gap(*tp, before, progress.frontier - 1, BY_HAND)

    def _segment(self, entry: CommitEntry, tp: TopicPartition, until: int, *, files: tuple[DataFile, ...]) -> Segment:
        before = self.frontier.get(tp) if tp in self.sure else None
        start = before if before is not None else min((file.first_offset for file in counted(files)), default=until)
        dead = entry.dead_letters.get(tp)
        return Segment(
            tp, entry.version, entry.committed_at, min(start, until), until, files, dead.count if dead else 0, entry.skipped.get(tp, 0),
            sure=before is not None and before <= until,
        )  # fmt: skip

    def _replay(
        self, entry: CommitEntry, tp: TopicPartition, offsets: OffsetSet, *, files: tuple[DataFile, ...]
    ) -> Segment:
        first = offsets.ranges[0][0] if offsets.ranges else 0
        return Segment(
            tp, entry.version, entry.committed_at, first, offsets.until, files,
            skipped=entry.skipped.get(tp, 0), sure=self.complete, resolved=offsets,
        )  # fmt: skip
