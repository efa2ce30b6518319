"""How is a table kept quick to read and cheap to keep? Small files become large ones, its log gets a checkpoint, replaced files go.

delta-rs compacts (`dataChange=false`: readers of changes see none). Deleted is only what the table's own log names as removed, and of that
only what other writers made, unless the sink's own objects are asked for, too: who reads the bucket as plain objects needs them. What
else lies below the folder (objects of keys and headers, of other sinks, of the connector's time) is not named there, and stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from kafka_s3.engine.log.log import CommitLog, is_published
from kafka_s3.followers.delta.follower import by_topic
from kafka_s3.followers.delta.planner import TableLayout
from kafka_s3.followers.delta.table import Table
from kafka_s3.model.errors import TableRefused
from kafka_s3.store.store import ObjectStore


class MaintenanceStep(StrEnum):
    """What is done to a table."""

    OPTIMIZE = "optimize"
    VACUUM = "vacuum"
    ORIGINALS = "originals"
    """With VACUUM: also objects of the commit log that other files of the table have replaced."""


@dataclass(frozen=True, slots=True)
class Chores:
    """What shall be done; `hours` is how long a replaced file is kept, for readers of older versions of the table."""

    steps: Set[MaintenanceStep]
    hours: int = 168


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


SMALL_BYTES = 64 << 20
"""delta-rs fills files up to 100 MiB; from this size on a file is no reason to compact."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The chores of one sink's tables."""

    store: ObjectStore
    log: CommitLog
    layout: TableLayout

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
                    f"{table.address} has {', '.join(state.obstacles)}: delta-rs does not compact such tables."
                )
            table.compact()
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
