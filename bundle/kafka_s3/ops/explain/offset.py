"""What became of the record of an offset? The log's accounts, its dead letters, and what Kafka and the pipeline still can say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.log.dead_letters import FiledLetter, Ledger, LetterFile, LetterSelection, LetterState, letters
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.rewrites import UNPUBLISHED
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.states import HintUnusable, NotedFiles, noted_open_files
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import DataFile, Reason, Role, counted
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.ops.explain.answer import Account, Answer, Fate, described, open_rules
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pipeline makes of one record: an object of that key and directory, a dead letter, a skip, or a stop of the sink."""

    outcome: Fate
    text: str
    key: str = ""
    encoded_partition: str = ""
    schema: str = ""


def record_at(kafka: KafkaRecords, topic_partition: TopicPartition, offset: int) -> pa.RecordBatch | None:
    """The record of an offset that is between Kafka's log start and its head; None where Kafka has none of that offset."""
    batches = kafka.batches(topic_partition, offset, until=offset + 1)
    return next((batch for batch in batches if len(batch)), None)


def verdict_on(pipeline: Pipeline, topic_partition: TopicPartition, record: pa.RecordBatch, *, now_ms: int) -> Verdict:
    """What becomes of a record under this configuration, as if it arrived now (epoch ms). Raises RegistryError."""
    offset = record.column("offset")[0].as_py()
    alone = Assignment(topic_partition, offset, offset + 1, (Delivery(now_ms, offset + 1),), close=Reason.FLUSH_NOW)
    report = replace(pipeline, dead_letter_ratio=1.0).process(alone, [record], MemoryStore())
    if report.failure is not None:
        return Verdict(Fate.OPEN, f"the sink stops at it: {report.failure}. {report.remedy}")
    if len(report.dead):
        return Verdict(Fate.DEAD_LETTER, f"it is a dead letter: {report.commonest}")
    for file in report.files:
        if file.role in (Role.VALUE, Role.KEY):
            return Verdict(Fate.OBJECT, "", file.key, file.encoded_partition, file.schema)
    return Verdict(Fate.SKIPPED, why_skipped(pipeline, record))


def why_skipped(pipeline: Pipeline, record: pa.RecordBatch) -> str:
    """The rule that skips a record."""
    if record.column("value")[0].as_py() is None and pipeline.policy.nulls == "ignore":
        return "behavior.on.null.values=ignore: it has no value"
    return "a transform drops it"


BY_HAND: Final = "a position set by hand left these offsets out"


@dataclass
class Accounts:
    """What the log says of `offset`. `start` is where the sink began with the topic-partition, `frontier` where it stands (None: not yet).

    `known` are all topic-partitions of the log; `ledger` has the dead letter files that may hold the offset.
    """

    topic_partition: TopicPartition
    offset: int
    start: int | None = None
    frontier: int | None = None
    found: list[Account] = field(default_factory=list)
    known: set[TopicPartition] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    _topic_id: str = ""

    def add(self, entry: CommitEntry) -> None:
        """Takes the next entry in."""
        self.known.update(entry.progress)
        self._note_topic(entry)
        self.ledger.add(replace(entry, files=tuple(file for file in entry.files if self._may_be_letter(file))))
        progress = entry.progress.get(self.topic_partition)
        if progress is not None:
            (self._data if entry.kind is EntryKind.DATA else self._position)(entry, progress)
            self.start = progress.frontier if self.start is None else min(self.start, progress.frontier)
            self.frontier = progress.frontier
        for gap in entry.gaps:
            if (gap.topic, gap.partition) == self.topic_partition and gap.first <= self.offset <= gap.last:
                if gap.cause == UNPUBLISHED:
                    self._overrule()
                self._say(entry, Fate.GAP, f"offsets {gap.first} to {gap.last} are a gap: {gap.cause}")
        if has(entry.resolved.get(self.topic_partition, OffsetSet()), self.offset):
            self._replay(entry)

    def standing(self) -> Account | None:
        """The last account that still holds."""
        return next((one for one in reversed(self.found) if one.stands), None)

    def _data(self, entry: CommitEntry, progress: Progress) -> None:
        if self.frontier is None or not self.frontier <= self.offset < progress.frontier:
            return
        files, skipped = self._files(entry), entry.skipped.get(self.topic_partition, 0)
        span = f"offsets {self.frontier} to {progress.frontier - 1}"
        if files:
            self._say(entry, Fate.OBJECT, f"{span} were committed with it", files)
        else:
            text = f"{span} were committed with it; no object of it reaches to this offset, and it skipped {skipped} records"
            self._say(entry, Fate.SKIPPED if skipped else Fate.NO_RECORD, text)

    def _position(self, entry: CommitEntry, progress: Progress) -> None:
        before, now = self.frontier, progress.frontier
        if before is None or now == before:
            return
        if now < before and self.offset >= now and not has(progress.recorded, self.offset):
            self._overrule()
        elif before <= self.offset < now and not entry.gaps:
            self._say(entry, Fate.GAP, f"offsets {before} to {now - 1} are a gap: {BY_HAND}")

    def _replay(self, entry: CommitEntry) -> None:
        if files := self._files(entry):
            self._say(entry, Fate.OBJECT, "the dead letter was replayed", files)
        else:
            self._say(entry, Fate.SKIPPED, f"the dead letter was resolved by hand: {entry.reason or 'no reason given'}")

    def _note_topic(self, entry: CommitEntry) -> None:
        """A topic that was created again: what was said before is about other records."""
        new = entry.topic_ids.get(self.topic_partition.topic, "")
        if new and self._topic_id and new != self._topic_id:
            self._overrule()
            self.start, self.frontier = None, None
        self._topic_id = new or self._topic_id

    def _files(self, entry: CommitEntry) -> tuple[DataFile, ...]:
        """The objects of an entry whose offsets reach over this one."""
        return tuple(
            file
            for file in entry.files
            if file.topic_partition == self.topic_partition
            and file.role not in (Role.DEAD_LETTER, Role.POINTER)
            and file.first_offset <= self.offset <= file.last_offset
        )

    def _may_be_letter(self, file: DataFile) -> bool:
        here = file.topic_partition == self.topic_partition and file.first_offset <= self.offset <= file.last_offset
        return here or file.role is not Role.DEAD_LETTER

    def _overrule(self) -> None:
        self.found = [replace(one, stands=False) for one in self.found]

    def _say(self, entry: CommitEntry, outcome: Fate, text: str, files: tuple[DataFile, ...] = ()) -> None:
        self.found.append(Account(entry.version, entry.committed_at, outcome, text, files))


def accounts_of(entries: Iterable[CommitEntry], topic_partition: TopicPartition, offset: int) -> Accounts:
    """What a whole log says of an offset."""
    found = Accounts(topic_partition, offset)
    for entry in entries:
        found.add(entry)
    return found


def has(offsets: OffsetSet, offset: int) -> bool:
    """Whether an offset is in the set."""
    return any(first <= offset <= last for first, last in offsets.ranges)


NOT_ASKED: Final = "Kafka was not asked, so that this is what the log alone says."


@dataclass
class OffsetInquiry:
    """One question. `kafka` None: the log and the bucket answer alone. Raises what bucket, brokers and registry raise."""

    settings: Settings
    store: ObjectStore
    paths: StatePaths
    pipeline: Callable[[], Pipeline]
    now_ms: int
    kafka: KafkaRecords | None = None

    def answer(self, topic_partition: TopicPartition, offset: int) -> Answer:
        """The explanation of an offset. Raises ConfigError for a topic-partition that neither log nor Kafka knows."""
        entries = (entry for _, entry in read_history(self.store, self.paths))
        accounts = accounts_of(entries, topic_partition, offset)
        place = self._in_kafka(topic_partition, accounts)
        notes: list[str] = [] if place is not None else [NOT_ASKED]
        letter = self._letter(accounts, notes)
        if letter is not None:
            accounts.found = _with_letter(letter, accounts)
        standing = accounts.standing()
        if standing is None:
            found = self._not_committed(accounts, place)
        elif letter is not None:
            found = _of_letter(standing)
        else:
            found = self._committed(standing, accounts, place)
        return replace(
            found,
            about=f"{topic_partition.topic}:{topic_partition.partition}:{offset}",
            notes=(*found.notes, *notes),
            accounts=found.accounts or tuple(accounts.found),
            objects=described([file for one in accounts.found for file in one.files], self.settings, self.store),
        )

    def _in_kafka(self, tp: TopicPartition, accounts: Accounts) -> tuple[int, int] | None:
        """What Kafka has of the topic-partition: `[start, head)`; None where it is not asked, or does not have it."""
        found = None
        if self.kafka is not None:
            topic = self.kafka.describe([tp.topic]).get(tp.topic)
            if topic is not None and tp.partition in topic.partitions:
                starts, heads = self.kafka.starts([tp]), self.kafka.heads([tp])
                found = (starts[tp], heads[tp]) if tp in starts and tp in heads else None
        if found is None and tp not in accounts.known:
            names = ", ".join(map(str, sorted(accounts.known))) or "none yet"
            raise ConfigError(
                [Problem("offset", str(tp), "is no topic-partition of this sink.", f"Its log has: {names}.")]
            )
        return found

    def _letter(self, accounts: Accounts, notes: list[str]) -> FiledLetter | None:
        """The last dead letter of the offset that no later position made void."""
        tp = accounts.topic_partition
        chosen = LetterSelection(topic=tp.topic, partition=tp.partition, offset=accounts.offset)

        def missing(file: LetterFile) -> None:
            notes.append(
                f"Dead letter file {file.file.key} of entry {file.entry} is not in the bucket; it may hold this record."
            )

        found = letters(accounts.ledger, self.store, selection=chosen, missing=missing)
        return next((one for one in reversed(list(found)) if one.state is not LetterState.READ_AGAIN), None)

    def _committed(self, account: Account, accounts: Accounts, place: tuple[int, int] | None) -> Answer:
        """An offset that an entry accounts for. Which of several objects it is in, the pipeline says, if Kafka has the record."""
        tp, offset, text = accounts.topic_partition, accounts.offset, f"Commit entry {account.entry}: {account.text}."
        if account.outcome is Fate.GAP or not self._can_ask(offset, place):
            sure = account.outcome is not Fate.OBJECT or _is_sure(account.files, offset)
            return Answer(
                "", account.outcome, text if sure else f"{text} It is in one of these objects, or there was no record."
            )
        assert self.kafka is not None
        record = record_at(self.kafka, tp, offset)
        if record is None:
            return Answer(
                "",
                Fate.NO_RECORD,
                f"{text} Kafka has no record of this offset: compacted away, or a transaction's marker.",
            )
        made = int(datetime.fromisoformat(account.committed_at).timestamp() * 1000)
        verdict = verdict_on(self.pipeline(), tp, record, now_ms=made)
        if account.outcome is not Fate.OBJECT or verdict.outcome is Fate.SKIPPED:
            return Answer("", Fate.SKIPPED, f"{text} {verdict.text.capitalize()}." if verdict.text else text)
        mine = _chosen(account.files, verdict)
        if not mine:
            return Answer(
                "", account.outcome, f"{text} It is in one of these objects, by rules that were other ones then."
            )
        chosen = replace(account, files=mine)
        return Answer(
            "", account.outcome, text, accounts=tuple(chosen if one is account else one for one in accounts.found)
        )

    def _not_committed(self, accounts: Accounts, place: tuple[int, int] | None) -> Answer:
        """An offset that no entry accounts for: before the sink's start, behind its frontier, or not there yet."""
        tp, offset, frontier = accounts.topic_partition, accounts.offset, accounts.frontier
        if accounts.start is not None and offset < accounts.start:
            return Answer(
                "",
                Fate.BEFORE_START,
                f"The sink began at offset {accounts.start}; what is before it was never its own.",
            )
        stands = (
            "The sink has not looked at this topic-partition yet."
            if frontier is None
            else f"The sink stands at {frontier}."
        )
        if place is not None and offset >= place[1]:
            return Answer("", Fate.NOT_IN_KAFKA, f"{stands} Kafka ends at {place[1]}: nothing has this offset yet.")
        noted = self._noted(tp)
        read = noted is not None and offset < noted.state.examined
        if place is not None and offset < place[0] and not read:
            way = "behavior.on.lost.offsets says what the sink does there"
            return Answer(
                "", Fate.LOST, f"{stands} Kafka begins at {place[0]} now: retention removed the record first; {way}."
            )
        state = (
            f"It was read and is in an open file, with {noted.tail.records} records"
            if noted and read
            else "It was not read yet"
        )
        closes = f"Files are closed by {open_rules(self.settings)}"
        text = f"{stands} {state}. {closes}.{self._expected(accounts, place)}"
        return Answer("", Fate.OPEN if read else Fate.NOT_READ, text)

    def _noted(self, tp: TopicPartition) -> NotedFiles | None:
        """The open files of a topic-partition that the driver noted last."""
        try:
            return next((one for one in noted_open_files(self.store, self.paths) if one.topic_partition == tp), None)
        except HintUnusable:
            return None

    def _expected(self, accounts: Accounts, place: tuple[int, int] | None) -> str:
        """What the pipeline will make of a record that is not committed."""
        if self.kafka is None or not self._can_ask(accounts.offset, place):
            return ""
        record = record_at(self.kafka, accounts.topic_partition, accounts.offset)
        if record is None:
            return " Kafka has no record of this offset: compacted away, or a transaction's marker."
        verdict = verdict_on(self.pipeline(), accounts.topic_partition, record, now_ms=self.now_ms)
        if verdict.outcome is Fate.OBJECT:
            return f" It will be in directory {verdict.encoded_partition}, schema {verdict.schema or 'none'}."
        return f" As configured now, {verdict.text}."

    def _can_ask(self, offset: int, place: tuple[int, int] | None) -> bool:
        return self.kafka is not None and place is not None and place[0] <= offset < place[1]


def _with_letter(filed: FiledLetter, accounts: Accounts) -> list[Account]:
    """The accounts of a dead letter: the entry that made it one, the one that settled it, and gaps. Others only reach over its offset."""
    letter = filed.letter
    at = (
        datetime.fromtimestamp(filed.committed_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    text = f"it became a dead letter in stage {letter.stage}: {letter.exception}: {letter.message}".rstrip(".")
    files = tuple(one.file for one in accounts.ledger.files.values() if one.entry == filed.entry)
    made = Account(filed.entry, at, Fate.DEAD_LETTER, text, files)
    return [made, *(one for one in accounts.found if one.entry == filed.settled or one.outcome is Fate.GAP)]


def _of_letter(account: Account) -> Answer:
    open_letter = account.outcome is Fate.DEAD_LETTER
    way = "kafka-s3 dead-letters show has it whole; kafka-s3 dead-letters replay writes it to its object."
    return Answer(
        "", account.outcome, f"Commit entry {account.entry}: {account.text}.", notes=(way,) if open_letter else ()
    )


def _is_sure(files: Sequence[DataFile], offset: int) -> bool:
    """Whether the log alone says which object has the offset: one whose records fill its offsets."""
    return any(file.records == file.last_offset - file.first_offset + 1 for file in counted(files))


def _chosen(files: Sequence[DataFile], verdict: Verdict) -> tuple[DataFile, ...]:
    """The objects of the directory that the pipeline names, sidecars included; by the whole folder, where that still is the same."""
    folder = verdict.key.rpartition("/")[0]
    same = tuple(file for file in files if file.key.rpartition("/")[0] == folder)
    by_partition = tuple(file for file in files if file.encoded_partition == verdict.encoded_partition)
    found = same or by_partition
    return tuple(file for file in found if file.role is not Role.POINTER)
