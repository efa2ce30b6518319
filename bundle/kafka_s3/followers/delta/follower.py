"""How does a table come to hold exactly the files of the commit log? It follows the log, entry by entry, after publication.

1. How far all tables have come is an object beside the log; how far one has come is in the table itself: in Delta as the
   transaction version of the sink's application, in Iceberg as a property. The object may lag behind the tables, never the other way round.
2. The files of the entries since then are taken per topic, at most `BATCH` at a time (`ZeroCopy`, or `Copying` for tables of Spark).
3. A crash anywhere: the number in the table itself says what is in it already.
4. A table that is not there is made from the whole log. So a sink may begin with a table at any time.

A table that cannot follow keeps the place that it has reached, is tried again later, and holds up neither the sink nor other tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kafka_s3.connect.naming.table_names import TableName, TableNames, normal_location
from kafka_s3.engine.log.dead_letters import committed_ms
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.planner import Commit, TablePlan, TablePlanner, TableState, in_table
from kafka_s3.followers.progress import TablePositions, note_positions, read_positions
from kafka_s3.model.errors import SinkError, TableError, TableRefused, TableUnavailable
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore

BATCH: Final = 1000
"""About how many files, and at most how many entries, go into one version of a table."""


KNOWN_KINDS: Final = frozenset({EntryKind.DATA, EntryKind.EPOCH, EntryKind.POSITION, EntryKind.REPLAY})
"""The kinds of entries whose files are added, and change nothing else in a table."""


@dataclass(frozen=True, slots=True)
class EntryFiles:
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


def by_topic(entries: Iterable[CommitEntry]) -> dict[str, list[EntryFiles]]:
    """The entries' files that belong into tables, by topic. Raises TableRefused for a kind of entry that tables do not know."""
    found: dict[str, list[EntryFiles]] = {}
    for entry in entries:
        if entry.kind not in KNOWN_KINDS:
            raise TableRefused(
                f"Entry {entry.version} is of kind {entry.kind}, which tables cannot follow yet. Upgrade kafka-s3."
            )
        topics: dict[str, list[DataFile]] = {}
        for file in entry.files:
            if in_table(file):
                topics.setdefault(file.topic, []).append(file)
        for topic, files in topics.items():
            found.setdefault(topic, []).append(EntryFiles(entry.version, committed_ms(entry), tuple(files)))
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


def note_of(sink: str, entries: Sequence[EntryFiles], plan: TablePlan) -> dict[str, Any]:
    """What the table's history says of a version: `userMetadata`."""
    taken = [file for one in entries for file in one.files if file.key not in plan.left_out]
    note: dict[str, Any] = {
        "kafka-s3": sink,
        "entries": [entries[0].version, entries[-1].version],
        "offsets": offset_ranges(taken),
    }
    return note | ({"left_out": sorted(plan.left_out)} if plan.left_out else {})


@dataclass(slots=True)
class ChangeReporter:
    """Warns of files that stay out of a table, and once of columns that do."""

    warn: Callable[[str], None]
    tables: str = "Delta tables"
    _reported: set[str] = field(default_factory=set)

    def report(self, topic: str, plan: TablePlan) -> None:
        """Says what of a plan is not in the table."""
        for key, reason in plan.left_out.items():
            self.warn(f"{self.tables}: {key} stays out of the table: {reason}.")
        fresh = [text for text in plan.omitted if f"{topic}/{text}" not in self._reported]
        if fresh:
            self._reported.update(f"{topic}/{text}" for text in fresh)
            self.warn(f"{self.tables}: columns of {topic} stay in the files alone: {'; '.join(fresh)}.")


PATIENCE_MS: Final = 60_000
"""How long a table that refused is left alone."""


class TableWriter(Protocol):
    """What takes log entries into tables."""

    def begin(self, topics: Sequence[str]) -> None:
        """Called once, with the topics that the log knows. Raises nothing."""
        ...

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic into its table, all since entry `after`, each once. Raises TableError."""
        ...


class FollowingTables:
    """The follower that keeps a table of each topic; `key` is that of the object that says how far all have come."""

    def __init__(
        self, name: str, table_writer: TableWriter, store: ObjectStore, *, key: str, clock_ms: Callable[[], int]
    ) -> None:
        self.name = name
        self._table_writer = table_writer
        self._store = store
        self._key = key
        self._clock_ms = clock_ms
        self._positions: TablePositions | None = None
        self._waits: dict[str, int] = {}

    @property
    def due(self) -> bool:
        """Whether a table that is behind may be tried again. Asks nobody."""
        positions, now = self._positions, self._clock_ms()
        return positions is not None and any(self._waits.get(topic, 0) <= now for topic in positions.behind)

    @property
    def problems(self) -> Sequence[str]:
        """The tables that do not follow, why, and since when."""
        return self._positions.problems if self._positions is not None else ()

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
        if self._positions is None:
            self._positions = read_positions(self._store, self._key)
            self._table_writer.begin(sorted({tp.topic for tp in log.state.progress}))
        positions = self._positions
        failures: list[TableError] = []
        now, head = self._clock_ms(), log.state.version
        for topic in [topic for topic in positions.behind if self._waits.get(topic, 0) <= now]:
            self._follow(topic, log, positions=positions, head=head, failures=failures)
        if positions.version < head:
            self._follow_all(log, positions=positions, head=head, failures=failures)
        return failures

    def _follow_all(self, log: CommitLog, *, positions: TablePositions, head: int, failures: list[TableError]) -> None:
        """All tables but those that are behind, from the common place on."""
        after, held = positions.version, set(positions.behind)
        for batch in batches(log.entries_since(after), head):
            for topic, entries in by_topic(batch).items():
                if topic in held or topic in positions.behind:
                    continue
                try:
                    self._table_writer.take(topic, entries, log=log, after=after)
                except TableError as error:
                    self._hold(topic, positions, after=after, error=error, failures=failures)
            after = batch[-1].version
            positions.version = after
            note_positions(self._store, self._key, positions)

    def _follow(
        self, topic: str, log: CommitLog, *, positions: TablePositions, head: int, failures: list[TableError]
    ) -> None:
        """One table that is behind, up to the head."""
        after = positions.behind[topic]
        try:
            for batch in batches(log.entries(after=after), head):
                entries = by_topic(batch).get(topic)
                if entries:
                    self._table_writer.take(topic, entries, log=log, after=after)
                after = batch[-1].version
                positions.behind[topic] = after
        except TableError as error:
            if self._hold(topic, positions, after=after, error=error, failures=failures):
                note_positions(self._store, self._key, positions)
            return
        positions.held.pop(topic, None)
        if positions.version >= head:
            del positions.behind[topic]
        note_positions(self._store, self._key, positions)

    def _hold(
        self, topic: str, positions: TablePositions, *, after: int, error: TableError, failures: list[TableError]
    ) -> bool:
        """Leaves a table where it is; whether that is to be noted."""
        self._waits[topic] = self._clock_ms() + (PATIENCE_MS if isinstance(error, TableRefused) else 0)
        failures.append(error)
        return positions.hold(topic, after=after, why=str(error), now_ms=self._clock_ms())


class GrowingTable(Protocol):
    """A table to which objects are added that are there already."""

    @property
    def address(self) -> str:
        """Where or what it is, for people."""
        ...

    @property
    def remedy(self) -> str:
        """What to do about a table with obstacles."""
        ...

    def state(self) -> TableState | None:
        """The table's newest state, None where there is no table. Raises TableError."""
        ...

    def paths(self) -> Collection[str]:
        """The paths of the files in the table as last read, as the layout has them."""
        ...

    def commit(self, state: TableState | None, plan: TablePlan, commit: Commit) -> None:
        """Makes the table, or brings it up to the plan, on the state last read. Raises TableUnavailable where another was faster."""
        ...


TRIES: Final = 3


@dataclass(slots=True)
class ZeroCopy:
    """Takes entries into the tables of one sink; `table` gives that of a topic, the same one each time."""

    table_planner: TablePlanner
    sink: str
    table: Callable[[str], GrowingTable]
    clock_ms: Callable[[], int]
    reporter: ChangeReporter

    def begin(self, topics: Sequence[str]) -> None:
        """Nothing is to be known of tables before there are files for them."""

    def exists(self, topic: str) -> bool:
        """Whether the topic has a table. Raises TableError."""
        return self.table(topic).state() is not None

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic; those of all earlier entries, too, where the table is not there yet."""
        state = self.table(topic).state()
        if after < 0 or state is not None:
            self._commit(topic, entries, state)
            return
        for batch in batches(log.entries(), entries[-1].version):
            self._commit(topic, by_topic(batch).get(topic, []), self.table(topic).state())

    def _commit(self, topic: str, entries: Sequence[EntryFiles], state: TableState | None) -> None:
        """Commits, on a newer state where another writer was faster."""
        for attempt in range(1, TRIES + 1):
            try:
                self._commit_on(state, topic, entries)
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise
                state = self.table(topic).state()

    def _commit_on(self, state: TableState | None, topic: str, entries: Sequence[EntryFiles]) -> None:
        table = self.table(topic)
        entries = [one for one in entries if state is None or one.version > state.position]
        if not entries:
            return
        if state is not None and state.obstacles:
            raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {table.remedy}")
        files = [file for one in entries for file in one.files]
        if state is not None and state.position < 0:  # someone else's table, which may hold some of the files
            held = set(table.paths())
            files = [file for file in files if self.table_planner.layout.path(file) not in held]
        modified = {file.key: one.committed_ms for one in entries for file in one.files}
        plan = self.table_planner.plan(state, files, modified_ms=modified)
        note = note_of(self.sink, entries, plan)
        commit = Commit(entries[-1].version, plan.files, note=note, at_ms=self.clock_ms())
        self.reporter.report(topic, plan)
        if state is not None or plan.files:
            table.commit(state, plan, commit)


class Catalog(Protocol):
    """Where tables have names."""

    def location(self, name: TableName) -> str | None:
        """Where the table of that name lies, None where there is none. Raises TableError."""
        ...

    def register(self, name: TableName, location: str) -> None:
        """Gives the Delta table at a location that name, unless the name is taken. Raises TableError."""
        ...


@dataclass(slots=True)
class Registering:
    """Takes entries as `inner`, and registers each table that `exists`. `location` gives the URL of a topic's table.

    A table that cannot be registered follows on; the reason is a warning, and it is tried again later.
    """

    inner: TableWriter
    exists: Callable[[str], bool]
    catalog: Catalog
    names: TableNames
    location: Callable[[str], str]
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    _done: set[str] = field(default_factory=set)
    _waits: dict[str, int] = field(default_factory=dict)
    _reported: dict[str, str] = field(default_factory=dict)

    def begin(self, topics: Sequence[str]) -> None:
        """Registers the tables that are there already: the name may have been configured later."""
        self.inner.begin(topics)
        for topic in topics:
            self._try(topic)

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes entries, then registers the table if it is not."""
        self.inner.take(topic, entries, log=log, after=after)
        self._try(topic)

    def _try(self, topic: str) -> None:
        if topic in self._done or self._waits.get(topic, 0) > self.clock_ms():
            return
        try:
            if self.exists(topic):
                self._register(topic)
                self._done.add(topic)
        except SinkError as error:
            self._waits[topic] = self.clock_ms() + PATIENCE_MS
            if self._reported.get(topic) != str(error):
                self._reported[topic] = str(error)
                self.warn(f"Delta tables: the table of {topic} is not registered, but follows on: {error}")

    def _register(self, topic: str) -> None:
        name, wanted = self.names.of(topic), self.location(topic)
        found = self.catalog.location(name)
        if found is None:
            self.catalog.register(name, wanted)
            found = self.catalog.location(name)
        if found is None or normal_location(found) != normal_location(wanted):
            raise TableRefused(
                f"{name} is already registered at {found}, not at {wanted}. That registration is left as it is: remove it (of an external "
                "table no file is deleted), or set another delta.table.name."
            )
