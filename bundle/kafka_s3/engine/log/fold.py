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

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress, Swap, read_entry
from kafka_s3.engine.log.formats import REWRITE_FORMAT, check_format, format_members
from kafka_s3.engine.log.incarnations import Incarnations, Reset, resets_of
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, Role, Totals, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition

BY_HAND: Final = "position"
"""The cause of a gap that no entry declares: a position set by hand skipped its offsets."""
UNPUBLISHED: Final = "unpublished"
"""Why offsets are a gap that an entry counts in an object: its upload was gone, and nothing was left to make it from."""
_WITHOUT_RECORDS: Final = frozenset({Role.DEAD_LETTER, Role.INDEX, Role.POINTER})
NONE: Final = OffsetSet()


@dataclass(frozen=True, slots=True)
class Replaced:
    """Originals of an entry of kind rewrite, committed at that time, that are to be deleted: those of these topic-partitions."""

    committed_at: str
    topic_partitions: frozenset[TopicPartition]

    def document(self, version: int, incarnations: Incarnations) -> dict[str, Any]:
        """Return the form of a checkpoint. An earlier version deletes what is named in `of` without a look at later entries."""
        reset = {tp for tp in self.topic_partitions if incarnations.latest(tp) > version}
        document = {"version": version, "committed_at": self.committed_at, "of": sorted(self.topic_partitions - reset)}
        return document | ({"reset": sorted(reset)} if reset else {})

    @staticmethod
    def of(document: Mapping[str, Any]) -> Replaced:
        """From a checkpoint."""
        names = (*document["of"], *document.get("reset", ()))
        return Replaced(document["committed_at"], frozenset(TopicPartition(*name) for name in names))


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says after its last entry. A blank topic id: the topic was looked for, and was not in Kafka yet.

    `replaced` are the originals that are to be deleted, by the version of the entry of kind rewrite that replaced them. `form` is the
    newest form of entries of that kind, 0 where there are none: an earlier version may not go on from here. `erased` are offsets that are
    not written once more, whoever reads them again, as long as Kafka has the same records there. `incarnations` say which earlier claims
    still hold.
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
    incarnations: Incarnations = field(default_factory=Incarnations)

    def after(self, entry: CommitEntry) -> LogState:
        """The state after one more entry."""
        resets = list(resets_of(entry, self.frontier, self.topic_ids)) if may_reset(entry) else []
        return LogState(
            version=entry.version,
            epoch=entry.epoch,
            progress={**self.progress, **entry.progress},
            topic_ids={**self.topic_ids, **entry.topic_ids},
            totals=self.totals.plus(entry.totals),
            cluster_id=entry.cluster_id or self.cluster_id,
            replaced=self._replaced_after(entry),
            form=max(self.form, entry.form if entry.form >= REWRITE_FORMAT else 0),
            erased=erased_after(entry, resets, self.erased),
            incarnations=self.incarnations.after(resets) if resets else self.incarnations,
        )

    def _replaced_after(self, entry: CommitEntry) -> Mapping[int, Replaced]:
        left = {version: one for version, one in self.replaced.items() if version not in entry.deleted}
        if entry.swaps:
            mine = frozenset(tp for swap in entry.swaps for tp in swap.topic_partitions)
            left[entry.version] = Replaced(entry.committed_at, mine)
        return left

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


def may_reset(entry: CommitEntry) -> bool:
    """Return whether an entry may set positions; almost none does."""
    return bool(entry.topic_ids) or (entry.kind is not EntryKind.DATA and bool(entry.progress))


def erased_after(
    entry: CommitEntry, resets: Iterable[Reset], erased: Mapping[TopicPartition, OffsetSet]
) -> Mapping[TopicPartition, OffsetSet]:
    """Return the erased offsets after an entry: those of records that Kafka has no more are forgotten."""
    cuts = {one.topic_partition: one.cut for one in resets if one.cut is not None and one.topic_partition in erased}
    if not (cuts or entry.erased):
        return erased
    left = {tp: offsets.before(cuts[tp]) if tp in cuts else offsets for tp, offsets in erased.items()}
    more = {tp: left.get(tp, NONE).plus(offsets) for tp, offsets in entry.erased.items()}
    return {tp: offsets for tp, offsets in (left | more).items() if offsets.ranges}


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
        document["replaced"] = [one.document(number, state.incarnations) for number, one in state.replaced.items()]
    if state.erased:
        document["erased"] = [[*tp, offsets.ranges] for tp, offsets in state.erased.items()]
    if state.incarnations.steps:
        document["incarnations"] = state.incarnations.document()
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
        incarnations = Incarnations.of(document.get("incarnations", ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Checkpoint {key} is damaged ({type(error).__name__}: {error}). Delete it: the commit entries say the same."
        ) from error
    state = LogState(
        whole.version, whole.epoch, dict(whole.progress), dict(whole.topic_ids), totals, whole.cluster_id,
        replaced, form=document["format"] if "replaced" in document else 0, erased=erased, incarnations=incarnations,
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
        resets = list(resets_of(entry, self.frontier, self.topic_ids)) if may_reset(entry) else []
        self.topic_ids.update((topic, id_) for topic, id_ in entry.topic_ids.items() if id_)
        for reset in resets:
            if reset.recreated:
                self.frontier.pop(reset.topic_partition)
        found: list[Event] = [*resets, *_gaps_of_moves(entry, resets)]
        for tp, progress in entry.progress.items():
            if entry.kind is EntryKind.DATA:
                found.append(self._segment(entry, tp, progress.frontier, files=tuple(files.get(tp, ()))))
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
    Dead letters from there on are of another incarnation of the log, whose records Kafka has no more. `erased` are the offsets between its
    first and its last whose records it lacks because they were erased before it was made.

    Of an object of several topic-partitions each slice whose records count is one of `parts`, with an `until` and `erased` of its own.
    `lacks_rows`: an earlier object had more records that count, of a log that is read only up to an entry before a position was set back.
    """

    file: DataFile
    version: int
    committed_at: str
    until: int | None = None
    erased: OffsetSet = field(default_factory=OffsetSet)
    parts: tuple[LiveObject, ...] = ()
    lacks_rows: bool = False

    @staticmethod
    def of(file: DataFile, event: Segment | Replacement, erased: Mapping[TopicPartition, OffsetSet]) -> LiveObject:
        """Return an object as an entry names it, which lacks what was erased before."""

        def whole(part: DataFile) -> LiveObject:
            offsets = erased.get(part.topic_partition, NONE).since(part.first_offset).before(part.last_offset + 1)
            return LiveObject(part, event.version, event.committed_at, erased=offsets)

        if not file.slices:
            return whole(file)
        return LiveObject(file, event.version, event.committed_at, parts=tuple(map(whole, file.by_slice)))

    @property
    def by_slice(self) -> tuple[LiveObject, ...]:
        """The slices that count, as objects of one topic-partition; itself, where it has one."""
        return self.parts or (self,)

    @property
    def is_exact(self) -> bool:
        """Return whether the offset of each row is known: its records fill its offsets but for erased ones, in their order."""
        file = self.file
        return not file.sorted_by and file.records == file.last_offset - file.first_offset + 1 - len(self.erased)

    @property
    def is_whole(self) -> bool:
        """Whether all of its records count."""
        return all(one.until is None for one in self.by_slice) and len(self.parts) == len(self.file.slices)


def _gaps_of_moves(entry: CommitEntry, resets: Iterable[Reset]) -> Iterator[Gap]:
    """Yield the offsets that moves pass over and that the entry does not declare as gaps."""
    declared = {gap.topic_partition for gap in entry.gaps}
    for reset in resets:
        tp, before = reset.topic_partition, reset.before
        if before is not None and before < reset.frontier and tp not in declared:
            yield Gap(*tp, before, reset.frontier - 1, BY_HAND)


def live_objects(entries: Iterable[CommitEntry]) -> dict[str, LiveObject]:
    """The objects of a log, by key in the order of its entries, that together hold each of its records once, sidecars among them.

    Left out is what was read again or replaced, what was of a topic before it was recreated, and what was lost. Of Block-GZIP's indexes and
    pointers, and of dead letter files, all that entries name are given: they hold no records of their own.
    """
    fold, live, erased = LogFold(), dict[str, LiveObject](), dict[TopicPartition, OffsetSet]()
    by_partition: dict[TopicPartition, set[str]] = {}
    for entry in entries:
        events = fold.add(entry)
        erased = dict(erased_after(entry, (one for one in events if isinstance(one, Reset)), erased))
        for event in events:
            own = by_partition.setdefault(event.topic_partition, set())
            if isinstance(event, Segment):
                for file in event.files:
                    _add_live(live, own, LiveObject.of(file, event, erased))
            elif isinstance(event, Replacement):
                _replace_live(live, own, event, entry.erased)
            elif isinstance(event, Reset):
                _cut_live(live, own, event)
            elif event.cause == UNPUBLISHED:
                _lose_live(live, own, event)
    return live


def undivided(
    entries: Iterable[CommitEntry], positions: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return positions at or before those given that divide no object which cannot be divided.

    These are objects that do not say which of their rows come before an offset, and Parquet objects, which are in a table as a whole. A
    position stays as it is if Kafka, whose logs begin at `starts`, does not have all of their records any more. Objects of replayed dead
    letters, which lie across those of other entries, are left out.
    """
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for one in live_objects(_of_partitions(entries, positions.keys())).values():
        for part in one.by_slice if one.file.role not in _WITHOUT_RECORDS else ():
            if part.file.topic_partition in positions and not (part.is_exact and part.file.format != "parquet"):
                ranges.setdefault(part.file.topic_partition, []).append((part.file.first_offset, part.file.last_offset))
    found = dict[TopicPartition, int]()
    for tp, position in positions.items():
        at = position
        for first, last in sorted(ranges.get(tp, ()), key=lambda one: one[1], reverse=True):
            at = min(at, first) if at <= last else at
        found[tp] = at if starts.get(tp, at + 1) <= at else position
    return found


def _of_partitions(entries: Iterable[CommitEntry], wanted: Set[TopicPartition]) -> Iterator[CommitEntry]:
    for entry in entries:
        files = (file for file in entry.files if not wanted.isdisjoint(file.topic_partitions))
        yield replace(entry, files=() if entry.resolved else tuple(files))


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


def _add_live(live: dict[str, LiveObject], own: set[str], added: LiveObject) -> None:
    live.pop(added.file.key, None)
    live[added.file.key] = added
    own.add(added.file.key)


def _replace_live(
    live: dict[str, LiveObject], own: set[str], event: Replacement, erased: Mapping[TopicPartition, OffsetSet]
) -> None:
    """Put an object in the place of others, once for all its topic-partitions. It lacks what its originals lacked."""
    originals = [live.pop(key) for key in event.swap.keys if key in live]
    own.difference_update(event.swap.keys)
    if event.file is None:
        left = (replace(one, lacks_rows=True) for one in originals if _rows_left(one, erased))
        live.update((one.file.key, one) for one in left)
        return
    lacking = dict(erased)
    for part in (part for one in originals for part in one.by_slice):
        tp = part.file.topic_partition
        lacking[tp] = lacking.get(tp, NONE).plus(part.erased)
    if originals or event.file.key not in live:
        until = originals[0].until if event.file.role is Role.DEAD_LETTER and originals else None
        added = replace(LiveObject.of(event.file, event, lacking), until=until)
        lacks = _reach(originals) > _reach([added]) or any(
            part.lacks_rows for one in originals for part in one.by_slice
        )
        parts = tuple(replace(part, lacks_rows=lacks) for part in added.parts)
        _add_live(live, own, replace(added, lacks_rows=lacks, parts=parts))
    own.add(event.file.key)


def _rows_left(one: LiveObject, erased: Mapping[TopicPartition, OffsetSet]) -> bool:
    """Return whether an object of which nothing is left has rows that count and were not erased."""
    file, until = one.file, one.file.last_offset + 1 if one.until is None else one.until
    if not one.is_exact or one.parts or file.role in _WITHOUT_RECORDS:
        return False
    gone = erased.get(file.topic_partition, NONE).plus(one.erased).since(file.first_offset).before(until)
    return len(gone) < until - file.first_offset


def _reach(objects: Iterable[LiveObject]) -> int:
    """Return how far the counted offsets of objects reach, added up over topic-partitions."""
    ends: dict[TopicPartition, int] = {}
    for part in (part for one in objects for part in one.by_slice):
        tp, end = part.file.topic_partition, part.file.last_offset + 1 if part.until is None else part.until
        ends[tp] = max(end, ends.get(tp, 0))
    return sum(ends.values())


def _cut_live(live: dict[str, LiveObject], own: set[str], reset: Reset) -> None:
    for key in sorted(own & live.keys()) if reset.goes_back or reset.cut is not None else ():
        one = live[key]
        left = [cut for part in one.by_slice if (cut := _cut(part, reset)) is not None]
        if left:
            live[key] = replace(one, parts=tuple(left)) if one.parts else left[0]
        else:
            del live[key]
            own.discard(key)


def _cut(one: LiveObject, reset: Reset) -> LiveObject | None:
    """What still counts of an object, or of a slice, once a position was set back."""
    role, until = one.file.role, one.file.last_offset + 1
    if one.file.topic_partition != reset.topic_partition:
        return one
    if role in _WITHOUT_RECORDS:
        ends = role is Role.DEAD_LETTER and reset.cut is not None and reset.replaces_records(until)
        return replace(one, until=min(until if one.until is None else one.until, reset.cut or 0)) if ends else one
    if not reset.supersedes(until):
        return one
    if one.file.first_offset >= reset.frontier:
        return None
    return replace(one, until=min(one.until or reset.frontier, reset.frontier))


def _lose_live(live: dict[str, LiveObject], own: set[str], gap: Gap) -> None:
    for key in sorted(own & live.keys()):
        file = live[key].file
        if file.slices:
            continue  # made of objects that were there
        until = live[key].until  # records behind it are of another incarnation, and no loss
        last = file.last_offset if until is None else until - 1
        if (gap.first, gap.last) == (file.first_offset, last) and file.role is not Role.DEAD_LETTER:
            del live[key]
            own.discard(key)
