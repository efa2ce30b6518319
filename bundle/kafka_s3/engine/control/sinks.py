"""Which sinks keep their state in a bucket, and what does it say of each?"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Final, TypeVar

from kafka_s3.engine.control.commands import read_control
from kafka_s3.engine.control.heartbeat import Heartbeat, read_heartbeat
from kafka_s3.engine.control.status import SinkSnapshot
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.reading import READ_THREADS
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.timing import now_ms
from kafka_s3.store.store import ObjectStore

READERS: Final = 32
"""How many sinks are looked at together: each look waits for a few answers, one after the other."""
LOOK_BACK: Final = 50
T = TypeVar("T")
OWN: Final = frozenset({"commits/", "checkpoints/", "config.json", "heartbeat.json", "control.json"})
NEAR: Final = "co"
"""How the entries' folder, the control object and the configuration begin, and nothing else: one listing tells of all three."""
ReadLog = Callable[[], tuple[LogState, CommitEntry] | None]
"""The state of a log and its last entry; None where there is no entry. Raises LogDamaged, StorageError."""


def sink_names(store: ObjectStore, prefix: str) -> list[str]:
    """The names of the sinks with state below the prefix, in order. Raises StorageError."""
    folders = state_folders(store, prefix)
    with ThreadPool(READERS) as pool:
        known = list(pool.map(lambda name: is_known(store, StatePaths(prefix, name)), folders))
    return [name for name, one in zip(folders, known, strict=True) if one]


def is_known(store: ObjectStore, paths: StatePaths) -> bool:
    """Whether the bucket holds anything of a sink's state."""
    return not OWN.isdisjoint(store.names(paths.root))


def state_folders(store: ObjectStore, prefix: str) -> list[str]:
    """The names of the folders below the prefix, in order: of sinks, and what else may lie there. Raises StorageError."""
    return [name.removesuffix("/") for name in store.names(f"{prefix.strip('/')}/") if name.endswith("/")]


def known_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot:
    """Everything that the bucket says of a sink at a time (epoch ms by the reader's clock); what cannot be read is told as damage.

    Raises StorageError.
    """
    look = _Look(store, paths, seen_ms)
    return look.snapshot(frozenset(store.names(paths.root)), look.heartbeat(), read_log=look.whole_log)


def glance_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot | None:
    """The same at the price of three requests: the log's `progress` and topics may be left out. None where there is no sink.

    The heartbeat tells the totals up to its entry, so that only this one and those since are read; the whole log where it does not, or is
    of another log. Raises StorageError.
    """
    look = _Look(store, paths, seen_ms)
    heartbeat = look.heartbeat()
    near = _near(store, paths, heartbeat)
    if near is not None and heartbeat is not None:
        names, keys = near
        return look.snapshot(names, heartbeat, read_log=lambda: look.log_since(heartbeat, keys))
    names = frozenset(store.names(paths.root))
    return None if OWN.isdisjoint(names) else look.snapshot(names, heartbeat, read_log=look.whole_log)


def all_known(store: ObjectStore, prefix: str, *, seen_ms: int) -> list[SinkSnapshot]:
    """A glance at every sink below the prefix, in order of their names. Raises StorageError."""
    with ThreadPool(READERS) as pool:
        look = partial(glance_of, store, seen_ms=seen_ms)
        found = pool.map(look, (StatePaths(prefix, name) for name in state_folders(store, prefix)))
        return [one for one in found if one is not None]


def _near(store: ObjectStore, paths: StatePaths, beat: Heartbeat | None) -> tuple[Set[str], Sequence[str]] | None:
    """The names of a sink's objects beside its log, and the keys of the heartbeat's entry and of those since.

    None where the heartbeat does not tell the totals up to its entry, or the entries are many.
    """
    if beat is None or beat.totals is None:
        return None
    names, keys = set[str](), list[str]()
    start = paths.commit(beat.version - 1) if beat.version > 0 else ""
    for info in store.list(f"{paths.root}{NEAR}", start_after=start):
        if info.key.startswith(f"{paths.root}commits/"):
            keys.append(info.key)
        else:
            names.add(info.key.removeprefix(paths.root))
        if len(keys) == LOOK_BACK:
            return None
    return names, keys


class _Look:
    """A look at one sink, which goes on where something cannot be read, and tells it as damage."""

    def __init__(self, store: ObjectStore, paths: StatePaths, seen_ms: int) -> None:
        self._store, self._paths, self._seen_ms = store, paths, seen_ms
        self._damage: list[str] = []

    def heartbeat(self) -> Heartbeat | None:
        return self._read(lambda: read_heartbeat(self._store, self._paths))

    def snapshot(self, names: Set[str], heartbeat: Heartbeat | None, *, read_log: ReadLog) -> SinkSnapshot:
        """What the bucket says of a sink whose folder holds these names."""
        control = self._read(lambda: read_control(self._store, self._paths)) if "control.json" in names else None
        state, last = self._read(read_log) or (None, None)
        return SinkSnapshot(
            self._paths.sink,
            log=state,
            last_commit=self._read(lambda: _last_commit(self._store, self._paths, last)) or "",
            heartbeat=heartbeat,
            control=control,
            configured="config.json" in names,
            damage=" ".join(self._damage),
            seen_ms=self._seen_ms,
        )

    def whole_log(self) -> tuple[LogState, CommitEntry] | None:
        log = CommitLog(self._store, self._paths, clock_ms=now_ms)
        state = log.load()
        return None if log.last is None else (state, log.last)

    def log_since(self, beat: Heartbeat, keys: Sequence[str]) -> tuple[LogState, CommitEntry] | None:
        """By the heartbeat and the entries of these keys, its own and those since; by the whole log where the first one is another."""

        def read(key: str) -> CommitEntry:
            return read_entry(self._store.get(key), key=key)

        with ThreadPool(READ_THREADS) as pool:
            entries = list(pool.each(read, keys))
        if not entries or entries[0].version != beat.version or beat.totals is None:
            return self.whole_log()
        state = LogState(beat.version, entries[0].epoch, totals=beat.totals)
        for entry in entries[1:]:
            state = state.after(entry)
        return state, entries[-1]

    def _read(self, part: Callable[[], T | None]) -> T | None:
        try:
            return part()
        except LogDamaged as error:
            self._damage.append(str(error))
            return None


def _last_commit(store: ObjectStore, paths: StatePaths, last: CommitEntry | None) -> str:
    """When data was last committed, blank where that is not among the newest entries."""
    entry = last
    for _ in range(LOOK_BACK):
        if entry is None or entry.kind is EntryKind.DATA:
            return entry.committed_at if entry else ""
        if entry.version == 0:
            return ""
        key = paths.commit(entry.version - 1)
        try:
            entry = read_entry(store.get(key), key=key)
        except ObjectMissing:
            return ""
    return ""
