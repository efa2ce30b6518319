"""How does a table come to hold the newest value of every key? Merges of what new entries of the log brought, each applied in this order:

1. The newest record of each key among the entries, by `state.order.by`, then offset, then partition. One record is newer than another or
   it is the same record: which of them is merged first, or how often, makes no difference to the table.
2. Deleted keys are remembered, with the place of their deletion, in a second table. Of a process that alone keeps the state some merges
   have theirs noted together (`NOTE_EVERY`): the note says through which entry they are, and whoever comes next merges again from there.
3. Rows are changed, deleted and added, where the record is newer than the row and than the deletion that is remembered. This is one
   transaction, with the last of the entries as its version: Delta leaves out one that the table has already.
4. A note beside the log says up to which entry the table has come. It may lag behind the table, never the other way round.

Whoever dies in between, or is overtaken, repeats what changes nothing. A table that is not there, or whose note is about another one, is
rebuilt from the whole log; and so is one some of whose records were erased meanwhile, for what is left of their keys is in older entries
alone. While it is, the note says so, and nothing else is merged.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Protocol

from kafka_s3.connect.naming.state_terms import DeleteMark, KeyTerm, Path
from kafka_s3.connect.naming.table_names import TableName, TableNames
from kafka_s3.engine.log.committed import committed_files, complete_through, entries_between, rewrites_behind
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.task.table_guard.columns import Mode
from kafka_s3.followers.progress import MOST_WHY, read_note
from kafka_s3.model.errors import LogDamaged, SinkError, StorageError, TableError, TableRefused, TableUnavailable
from kafka_s3.model.protocols import StateProgress
from kafka_s3.model.timing import iso_time
from kafka_s3.store.store import ObjectStore

APP: Final = "kafka-s3-state"
REBUILD: Final = "Rebuild it: kafka-s3 state rebuild."
ABANDONED_MS: Final = 3_600_000
"""A rebuild that nobody has ended for so long may be begun again by a merge."""
PATIENCE_MS: Final = 60_000
"""How long a table that could not be brought up to date is left alone."""
COUNT_EVERY_MS: Final = 3_600_000
"""How often a process has rows counted, which others may add and delete, too. In between merges say by how many a table grew."""
NOTE_EVERY: Final = 10
"""Of so many merges at most the deletions are noted together: a transaction of their table is a tenth of a merge."""
TRIES: Final = 3
"""How often a merge is tried where another writer is in its way."""


@dataclass(frozen=True, slots=True)
class StateRules:
    """What a state table holds: which key, which deletions, which order, which columns (none: all); and how long deletions are remembered.

    With `tolerant`, records without a key are left out, and else they hold the table.
    """

    key: tuple[KeyTerm, ...]
    deletes: tuple[DeleteMark, ...] = ()
    order_by: Path | None = None
    columns: tuple[Path, ...] = ()
    retention_ms: int = 604_800_000
    mode: Mode = Mode.ADD
    tolerant: bool = False

    @property
    def text(self) -> str:
        """What the content of a table depends on, for its note."""
        order = "offset" if self.order_by is None else ".".join(self.order_by)
        columns = ",".join(".".join(path) for path in self.columns)
        marks = ",".join(map(str, self.deletes))
        return f"state.key={','.join(map(str, self.key))} state.delete.on={marks} state.order.by={order} state.columns={columns}"


@dataclass(frozen=True, slots=True)
class StateStretch:
    """The entries of a topic from version `first` to `last`, both included, whose changes are merged. None has a smaller offset than the
    `earliest`.
    """

    topic: str
    first: int
    last: int
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """What a stretch brings: how many keys, how many of them deleted; how many records have no key, and which is one of them.

    `left_out` are fields that are called like columns of the state itself.
    """

    stretch: StateStretch
    keys: int
    deleted: int
    keyless: int = 0
    example: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """What makes a merge one that happens once: application and version; and a note for the table's history."""

    app: str
    version: int
    note: str


class StateTables(Protocol):
    """What a Spark that knows Delta does. All raise TableError."""

    def identity(self, name: TableName) -> str | None:
        """The table's id, which another one of that name has not; None where there is none."""
        ...

    def is_empty(self, name: TableName) -> bool:
        """Whether the table holds no row."""
        ...

    def count(self, name: TableName) -> int:
        """How many rows the table has."""
        ...

    def read_changes(
        self, stretch: StateStretch, rules: StateRules, *, table: TableName | None = None, alone: bool = False
    ) -> AbstractContextManager[Changes]:
        """The newest record of each key of a stretch, which the other calls then take. Given a table, without what is older than the
        deletion that is noted there of its key. `alone`: nobody else has merged anything since these tables were last called.
        """
        ...

    def hold_deletions(self, name: TableName, changes: Changes) -> bool:
        """Holds the deleted keys of the changes in memory until others are noted, for merges that are `alone`. False where it cannot."""
        ...

    def remember_deletions(
        self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction, now_ms: int
    ) -> None:
        """Notes the deleted keys of the changes, and those that are held and wait, once; forgets now and then those noted longer ago than
        deletions are remembered.
        """
        ...

    def merge(self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction) -> int | None:
        """Changes the rows, unless the table has that version of the application, or a later one. Gives by how many rows the table grew,
        None where that is not known. Raises TableUnavailable where another writer was in the way.
        """
        ...

    def replace(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int, note: str) -> None:
        """Makes the table, and the one of deleted keys, of these changes alone."""
        ...


@dataclass(frozen=True, slots=True)
class StateNote:
    """How far a topic's table has come: through entry `position`. `generation` is that of the transactions, a new one with each rebuild.

    The last merge ended at `merged_ms` and brought `changed` keys since the one at `before_ms`, 0 where it was a rebuild; the table
    then had so many `rows`. `rebuilding`: a rebuild has begun and not ended. `why`: what holds the table since `since_ms`. Deletions are
    in their table through entry `deletions`, None: all of them.
    """

    table: str
    name: str
    rules: str
    generation: str
    position: int
    topic_id: str
    merged_ms: int
    changed: int = 0
    rebuilding: bool = False
    why: str = ""
    since_ms: int = 0
    before_ms: int = 0
    rows: int | None = None
    deletions: int | None = None

    @property
    def noted(self) -> int:
        """Through which entry deletions are in their table."""
        return self.position if self.deletions is None else self.deletions

    @property
    def changes_a_minute(self) -> float | None:
        """Keys that changed, a minute between the last two merges; None after a rebuild, which is no change."""
        if not 0 < self.before_ms < self.merged_ms:
            return None
        return self.changed / ((self.merged_ms - self.before_ms) / 60_000)

    @property
    def progress(self) -> StateProgress:
        """How far the table has come, for observers."""
        return StateProgress(self.position, self.merged_ms, self.rows, self.changes_a_minute)


NOTES: Final = "state-"
"""How the folders of notes begin, before a digest of `state.table`."""
NOTE_DAMAGED: Final = "the table is then refused until kafka-s3 state rebuild has run."


def _read(store: ObjectStore, key: str) -> StateNote | None:
    return read_note(store, key, lambda note: StateNote(**note), remedy=NOTE_DAMAGED)


def state_notes(store: ObjectStore, paths: StatePaths) -> dict[str, StateNote | str]:
    """What is noted of a sink's state tables, by topic, without its configuration; a text says why it cannot be read. Raises StorageError.

    Of a topic that had tables of several names, the one that was merged last is kept.
    """
    root = paths.follower("").removesuffix(".json")
    found: dict[str, StateNote | str] = {}
    for folder in (f"{root}{name}" for name in store.names(root) if name.startswith(NOTES) and name.endswith("/")):
        for name in store.names(folder):
            topic = name.removesuffix(".json")
            try:
                note = _read(store, f"{folder}{name}")
            except LogDamaged as error:
                found.setdefault(topic, str(error))
                continue
            before = found.get(topic)
            if note is not None and (not isinstance(before, StateNote) or before.merged_ms < note.merged_ms):
                found[topic] = note
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class StateNotes:
    """The notes of one sink's state tables."""

    store: ObjectStore
    paths: StatePaths
    pattern: str

    def read(self, topic: str) -> StateNote | None:
        """What is noted of a topic's table. Raises LogDamaged, StorageError."""
        return _read(self.store, self._key(topic))

    def put(self, topic: str, note: StateNote) -> None:
        """Notes it. Raises StorageError."""
        self.store.put(self._key(topic), json.dumps(asdict(note)).encode())

    def put_back(self, topic: str, note: StateNote | None) -> None:
        """Notes what was noted before, which may be nothing. Raises StorageError."""
        if note is None:
            self.store.delete(self._key(topic))
        else:
            self.put(topic, note)

    def _key(self, topic: str) -> str:
        digest = hashlib.sha256(self.pattern.encode()).hexdigest()[:8]
        return self.paths.follower(f"{NOTES}{digest}/{topic}")


@dataclass(frozen=True, slots=True)
class Advance:
    """What a call did to a topic's table: it is now complete through entry `position`; so many keys were looked at."""

    topic: str
    position: int
    changed: int
    rebuilt: bool = False

    def __str__(self) -> str:
        """What was done, for people."""
        what = f"rebuilt with {self.changed:,} keys" if self.rebuilt else f"{self.changed:,} keys looked at"
        return f"{what}; complete through entry {self.position}"


@dataclass(slots=True)
class StateMerger:
    """Keeps the state tables of one sink. The log is loaded by whoever calls."""

    rules: StateRules
    notes: StateNotes
    tables: StateTables
    names: TableNames
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    _own: dict[str, StateNote] = field(default_factory=dict)
    """By topic, the note that this process left after its last merge; none after one that was not noted, or beside that of others."""
    _counted_ms: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, int] = field(default_factory=dict)
    """By topic, of how many merges the deletions are held, and not noted."""

    def advance(self, topic: str, log: CommitLog) -> Advance:
        """Merges what came since the last time; makes the table where there is none. Raises TableError, StorageError, LogDamaged."""
        name, note = self.names.of(topic), self.notes.read(topic)
        if note is not None and note.rebuilding:
            return self._begin_again(note, topic, log)
        identity = self.tables.identity(name)
        head = complete_through(log)
        if note is None or identity is None or note.table != identity:
            if identity is not None and not self.tables.is_empty(name):
                raise TableRefused(
                    f"{name} has rows already, of which the state of sink {log.paths.sink} knows nothing. Set another state.table, or have "
                    "the rows replaced: kafka-s3 state rebuild."
                )
            return self.rebuild(topic, log)
        self._check(note, topic, log)
        if head <= note.position:
            return Advance(topic, note.position, 0)
        alone = self._own.pop(topic, None) == note
        if _erases(entries_between(log, note.position + 1, head), topic):
            return self.rebuild(topic, log)
        stretch = self._to_read(topic, (note.position if alone else note.noted) + 1, head, log)
        if stretch is None:
            noted = head if note.deletions is None else note.noted
            return Advance(topic, self._noted(topic, note, head, noted, alone=alone), 0)
        return self._merge(topic, note, stretch, log, alone=alone)

    def rebuild(self, topic: str, log: CommitLog) -> Advance:
        """Rebuilds the table from the whole log, in one pass. Raises TableError, StorageError, LogDamaged."""
        name, head, now = self.names.of(topic), complete_through(log), self.clock_ms()
        stretch = _stretch(topic, 0, head, log)
        if stretch is None:
            return Advance(topic, head, 0, rebuilt=True)
        generation, topic_id = uuid.uuid4().hex[:8], log.state.topic_ids.get(topic, "")
        begun = StateNote("", str(name), self.rules.text, generation, -1, topic_id, now, rebuilding=True)
        with self.tables.read_changes(stretch, self.rules) as changes:
            self._check_keys(changes)
            before = self.notes.read(topic)
            self.notes.put(topic, begun)
            try:
                self.tables.replace(name, changes, self.rules, now_ms=now, note=self._history(log, changes))
            except TableError:  # the table is as it was, or holds more than the note says
                self.notes.put_back(topic, before)
                raise
        self._check_generation(topic, begun)
        table = self.tables.identity(name) or ""
        done = replace(begun, table=table, position=head, changed=changes.keys, rebuilding=False)
        self.notes.put(topic, replace(done, merged_ms=self.clock_ms(), rows=changes.keys - changes.deleted))
        return Advance(topic, head, changes.keys, rebuilt=True)

    def _begin_again(self, note: StateNote, topic: str, log: CommitLog) -> Advance:
        """Rebuilds a table whose rebuild nobody has ended for long. Raises TableRefused before that."""
        if self.clock_ms() - note.merged_ms < ABANDONED_MS:
            raise TableRefused(
                f"{note.name} is being rebuilt since {iso_time(note.merged_ms, 'seconds')}. If nobody works on it any more: kafka-s3 state "
                "rebuild begins again, and the next merge an hour after that time."
            )
        return self.rebuild(topic, log)

    def hold(self, topic: str, why: str) -> None:
        """Notes what keeps a topic's table from following. Raises StorageError, LogDamaged."""
        note = self.notes.read(topic)
        if note is not None:
            since = note.since_ms if note.why else self.clock_ms()
            self.notes.put(topic, replace(note, why=why[:MOST_WHY], since_ms=since))

    def _to_read(self, topic: str, first: int, last: int, log: CommitLog) -> StateStretch | None:
        """Whose records are merged for these entries, None where there are none.

        It begins with the log's first entry where a compaction merged objects of these with older ones, and the originals are gone: what
        the table has already is older than its rows, or the same.
        """
        try:
            return _stretch(topic, first, last, log)
        except LogDamaged:
            whole = _stretch(topic, 0, last, log) if first else None
            if whole is None:
                raise
            return whole

    def _merge(self, topic: str, note: StateNote, stretch: StateStretch, log: CommitLog, *, alone: bool) -> Advance:
        name, now = self.names.of(topic), self.clock_ms()
        with self.tables.read_changes(stretch, self.rules, table=name, alone=alone) as changes:
            self._check_keys(changes)
            app = f"{APP}-{log.paths.sink}-{note.generation}"
            transaction = Transaction(app, stretch.last, self._history(log, changes))
            waiting = self._waiting.pop(topic, 0) if alone else 0
            if changes.deleted or waiting:
                waiting += 1
                if not alone or waiting == NOTE_EVERY or not self.tables.hold_deletions(name, changes):
                    self.tables.remember_deletions(name, changes, self.rules, transaction=transaction, now_ms=now)
                    waiting = 0
            for attempt in range(1, TRIES + 1):
                # a rebuild may have left out what was erased since it was read here
                self._check_generation(topic, note)
                try:
                    grown = self.tables.merge(name, changes, self.rules, transaction=transaction)
                    break
                except TableUnavailable:
                    if attempt == TRIES:
                        raise
        counted = alone and now - self._counted_ms.get(topic, 0) < COUNT_EVERY_MS
        rows = note.rows + grown if counted and note.rows is not None and grown is not None else None
        noted = note.noted if waiting else stretch.last
        position = self._noted(topic, note, stretch.last, noted, alone=True, changed=changes.keys, rows=rows)
        self._waiting[topic] = waiting
        return Advance(topic, position, changes.keys)

    def _noted(
        self,
        topic: str,
        before: StateNote,
        position: int,
        noted: int,
        *,
        alone: bool,
        changed: int = 0,
        rows: int | None = None,
    ) -> int:
        """Notes the new position, and through which entry deletions are `noted`, unless the table was rebuilt meanwhile. Without `rows`, or
        where others noted any, they are counted.
        """
        now = self._check_generation(topic, before)
        alone, position = alone and now == before, max(position, now.position)
        if changed:
            if rows is None or not alone:
                rows, self._counted_ms[topic] = self.tables.count(self.names.of(topic)), self.clock_ms()
            now = replace(now, before_ms=now.merged_ms, merged_ms=self.clock_ms(), changed=changed, rows=rows)
        if changed or now.why or position - now.position:
            deletions = noted if noted < position else None
            now = replace(now, position=position, deletions=deletions, why="", since_ms=0)
            self.notes.put(topic, now)
        if alone:
            self._own[topic] = now
        return position

    def _check_generation(self, topic: str, before: StateNote) -> StateNote:
        """The note as it is now. Raises TableUnavailable where somebody else has begun to rebuild the table."""
        now = self.notes.read(topic)
        if now is None or now.generation != before.generation:
            raise TableUnavailable(
                f"{before.name} was rebuilt by somebody else meanwhile; what came since then follows."
            )
        return now

    def _check(self, note: StateNote, topic: str, log: CommitLog) -> None:
        if note.rules != self.rules.text:
            raise TableRefused(f"{note.name} was made with {note.rules}; now it is {self.rules.text}. {REBUILD}")
        known = log.state.topic_ids.get(topic, "")
        if note.topic_id and known and note.topic_id != known:
            raise TableRefused(f"Topic {topic} was deleted and made again, and its offsets start again. {REBUILD}")

    def _check_keys(self, changes: Changes) -> None:
        if changes.left_out:
            self.warn(
                f"State tables: fields {', '.join(changes.left_out)} of {changes.stretch.topic} are left out, because columns of the state "
                "itself have these names. Rename them (the transform ReplaceField), or choose the columns by state.columns."
            )
        if not changes.keyless:
            return
        key = ", ".join(map(str, self.rules.key))
        rule = f"{changes.keyless:,} records of {changes.stretch.topic} have no {key}, for example {changes.example}"
        if not self.rules.tolerant:
            raise TableRefused(
                f"{rule}. Name a key that every record has (state.key), or leave such records out with errors.tolerance=all."
            )
        self.warn(f"State tables: {rule}; they are left out.")

    def _history(self, log: CommitLog, changes: Changes) -> str:
        one = changes.stretch
        return json.dumps(
            {APP: log.paths.sink, "topic": one.topic, "entries": [one.first, one.last]}, separators=(",", ":")
        )


def _stretch(topic: str, first: int, last: int, log: CommitLog) -> StateStretch | None:
    """These entries, None where they have no records of the topic. Raises LogDamaged where originals that a rewrite replaced are gone."""
    files = committed_files(entries_between(log, first, last), topic, later=rewrites_behind(log, last))
    return StateStretch(topic, first, last, min(one.facts.first_offset for one in files)) if files else None


def _erases(entries: Iterable[CommitEntry], topic: str) -> bool:
    """Whether one of the entries erased records of the topic."""
    return any(one.erasure is not None and any(tp.topic == topic for tp in one.erasure.records) for one in entries)


@dataclass(slots=True)
class FollowingStates:
    """The follower that keeps the state tables beside a running sink: a merge every `interval_ms`, or after so many entries.

    What fails is reported and tried again after a minute; it never stops the sink.
    """

    merger: StateMerger
    interval_ms: int
    interval_entries: int
    clock_ms: Callable[[], int]
    report: Callable[[Mapping[str, StateProgress]], None] = lambda topics: None
    name: str = "State tables"
    _merged: int = -1
    _next_ms: int = 0
    _behind: bool = True
    _troubles: dict[str, tuple[int, str]] = field(default_factory=dict)
    _progress: dict[str, StateProgress] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        """Whether entries wait and their time has come. Asks nobody."""
        return self._behind and self.clock_ms() >= self._next_ms

    @property
    def problems(self) -> Sequence[str]:
        """The tables that do not follow, why, and since when."""
        return [
            f"the state of {topic} does not follow since {iso_time(since, 'seconds')}: {why}"
            for topic, (since, why) in sorted(self._troubles.items())
        ]

    def catch_up(self, log: CommitLog) -> None:
        """Merges where it is time. Raises TableError that names all tables that could not follow."""
        try:
            self._catch_up(log)
        finally:
            self._report(log)

    def _catch_up(self, log: CommitLog) -> None:
        self._behind = self._behind or log.state.version > self._merged
        if not self.due and log.state.version - self._merged < self.interval_entries:
            return
        if self._troubles and self.clock_ms() < self._next_ms:
            return
        for topic in sorted({tp.topic for tp in log.state.progress}):
            self._advance(topic, log)
        self._merged, self._behind = log.state.version, bool(self._troubles)
        self._next_ms = self.clock_ms() + (PATIENCE_MS if self._troubles else self.interval_ms)
        if self._troubles:
            raise TableError(" ".join(f"{topic}: {why}" for topic, (_, why) in sorted(self._troubles.items())))

    def _advance(self, topic: str, log: CommitLog) -> None:
        try:
            self.merger.advance(topic, log)
            self._troubles.pop(topic, None)
            note = self.merger.notes.read(topic)
            if note is not None:
                self._progress[topic] = note.progress
        except Exception as error:  # whatever it is: a state is no reason to stop the sink
            why = str(error) if isinstance(error, SinkError) else f"{type(error).__name__}: {error}"
            since = self._troubles.get(topic, (self.clock_ms(), ""))[0]
            self._troubles[topic] = since, why
            if not isinstance(error, StorageError | LogDamaged):
                with suppress(StorageError, LogDamaged):
                    self.merger.hold(topic, why)

    def _report(self, log: CommitLog) -> None:
        """Says how far the tables are, and since when they lack an entry."""
        now = self.clock_ms()
        for topic, one in self._progress.items():
            since = one.waiting_since_ms or now if one.position < log.state.version else None
            self._progress[topic] = replace(one, waiting_since_ms=since)
        self.report(dict(self._progress))
