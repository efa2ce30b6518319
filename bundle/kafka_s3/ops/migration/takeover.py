"""How does the decision become the sink's first position? Only when no other sink can write, and everything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_s3.engine.log.entry import CommitEntry, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.errors import SinkError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers
from kafka_s3.ops.migration.decision import TakeoverDecision, TakeoverVerdict, given, takeover_decision
from kafka_s3.ops.migration.survey import Survey
from kafka_s3.ops.positions import write_positions


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


def check_log_empty(log: CommitLog) -> None:
    """Raises MigrationRefused where the sink has read records already: the log knows better than a group it has left behind."""
    state = log.load()
    if state.totals.read or state.totals.files:
        raise MigrationRefused(
            f"The commit log holds {state.version + 1} entries and {state.totals.files:,} files already: this sink has taken over. "
            "Use `kafka-s3 position` to move it, or another name for a new sink."
        )


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
    """Writes the positions as the log's first, None where it has them already. Raises MigrationRefused, CommitError, SourceError."""
    check_log_empty(log)
    check_decided(plan)
    return write_positions(log, brokers, plan.positions)


def _names(things: Sequence[object] | Mapping[TopicPartition, object]) -> str:
    return ", ".join(map(str, things))
