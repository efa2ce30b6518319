"""How are many entries of a log read? In order, several requests at a time, with little of them in memory.

Stretches of a long log are there as Parquet, too. A manifest names them, with what proves each the log's own and unchanged: three
objects each, `<state.prefix>/<sink>/log/<table>/<first>-<last>.parquet` of the versions it holds. What the manifest does not name is not
there. Only the commit entries are the truth: all of `log/` may be deleted at any time, and is written once more.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final

from kafka_s3.engine.log.entry import CommitEntry, read_entry
from kafka_s3.engine.log.formats import check_format
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged, ObjectMissing
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectInfo, ObjectStore

FORMAT: Final = 1
REMEDY: Final = "Delete the folder {folder}: it is built again from the commit entries, which are what counts."
READ_THREADS: Final = 8
AHEAD: Final = 256
AHEAD_BYTES: Final = 8 << 20
"""What is fetched before it is asked for: so many entries at most, and so much JSON but for a single entry that is larger."""


def read_entries(
    store: ObjectStore, paths: StatePaths, *, after: int = -1
) -> Generator[tuple[str, CommitEntry], None, None]:
    """The entries with a version above `after` and their keys, in order, each as it lies in the bucket. Raises LogDamaged, StorageError."""
    with closing(scan_entries(store, paths, after=after)) as found:
        for key, entry in found:
            if isinstance(entry, LogDamaged):
                raise entry
            yield key, entry


def scan_entries(
    store: ObjectStore, paths: StatePaths, *, after: int = -1
) -> Generator[tuple[str, CommitEntry | LogDamaged], None, None]:
    """The same for those who go on behind a damaged entry: the error comes in its place."""

    def read(info: ObjectInfo) -> tuple[str, CommitEntry | LogDamaged]:
        try:
            return info.key, read_entry(store.get(info.key), key=info.key)
        except LogDamaged as error:
            return info.key, error

    found = store.list(f"{paths.root}commits/", start_after=paths.commit(after) if after >= 0 else "")
    with ThreadPool(READ_THREADS) as pool:
        for window in _windows(found):
            yield from pool.each(read, window)


def _windows(found: Iterable[ObjectInfo]) -> Iterator[list[ObjectInfo]]:
    window: list[ObjectInfo] = []
    size = 0
    for info in found:
        if window and (len(window) == AHEAD or size + info.size > AHEAD_BYTES):
            yield window
            window, size = [], 0
        window.append(info)
        size += info.size
    if window:
        yield window


@dataclass(frozen=True, slots=True)
class Stretch:
    """The entries from version `first` to `last`, both included.

    `commits` are the ids of these two entries, `committed_at` their times, `files` the sum of their totals; `rows` and `sha256` (of the
    object's bytes) are by table.
    """

    first: int
    last: int
    commits: tuple[str, str]
    committed_at: tuple[str, str]
    files: int
    rows: Mapping[str, int]
    sha256: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The stretches of a log in order: the first begins with entry 0, each other where the one before ends."""

    stretches: tuple[Stretch, ...] = ()

    @property
    def last(self) -> int:
        """The last version that is in a stretch, -1 where none is."""
        return self.stretches[-1].last if self.stretches else -1

    def to_json(self) -> bytes:
        """The manifest as stored."""
        document = {"format": FORMAT, "stretches": [asdict(stretch) for stretch in self.stretches]}
        return json.dumps(document, separators=(",", ":")).encode()


def read_manifest(store: ObjectStore, paths: StatePaths) -> Manifest:
    """The manifest of a log, empty where there is none. Raises LogDamaged, also where it is about another log; StorageError."""
    key = paths.log_manifest()
    try:
        found = _manifest(store.get(key), key, REMEDY.format(folder=paths.log_tables()))
    except ObjectMissing:
        return Manifest()
    if found.stretches and not _is_of(store, paths, found.stretches[-1]):
        raise LogDamaged(
            f"{key} is about another log than the entries beside it. {REMEDY.format(folder=paths.log_tables())}"
        )
    return found


def last_closed(store: ObjectStore, paths: StatePaths) -> int:
    """The last version that a manifest names, -1 where none can be read: a hint where to look, no more. Raises StorageError."""
    try:
        return _manifest(store.get(paths.log_manifest()), paths.log_manifest(), "").last
    except (ObjectMissing, LogDamaged):
        return -1


def _manifest(content: bytes, key: str, remedy: str) -> Manifest:
    try:
        document = json.loads(content)
        check_format(document, key, newest=FORMAT)
        found = Manifest(tuple(_stretch(one) for one in document["stretches"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(f"{key} cannot be read ({type(error).__name__}). {remedy}") from error
    ends = [-1, *(stretch.last for stretch in found.stretches)]
    if any(stretch.first != end + 1 for stretch, end in zip(found.stretches, ends, strict=False)):
        raise LogDamaged(f"{key} has stretches that do not follow one another. {remedy}")
    return found


def _stretch(document: dict[str, Any]) -> Stretch:
    pairs = {name: tuple(document[name]) for name in ("commits", "committed_at")}
    found = Stretch(**{**document, **pairs})
    numbers = [found.first, found.last, found.files, *found.rows.values()]
    texts = [*found.commits, *found.committed_at, *found.sha256.values()]
    if not all(type(one) is int and one >= 0 for one in numbers) or found.last < found.first:
        raise ValueError("numbers of a stretch")
    if not all(isinstance(one, str) for one in texts) or (len(found.commits), len(found.committed_at)) != (2, 2):
        raise ValueError("texts of a stretch")
    return found


def _is_of(store: ObjectStore, paths: StatePaths, stretch: Stretch) -> bool:
    """Whether the log beside it has the stretch's last entry."""
    key = paths.commit(stretch.last)
    try:
        return read_entry(store.get(key), key=key).commit_id == stretch.commits[1]
    except ObjectMissing:
        return False
