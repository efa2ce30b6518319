"""Which sinks keep their state in a bucket, and what does it say of each?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kafka_s3.commit.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.commit.log import CommitLog
from kafka_s3.control.commands import read_control
from kafka_s3.control.heartbeat import read_heartbeat
from kafka_s3.control.status import SinkSnapshot
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

READERS: Final = 8
LOOK_BACK: Final = 50
T = TypeVar("T")
OWN: Final = ("commits/", "checkpoints/", "config.json", "heartbeat.json", "control.json")


def sink_names(store: ObjectStore, prefix: str) -> Iterator[str]:
    """The names of the sinks with state below the prefix, in order. Raises StorageError."""
    root = f"{prefix.strip('/')}/"
    after = ""
    while (info := next(iter(store.list(root, start_after=after)), None)) is not None:
        name, slash, _ = info.key.removeprefix(root).partition("/")
        if slash and is_known(store, StatePaths(prefix, name)):
            yield name
        # everything below the folder is passed over: "0" is the character after "/"
        after = f"{root}{name}0" if slash else info.key


def is_known(store: ObjectStore, paths: StatePaths) -> bool:
    """Whether the bucket holds anything of a sink's state."""
    return any(next(iter(store.list(f"{paths.root}{part}")), None) is not None for part in OWN)


def known_of(store: ObjectStore, paths: StatePaths, *, seen_ms: int) -> SinkSnapshot:
    """Everything that the bucket says of a sink at a time (epoch ms by the reader's clock); what cannot be read is told as damage.

    Raises StorageError.
    """
    log = CommitLog(store, paths, clock_ms=lambda: seen_ms)
    damage: list[str] = []

    def read(part: Callable[[], T | None]) -> T | None:
        try:
            return part()
        except LogDamaged as error:
            damage.append(str(error))
            return None

    state = read(log.load)
    heartbeat, control = read(lambda: read_heartbeat(store, paths)), read(lambda: read_control(store, paths))
    return SinkSnapshot(
        paths.sink,
        log=state if log.last is not None else None,
        last_commit=read(lambda: _last_commit(store, paths, log.last)) or "",
        heartbeat=heartbeat,
        control=control,
        configured=store.head(paths.config()) is not None,
        damage=" ".join(damage),
        seen_ms=seen_ms,
    )


def all_known(store: ObjectStore, prefix: str, *, seen_ms: int) -> list[SinkSnapshot]:
    """What the bucket says of every sink below the prefix, in order of their names. Raises StorageError."""
    names = list(sink_names(store, prefix))
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda name: known_of(store, StatePaths(prefix, name), seen_ms=seen_ms), names))


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
