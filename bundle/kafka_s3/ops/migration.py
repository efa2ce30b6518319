"""What did the connector leave, and how does the decision become the sink's first position?

Its consumer group, its objects and Kafka's offsets lie side by side per topic-partition. The position is written only when no other sink
can write, and everything is decided.

The committed offset G (of the group; of the pointer in the original Block-GZIP sink) is where the connector had closed all its files: every
record before it was handled, and lies in objects that begin before it. Objects that begin at G or behind it were uploaded by a connector
that was killed before it committed. What becomes of those depends on how the files split again when they are read from G:

- deterministic: the same files again, under the same names. Go on at G; they are overwritten.
- by a clock, one directory at a time: the objects follow one another. Go on behind the last record they hold.
- by a clock, directories side by side: a commit may have been cut short between two directories, so the end of one says nothing of
  the other. A directory's first new file has the name of its first object, so where none has a second object all are overwritten from
  G on. Else whoever runs the migration decides: without those objects, going on at G is exact.

Ends are counted as start + records: with gaps between offsets (compaction, transactions, skipped records) that is too low, never too
high, so nothing is lost. Where the objects show such gaps their end is not relied on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from kafka_s3.connect.config.classes import TIME_PARTITIONERS
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import (
    last_of_rewritten,
    normal_prefix,
    read_block_key,
    slices_of_rewritten,
)
from kafka_s3.engine.log.entry import CommitEntry, Progress
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.errors import KafkaUnavailable, SinkError
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Topic
from kafka_s3.objects.block_gzip_form import end_by_index, position_in_bucket
from kafka_s3.objects.format import Format
from kafka_s3.objects.readers import record_count
from kafka_s3.ops.positions import topic_partitions, write_positions
from kafka_s3.run.wiring.pipeline import (
    block_names,
    connect_names,
    formats_of,
    is_block_gzip,
    readiness,
    resumes_at_pointer,
)
from kafka_s3.store.store import ObjectInfo, ObjectStore


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object of the connector: its first offset and, where it was counted, its records."""

    key: str
    encoded_partition: str
    start: int
    records: int | None = None

    @property
    def until(self) -> int | None:
        """One past the last offset if there are no gaps; the true end is never before it."""
        return None if self.records is None else self.start + self.records


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    """What was found of one topic-partition.

    `committed` is G. `objects`, by start, are all from G on and the last few before; `total` counts those left out, too. `kafka_start`
    and `head` bound what Kafka has.
    """

    topic_partition: TopicPartition
    committed: int | None
    objects: tuple[FoundObject, ...]
    total: int
    kafka_start: int
    head: int

    @property
    def ahead(self) -> tuple[FoundObject, ...]:
        """The objects that begin at G or behind it."""
        return tuple(found for found in self.objects if self.committed is None or found.start >= self.committed)

    @property
    def until(self) -> int | None:
        """One past the last record of the counted objects, None where none is counted."""
        return max((found.until for found in self.objects if found.until is not None), default=None)


@dataclass(frozen=True, slots=True)
class Split:
    """How the connector's files are cut: `clock` says what makes it depend on when it runs, blank where nothing does.

    `side_by_side`: several directories may be open at once. `stable`: a record's directory depends on the record alone. `flush_size` bounds
    the records of an object, None where nothing does. `committed` names G for people.
    """

    clock: str
    side_by_side: bool
    stable: bool = True
    flush_size: int | None = None
    committed: str = "group offset"


class TakeoverVerdict(StrEnum):
    """What was found, in a word."""

    EQUAL = "equal"
    OBJECTS_END_BEFORE = "objects end before"
    OVERWRITE = "objects ahead, overwritten"
    BEHIND_OBJECTS = "objects ahead, kept"
    NOT_COUNTED = "not counted"
    NO_OBJECTS = "no objects"
    NOTHING = "nothing there"
    LOST = "lost in Kafka"
    UNDECIDED = "undecided"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class TakeoverDecision:
    """Where to go on, and why; `offset` is None where the sink's first start decides (`NOTHING`) or nobody yet (`UNDECIDED`)."""

    evidence: PartitionSurvey
    verdict: TakeoverVerdict
    offset: int | None
    why: str


def takeover_decision(evidence: PartitionSurvey, split: Split) -> TakeoverDecision:
    """The offset that loses no record and, where that can be known, writes none twice."""
    if evidence.committed is None:
        decision = _uncommitted(evidence, split)
    elif evidence.committed > evidence.head:
        head = f"Kafka's head {evidence.head}"
        why = f"The {split.committed} lies beyond {head}: another cluster, or the topic was deleted and created again."
        decision = _undecided(evidence, why)
    elif evidence.ahead:
        decision = _ahead(evidence, evidence.committed, split)
    else:
        decision = _committed(evidence, evidence.committed, split)
    return _within_kafka(decision)


def given(evidence: PartitionSurvey, offset: int) -> TakeoverDecision:
    """An offset that whoever runs the migration has chosen."""
    return TakeoverDecision(evidence, TakeoverVerdict.GIVEN, offset, "Given with --offset.")


def _uncommitted(evidence: PartitionSurvey, split: Split) -> TakeoverDecision:
    if not evidence.objects:
        why = f"No {split.committed}, no object: the first start follows auto.offset.reset, as the connector would."
        return TakeoverDecision(evidence, TakeoverVerdict.NOTHING, None, why)
    first = evidence.objects[0].start
    end = _ends_at(evidence, split)
    if end is not None:
        why = f"No {split.committed} (never committed, or expired): behind the last record in objects."
        return TakeoverDecision(evidence, TakeoverVerdict.BEHIND_OBJECTS, end, why)
    other = split.clock or _other_flush_size(evidence, split)
    if not other and len(evidence.objects) == evidence.total and evidence.kafka_start <= first:
        why = f"No {split.committed}: from the first object on, whose files come out the same and are overwritten."
        return TakeoverDecision(evidence, TakeoverVerdict.OVERWRITE, first, why)
    differing = f"; from the first one on they would not come out the same ({other})" if other else ""
    return _undecided(
        evidence, f"No {split.committed}, and the objects do not say where the last record is{differing}."
    )


def _committed(evidence: PartitionSurvey, committed: int, split: Split) -> TakeoverDecision:
    """Nothing begins at G or behind it."""
    until = evidence.until
    if not evidence.objects:
        why = "No object begins before it: deleted by a lifecycle rule, all records skipped, or named by another topics.dir."
        return TakeoverDecision(evidence, TakeoverVerdict.NO_OBJECTS, committed, why)
    if until is not None and until > committed:
        return _inside(evidence, until, split)
    if until is None or evidence.objects[-1].records is None:
        return TakeoverDecision(
            evidence, TakeoverVerdict.NOT_COUNTED, committed, "The last object begins before it; it was not counted."
        )
    if until == committed or _covered(evidence.objects, committed):
        return TakeoverDecision(
            evidence, TakeoverVerdict.EQUAL, committed, f"The objects end where the {split.committed} is."
        )
    missing = f"At most {committed - until} offsets before it are in none of the last objects"
    why = f"{missing}: skipped, dead-lettered, no records (compaction, transactions), or an object is missing."
    return TakeoverDecision(evidence, TakeoverVerdict.OBJECTS_END_BEFORE, committed, why)


def _covered(objects: Sequence[FoundObject], committed: int) -> bool:
    """Whether the last files, side by side, hold every offset from the first of them up to G."""
    records = 0
    for found in reversed(objects):
        if found.records is None:
            return False
        records += found.records
        if found.start + records == committed:
            return True
    return False


def _ahead(evidence: PartitionSurvey, committed: int, split: Split) -> TakeoverDecision:
    """The connector was killed between an upload and the commit of its offsets."""
    found_ahead = f"{_objects(len(evidence.ahead))} at or behind it: killed between upload and commit."
    inside = max((f.until for f in evidence.objects if f.start < committed and f.until is not None), default=committed)
    if inside > committed:
        return _inside(evidence, inside, split)
    in_kafka = evidence.kafka_start <= committed
    clock = split.clock or _other_flush_size(evidence, split)
    if in_kafka and not clock:
        why = f"{found_ahead} The files split the same way again, so their names are written over."
        return TakeoverDecision(evidence, TakeoverVerdict.OVERWRITE, committed, why)
    found_ahead += (
        f" They would not come out the same ({clock})" if in_kafka else " Kafka no longer has their first records"
    )
    end = _ends_at(evidence, split)
    if end is not None:
        return TakeoverDecision(
            evidence, TakeoverVerdict.BEHIND_OBJECTS, end, f"{found_ahead}: behind the last record they hold."
        )
    if in_kafka and split.stable and _one_each(evidence.ahead):
        why = f"{found_ahead}, but each is the first of its directory, whose name is written over."
        return TakeoverDecision(evidence, TakeoverVerdict.OVERWRITE, committed, why)
    why = f"{found_ahead}, and where they end cannot be known"
    return _undecided(evidence, why, "Delete them (they are written again)" if in_kafka else "")


def _inside(evidence: PartitionSurvey, until: int, split: Split) -> TakeoverDecision:
    """An object that began before G holds records behind it."""
    why = f"An object from before the {split.committed} ends behind it, at {until}: the offset was set back, or flush.size changed"
    end = _ends_at(evidence, split)
    if end is None:
        return _undecided(evidence, why)
    return TakeoverDecision(evidence, TakeoverVerdict.BEHIND_OBJECTS, end, f"{why}. Behind the last record in objects.")


def _ends_at(evidence: PartitionSurvey, split: Split) -> int | None:
    """One past the last record in objects, where they follow one another without gaps and the last one is counted."""
    objects = evidence.objects
    if split.side_by_side or not objects or objects[-1].until is None:
        return None
    gaps = any(before.until != after.start for before, after in pairwise(objects) if before.until is not None)
    return None if gaps else objects[-1].until


def _one_each(objects: Sequence[FoundObject]) -> bool:
    return len({found.encoded_partition for found in objects}) == len(objects)


def _other_flush_size(evidence: PartitionSurvey, split: Split) -> str:
    largest = max((found.records or 0 for found in evidence.ahead), default=0)
    if split.flush_size is None or largest <= split.flush_size:
        return ""
    return f"an object holds {largest} records, flush.size is {split.flush_size}"


def _within_kafka(decision: TakeoverDecision) -> TakeoverDecision:
    offset, evidence = decision.offset, decision.evidence
    if offset is None:
        return decision
    if offset > evidence.head:
        head = f"Kafka's head {evidence.head}"
        why = (
            f"The objects end at {offset}, beyond {head}: another cluster, or the topic was deleted and created again."
        )
        return _undecided(evidence, why)
    if offset < evidence.kafka_start:
        why = (
            f"{decision.why} But Kafka has nothing before {evidence.kafka_start}: the sink stops there, or records the gap with "
            "behavior.on.lost.offsets=gap."
        )
        return TakeoverDecision(evidence, TakeoverVerdict.LOST, offset, why)
    return decision


def _undecided(evidence: PartitionSurvey, why: str, way: str = "") -> TakeoverDecision:
    """`why` without a decision, and `way` to one beside an offset by hand."""
    give = f"--offset {evidence.topic_partition}=OFFSET"
    remedy = f"{way}, or give {give}." if way else f"Give {give}."
    return TakeoverDecision(evidence, TakeoverVerdict.UNDECIDED, None, f"{why.removesuffix('.')}. {remedy}")


def _objects(count: int) -> str:
    return "An object begins" if count == 1 else f"{count} objects begin"


KEPT_BEFORE: Final = 3
MOST_COUNTED: Final = 200
LINE_FRAMES: Final = ("", "\n")


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything the decision needs. `members` are the group's live members, `elsewhere` the objects of partitions Kafka does not have."""

    group: str
    members: tuple[str, ...]
    evidence: tuple[PartitionSurvey, ...]
    split: Split
    elsewhere: int = 0

    @property
    def objects(self) -> int:
        """How many objects of the topics there are."""
        return sum(found.total for found in self.evidence)


@dataclass(frozen=True, slots=True)
class _Listed:
    """An object, not counted yet, or what its name says of one of its slices. `last` is its last offset where the name says it."""

    topic_partition: TopicPartition
    found: FoundObject
    info: ObjectInfo
    form: str
    role: Role = Role.VALUE
    last: int = -1


def survey(
    settings: Settings, brokers: Brokers, *, store: ObjectStore, group: str, topics: Mapping[str, Topic]
) -> Survey:
    """Look at group, bucket and Kafka for these topics, and change nothing. Raises SourceError, StorageError, IndexDamaged."""
    alive = topic_partitions(topics.values())
    committed = _committed_offsets(settings, brokers, store=store, group=group, alive=alive)
    listed: dict[TopicPartition, _Kept] = defaultdict(_Kept)
    for item in _listing(settings, store, topics=tuple(topics)):
        listed[item.topic_partition].add(item, committed.get(item.topic_partition))
    starts, heads = brokers.starts(alive), brokers.heads(alive)
    silent = [str(tp) for tp in alive if tp not in starts or tp not in heads]
    if silent:
        raise KafkaUnavailable(f"No broker answers for {', '.join(silent)}: no leader? Survey again when one does.")
    evidence = tuple(
        PartitionSurvey(
            tp, committed.get(tp), _counted(settings, store, listed[tp]), listed[tp].total, starts[tp], heads[tp]
        )
        for tp in alive
    )
    elsewhere = sum(kept.total for tp, kept in listed.items() if tp not in starts)
    return Survey(group, tuple(brokers.group_members(group)), evidence, split_of(settings), elsewhere)


def split_of(settings: Settings) -> Split:
    """How the connector of these settings cuts its files (SEMANTICS A3.6, B5)."""
    if is_block_gzip(settings):
        label = "pointer" if resumes_at_pointer(settings) else "group offset"
        return Split("files close at the worker's flush", side_by_side=False, stable=False, committed=label)
    name = settings.text("partitioner.class")
    by_time = name in TIME_PARTITIONERS
    by_arrival = by_time and settings.text("timestamp.extractor") == "Wallclock"
    nulls_apart = settings.text("behavior.on.null.values").lower() == "write"
    apart = nulls_apart or settings.text("s3.schema.partition.affix.type") != "NONE"
    return Split(
        _clock(settings, name),
        side_by_side=apart or not (name == "default" or by_arrival),
        stable=not by_arrival,
        flush_size=rules.flush_size if (rules := readiness(settings).rules).flush_size > 0 else None,
    )


def _clock(settings: Settings, partitioner: str) -> str:
    ready = readiness(settings)
    if ready.rules.schedule_ms > 0:
        return "rotate.schedule.interval.ms"
    if partitioner in TIME_PARTITIONERS and settings.text("timestamp.extractor") == "Wallclock":
        return "timestamp.extractor=Wallclock"
    for key, on in (("flush.idle.ms", ready.rules.idle_ms > 0), ("flush.bytes", ready.rules.flush_bytes > 0)):
        if on:
            return f"{key}, which the connector did not have"
    if settings.flag("schema.compatibility.unify"):
        return "schema.compatibility.unify, which the connector did not have"
    return "" if partitioner in {"default", "field", *TIME_PARTITIONERS} else f"partitioner.class={partitioner}"


class _Kept:
    """The objects that matter of one topic-partition: all from the committed offset on, and the last few before."""

    def __init__(self) -> None:
        self.ahead: dict[tuple[str, int], _Listed] = {}
        self.before: dict[tuple[str, int], _Listed] = {}
        self.total = 0

    def add(self, item: _Listed, committed: int | None) -> None:
        """Keeps the object or not. An object of keys counts where there is none of values in its place, so those come first."""
        key = (item.found.encoded_partition, item.found.start)
        if key in self.ahead or key in self.before:
            return
        if committed is None or item.found.start >= committed:
            self.ahead[key] = item
        elif len(self.before) < KEPT_BEFORE or item.found.start > min(start for _, start in self.before):
            self.before[key] = item
        elif item.role is Role.KEY:
            return
        self.total += 1
        if len(self.before) > KEPT_BEFORE:
            del self.before[min(self.before, key=lambda other: other[1])]

    def items(self) -> list[_Listed]:
        """By first offset, without those that others were made from which are there, too."""
        found, ends = list[_Listed](), dict[str, int]()
        for item in sorted([*self.before.values(), *self.ahead.values()], key=lambda item: item.found.start):
            directory = item.found.encoded_partition
            if item.found.start <= ends.get(directory, -1):
                self.total -= 1
                continue
            found.append(item)
            ends[directory] = max(item.last, ends.get(directory, -1))
        return found


def _committed_offsets(
    settings: Settings, brokers: Brokers, *, store: ObjectStore, group: str, alive: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where the connector would go on by itself."""
    if not resumes_at_pointer(settings):
        return brokers.group_offsets(group, alive)
    found = {tp: position_in_bucket(store, block_names(settings), tp) for tp in alive}
    return {tp: offset for tp, offset in found.items() if offset is not None}


def _listing(settings: Settings, store: ObjectStore, *, topics: tuple[str, ...]) -> Iterator[_Listed]:
    """The objects of the topics; those of values first, as a file of tombstones has only keys."""
    if is_block_gzip(settings):
        yield from _block_listing(settings, store, topics=topics)
        return
    formats = formats_of(settings)
    for role in (Role.VALUE, Role.KEY):
        if role in formats:
            yield from _connect_listing(settings, store, topics=topics, form=formats[role], role=role)


def _connect_listing(
    settings: Settings, store: ObjectStore, *, topics: tuple[str, ...], form: Format, role: Role
) -> Iterator[_Listed]:
    names = connect_names(settings)
    for topic in topics:
        for info in store.list(names.prefix_of(topic)):
            read = names.read_own(info.key, topics, extension=form.extension)
            if read is not None and read.topic_partition.topic == topic:
                slices = slices_of_rewritten(info.key, read)
                for one in (one for one in slices if one.records):
                    found = FoundObject(
                        info.key, read.encoded_partition, one.first_offset, one.last_offset - one.first_offset + 1
                    )
                    tp = TopicPartition(topic, one.partition)
                    yield _Listed(tp, found, info, form.name, role, one.last_offset)
                if not slices:
                    found, last = (
                        FoundObject(info.key, read.encoded_partition, read.offset),
                        last_of_rewritten(info.key),
                    )
                    yield _Listed(read.topic_partition, found, info, form.name, role, -1 if last is None else last)


def _block_listing(settings: Settings, store: ObjectStore, *, topics: tuple[str, ...]) -> Iterator[_Listed]:
    names = block_names(settings)
    for info in store.list(normal_prefix(names.prefix)):
        read = read_block_key(info.key, names.prefix)
        if read is not None and read.topic_partition.topic in topics:
            found = FoundObject(info.key, read.encoded_partition, read.offset)
            yield _Listed(read.topic_partition, found, info, "block_gzip")


def _counted(settings: Settings, store: ObjectStore, kept: _Kept) -> tuple[FoundObject, ...]:
    """The objects with their records; of very many only the last are counted."""
    items = kept.items()
    count = _counter(settings, store)
    first = len(items) - MOST_COUNTED
    return tuple(
        replace(item.found, records=count(item)) if at >= first and item.found.records is None else item.found
        for at, item in enumerate(items)
    )


def _counter(settings: Settings, store: ObjectStore) -> Callable[[_Listed], int | None]:
    def connect(item: _Listed) -> int | None:
        return record_count(store, item.info.key, size=item.info.size, form=item.form)

    def block(item: _Listed) -> int | None:
        end = end_by_index(store, item.info.key)
        if end is not None:
            return end - item.found.start
        # killed between data and index
        return (
            record_count(store, item.info.key, size=item.info.size, form="lines") if _one_line_each(settings) else None
        )

    return block if is_block_gzip(settings) else connect


def _one_line_each(settings: Settings) -> bool:
    by_lines = (
        settings.text("block.gzip.format") != "binary" and settings.text("block.gzip.value.delimiter") in LINE_FRAMES
    )
    return resumes_at_pointer(settings) or by_lines


class MigrationRefused(SinkError):
    """Applying the migration now could lose or double records."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """A decision per topic-partition, and whether the connector still runs."""

    survey: Survey
    decisions: tuple[TakeoverDecision, ...]

    @property
    def positions(self) -> dict[TopicPartition, Progress]:
        """The first positions; what the connector wrote before them counts as written."""
        found = [d for d in self.decisions if d.offset is not None]
        return {d.evidence.topic_partition: Progress(d.offset or 0, d.offset) for d in found}

    @property
    def undecided(self) -> list[TakeoverDecision]:
        """What nobody has decided yet."""
        return [d for d in self.decisions if d.verdict is TakeoverVerdict.UNDECIDED]


def takeover(found: Survey, offsets: Mapping[TopicPartition, int]) -> Takeover:
    """The decisions; `offsets` are those chosen by hand. Raises MigrationRefused for one that Kafka does not have."""
    known = {evidence.topic_partition: evidence for evidence in found.evidence}
    for tp, offset in offsets.items():
        if tp not in known:
            raise MigrationRefused(
                f"--offset {tp}={offset}: {tp} is none of the configured topics' partitions ({_names(known)})."
            )
        if not known[tp].kafka_start <= offset <= known[tp].head:
            has = f"Kafka has {tp} from {known[tp].kafka_start} to {known[tp].head} (the head)"
            raise MigrationRefused(f"--offset {tp}={offset} is out of range: {has}. Give an offset in that range.")
    decisions = [
        given(evidence, offsets[tp]) if tp in offsets else takeover_decision(evidence, found.split)
        for tp, evidence in known.items()
    ]
    return Takeover(found, tuple(decisions))


def topics_to_take_over(state: LogState, topics: Iterable[str]) -> list[str]:
    """Return the topics that the sink has not begun with. Raises MigrationRefused if there are some, and it has begun with all of them.

    Where it has begun, its log knows better than the group that it has left behind.
    """
    begun = {tp.topic for tp in state.progress} if state.totals.read or state.totals.files else set[str]()
    configured = list(topics)
    left = [topic for topic in configured if topic not in begun]
    if configured and not left:
        raise MigrationRefused(
            f"The commit log holds {state.version + 1} entries and {state.totals.files:,} files already: this sink has taken over "
            f"{_names(configured)}. Use `kafka-s3 position` to move it, or another name for a new sink. If it was started without "
            "`migrate` and has written records a second time, docs/migrate.md (A start that doubled records) shows the way back."
        )
    return left


def check_decided(plan: Takeover) -> None:
    """Raises MigrationRefused where a topic-partition has no decision, or nothing at all was found."""
    if plan.undecided:
        raise MigrationRefused(
            "Not decided. "
            + " ".join(f"{d.evidence.topic_partition}: {d.why}" for d in plan.undecided)
            + " Nothing was written."
        )
    if not plan.positions:
        raise MigrationRefused(
            f"Group {plan.survey.group} has no offsets, and there are no objects of the topics: nothing to take over. Check the "
            "connector's name (or give --group), s3.bucket.name and topics.dir. A new sink needs no migration."
        )


def check_stopped(found: Survey) -> None:
    """Raises MigrationRefused where the group has live members: two sinks would write the same objects."""
    if found.members:
        members = f"{len(found.members)} live members ({_names(found.members[:3])})"
        raise MigrationRefused(
            f"Group {found.group} has {members}: the connector runs, and two sinks would write the same objects. "
            "Stop or delete the connector, wait until its tasks are gone, then repeat."
        )


def apply(plan: Takeover, log: CommitLog, brokers: Brokers) -> CommitEntry | None:
    """Write the first positions of the topics, None if the log has them already. Raises MigrationRefused, CommitError, SourceError.

    A driver may start meanwhile: what the log knows is checked again once nobody else can write it.
    """

    def check_not_begun(state: LogState) -> None:
        for topic in {tp.topic for tp in plan.positions}:
            topics_to_take_over(state, [topic])

    check_not_begun(log.load())
    check_decided(plan)
    return write_positions(log, brokers, plan.positions, check=check_not_begun)


def _names(things: Sequence[object] | Mapping[TopicPartition, object]) -> str:
    return ", ".join(map(str, things))
