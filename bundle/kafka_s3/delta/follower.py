"""How does a Delta table come to hold exactly the files of the commit log? It follows the log, entry by entry, after publication.

1. How far all tables have come is an object beside the log (`followers/delta.json`); how far one has come is in the table itself, as the
   transaction version of the sink's application. The object may lag behind the tables, never the other way round.
2. The files of the entries since then are taken per topic, at most `BATCH` at a time: columns and statistics from their footers, partition
   values from their directories. Where the columns go beyond the table's, these are changed first; then the files go in, in one commit.
3. A crash anywhere: the table's own transaction version says what is in it already.
4. A table that is not there is made from the whole log. So a sink may begin with a table at any time.

A table that cannot follow keeps the place that it has reached, is tried again later, and holds up neither the sink nor other tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.commit_entry import CommitEntry
from kafka_s3.commit_log import CommitLog
from kafka_s3.dead_letter_files import committed_ms
from kafka_s3.delta.intake import Intake, Plan
from kafka_s3.delta.layout import in_table
from kafka_s3.delta.table import WAY_OUT, Commit, Table, TableState
from kafka_s3.errors import ObjectMissing, SinkError, TableError, TableRefused, TableUnavailable
from kafka_s3.model import DataFile
from kafka_s3.naming import StatePaths

BATCH: Final = 1000
TRIES: Final = 3
PATIENCE_MS: Final = 60_000
"""How long a table that refused is left alone."""


@dataclass(slots=True)
class Places:
    """Up to which entry the tables have come: `version`, but for topics that are `behind`."""

    version: int = -1
    behind: dict[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """The entry up to which a topic's table has come."""
        return self.behind.get(topic, self.version)


class DeltaTables:
    """The follower that keeps a Delta table beside each topic's Parquet objects."""

    name = "Delta tables"

    def __init__(
        self,
        intake: Intake,
        paths: StatePaths,
        *,
        table: Callable[[str], Table],
        clock_ms: Callable[[], int],
        warn: Callable[[str], None],
    ) -> None:
        self._intake = intake
        self._store = intake.store
        self._paths = paths
        self._table = table
        self._clock_ms = clock_ms
        self._warn = warn
        self._places: Places | None = None
        self._tables: dict[str, Table] = {}
        self._waits: dict[str, int] = {}
        self._told = set[str]()

    def catch_up(self, log: CommitLog) -> None:
        """Brings every table up to the log's last entry. Raises TableError that names all tables that could not follow."""
        try:
            failures = self._catch_up(log)
        except TableError:
            raise
        except SinkError as error:  # the log or the bucket does not answer
            raise TableUnavailable(str(error)) from error
        if failures:
            raise TableError(" ".join(str(error) for error in failures))

    def _catch_up(self, log: CommitLog) -> list[TableError]:
        places = self._places = self._places or self._noted()
        failures: list[TableError] = []
        now, head = self._clock_ms(), log.state.version
        for topic in [topic for topic in places.behind if self._waits.get(topic, 0) <= now]:
            self._follow(topic, log, places=places, head=head, failures=failures)
        if places.version < head:
            self._follow_all(log, places=places, head=head, failures=failures)
        return failures

    def _follow_all(self, log: CommitLog, *, places: Places, head: int, failures: list[TableError]) -> None:
        """All tables but those that are behind, from the common place on."""
        after, held = places.version, set(places.behind)
        for batch in batches(_fresh(log, after), head):
            for topic, entries in by_topic(batch).items():
                if topic in held or topic in places.behind:
                    continue
                try:
                    self._take(topic, entries, log=log, after=after)
                except TableError as error:
                    self._hold(topic, places, after=after, error=error, failures=failures)
            after = batch[-1].version
            places.version = after
            self._note(places)

    def _follow(self, topic: str, log: CommitLog, *, places: Places, head: int, failures: list[TableError]) -> None:
        """One table that is behind, up to the head."""
        after = places.behind[topic]
        try:
            for batch in batches(log.entries(after=after), head):
                entries = by_topic(batch).get(topic)
                if entries:
                    self._take(topic, entries, log=log, after=after)
                after = batch[-1].version
                places.behind[topic] = after
        except TableError as error:
            self._hold(topic, places, after=after, error=error, failures=failures)
            return
        if places.version >= head:
            del places.behind[topic]
        self._note(places)

    def _hold(self, topic: str, places: Places, *, after: int, error: TableError, failures: list[TableError]) -> None:
        places.behind[topic] = after
        self._waits[topic] = self._clock_ms() + (PATIENCE_MS if isinstance(error, TableRefused) else 0)
        failures.append(error)

    # ------------------------------------------------------------ one table

    def _take(self, topic: str, entries: Sequence[Filed], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic; those of all earlier entries, too, where the table is not there yet."""
        state = self._of(topic).state()
        if after < 0 or state is not None:
            self._commit(topic, entries, state)
            return
        for batch in batches(log.entries(), entries[-1].version):
            self._commit(topic, by_topic(batch).get(topic, []), self._of(topic).state())

    def _commit(self, topic: str, entries: Sequence[Filed], state: TableState | None) -> None:
        """Commits, on a newer state where another writer was faster."""
        for attempt in range(1, TRIES + 1):
            try:
                self._commit_on(state, topic, entries)
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise
                state = self._of(topic).state()

    def _commit_on(self, state: TableState | None, topic: str, entries: Sequence[Filed]) -> None:
        table = self._of(topic)
        entries = [one for one in entries if state is None or one.version > state.position]
        if not entries:
            return
        if state is not None and state.obstacles:
            raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {WAY_OUT}")
        files = [file for one in entries for file in one.files]
        if state is not None and state.position < 0:  # someone else's table, which may hold some of the files
            held = set(table.paths())
            files = [file for file in files if self._intake.layout.path(file) not in held]
        modified = {file.key: one.committed_ms for one in entries for file in one.files}
        plan = self._intake.plan(state, files, modified_ms=modified)
        commit = Commit(entries[-1].version, plan.files, note=self._note_of(entries, plan), at_ms=self._clock_ms())
        self._tell(topic, plan)
        if state is None:
            if plan.files:
                table.create(plan.columns, plan.partition_by, commit)
            return
        if plan.columns.fields != state.columns.fields:
            table.evolve(plan.columns, at_ms=commit.at_ms)
            table.state()
        table.append(commit)

    def _note_of(self, entries: Sequence[Filed], plan: Plan) -> dict[str, Any]:
        taken = [file for one in entries for file in one.files if file.key not in plan.left_out]
        note: dict[str, Any] = {
            "kafka-s3": self._paths.sink,
            "entries": [entries[0].version, entries[-1].version],
            "offsets": offset_ranges(taken),
        }
        return note | ({"left_out": sorted(plan.left_out)} if plan.left_out else {})

    def _tell(self, topic: str, plan: Plan) -> None:
        """Warns of files that stay out, and once of columns that do."""
        for key, reason in plan.left_out.items():
            self._warn(f"{self.name}: {key} stays out of the table: {reason}.")
        fresh = [text for text in plan.omitted if f"{topic}/{text}" not in self._told]
        if fresh:
            self._told.update(f"{topic}/{text}" for text in fresh)
            self._warn(f"{self.name}: columns of {topic} stay in the files alone: {'; '.join(fresh)}.")

    def _of(self, topic: str) -> Table:
        if topic not in self._tables:
            self._tables[topic] = self._table(topic)
        return self._tables[topic]

    # ------------------------------------------------------------ places

    def _noted(self) -> Places:
        try:
            found = json.loads(self._store.get(self._key))
        except ObjectMissing:
            return Places()
        return Places(found["version"], dict(found["behind"]))

    def _note(self, places: Places) -> None:
        self._store.put(self._key, json.dumps({"version": places.version, "behind": places.behind}).encode())

    @property
    def _key(self) -> str:
        return self._paths.follower("delta")


@dataclass(frozen=True, slots=True)
class Filed:
    """The files of one topic in one entry."""

    version: int
    committed_ms: int
    files: tuple[DataFile, ...]


def batches(entries: Iterable[CommitEntry], head: int) -> Iterator[list[CommitEntry]]:
    """Entries up to the head, in groups of about `BATCH` files."""
    batch: list[CommitEntry] = []
    files = 0
    for entry in entries:
        if entry.version > head:
            break
        batch.append(entry)
        files += len(entry.files)
        if files >= BATCH or len(batch) >= BATCH:
            yield batch
            batch, files = [], 0
    if batch:
        yield batch


def by_topic(entries: Iterable[CommitEntry]) -> dict[str, list[Filed]]:
    """The entries' files that belong into tables, by topic."""
    found: dict[str, list[Filed]] = {}
    for entry in entries:
        topics: dict[str, list[DataFile]] = {}
        for file in entry.files:
            if in_table(file):
                topics.setdefault(file.topic, []).append(file)
        for topic, files in topics.items():
            found.setdefault(topic, []).append(Filed(entry.version, committed_ms(entry), tuple(files)))
    return found


def offset_ranges(files: Iterable[DataFile]) -> dict[str, list[list[int]]]:
    """Per topic-partition the inclusive offset ranges of files; ranges that touch are one."""
    found: dict[str, list[list[int]]] = {}
    for file in sorted(files, key=lambda file: file.first_offset):
        ranges = found.setdefault(str(file.topic_partition), [])
        if ranges and file.first_offset <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], file.last_offset)
        else:
            ranges.append([file.first_offset, file.last_offset])
    return found


def _fresh(log: CommitLog, after: int) -> Iterable[CommitEntry]:
    last = log.last
    return [last] if last is not None and last.version == after + 1 else log.entries(after=after)
