"""Which positions does a sink have, and how is it moved by hand? Reading positions is free; a move is an entry of the commit log.

A move claims the log first, which fences a driver that is still at work: its next commit is refused and it stops. So a move is refused
where a driver has committed lately, unless it is forced. The last entry says whether it was written by hand: behind such an entry no
driver is at work, as one that starts writes an entry of its own, and one that ran before is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from kafka_s3.engine.control.heartbeat import read_heartbeat
from kafka_s3.engine.log.entry import BY_HAND, CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import LogState, live_objects, undivided
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.remade import Remade, Remake
from kafka_s3.engine.loop.committer import Committer, beyond_recovery, files_text, is_counted
from kafka_s3.engine.loop.topics import check_cluster
from kafka_s3.model.errors import CommitError, ConfigError, Problem, TopicRecreated
from kafka_s3.model.files import DataFile
from kafka_s3.model.offsets import Gap, LogEnd, OffsetSet, TopicPartition
from kafka_s3.model.protocols import Brokers, Topic
from kafka_s3.model.timing import age

CAUSE: Final = "position"


class DriverAtWork(CommitError):
    """A driver has committed so lately that it is taken to be running."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """One topic-partition as log, Kafka and group see it; None where one of them knows nothing of it.

    Open files hold what is before the offset `held`.
    """

    topic_partition: TopicPartition
    progress: Progress | None
    start: int | None
    head: int | None
    group: int | None
    held: int = 0

    @property
    def lag(self) -> int | None:
        """Offsets between frontier and head."""
        if self.progress is None or self.head is None:
            return None
        return max(self.head - self.progress.frontier, 0)

    @property
    def remark(self) -> str:
        """What stops the sink here, blank where nothing does."""
        if self.progress is None:
            return "no position yet: the first start gives it one"
        if self.start is None or self.head is None:
            return "not in Kafka"
        unread = max(self.progress.frontier, self.held)
        if unread < self.start:
            return f"{self.start - unread:,} offsets are no longer in Kafka"
        return "the frontier lies beyond Kafka's head" if self.progress.frontier > self.head else ""


@dataclass(frozen=True, slots=True)
class Move:
    """A topic-partition from one frontier (None: it has none) to another."""

    topic_partition: TopicPartition
    before: Progress | None
    position: int

    @property
    def gap(self) -> Gap | None:
        """The offsets that are passed over, None where none are."""
        if self.before is None or self.position <= self.before.frontier:
            return None
        return Gap(*self.topic_partition, self.before.frontier, self.position - 1, CAUSE)

    @property
    def reread(self) -> int:
        """How many offsets before the frontier are read once more."""
        return max(self.before.frontier - self.position, 0) if self.before is not None else 0

    @property
    def progress(self) -> Progress:
        """The position afterwards. Going back, dead letters are tried again too; ahead, those beyond the position stay recorded."""
        if self.before is None:
            return Progress(self.position)
        if self.reread:
            written = self.before.written
            return Progress(self.position, None if written is None else min(written, self.position))
        return replace(self.before, frontier=self.position, recorded=self.before.recorded.since(self.position))


def read_positions(
    state: LogState,
    brokers: Brokers,
    *,
    topics: Iterable[str],
    group: str | None = None,
    held: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, PartitionOffsets]:
    """Every topic-partition of the topics and of the log, in order. `held` says how far open files reach. Raises what the brokers raise."""
    found = brokers.describe(sorted({*topics, *(tp.topic for tp in state.progress)}))
    alive = topic_partitions(found.values())
    starts, heads = brokers.starts(alive), brokers.heads(alive)
    offsets = brokers.group_offsets(group, alive) if group else {}
    return {
        tp: PartitionOffsets(
            tp, state.progress.get(tp), starts.get(tp), heads.get(tp), offsets.get(tp), (held or {}).get(tp, 0)
        )
        for tp in sorted({*alive, *state.progress})
    }


def topic_partitions(topics: Iterable[Topic]) -> list[TopicPartition]:
    """All partitions of topics."""
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def offset_named(text: str, offsets: PartitionOffsets) -> int:
    """`earliest`, `latest` or a number as an offset that Kafka has, its head included. Raises ConfigError with the range."""
    start, head = offsets.start, offsets.head
    if start is None or head is None:
        raise _wrong(
            str(offsets.topic_partition), text, "is not a topic-partition of this Kafka cluster.", "Check its name."
        )
    if text in ("earliest", "latest"):
        return start if text == "earliest" else head
    if not text.isascii() or not text.isdecimal():
        raise _wrong("OFFSET", text, "is not an offset.", "Give a number, earliest or latest.")
    if not start <= int(text) <= head:
        rule = f"is out of range: Kafka has {offsets.topic_partition} from {start} to {head} (the head)."
        raise _wrong("OFFSET", text, rule, "Give an offset in that range, earliest or latest.")
    return int(text)


def epoch_ms(text: str) -> int:
    """A time, ISO 8601 (UTC where it names no zone) or epoch milliseconds, as epoch milliseconds. Raises ConfigError."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "Give 2024-01-15T10:00:00Z or epoch milliseconds."
        raise _wrong("TIME", text, "is neither ISO 8601 nor epoch milliseconds.", hint) from None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def offsets_at_time(brokers: Brokers, chosen: Iterable[PartitionOffsets], *, time_ms: int) -> dict[TopicPartition, int]:
    """Per topic-partition the first offset at or after the time; the head where all records are older."""
    heads = {offsets.topic_partition: offsets.head for offsets in chosen if offsets.head is not None}
    found = brokers.offsets_at(dict.fromkeys(heads, time_ms))
    return {tp: head if (at := found.get(tp)) is None else at for tp, head in heads.items()}


def moves_to(state: LogState, positions: Mapping[TopicPartition, int]) -> list[Move]:
    """The moves that these positions mean; a topic-partition that is there already is left out."""
    moves = [Move(tp, state.progress.get(tp), position) for tp, position in sorted(positions.items())]
    return [move for move in moves if move.before is None or move.before.frontier != move.position]


def check_idle(log: CommitLog, *, now_ms: int, within_ms: int) -> None:
    """Raises DriverAtWork where one is, by its heartbeat, or may be. The log must be loaded. Raises StorageError, LogDamaged."""
    _check_no_heartbeat(log, now_ms)
    last, age_ms = log.last, written_ago(log, now_ms=now_ms, within_ms=within_ms)
    if last is None or age_ms is None:
        return
    raise DriverAtWork(
        f"Sink {last.sink}: driver {last.driver or 'unknown'} wrote entry {last.version} {age_ms // 1000} s ago and may be "
        "running. Stop it first, then repeat with --force: that takes the log over, and a driver still at work is fenced and stops at "
        "its next commit. (An idle driver writes nothing; a quiet log is no proof that none is running.)"
    )


def _check_no_heartbeat(log: CommitLog, now_ms: int) -> None:
    """Raises DriverAtWork where a run that nobody has overtaken says that it lives, however long ago it wrote an entry."""
    heartbeat = read_heartbeat(log.store, log.paths)
    if heartbeat is None or not heartbeat.alive(now_ms) or 0 < heartbeat.epoch < log.state.epoch:
        return
    raise DriverAtWork(
        f"Sink {heartbeat.sink} is running: pid {heartbeat.pid} on {heartbeat.host}, last heartbeat {age(now_ms - heartbeat.beat_ms)} ago "
        f"({heartbeat.phase}). Stop it first, then repeat. (--force takes the log over all the same: that driver is fenced and stops at "
        "its next commit.)"
    )


def written_ago(log: CommitLog, *, now_ms: int, within_ms: int) -> int | None:
    """How many ms ago a driver that may be at work wrote the log; None: not within `within_ms`, or its heartbeat says that it has ended."""
    last = log.last
    if last is None or last.by_hand:
        return None
    age_ms = max(now_ms - int(datetime.fromisoformat(last.committed_at).timestamp() * 1000), 0)
    if age_ms >= within_ms:
        return None
    heartbeat = read_heartbeat(log.store, log.paths)
    return None if heartbeat is not None and heartbeat.is_over(last.epoch) else age_ms


def write_positions(
    log: CommitLog,
    brokers: Brokers,
    positions: Mapping[TopicPartition, Progress | int],
    *,
    check: Callable[[LogState], None] | None = None,
) -> CommitEntry | None:
    """Claims the log and moves the frontiers with one entry, which it gives; None where all are there already.

    An offset keeps what the log knows beside the frontier, a Progress replaces it. `check` may refuse, by what it raises, the state in
    which the log was claimed: no driver changes that any more. Raises CommitError, SourceError, TopicRecreated; ConfigError for a position
    after the offset at which a log was cut.
    """
    cluster = brokers.cluster_id()
    topics = brokers.describe(sorted({tp.topic for tp in positions}))
    _check_source(log.load(), cluster, topics, sink=log.paths.sink)
    targets = {tp: p if isinstance(p, int) else p.frontier for tp, p in positions.items()}
    committer = Committer(log, remake_of_move(targets, brokers, log))
    committer.claim(cluster)
    state = log.state
    if check is not None:
        check(state)
    _check_cuts(targets, state, brokers)
    moves = moves_to(state, targets | _undivided(log, targets, brokers))
    if not moves:
        return None
    given = {tp: p for tp, p in positions.items() if isinstance(p, Progress)}
    wanted = {m.topic_partition: given.get(m.topic_partition, m.progress) for m in moves}
    cuts, ends = _cuts_of(wanted, state, brokers), brokers.ends(wanted)
    entry = log.new_entry(
        EntryKind.POSITION,
        progress={
            tp: replace(one, recorded=one.recorded.before(cuts.get(tp, one.recorded.until))).within(ends.get(tp))
            for tp, one in wanted.items()
        },
        gaps=tuple(move.gap for move in moves if move.gap is not None),
        topic_ids={topic.name: topic.id for topic in topics.values() if not state.topic_ids.get(topic.name)},
        cuts={tp: cut for tp, cut in cuts.items() if state.erased.get(tp, OffsetSet()).until > cut},
    )
    entry = replace(entry, driver=entry.driver + BY_HAND)
    committer.commit(entry)
    return entry


def _undivided(log: CommitLog, targets: Mapping[TopicPartition, int], brokers: Brokers) -> dict[TopicPartition, int]:
    """Return the positions of moves back, so that no object is divided that cannot be.

    Raises ConfigError for a position among the rows of an object that does not say which of them come before it, if Kafka does not have its
    first record any more.
    """
    before = log.state.frontier
    back = {tp: at for tp, at in targets.items() if at < before.get(tp, at)}
    if not back:
        return {}
    found = undivided(log.entries(), back, brokers.starts(back))
    inside = [one for one in live_objects(log.entries()).values() for one in one.by_slice if one.file.sorted_by]
    for one in inside if log.state.rewritten else ():
        file, position = one.file, found.get(one.file.topic_partition)
        if position is not None and file.first_offset < position <= file.last_offset:
            rule = (
                f"is among the records of {file.key}, whose rows are sorted by {file.sorted_by}: it does not say which come before, and "
                f"Kafka has its first record, {file.first_offset}, no more."
            )
            raise _wrong(
                f"position of {file.topic_partition}",
                str(position),
                rule,
                f"Take {file.last_offset + 1}, where the next object begins.",
            )
    return found


def _check_cuts(targets: Mapping[TopicPartition, int], state: LogState, brokers: Brokers) -> None:
    """Refuse positions after the offset at which a log was cut: the records between are others than those that the log has claimed."""
    frontiers = {tp: state.frontier[tp] for tp in targets if tp in state.progress}
    for tp, cut in _cuts_before(frontiers, state, brokers).items():
        if targets[tp] > cut:
            rule = f"is after offset {cut}, at which the log of {tp} was cut: Kafka has other records from there on."
            raise _wrong(f"position of {tp}", str(targets[tp]), rule, f"Set {cut}, or a smaller offset.")


def _cuts_of(wanted: Mapping[TopicPartition, Progress], state: LogState, brokers: Brokers) -> dict[TopicPartition, int]:
    """Return from where on logs hold other records than dead letters and erased offsets that are known."""
    ends = {tp: max(one.recorded.until, state.erased.get(tp, OffsetSet()).until) for tp, one in wanted.items()}
    return _cuts_before(ends, state, brokers)


def _cuts_before(offsets: Mapping[TopicPartition, int], state: LogState, brokers: Brokers) -> dict[TopicPartition, int]:
    """Return where logs were cut before these offsets, since the leader epochs that the commit log knows."""
    known = {
        tp: LogEnd(offset, state.progress[tp].leader_epoch)
        for tp, offset in offsets.items()
        if offset and tp in state.progress and state.progress[tp].leader_epoch is not None
    }
    return dict(brokers.cut_before(known))


def _check_source(state: LogState, cluster: str, topics: Mapping[str, Topic], *, sink: str) -> None:
    check_cluster(state.cluster_id, cluster, sink=sink, remedy="use a new sink name")
    for topic in topics.values():
        if state.is_recreated(topic.name, topic.id):
            raise TopicRecreated(
                f"Topic {topic.name} was deleted and created again: the log's offsets mean records of the old one. Run the sink once with "
                "behavior.on.lost.offsets=gap, which begins at its first record, then move the position."
            )


def remake_of_move(targets: Mapping[TopicPartition, int], brokers: Brokers, log: CommitLog) -> Remake:
    """What a move does about files of the last entry whose uploads are gone: it cannot read records, and passes over what it may.

    That are files from which the sink goes on at the latest, since their records are read again, and those whose records Kafka has no more,
    which become a gap. For others CommitError is raised: a run makes them.
    """

    def remake(entry: CommitEntry, gone: list[DataFile]) -> Remade:
        counted = [file for file in gone if is_counted(file, entry.version, log.state)]
        kept = [file for file in counted if any(_is_kept(one, targets) for one in file.by_slice)]
        elsewhere = entry.kind in (EntryKind.REPLAY, EntryKind.REWRITE)  # their records are not only in Kafka
        lost = [] if elsewhere else beyond_recovery(entry, kept, brokers, log.state)
        owed = [file for file in kept if file not in lost]
        if owed:
            raise CommitError(
                f"Commit entry {entry.version} counts files whose uploads are gone: {files_text(owed)}. A run makes them again: "
                "start the sink once with `kafka-s3 run`, stop it, then repeat. Or move the position to their first offset or before."
            )
        return Remade(lost=lost)

    return remake


def _is_kept(file: DataFile, targets: Mapping[TopicPartition, int]) -> bool:
    """Whether a move leaves some records of a file to count."""
    return targets.get(file.topic_partition, file.last_offset + 1) > file.first_offset


def _wrong(key: str, value: str, rule: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key, value, rule, remedy)])
