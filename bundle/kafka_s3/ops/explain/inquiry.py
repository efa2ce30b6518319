"""Where does a key, or the record of an offset, come from? A key from the entries that claim it; of an offset the log says what became of
it, with its dead letters and what Kafka and the pipeline still can say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import pyarrow as pa

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import DataKeys, slices_of_rewritten
from kafka_s3.engine.log.dead_letters import FiledLetter, Ledger, LetterFile, LetterSelection, LetterState, letters
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import UNPUBLISHED, LogFold, Replacement, Segment
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.states import HintedState, HintUnusable, OpenFileStates
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.errors import ConfigError, Problem
from kafka_s3.model.files import DataFile, Reason, Role, counted
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery
from kafka_s3.model.timing import iso_time, now_ms
from kafka_s3.ops.explain.answer import Account, Answer, Outcome, object_facts, open_rules
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.run.wiring.pipeline import make_pipeline, object_names, state_paths
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore

NOT_ASKED: Final = "Kafka was not asked, so that this is what the log alone says."
NO_RECORD: Final = "Kafka has no record of this offset: compacted away, or a transaction's marker."
LEFT_OUT: Final = "a position set by hand left these offsets out"
Bounds = tuple[int, int]
"""What Kafka has of a topic-partition: the log start and the head."""


@dataclass
class OffsetAccounts:
    """What the entries of a log say of `offset`, one after the other. `start` is where the sink began with the topic-partition.

    `known` are all topic-partitions of the log; `ledger` has the dead letter files that may hold the offset.
    """

    topic_partition: TopicPartition
    offset: int
    start: int | None = None
    found: list[Account] = field(default_factory=list)
    known: set[TopicPartition] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    _fold: LogFold = field(default_factory=LogFold)
    _erased: bool = False

    @property
    def frontier(self) -> int | None:
        """The next offset that the sink writes of the topic-partition, None: it has none yet."""
        return self._fold.frontier.get(self.topic_partition)

    def add(self, entry: CommitEntry) -> None:
        """Takes the next entry in."""
        self.known.update(entry.progress)
        letters = (file for file in entry.files if file.role is not Role.DEAD_LETTER or self._reaches(file))
        self.ledger.add(replace(entry, files=tuple(letters)))
        for event in self._fold.add(entry):
            if event.topic_partition != self.topic_partition:
                continue
            if isinstance(event, Segment):
                self._add_segment(entry, event)
            elif isinstance(event, Replacement):
                self._replace(entry, event)
            elif isinstance(event, Reset):
                self._reset(event)
            elif isinstance(event, Gap) and event.first <= self.offset <= event.last:
                self._add_gap(entry, event)
        if self.offset in entry.erased.get(self.topic_partition, OffsetSet()):
            self._supersede()
            self._erased = True
            self._account(entry, Outcome.ERASED, f"the record was erased, as {entry.driver} asked")

    def current(self) -> Account | None:
        """The last account that still counts."""
        return next((one for one in reversed(self.found) if one.current), None)

    def _add_segment(self, entry: CommitEntry, segment: Segment) -> None:
        files = tuple(f for f in segment.files if f.role not in (Role.DEAD_LETTER, Role.POINTER) and self._reaches(f))
        if segment.resolved is not None:
            if self.offset not in segment.resolved:
                return
            by_hand = f"the dead letter was resolved by hand: {entry.reason or 'no reason given'}"
            text = "the dead letter was replayed" if files else by_hand
            self._account(entry, Outcome.OBJECT if files else Outcome.SKIPPED, text, files)
        elif segment.start <= self.offset < segment.until:
            text = f"offsets {segment.start} to {segment.until - 1} were committed with it"
            if self._erased:
                self._account(entry, Outcome.ERASED, f"{text}; the record had been erased, and was left out")
                return
            if files:
                self._account(entry, Outcome.OBJECT, text, files)
                return
            text += f"; no object of it reaches to this offset, and it skipped {segment.skipped} records"
            self._account(entry, Outcome.SKIPPED if segment.skipped else Outcome.NO_RECORD, text)

    def _replace(self, entry: CommitEntry, event: Replacement) -> None:
        """The object that has the offset from now on, where it was in one of those replaced; sidecars go with their objects."""
        keys = set(event.swap.keys)
        for account in [one for one in self.found if one.current]:
            if not any(file.key in keys for file in account.files):
                continue
            self.found = [replace(one, current=False) if one is account else one for one in self.found]
            made = (part for file in entry.files for part in file.by_slice if self._reaches(part))
            left = tuple(file for file in account.files if file.key not in {key for s in entry.swaps for key in s.keys})
            made_one = f"objects were made one ({entry.reason}), {event.swap.by} from {len(keys)}"
            text = made_one if entry.erasure is None else f"other records of its object were erased ({event.swap.by})"
            self._account(entry, account.outcome, text, (*made, *left))

    def _reset(self, reset: Reset) -> None:
        if reset.goes_back and self.offset in reset.to_read:
            self._supersede()
        if reset.replaces_records(self.offset + 1):
            self._erased = False
        if reset.recreated:
            self.start = None
        else:
            self.start = reset.frontier if self.start is None else min(self.start, reset.frontier)

    def _add_gap(self, entry: CommitEntry, gap: Gap) -> None:
        if gap.cause == UNPUBLISHED:
            self._supersede()
        cause = gap.cause if gap in entry.gaps else LEFT_OUT
        self._account(entry, Outcome.GAP, f"offsets {gap.first} to {gap.last} are a gap: {cause}")

    def _reaches(self, file: DataFile) -> bool:
        """Whether a file's offsets reach over this one."""
        return file.topic_partition == self.topic_partition and file.first_offset <= self.offset <= file.last_offset

    def _supersede(self) -> None:
        self.found = [replace(one, current=False) for one in self.found]

    def _account(self, entry: CommitEntry, outcome: Outcome, text: str, files: tuple[DataFile, ...] = ()) -> None:
        self.found.append(Account(entry.version, entry.committed_at, outcome, text, files))


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
        accounts = OffsetAccounts(topic_partition, offset)
        for entry in read_history(self.store, self.paths):
            accounts.add(entry)
        bounds = self._bounds(topic_partition, accounts)
        notes: list[str] = [] if bounds is not None else [NOT_ASKED]
        letter = self._letter(accounts, notes)
        if letter is not None:
            accounts.found = _with_letter(letter, accounts)
        current = accounts.current()
        if current is None:
            found = self._not_committed(accounts, bounds)
        elif letter is not None:
            found = _of_letter(current)
        else:
            found = self._committed(current, accounts, bounds)
        return replace(
            found,
            about=f"{topic_partition.topic}:{topic_partition.partition}:{offset}",
            notes=(*found.notes, *notes),
            accounts=found.accounts or tuple(accounts.found),
            objects=object_facts([file for one in accounts.found for file in one.files], self.settings, self.store),
        )

    def _bounds(self, tp: TopicPartition, accounts: OffsetAccounts) -> Bounds | None:
        """What Kafka has of the topic-partition; None where it is not asked, or does not have it."""
        found = None
        if self.kafka is not None:
            topic = self.kafka.describe([tp.topic]).get(tp.topic)
            if topic is not None and tp.partition in topic.partitions:
                starts, heads = self.kafka.starts([tp]), self.kafka.heads([tp])
                found = (starts[tp], heads[tp]) if tp in starts and tp in heads else None
        if found is None and tp not in accounts.known:
            names = ", ".join(map(str, sorted(accounts.known))) or "none yet"
            rule, remedy = "is not a topic-partition of this sink.", f"Its log has: {names}."
            raise ConfigError([Problem("offset", str(tp), rule, remedy)])
        return found

    def _letter(self, accounts: OffsetAccounts, notes: list[str]) -> FiledLetter | None:
        """The last dead letter of the offset that no later position made void."""
        tp = accounts.topic_partition
        chosen = LetterSelection(topics=frozenset({tp.topic}), partition=tp.partition, offset=accounts.offset)

        def missing(file: LetterFile) -> None:
            where = f"Dead letter file {file.file.key} of entry {file.entry}"
            notes.append(f"{where} is not in the bucket; it may hold this record.")

        found = letters(accounts.ledger, self.store, selection=chosen, missing=missing)
        return next((one for one in reversed(list(found)) if one.state is not LetterState.READ_AGAIN), None)

    def _committed(self, account: Account, accounts: OffsetAccounts, bounds: Bounds | None) -> Answer:
        """An offset that an entry accounts for. Which of several objects it is in, the pipeline says, if Kafka has the record."""
        tp, offset, text = accounts.topic_partition, accounts.offset, f"Commit entry {account.entry}: {account.text}."
        if account.outcome in (Outcome.GAP, Outcome.ERASED) or not self._can_ask(offset, bounds):
            sure = account.outcome is not Outcome.OBJECT or _is_sure(account.files, offset)
            either = " It is in one of these objects, or there was no record."
            return Answer(account.outcome, text if sure else text + either)
        assert self.kafka is not None
        record = record_at(self.kafka, tp, offset)
        if record is None:
            return Answer(Outcome.NO_RECORD, f"{text} {NO_RECORD}")
        made = int(datetime.fromisoformat(account.committed_at).timestamp() * 1000)
        verdict = verdict_on(self.pipeline(), tp, record, now_ms=made)
        if account.outcome is not Outcome.OBJECT or verdict.outcome is Outcome.SKIPPED:
            return Answer(Outcome.SKIPPED, f"{text} {verdict.text.capitalize()}." if verdict.text else text)
        mine = _chosen(account.files, verdict)
        if not mine:
            return Answer(account.outcome, f"{text} It is in one of these objects, by rules that were other ones then.")
        chosen = (replace(one, files=mine) if one is account else one for one in accounts.found)
        return Answer(account.outcome, text, accounts=tuple(chosen))

    def _not_committed(self, accounts: OffsetAccounts, bounds: Bounds | None) -> Answer:
        """An offset that no entry accounts for: before the sink's start, behind its frontier, or not there yet."""
        tp, offset, frontier = accounts.topic_partition, accounts.offset, accounts.frontier
        if accounts.start is not None and offset < accounts.start:
            text = f"The sink began at offset {accounts.start}; what is before it was never its own."
            return Answer(Outcome.BEFORE_START, text)
        unknown = "The sink has not looked at this topic-partition yet."
        position = unknown if frontier is None else f"The sink is at {frontier}."
        if bounds is not None and offset >= bounds[1]:
            return Answer(Outcome.NOT_IN_KAFKA, f"{position} Kafka ends at {bounds[1]}: nothing has this offset yet.")
        noted = self._noted(tp)
        read = noted is not None and offset < noted.state.examined
        if bounds is not None and offset < bounds[0] and not read:
            gone = f"Kafka begins at {bounds[0]} now: retention removed the record first"
            return Answer(Outcome.LOST, f"{position} {gone}; behavior.on.lost.offsets says what the sink does there.")
        state = "It was not read yet"
        if noted and read:
            state = f"It was read and is in an open file, with {noted.tail.records} records"
        text = f"{position} {state}. Files are closed by {open_rules(self.settings)}.{self._expected(accounts, bounds)}"
        return Answer(Outcome.OPEN if read else Outcome.NOT_READ, text)

    def _noted(self, tp: TopicPartition) -> HintedState | None:
        """The open files of a topic-partition that the driver noted last."""
        try:
            return next(
                (one for one in OpenFileStates(self.store, self.paths).read_hint() if one.topic_partition == tp), None
            )
        except HintUnusable:
            return None

    def _expected(self, accounts: OffsetAccounts, bounds: Bounds | None) -> str:
        """What the pipeline will make of a record that is not committed."""
        if self.kafka is None or not self._can_ask(accounts.offset, bounds):
            return ""
        record = record_at(self.kafka, accounts.topic_partition, accounts.offset)
        if record is None:
            return f" {NO_RECORD}"
        verdict = verdict_on(self.pipeline(), accounts.topic_partition, record, now_ms=self.now_ms)
        if verdict.outcome is Outcome.OBJECT:
            return f" It will be in directory {verdict.encoded_partition}, schema {verdict.schema or 'none'}."
        return f" As configured now, {verdict.text}."

    def _can_ask(self, offset: int, bounds: Bounds | None) -> bool:
        return self.kafka is not None and bounds is not None and bounds[0] <= offset < bounds[1]


def _with_letter(filed: FiledLetter, accounts: OffsetAccounts) -> list[Account]:
    """The accounts of a dead letter: the entry that made it one, the one that settled it, and gaps. Others only reach over its offset."""
    letter = filed.letter
    text = f"it became a dead letter in stage {letter.stage}: {letter.exception}: {letter.message}".rstrip(".")
    files = tuple(one.file for one in accounts.ledger.files.values() if one.entry == filed.entry)
    made = Account(filed.entry, iso_time(filed.committed_ms), Outcome.DEAD_LETTER, text, files)
    return [made, *(one for one in accounts.found if one.entry == filed.settled or one.outcome is Outcome.GAP)]


def _of_letter(account: Account) -> Answer:
    way = "kafka-s3 dead-letters show has it whole; kafka-s3 dead-letters replay writes it to its object."
    notes = (way,) if account.outcome is Outcome.DEAD_LETTER else ()
    return Answer(account.outcome, f"Commit entry {account.entry}: {account.text}.", notes=notes)


def _is_sure(files: Sequence[DataFile], offset: int) -> bool:
    """Whether the log alone says which object has the offset: one whose records fill its offsets."""
    return any(file.dense for file in counted(files))


def _chosen(files: Sequence[DataFile], verdict: Verdict) -> tuple[DataFile, ...]:
    """The objects of the directory that the pipeline names, sidecars included; by the whole folder, where that still is the same."""
    folder = verdict.key.rpartition("/")[0]
    same = tuple(file for file in files if file.key.rpartition("/")[0] == folder)
    found = same or [file for file in files if file.encoded_partition == verdict.encoded_partition]
    return tuple(file for file in found if file.role is not Role.POINTER)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the pipeline makes of one record: an object of that key and directory, a dead letter, a skip, or a stop of the sink."""

    outcome: Outcome
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
        return Verdict(Outcome.OPEN, f"the sink stops at it: {report.failure}. {report.remedy}")
    if len(report.dead):
        return Verdict(Outcome.DEAD_LETTER, f"it is a dead letter: {report.commonest}")
    for file in report.files:
        if file.role in (Role.VALUE, Role.KEY):
            return Verdict(Outcome.OBJECT, "", file.key, file.encoded_partition, file.schema)
    return Verdict(Outcome.SKIPPED, why_skipped(pipeline, record))


def why_skipped(pipeline: Pipeline, record: pa.RecordBatch) -> str:
    """The rule that skips a record."""
    if record.column("value")[0].as_py() is None and pipeline.policy.nulls == "ignore":
        return "behavior.on.null.values=ignore: it has no value"
    return "a transform drops it"


RECORD: Final = re.compile(r"([\w.-]{1,249}):(\d{1,9}):(\d{1,19})", re.ASCII)
"""`topic:partition:offset`, with the characters that Kafka takes in topics."""
DELTA_LOG: Final = "_delta_log"
ICEBERG_METADATA: Final = re.compile(r"/metadata/[^/]+\.(avro|metadata\.json)$")
_ROLES: Final = {
    Role.KEY: "the keys of ", Role.HEADER: "the headers of ", Role.INDEX: "the index of ", Role.POINTER: "the pointer to ",
}  # fmt: skip


def explain(settings: Settings, about: str, *, store: ObjectStore, kafka: KafkaRecords | None) -> Answer:
    """What is known of a key, or of `topic:partition:offset`. Raises ConfigError, StorageError, CommitError, SourceError, RegistryError."""
    paths, record = state_paths(settings), RECORD.fullmatch(about)
    if record is None:
        key, layout = bare_key(about, settings.text("s3.bucket.name")), object_names(settings)
        return key_answer(key, settings=settings, store=store, paths=paths, layout=layout)
    inquiry = OffsetInquiry(settings, store, paths, lambda: make_pipeline(settings), now_ms(), kafka)
    return inquiry.answer(TopicPartition(record[1], int(record[2])), int(record[3]))


def bare_key(text: str, bucket: str) -> str:
    """The key of `s3://bucket/key`, or of a key as it is. Raises ConfigError for another bucket."""
    if not text.startswith("s3://"):
        return text
    named, _, key = text.removeprefix("s3://").partition("/")
    if named != bucket:
        rule, remedy = f"is not in this sink's bucket {bucket}.", "Name the sink that writes there."
        raise ConfigError([Problem("KEY", text, rule, remedy)])
    return key


def key_answer(key: str, *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: DataKeys) -> Answer:
    """The explanation of a key. Raises StorageError, LogDamaged."""
    accounts: list[Account] = []
    fold = LogFold()
    for entry in read_history(store, paths):
        resets = [event for event in fold.add(entry) if isinstance(event, Reset)]
        accounts = [replace(one, current=one.current and not _superseded(one, resets)) for one in accounts]
        accounts += [_account(entry, file) for file in entry.files if file.key == key]
        accounts += [_replaced(entry, accounts[-1], swap.by) for swap in entry.swaps if key in swap.keys and accounts]
    if not accounts:
        topics = sorted({tp.topic for tp in fold.frontier})
        return _unclaimed(key, topics, settings=settings, store=store, paths=paths, layout=layout)
    last = accounts[-1]
    text = f"Commit entry {last.entry} of {last.committed_at}: {last.text}."
    if not last.current and last.outcome is not Outcome.REPLACED:
        some = "Some of its" if len(last.files[0].topic_partitions) > 1 else "Its"
        text += f" {some} records were read again by a later entry, because the position was set back."
    objects = object_facts([one for account in accounts for one in account.files], settings, store)
    return Answer(last.outcome, text, about=key, accounts=tuple(accounts), objects=objects)


def _replaced(entry: CommitEntry, before: Account, by: str) -> Account:
    """What became of an object whose place another takes."""
    where = f"its records are in {by} from here on" if by else "nothing takes its place"
    but = ", but for those that were erased" if by and entry.erasure is not None else ""
    text = f"{entry.reason}: {where}{but}, and it is deleted once rewrite.grace.ms is over"
    return Account(entry.version, entry.committed_at, Outcome.REPLACED, text, before.files[:1])


def _superseded(account: Account, resets: list[Reset]) -> bool:
    """Whether a position was set back before the last record of the account's object."""
    return any(
        one.topic_partition == file.topic_partition and one.supersedes(file.last_offset + 1)
        for file in account.files[0].by_slice
        for one in resets
    )


def _account(entry: CommitEntry, file: DataFile) -> Account:
    span = ", ".join(f"offsets {f.first_offset} to {f.last_offset} of {f.topic_partition}" for f in file.by_slice)
    if file.role is Role.DEAD_LETTER:
        text = f"{file.records:,} dead letters, {span}"
        return Account(entry.version, entry.committed_at, Outcome.DEAD_LETTER, text, (file,))
    beside = tuple(other for other in entry.files if other is not file and _identity(other) == _identity(file))
    replayed = ", replayed from dead letters" if entry.kind is EntryKind.REPLAY else ""
    of = next((len(swap.keys) for swap in entry.swaps if swap.by == file.key), 0)
    replayed = f", made from {of:,} objects" if of else replayed
    text = f"{_ROLES.get(file.role, '')}{file.records:,} records, {span}{replayed}"
    return Account(entry.version, entry.committed_at, Outcome.OBJECT, text, (file, *beside))


def _identity(file: DataFile) -> tuple[TopicPartition, str, int]:
    """What an object and its sidecars have in common."""
    return file.topic_partition, file.encoded_partition, file.first_offset


def _unclaimed(
    key: str, topics: list[str], *, settings: Settings, store: ObjectStore, paths: StatePaths, layout: DataKeys
) -> Answer:
    there = store.head(key) is not None
    if there and key.rpartition("/")[2] == settings.text("done.marker.name"):
        text = "It says that its directory is complete (done.marker.name); docs/followers.md."
        return Answer(Outcome.STATE, text, about=key)
    if there and settings.flag("delta.enable") and f"/{DELTA_LOG}/" in key:
        text = "It is of the log of the topic's Delta table (delta.enable); docs/delta.md."
        return Answer(Outcome.STATE, text, about=key)
    if there and settings.flag("iceberg.enable") and ICEBERG_METADATA.search(key):
        text = "It is of the metadata of an Iceberg table (iceberg.enable); docs/tables.md."
        return Answer(Outcome.STATE, text, about=key)
    if key.startswith(paths.root):
        missing = "It would be the sink's own state, but there is no such object."
        text = "It is the sink's own state." if there else missing
        return Answer(Outcome.STATE, f"{text} docs/commit-log.md says what lies there.", about=key)
    stranger = ": it was there before the sink took over, or another writer made it."
    text = "No entry of the log claims it" + (stranger if there else ", and there is no such object.")
    if not there and ":" in key:
        text += " A record is named TOPIC:PARTITION:OFFSET."
    named = next((found for topic in topics if (found := layout.read(key, topic)) is not None), None)
    if named is not None:
        topic, partition = named.topic_partition
        others = slices_of_rewritten(key, named)[1:]
        rest = "".join(f", partition {one.partition} from offset {one.first_offset} on" for one in others)
        text += f" Its name says topic {topic}, partition {partition} from offset {named.offset} on{rest}."
    return Answer(Outcome.UNKNOWN, text, about=key)
