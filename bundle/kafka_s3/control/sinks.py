"""Which sinks keep their state in a bucket, and what does it say of each?"""

from __future__ import annotations

from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from kafka_s3.commit.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.commit.log import CommitLog
from kafka_s3.commit.reading import read_entries
from kafka_s3.commit.state import LogState
from kafka_s3.control.commands import read_control
from kafka_s3.control.heartbeat import Heartbeat, read_heartbeat
from kafka_s3.control.status import SinkSnapshot
from kafka_s3.model.clock import now_ms
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

READERS: Final = 32
"""How many sinks are looked at together: each look waits for a few answers, one after the other."""
LOOK_BACK: Final = 50
T = TypeVar("T")
OWN: Final = frozenset({"commits/", "checkpoints/", "config.json", "heartbeat.json", "control.json"})
ReadLog = Callable[[ObjectStore, StatePaths, Heartbeat | None], tuple[LogState, CommitEntry] | None]
"""The state of a log and its last entry; None where there is no entry. Raises LogDamaged, StorageError."""


def sink_names(store: ObjectStore, prefix: str) -> list[str]:
    """The names of the sinks with state below the prefix, in order. Raises StorageError."""
    folders = _folders(store, prefix)
    with ThreadPoolExecutor(READERS) as pool:
        known = list(pool.map(lambda name: is_known(store, StatePaths(prefix, name)), folders))
    return [name for name, one in zip(folders, known, strict=True) if one]


def is_known(store: ObjectStore, paths: StatePaths) -> bool:
    """Whether the bucket holds anything of a sink's state."""
    return not OWN.isdisjoint(store.names(paths.root))


def _folders(store: ObjectStore, prefix: str) -> list[str]:
    return [name.removesuffix("/") for name in store.names(f"{prefix.strip('/')}/") if name.endswith("/")]


def known_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot:
    """Everything that the bucket says of a sink at a time (epoch ms by the reader's clock); what cannot be read is told as damage.

    Raises StorageError.
    """
    return _snapshot(store, paths, frozenset(store.names(paths.root)), seen_ms, _whole)


def glance_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot | None:
    """The same at the price of a few requests: the log's `progress` and topics may be left out. None where there is no sink.

    The heartbeat tells the totals up to its entry, so that only the entries since are read. Raises StorageError.
    """
    names = frozenset(store.names(paths.root))
    return None if OWN.isdisjoint(names) else _snapshot(store, paths, names, seen_ms, _since_heartbeat)


def all_known(store: ObjectStore, prefix: str, *, seen_ms: int) -> list[SinkSnapshot]:
    """A glance at every sink below the prefix, in order of their names. Raises StorageError."""
    with ThreadPoolExecutor(READERS) as pool:
        look = partial(glance_of, store, seen_ms=seen_ms)
        found = pool.map(look, (StatePaths(prefix, name) for name in _folders(store, prefix)))
        return [one for one in found if one is not None]


def _snapshot(store: ObjectStore, paths: StatePaths, names: Set[str], seen_ms: int, read_log: ReadLog) -> SinkSnapshot:
    """What the bucket says of a sink whose folder holds these names."""
    damage: list[str] = []

    def read(part: Callable[[], T | None]) -> T | None:
        try:
            return part()
        except LogDamaged as error:
            damage.append(str(error))
            return None

    heartbeat = read(lambda: read_heartbeat(store, paths)) if "heartbeat.json" in names else None
    control = read(lambda: read_control(store, paths)) if "control.json" in names else None
    state, last = read(lambda: read_log(store, paths, heartbeat)) or (None, None)
    return SinkSnapshot(
        paths.sink,
        log=state,
        last_commit=read(lambda: _last_commit(store, paths, last)) or "",
        heartbeat=heartbeat,
        control=control,
        configured="config.json" in names,
        damage=" ".join(damage),
        seen_ms=seen_ms,
    )


def _whole(store: ObjectStore, paths: StatePaths, _: Heartbeat | None) -> tuple[LogState, CommitEntry] | None:
    log = CommitLog(store, paths, clock_ms=now_ms)
    state = log.load()
    return None if log.last is None else (state, log.last)


def _since_heartbeat(
    store: ObjectStore, paths: StatePaths, beat: Heartbeat | None
) -> tuple[LogState, CommitEntry] | None:
    """By the heartbeat and what came since; by the whole log where the heartbeat does not tell the totals, or is of another log."""
    if beat is None or beat.totals is None:
        return _whole(store, paths, beat)
    entries = [entry for _, entry in islice(read_entries(store, paths, after=beat.version - 1), LOOK_BACK)]
    if not entries or entries[0].version != beat.version or len(entries) == LOOK_BACK:
        return _whole(store, paths, beat)
    state = LogState(beat.version, entries[0].epoch, totals=beat.totals)
    for entry in entries[1:]:
        state = state.after(entry)
    return state, entries[-1]


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
