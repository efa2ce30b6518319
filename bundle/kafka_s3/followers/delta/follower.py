"""How does a table come to hold exactly the files of the commit log? It follows the log, entry by entry, after publication.

1. How far all tables have come is an object beside the log; how far one has come is in the table itself: in Delta as the
   transaction version of the sink's application, in Iceberg as a property. The object may lag behind the tables, never the other way round.
2. The files of the entries since then are taken per topic, at most `BATCH` at a time (`ZeroCopy`, or `Copying` for tables of Spark).
   Where an entry puts some objects in the place of others, the table does the same in one version of its own.
3. A crash anywhere: the number in the table itself says what is in it already.
4. A table that is not there is made from the whole log. So a sink may begin with a table at any time.
5. Objects that others have taken the place of are not deleted before the tables have come to that entry (`followed_to`).

A table that cannot follow keeps the place that it has reached, is tried again later, and holds up neither the sink nor other tables.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, Protocol

from kafka_s3.connect.naming.table_names import TableName, TableNames, normal_location
from kafka_s3.engine.log.entry import LAST_OFFSET, CommitEntry, Swap, committed_ms
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.planner import (
    THREADS,
    Commit,
    TablePlan,
    TablePlanner,
    TableState,
    in_table,
    is_named_as_in_table,
)
from kafka_s3.followers.progress import TablePositions, note_positions, read_positions
from kafka_s3.model.errors import SinkError, TableError, TableRefused, TableUnavailable, reason_of
from kafka_s3.model.files import DataFile
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.timing import retry_pause_ms
from kafka_s3.store.store import ObjectStore

_log = logging.getLogger(__name__)
BATCH: Final = 1000
"""About how many files, and at most how many entries, go into one version of a table."""


@dataclass(frozen=True, slots=True)
class EntryFiles:
    """The files of one topic in one entry, and of which others they take the place; `erases` says that records of these are gone."""

    version: int
    committed_ms: int
    files: tuple[DataFile, ...]
    swaps: tuple[Swap, ...] = ()
    erases: bool = False

    @property
    def replaced(self) -> set[str]:
        """The keys of the objects that are in a table no more."""
        return {key for swap in self.swaps for key in swap.keys}


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
    """What entries change in tables, by topic."""
    found: dict[str, list[EntryFiles]] = {}
    for entry in entries:
        files: dict[str, list[DataFile]] = {}
        swaps: dict[str, list[Swap]] = {}
        for file in entry.files:
            if in_table(file):
                files.setdefault(file.topic, []).append(file)
        made = {file.key for some in files.values() for file in some} if entry.swaps else set()
        for swap in entry.swaps:
            if swap.by in made or (not swap.by and is_named_as_in_table(swap.keys[0])):
                swaps.setdefault(swap.topic_partition.topic, []).append(swap)
        for topic in {**files, **swaps}:
            change = EntryFiles(
                entry.version,
                committed_ms(entry),
                tuple(files.get(topic, ())),
                tuple(swaps.get(topic, ())),
                erases=entry.erasure is not None,
            )
            found.setdefault(topic, []).append(change)
    return found


def without_replaced(entries: Sequence[EntryFiles]) -> list[EntryFiles]:
    """The same entries, each with those of its files alone that no later one takes the place of."""
    replaced, found = set[str](), list[EntryFiles]()
    for one in reversed(entries):
        found.append(replace(one, files=tuple(file for file in one.files if file.key not in replaced)))
        replaced |= one.replaced
    return found[::-1]


@dataclass(frozen=True, slots=True)
class TopicFiles:
    """What the whole log says of a topic's table: by entry the files that are to be in it; `superseded` are the keys of all others that it
    names, each with the last entry that does. `divided` are files that are to be in it, though only a part of their records counts.
    """

    entries: list[EntryFiles]
    superseded: dict[str, int]
    divided: list[str]


def files_of_log(log: CommitLog, topic: str) -> TopicFiles:
    """Read what the log says of a topic's table. Raises StorageError, LogDamaged."""
    changes, named = list[EntryFiles](), dict[str, int]()

    def seen() -> Iterator[CommitEntry]:
        for entry in log.entries():
            own = tuple(file for file in entry.files if file.topic == topic and in_table(file))
            named.update((file.key, entry.version) for file in own)
            changes.extend(by_topic([entry]).get(topic, ()))
            yield replace(entry, files=own)

    live = live_objects(seen())
    entries = [
        replace(one, files=tuple(f for f in one.files if f.key in live and live[f.key].version == one.version))
        for one in changes
    ]
    superseded = {key: version for key, version in named.items() if key not in live}
    return TopicFiles(entries, superseded, [key for key, one in live.items() if not one.is_whole])


def offset_ranges(files: Iterable[DataFile]) -> dict[str, list[list[int]]]:
    """Per topic-partition the inclusive offset ranges of files; ranges that touch are one."""
    found: dict[str, list[list[int]]] = {}
    slices = [one for file in files for one in file.by_slice]
    for file in sorted(slices, key=lambda one: one.first_offset):
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


def followed_to(store: ObjectStore, keys: Iterable[str], topics: Iterable[str]) -> int:
    """The entry up to which the tables of all these topics have come, by the notes at `keys`. Raises LogDamaged, StorageError."""
    wanted = list(topics)
    noted = [read_positions(store, key) for key in keys]
    return min((one.position_of(topic) for one in noted for topic in wanted), default=LAST_OFFSET)


class TableWriter(Protocol):
    """What takes log entries into tables."""

    def begin(self, topics: Sequence[str]) -> None:
        """Called once, with the topics that the log knows. Raises nothing."""
        ...

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic into its table, all since entry `after`, each once. Raises TableError."""
        ...


class FollowingTables:
    """The follower that keeps a table of each topic; `key` is that of the object that says how far all have come.

    `metadata` gives the location of the file that says what is in a topic's table now, blank where no reader needs it.
    """

    def __init__(
        self,
        name: str,
        table_writer: TableWriter,
        store: ObjectStore,
        *,
        key: str,
        clock_ms: Callable[[], int],
        metadata: Callable[[str], str] = lambda _: "",
    ) -> None:
        self.name = name
        self._table_writer = table_writer
        self._store = store
        self._key = key
        self._clock_ms = clock_ms
        self._metadata = metadata
        self._positions: TablePositions | None = None
        self._waits: dict[str, int] = {}
        self._failures: Counter[str] = Counter()

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
                    self._take(topic, entries, log=log, after=after, positions=positions)
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
                    self._take(topic, entries, log=log, after=after, positions=positions)
                after = batch[-1].version
                positions.behind[topic] = after
        except TableError as error:
            if self._hold(topic, positions, after=after, error=error, failures=failures):
                note_positions(self._store, self._key, positions)
            return
        positions.held.pop(topic, None)
        del self._failures[topic]
        if positions.version >= head:
            del positions.behind[topic]
        note_positions(self._store, self._key, positions)

    def _take(
        self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int, positions: TablePositions
    ) -> None:
        try:
            self._table_writer.apply_entries(topic, entries, log=log, after=after)
        except SinkError:
            raise
        except Exception as error:  # it holds this table alone
            _log.error("The table of %s failed in an unforeseen way", topic, exc_info=error)
            raise TableRefused(f"{reason_of(error)} This is a defect of kafka-s3.") from error
        if where := self._metadata(topic):
            positions.metadata[topic] = where

    def _hold(
        self, topic: str, positions: TablePositions, *, after: int, error: TableError, failures: list[TableError]
    ) -> bool:
        """Leave a table where it is, and return whether that is to be noted."""
        self._failures[topic] += 1
        pause_ms = PATIENCE_MS if isinstance(error, TableRefused) else retry_pause_ms(self._failures[topic])
        self._waits[topic] = self._clock_ms() + pause_ms
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
    """Takes entries into the tables of one sink; `table` gives that of a topic, the same one each time.

    `rebuild` is the command that puts a table right.
    """

    table_planner: TablePlanner
    sink: str
    table: Callable[[str], GrowingTable]
    clock_ms: Callable[[], int]
    reporter: ChangeReporter
    rebuild: str = "kafka-s3 delta rebuild"
    _first_seen: dict[str, int] = field(default_factory=dict)

    def begin(self, topics: Sequence[str]) -> None:
        """Nothing is to be known of tables before there are files for them."""

    def exists(self, topic: str) -> bool:
        """Whether the topic has a table. Raises TableError."""
        return self.table(topic).state() is not None

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic; those of all earlier entries, too, where the table is not there yet."""
        state = self.table(topic).state()
        reset = log.state.incarnations.latest_of(topic) > (-1 if state is None else state.position)
        if reset or (log.state.rewritten and self._needs_the_log(state, topic, entries, log)):
            self._take_all(topic, log, state)
        elif after < 0 or state is not None:
            self._take_in_turn(topic, entries, state)
        else:
            for batch in batches(log.entries(), entries[-1].version):
                self._take_in_turn(topic, by_topic(batch).get(topic, []), self.table(topic).state())

    def _needs_the_log(
        self, state: TableState | None, topic: str, entries: Sequence[EntryFiles], log: CommitLog
    ) -> bool:
        """Whether later entries have to be known: where objects may be gone because others have taken their place.

        None are gone that came while this process followed: their deletion waits for the table.
        """
        before = self._first_seen.setdefault(topic, log.state.version)
        if state is None or state.position < 0:
            return True
        old = [file for one in entries if state.position < one.version <= before for file in one.files]
        with ThreadPool(THREADS) as pool:
            return not all(pool.each(lambda file: self.table_planner.store.head(file.key) is not None, old))

    def _take_all(self, topic: str, log: CommitLog, state: TableState | None) -> None:
        """Take what the log says to its end: without objects whose place others have taken, or whose offsets are of another incarnation.

        A table that holds some of these gets one version. Any other gets several, of which the last says how far it has come: what is
        there already is left out when it has to be repeated.
        """
        after, path = -1 if state is None else state.position, self.table_planner.layout.path_of
        ours, held = files_of_log(log, topic), set(self.table(topic).paths()) if state is not None else set()
        wanted = [one for one in ours.entries if one.version > after]
        superseded = {path(topic, key): version for key, version in ours.superseded.items()}
        replaced = {path(topic, key) for one in wanted for key in one.replaced}
        here = {path(topic, file.key) for one in wanted for file in one.files}
        here |= {one for one, version in superseded.items() if version > after}
        lacking = replaced - here - held
        reset = 0 <= after < log.state.incarnations.latest_of(topic)
        if reset and held - superseded.keys() - {path(topic, f.key) for one in ours.entries for f in one.files}:
            lacking |= superseded.keys() - here - held  # their rows may be in files of another writer
        if lacking:
            raise self._refusal(topic, len(lacking), len(superseded), wanted[-1].version)
        for key in ours.divided if reset else ():
            self.reporter.warn(
                f"{self.reporter.tables}: {key} stays in the table with all its records, though some of them were read again since, "
                "because an object is in a table as a whole."
            )
        gone = held & (superseded.keys() | here if reset else superseded.keys())
        if gone or reset:
            self._commit(topic, wanted, state, removed=sorted(gone))
            return
        for number, some in enumerate(portions := list(_portions(wanted))):
            last = number == len(portions) - 1
            state = state if number == 0 else self.table(topic).state()
            self._commit(topic, some, state, removed=(), position=None if last else after)

    def _take_in_turn(self, topic: str, entries: Sequence[EntryFiles], state: TableState | None) -> None:
        """Takes entries of which no object is gone: those that only add in one version, each that replaces others in its own."""
        for number, (_, some) in enumerate(groupby(entries, lambda one: one.version if one.swaps else -1)):
            self._commit(topic, list(some), state if number == 0 else self.table(topic).state())

    def _commit(
        self,
        topic: str,
        entries: Sequence[EntryFiles],
        state: TableState | None,
        *,
        removed: Sequence[str] | None = None,
        position: int | None = None,
    ) -> None:
        """Commits, on a newer state where another writer was faster.

        `removed` are the paths that leave the table, None: as the entries say. `position` is how far the table has come then, None: to
        the last entry.
        """
        for attempt in range(1, TRIES + 1):
            try:
                self._commit_on(state, topic, entries, removed=removed, position=position)
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise
                state = self.table(topic).state()

    def _commit_on(
        self,
        state: TableState | None,
        topic: str,
        entries: Sequence[EntryFiles],
        *,
        removed: Sequence[str] | None,
        position: int | None,
    ) -> None:
        table, layout = self.table(topic), self.table_planner.layout
        entries = [one for one in entries if state is None or one.version > state.position]
        if not entries:
            return
        if state is not None and state.obstacles:
            raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {table.remedy}")
        files, absent = [file for one in entries for file in one.files], set[str]()
        if state is not None and (state.position < 0 or removed is not None):  # it may hold some of the files
            held = set(table.paths()).difference(removed or ())
            files = [file for file in files if layout.path(file) not in held]
        elif entries[0].swaps:
            removed, absent = self._swapped(topic, entries[0])
            files = [file for file in files if file.key not in absent]
        modified = {file.key: one.committed_ms for one in entries for file in one.files}
        plan = self.table_planner.plan(state, files, modified_ms=modified)
        if removed:
            self._check_all_in(plan, topic, {swap.by for one in entries for swap in one.swaps})
        plan.left_out |= dict.fromkeys(absent, "what it takes the place of is not in the table")
        note, same = note_of(self.sink, entries, plan), bool(removed) and not any(one.erases for one in entries)
        at = entries[-1].version if position is None else position
        self.reporter.report(topic, plan)
        if state is not None or plan.files:
            commit = Commit(at, plan.files, removed or (), note, at_ms=self.clock_ms(), same_records=same)
            table.commit(state, plan, commit)

    def _check_all_in(self, plan: TablePlan, topic: str, replacing: Collection[str]) -> None:
        """Raises TableRefused where records would leave the table with what is replaced, and not come back with what replaces it."""
        for key, why in plan.left_out.items():
            if key not in replacing:
                continue
            raise TableRefused(
                f"{self.table(topic).address} would lose records: {key}, which takes the place of others, stays out: {why}. {self.rebuild} "
                "puts the table right."
            )

    def _swapped(self, topic: str, entry: EntryFiles) -> tuple[list[str], set[str]]:
        """The paths that leave the table, and the keys of objects that do not come in, as none of their originals is in the table.

        Raises TableRefused where another writer has taken originals out of the table: their rows may be in files of its own.
        """
        held = set(self.table(topic).paths())
        removed, absent = list[str](), set[str]()
        for swap in entry.swaps:
            paths = [self.table_planner.layout.path_of(topic, key) for key in swap.keys]
            there = [path for path in paths if path in held]
            if len(there) < len(paths) and (there or entry.erases):
                raise self._refusal(topic, len(paths) - len(there), len(paths), entry.version)
            removed += there
            absent |= {swap.by} if not there else set()
        return removed, absent

    def _refusal(self, topic: str, lacking: int, of: int, version: int) -> TableRefused:
        return TableRefused(
            f"{self.table(topic).address} lacks {lacking} of the {of} files that entry {version} puts others in the place of: another "
            f"writer has rewritten them. {self.rebuild} puts the table right."
        )


def _portions(entries: Sequence[EntryFiles]) -> Iterator[list[EntryFiles]]:
    """The entries in groups of about `BATCH` files."""
    held: list[EntryFiles] = []
    for one in entries:
        held.append(one)
        if sum(len(some.files) for some in held) >= BATCH:
            yield held
            held = []
    if held:
        yield held


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

    def apply_entries(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes entries, then registers the table if it is not."""
        self.inner.apply_entries(topic, entries, log=log, after=after)
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
