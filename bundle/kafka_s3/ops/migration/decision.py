"""At which offset does the successor go on? One pure decision per topic-partition, with its reason.

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

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from kafka_s3.model.offsets import TopicPartition


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
    """The offset that loses no record and, where that can be told, writes none twice."""
    if evidence.committed is None:
        decision = _uncommitted(evidence, split)
    elif evidence.committed > evidence.head:
        why = f"The {split.committed} lies beyond Kafka's head {evidence.head}: another cluster, or the topic was made anew."
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
    anew = f"; from the first one on they would not come out the same ({other})" if other else ""
    return _undecided(evidence, f"No {split.committed}, and the objects do not say where the last record is{anew}.")


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
    begun = f"{_objects(len(evidence.ahead))} at or behind it: killed between upload and commit."
    inside = max((f.until for f in evidence.objects if f.start < committed and f.until is not None), default=committed)
    if inside > committed:
        return _inside(evidence, inside, split)
    in_kafka = evidence.kafka_start <= committed
    clock = split.clock or _other_flush_size(evidence, split)
    if in_kafka and not clock:
        why = f"{begun} The files split the same way again, so their names are written over."
        return TakeoverDecision(evidence, TakeoverVerdict.OVERWRITE, committed, why)
    begun += f" They would not come out the same ({clock})" if in_kafka else " Kafka no longer has their first records"
    end = _ends_at(evidence, split)
    if end is not None:
        return TakeoverDecision(
            evidence, TakeoverVerdict.BEHIND_OBJECTS, end, f"{begun}: behind the last record they hold."
        )
    if in_kafka and split.stable and _one_each(evidence.ahead):
        why = f"{begun}, but each is the first of its directory, whose name is written over."
        return TakeoverDecision(evidence, TakeoverVerdict.OVERWRITE, committed, why)
    why = f"{begun}, and where they end cannot be told"
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
        why = f"The objects end at {offset}, beyond Kafka's head {evidence.head}: another cluster, or the topic was made anew."
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
