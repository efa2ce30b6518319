"""How is a table looked after? It is compared with log and bucket, made again from the log, and kept quick to read and cheap to keep.

They agree where every object of the log is in its topic's table, and every file of the table in the bucket. Other writers may rewrite files
(OPTIMIZE): theirs are those that the log does not name, and must hold as many records as those that they replaced.

A rebuild in place is one commit of what differs: the files of the log that are not in the table go in, and all others go out, also those
that other writers have made of ours (OPTIMIZE, UPDATE, DELETE). No object is deleted. From nothing, the table's own log is deleted first,
newest version first, so that a crash in between leaves an older version of the table, which catches up or is rebuilt.

In maintenance delta-rs compacts (`dataChange=false`: readers of changes see none). Deleted is only what the table's own log names as
removed, and of that only what other writers made, unless the sink's own objects are asked for, too: who reads the bucket as plain objects
needs them. What else lies below the folder (objects of keys and headers, of other sinks, of the connector's time) stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_s3.engine.log.log import CommitLog, is_published
from kafka_s3.followers.delta.findings import DifferenceKind, Rebuilt, TableCheck, TableDifference, absent_objects
from kafka_s3.followers.delta.follower import EntryFiles, by_topic, files_of_log
from kafka_s3.followers.delta.planner import Commit, TableLayout, TablePlanner, TableState
from kafka_s3.followers.delta.table import REMEDY, Table
from kafka_s3.followers.progress import read_positions
from kafka_s3.model.errors import ConfigError, ObjectMissing, Problem, TableError, TableRefused
from kafka_s3.model.files import DataFile
from kafka_s3.store.store import ObjectStore

REBUILD: Final = "kafka-s3 delta rebuild"


def check_table(log: CommitLog, table_planner: TablePlanner, table: Table, *, topic: str) -> TableCheck:
    """Compares one topic's table. Raises StorageError, CommitError; what the table itself refuses is a finding."""
    entries = files_of_log(log, topic)
    ours = {table_planner.layout.path(file): file for one in entries for file in one.files}
    found = TableCheck(topic, table.address, files=len(ours), records=sum(file.records for file in ours.values()))
    try:
        state = table.state()
    except TableError as error:
        found.findings.append(TableDifference(DifferenceKind.REFUSED, table.address, str(error)))
        return found
    if state is None:
        if ours:
            text = f"The log has {len(ours)} objects, but there is no table. A run of the sink makes it, as does kafka-s3 delta rebuild."
            found.findings.append(TableDifference(DifferenceKind.NO_TABLE, table.address, text))
        return found
    found.version, found.position = state.version, state.position
    found.findings += _open_differences(state, entries, address=table.address)
    held = table.files()
    found.findings += absent_objects(found, ours, held, planner=table_planner, state=state, rebuild=REBUILD)
    found.findings += _in_bucket(table_planner, topic, held)
    return found


def check_copy(log: CommitLog, store: ObjectStore, key: str, *, topic: str, name: str) -> TableCheck:
    """How far one table has come that Spark writes: what is in it only Spark can say. Raises StorageError, CommitError."""
    entries = files_of_log(log, topic)
    files = [file for one in entries for file in one.files]
    position = read_positions(store, key).position_of(topic)
    found = TableCheck(topic, name, None, position, len(files), sum(file.records for file in files))
    if entries and entries[-1].version > position:
        found.findings.append(_behind(position, entries, address=name))
    return found


def _open_differences(state: TableState, entries: list[EntryFiles], *, address: str) -> Iterable[TableDifference]:
    for obstacle in state.obstacles:
        yield TableDifference(
            DifferenceKind.REFUSED,
            address,
            f"The table has {obstacle}, so that objects cannot be added as they are. Drop it.",
        )
    if entries and entries[-1].version > state.position:
        yield _behind(state.position, entries, address=address)


def _behind(position: int, entries: list[EntryFiles], *, address: str) -> TableDifference:
    text = (
        f"The table has come to entry {position}, the log to {entries[-1].version}. A run of the sink lets it catch up."
    )
    return TableDifference(DifferenceKind.BEHIND, address, text)


def _in_bucket(
    table_planner: TablePlanner, topic: str, held: Mapping[str, tuple[int, int | None]]
) -> Iterable[TableDifference]:
    folder = table_planner.layout.folder(topic)
    there = {key.removeprefix(folder): size for key, size in sizes(table_planner.store, folder).items()}
    for path, (size, _) in sorted(held.items()):
        if path not in there:
            text = f"The table has a file that the bucket has not: reading the table fails. Restore it, or {REBUILD}."
            yield TableDifference(DifferenceKind.MISSING_OBJECT, f"{folder}{path}", text)
        elif there[path] != size:
            text = f"The object has {there[path]} bytes, the table says {size}. Restore it from a bucket version, or {REBUILD}."
            yield TableDifference(DifferenceKind.WRONG_SIZE, f"{folder}{path}", text)


def rebuild(
    log: CommitLog, table_planner: TablePlanner, table: Table, *, topic: str, clock_ms: Callable[[], int]
) -> Rebuilt:
    """Makes a topic's table in place. Raises TableError, StorageError; ObjectMissing where the table would lose records."""
    entries = files_of_log(log, topic)
    if not entries:
        return Rebuilt(topic)
    state = table.state()
    if state is not None and state.obstacles:
        raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {REMEDY}")
    held = table.files() if state is not None else {}
    files = [file for one in entries for file in one.files]
    wanted = {table_planner.layout.path(file) for file in files}
    lacking = [file for file in files if table_planner.layout.path(file) not in held]
    removed = [path for path in held if path not in wanted]
    if removed:
        _check_objects(table_planner.store, lacking)
    modified = {file.key: one.committed_ms for one in entries for file in one.files}
    plan = table_planner.plan(state, lacking, modified_ms=modified)
    note = {"kafka-s3": "rebuild", "entries": [entries[0].version, entries[-1].version]}
    commit = Commit(entries[-1].version, plan.files, removed, note, clock_ms())
    table.commit(state, plan, commit)
    return Rebuilt(topic, len(plan.files), len(removed), plan.left_out)


def _check_objects(store: ObjectStore, files: list[DataFile]) -> None:
    gone = [file.key for file in files if store.head(file.key) is None]
    if gone:
        shown = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if len(gone) > 5 else "")
        raise ObjectMissing(
            f"{len(gone)} objects of the log are gone ({shown}); other files of the table may hold their records (OPTIMIZE, then VACUUM), "
            "and would be taken out. Nothing was changed. Restore the objects, or begin from nothing with --fresh, which goes without them."
        )


def forget(store: ObjectStore, folder: str) -> int:
    """Deletes a table's own log, newest version first; the objects stay. Gives how many objects of it there were."""
    keys = sorted((info.key for info in store.list(f"{folder}_delta_log/")), reverse=True)
    pointers = [key for key in keys if key.endswith("_last_checkpoint")]
    for key in [*pointers, *(key for key in keys if key not in pointers)]:
        store.delete(key)
    return len(keys)


class MaintenanceStep(StrEnum):
    """What is done to a table."""

    OPTIMIZE = "optimize"
    """Small objects are put together by the sink's log, as `kafka-s3 compact` does it."""
    VACUUM = "vacuum"
    ORIGINALS = "originals"
    """With VACUUM: also objects of the commit log that other files of the table have replaced."""


@dataclass(frozen=True, slots=True)
class Chores:
    """What shall be done; `hours` is how long a replaced file is kept, for readers of older versions of the table."""

    steps: Set[MaintenanceStep]
    hours: int = 168


def chores_of(*, optimize: bool, vacuum: int | None, originals: bool = False) -> Chores:
    """What the options of command and job ask for, `vacuum` in hours. Raises ConfigError for `originals` alone."""
    if originals and vacuum is None:
        hint = "Say after how many hours: --vacuum 168 --originals."
        raise ConfigError([Problem("--originals", "", "deletes nothing without --vacuum.", hint)])
    steps = {step for step, on in ((MaintenanceStep.OPTIMIZE, optimize), (MaintenanceStep.ORIGINALS, originals)) if on}
    return Chores(steps) if vacuum is None else Chores(steps | {MaintenanceStep.VACUUM}, vacuum)


@dataclass(frozen=True, slots=True)
class Figures:
    """A table's size. `small` files share a directory with other small ones, `replaced` are in the bucket and no longer in the table.

    `log_objects` and `log_bytes` are those of the table's own log.
    """

    version: int
    files: int
    bytes: int
    small: int
    replaced: int
    replaced_bytes: int
    log_objects: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Maintained:
    """A table before and after. `deletable` were due for deletion by the rules, of which `deleted` are gone (none in a dry run)."""

    topic: str
    before: Figures
    after: Figures
    deletable: tuple[str, ...] = ()
    deleted: int = 0

    def summary(self) -> str:
        """What changed, in one line."""
        files = f"{self.before.files} files of which {self.before.small} small, now {self.after.files}"
        return f"version {self.after.version}, {files}; {self.deleted} of {len(self.deletable)} replaced files deleted"


SMALL_BYTES = 16 << 20
"""From this size on a file is no reason to compact: `compact.target.bytes` is 25 MiB."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The chores of one sink's tables. `compact` puts those objects of a topic together that are named, by the sink's log, which the table
    follows.
    """

    store: ObjectStore
    log: CommitLog
    layout: TableLayout
    compact: Callable[[str, Set[str]], None]

    def inspect(self, table: Table, chores: Chores, *, topic: str) -> Maintained | None:
        """What would be done, None where there is no table. Raises TableError, StorageError."""
        if table.state() is None:
            return None
        figures = self._figures(table, topic)
        return Maintained(topic, figures, figures, tuple(self._deletable(table, chores, topic=topic)))

    def run(self, table: Table, chores: Chores, *, topic: str) -> Maintained | None:
        """Does it, None where there is no table. Raises TableError, StorageError; what is done by then stays, and is whole."""
        state = table.state()
        if state is None:
            return None
        before = self._figures(table, topic)
        if MaintenanceStep.OPTIMIZE in chores.steps:
            if state.obstacles:
                raise TableRefused(
                    f"{table.address} has {', '.join(state.obstacles)}, so that it could not follow. {REMEDY}"
                )
            folder = self.layout.folder(topic)
            self.compact(topic, {f"{folder}{path}" for path in table.files()})
            table.state()
        deletable = list(self._deletable(table, chores, topic=topic))
        for key in deletable:
            self.store.delete(key)
        table.checkpoint()
        table.state()
        return Maintained(topic, before, self._figures(table, topic), tuple(deletable), len(deletable))

    def _figures(self, table: Table, topic: str) -> Figures:
        held = table.files()
        replaced = {key for key in self._removed(table, topic, hours=0)}
        log = sizes(self.store, f"{self.layout.folder(topic)}_delta_log/")
        there = sizes(self.store, self.layout.folder(topic)) if replaced else {}
        return Figures(
            version=table.version,
            files=len(held),
            bytes=sum(size for size, _ in held.values()),
            small=small_files({path: size for path, (size, _) in held.items()}),
            replaced=len(replaced),
            replaced_bytes=sum(there.get(key, 0) for key in replaced),
            log_objects=len(log),
            log_bytes=sum(log.values()),
        )

    def _removed(self, table: Table, topic: str, *, hours: int) -> Iterator[str]:
        """Keys of data files that are in the bucket, and that the table removed so long ago; never of what is not a data file."""
        folder = self.layout.folder(topic)
        for path in table.removed(hours):
            if path.endswith(".parquet") and not path.startswith(("_", "/")) and ".." not in path.split("/"):
                yield f"{folder}{path}"

    def _deletable(self, table: Table, chores: Chores, *, topic: str) -> Iterator[str]:
        if MaintenanceStep.VACUUM not in chores.steps:
            return
        held = {f"{self.layout.folder(topic)}{path}" for path in table.files()}
        entries = list(self.log.entries())
        ours = {file.key for one in by_topic(entries).get(topic, []) for file in one.files}
        if entries and not is_published(self.store, self.log.paths, entries[-1]):
            held |= {file.key for file in entries[-1].uncompleted}  # a start is going to look for them
        for key in self._removed(table, topic, hours=chores.hours):
            may_go = MaintenanceStep.ORIGINALS in chores.steps if key in ours else not is_original(key, topic)
            if may_go and key not in held:
                yield key


def is_original(key: str, topic: str) -> bool:
    """Whether an object is named as sinks name theirs, `<topic><delimiter><partition>...`: it may be another sink's, or the connector's."""
    rest = key.rpartition("/")[2].removeprefix(topic)
    return rest != key.rpartition("/")[2] and any(character.isdigit() for character in rest[:12])


def small_files(held: Mapping[str, int]) -> int:
    """How many files, by size, share their directory with another small one."""
    folders = Counter(path.rpartition("/")[0] for path, size in held.items() if size < SMALL_BYTES)
    return sum(count for count in folders.values() if count > 1)


def sizes(store: ObjectStore, prefix: str) -> dict[str, int]:
    """The sizes of the objects below a prefix."""
    return {info.key: info.size for info in store.list(prefix)}
