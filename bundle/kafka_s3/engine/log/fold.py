"""What does the log say, entry after entry? The state that its writer goes on from, and what each entry accounts for, or takes back.

`LogState` is the sum of all entries. `LogFold` is for those who ask what counts, and why (verify, explain, restore): it takes entries in
order and gives what follows from each, as segments, resets, gaps and replacements. What they keep of these is theirs, so that a fold holds
no more than a position of each topic-partition. `live_objects` is the one answer to which objects hold the log's records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias

from kafka_s3.engine.log.entry import LAST_OFFSET, CommitEntry, EntryKind, Progress, Swap, read_entry
from kafka_s3.engine.log.formats import REWRITE_FORMAT, check_format, format_members
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, Role, Totals, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition

BY_HAND: Final = "position"
"""The cause of a gap that no entry declares: a position set by hand skipped its offsets."""
UNPUBLISHED: Final = "unpublished"
"""Why offsets are a gap that an entry counts in an object: its upload was gone, and nothing was left to make it from."""
_WITHOUT_RECORDS: Final = frozenset({Role.DEAD_LETTER, Role.INDEX, Role.POINTER})
EVERYTHING: Final = OffsetSet(((0, LAST_OFFSET),))


@dataclass(frozen=True, slots=True)
class Replaced:
    """Originals of an entry of kind rewrite, committed at that time, that are to be deleted: those of these topic-partitions."""

    committed_at: str
    topic_partitions: frozenset[TopicPartition]

    def document(self, version: int) -> dict[str, Any]:
        """As a checkpoint has it."""
        return {"version": version, "committed_at": self.committed_at, "of": sorted(self.topic_partitions)}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Replaced:
        """From a checkpoint."""
        return Replaced(document["committed_at"], frozenset(TopicPartition(*one) for one in document["of"]))

    def without(self, topic_partitions: Set[TopicPartition]) -> Replaced:
        """The same but for some topic-partitions."""
        return replace(self, topic_partitions=self.topic_partitions - topic_partitions)


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says after its last entry. A blank topic id: the topic was looked for, and was not in Kafka yet.

    `replaced` are the originals that are to be deleted, by the version of the entry of kind rewrite that replaced them. Where a position
    goes back they are left alone: what is read again may get their keys. `form` is the newest form of entries of that kind, 0 where there
    are none: an earlier version may not go on from here. `erased` are offsets that are not written once more, whoever reads them again.
    """

    version: int = -1
    epoch: int = 0
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    cluster_id: str = ""
    replaced: Mapping[int, Replaced] = field(default_factory=dict)
    form: int = 0
    erased: Mapping[TopicPartition, OffsetSet] = field(default_factory=dict)

    def after(self, entry: CommitEntry) -> LogState:
        """The state after one more entry."""
        return LogState(
            version=entry.version,
            epoch=entry.epoch,
            progress={**self.progress, **entry.progress},
            topic_ids={**self.topic_ids, **entry.topic_ids},
            totals=self.totals.plus(entry.totals),
            cluster_id=entry.cluster_id or self.cluster_id,
            replaced=self._replaced_after(entry),
            form=max(self.form, entry.form if entry.form >= REWRITE_FORMAT else 0),
            erased=self._erased_after(entry),
        )

    def _erased_after(self, entry: CommitEntry) -> Mapping[TopicPartition, OffsetSet]:
        """Of a topic that was recreated other records have these offsets."""
        new = {topic for topic, id_ in entry.topic_ids.items() if id_ and self.is_recreated(topic, id_)}
        left = {tp: offsets for tp, offsets in self.erased.items() if tp.topic not in new} if new else self.erased
        return {**left, **{tp: left.get(tp, OffsetSet()).plus(more) for tp, more in entry.erased.items()}}

    def _replaced_after(self, entry: CommitEntry) -> Mapping[int, Replaced]:
        new = {topic for topic, id_ in entry.topic_ids.items() if id_ and self.is_recreated(topic, id_)}
        back = {tp for tp in self.progress if tp.topic in new}
        moved = (tp for tp in entry.progress if tp in self.progress)
        back |= {tp for tp in moved if entry.progress[tp].frontier < self.progress[tp].frontier}
        left = {version: one.without(back) for version, one in self.replaced.items() if version not in entry.deleted}
        if entry.swaps:
            mine = frozenset(tp for swap in entry.swaps for tp in swap.topic_partitions)
            left[entry.version] = Replaced(entry.committed_at, mine)
        return {version: one for version, one in left.items() if one.topic_partitions}

    def recounted(self, more_bytes: int) -> LogState:
        """The state after an entry was found to count so many bytes more."""
        return replace(self, totals=replace(self.totals, bytes=self.totals.bytes + more_bytes))

    @property
    def rewritten(self) -> bool:
        """Whether objects were ever put in the place of others."""
        return self.form > 0

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
        **format_members(max(last.form, state.form)),
        "entry": json.loads(whole.to_json()),
        "last": json.loads(last.to_json()),
        "totals": asdict(state.totals),
    }
    if state.rewritten:
        document["replaced"] = [one.document(version) for version, one in state.replaced.items()]
    if state.erased:
        document["erased"] = [[*tp, offsets.ranges] for tp, offsets in state.erased.items()]
    return json.dumps(document, separators=(",", ":")).encode()


def read_checkpoint(content: bytes, *, key: str) -> tuple[LogState, CommitEntry]:
    """State and last entry of a checkpoint. Raises LogDamaged with the key where it cannot be read, or is of a later version."""
    try:
        document = json.loads(content)
        check_format({"format": 0, **document}, f"Checkpoint {key}")
        whole = read_entry(json.dumps(document["entry"]).encode(), key=key)
        last = read_entry(json.dumps(document["last"]).encode(), key=key)
        totals = Totals(**document["totals"])
        replaced = {one["version"]: Replaced.of(one) for one in document.get("replaced", ())}
        erased = {
            TopicPartition(topic, partition): OffsetSet(tuple((first, last) for first, last in ranges))
            for topic, partition, ranges in document.get("erased", ())
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Checkpoint {key} is damaged ({type(error).__name__}: {error}). Delete it: the commit entries say the same."
        ) from error
    state = LogState(
        whole.version, whole.epoch, dict(whole.progress), dict(whole.topic_ids), totals, whole.cluster_id,
        replaced, form=document["format"] if "replaced" in document else 0, erased=erased,
    )  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Replacement:
    """Entry `version` puts `file` in the place of the objects of a swap; None: nothing is left of them.

    There is one for each topic-partition whose records these held.
    """

    version: int
    committed_at: str
    topic_partition: TopicPartition
    swap: Swap
    file: DataFile | None


Event: TypeAlias = Segment | Reset | Gap | Replacement


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

    def add(self, entry: CommitEntry) -> list[Event]:
        """What follows from the next entry, in an order in which each may be applied to what is known so far."""
        files: dict[TopicPartition, list[DataFile]] = {}
        for file in entry.files:
            files.setdefault(file.topic_partition, []).append(file)
        found: list[Event] = [*self._recreated(entry)]
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
        by_key = {file.key: file for file in entry.files} if entry.swaps else {}
        for swap in entry.swaps:
            made = by_key.get(swap.by)
            found += (Replacement(entry.version, entry.committed_at, tp, swap, made) for tp in swap.topic_partitions)
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


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object that holds records which count, and the entry that names it, with its time.

    `until`: records from this offset on count elsewhere, because the position was set back into its midst; None: all of them count.
    `erased` are the offsets between its first and its last whose records were erased.

    Of an object of several topic-partitions each slice whose records count is one of `parts`, with an `until` and `erased` of its own.
    """

    file: DataFile
    version: int
    committed_at: str
    until: int | None = None
    erased: OffsetSet = field(default_factory=OffsetSet)
    parts: tuple[LiveObject, ...] = ()

    @property
    def by_slice(self) -> tuple[LiveObject, ...]:
        """The slices that count, as objects of one topic-partition; itself, where it has one."""
        return self.parts or (self,)

    @property
    def is_whole(self) -> bool:
        """Whether all of its records count."""
        return all(one.until is None for one in self.by_slice) and len(self.parts) == len(self.file.slices)


def live_objects(entries: Iterable[CommitEntry]) -> dict[str, LiveObject]:
    """The objects of a log, by key in the order of its entries, that together hold each of its records once, sidecars among them.

    Left out is what was read again or replaced, what was of a topic before it was recreated, and what was lost. Of Block-GZIP's indexes and
    pointers, and of dead letter files, all that entries name are given: they hold no records of their own.
    """
    fold, live = LogFold(), dict[str, LiveObject]()
    by_partition: dict[TopicPartition, set[str]] = {}
    erased: dict[TopicPartition, OffsetSet] = {}
    for entry in entries:
        erased |= {tp: erased.get(tp, OffsetSet()).plus(more) for tp, more in entry.erased.items()}
        for event in fold.add(entry):
            own = by_partition.setdefault(event.topic_partition, set())
            if isinstance(event, Segment):
                _add_live(live, own, event.files, event)
            elif isinstance(event, Replacement):
                _replace_live(live, own, event)
            elif isinstance(event, Reset):
                _cut_live(live, own, event)
            elif event.cause == UNPUBLISHED:
                _lose_live(live, own, event)
    return {key: _with_erased(one, erased) for key, one in live.items()} if erased else live


def group_by_file(live: Iterable[LiveObject]) -> list[dict[Role, LiveObject]]:
    """The objects of each file by their role, files in the order of their first objects: a file's sidecars are with it."""
    files: dict[tuple[int, TopicPartition, str, str, int], dict[Role, LiveObject]] = {}
    for one in live:
        file, folder = (
            one.file,
            one.file.key.rpartition("/")[0],
        )  # records that a transform routes differ by folder alone
        about = (one.version, file.topic_partition, folder, file.encoded_partition, file.first_offset)
        files.setdefault(about, {})[file.role] = one
    return list(files.values())


def _with_erased(one: LiveObject, erased: Mapping[TopicPartition, OffsetSet]) -> LiveObject:
    if one.parts:
        return replace(one, parts=tuple(_with_erased(part, erased) for part in one.parts))
    offsets = erased.get(one.file.topic_partition, OffsetSet())
    return replace(one, erased=offsets.since(one.file.first_offset).before(one.file.last_offset + 1))


def _add_live(
    live: dict[str, LiveObject], own: set[str], files: Iterable[DataFile], event: Segment | Replacement
) -> None:
    for file in files:
        live.pop(file.key, None)
        slices = file.by_slice if file.slices else ()
        parts = tuple(LiveObject(one, event.version, event.committed_at) for one in slices)
        live[file.key] = LiveObject(file, event.version, event.committed_at, parts=parts)
        own.add(file.key)


def _replace_live(live: dict[str, LiveObject], own: set[str], event: Replacement) -> None:
    for key in event.swap.keys:
        live.pop(key, None)
        own.discard(key)
    if event.file is not None:
        _add_live(live, own, (event.file,), event)


def _cut_live(live: dict[str, LiveObject], own: set[str], reset: Reset) -> None:
    for key in sorted(own & live.keys()) if reset.goes_back else ():
        one = live[key]
        left = [cut for part in one.by_slice if (cut := _cut(part, reset)) is not None]
        if left:
            live[key] = replace(one, parts=tuple(left)) if one.parts else left[0]
        else:
            del live[key]
            own.discard(key)


def _cut(one: LiveObject, reset: Reset) -> LiveObject | None:
    """What still counts of an object, or of a slice, once a position was set back."""
    mine = one.file.topic_partition == reset.topic_partition and one.file.role not in _WITHOUT_RECORDS
    if not mine or not reset.supersedes(one.file.last_offset + 1):
        return one
    if reset.recreated or one.file.first_offset >= reset.frontier:
        return None
    return replace(one, until=min(one.until or reset.frontier, reset.frontier))


def _lose_live(live: dict[str, LiveObject], own: set[str], gap: Gap) -> None:
    for key in sorted(own & live.keys()):
        file = live[key].file
        if file.slices:
            continue  # made of objects that were there
        if gap.first <= file.first_offset and file.last_offset <= gap.last and file.role is not Role.DEAD_LETTER:
            del live[key]
            own.discard(key)
