"""Which pending uploads does nobody need any more? Those of a sink's own keys that no commit waits for and that are not at work.

A task that dies leaves its uploads behind: invisible, but paid for. Kept are those of the last commit entry, which may still have to be
completed, those of open files that the sink goes on with, and young ones, which a running sink may be about to commit. All others
cannot become visible any more. States of open files that nobody goes on with are removed, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import rewrite_requests
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.model.errors import ConfigError, Problem, StorageError, StorageUnavailable
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import object_names, state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ListedUpload, ObjectStore

LISTING_RIGHT: Final = "s3:ListBucketMultipartUploads"
UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class UploadState(StrEnum):
    """What becomes of a pending upload."""

    COMMITTED = "kept (committed)"
    YOUNG = "kept (young)"
    OPEN = "kept (open file)"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class JudgedUpload:
    """A pending upload of this sink, and what becomes of it."""

    upload: ListedUpload
    verdict: UploadState


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep has found: pending uploads, of which it has `aborted` so many, and `states` of open files that nobody goes on with.

    `done` is False where it only looked.
    """

    uploads: tuple[JudgedUpload, ...]
    aborted: int
    states: int
    done: bool

    def lines(self) -> list[str]:
        """The totals, for a person."""
        fate = "removed" if self.done else "would be removed (--dry-run)"
        states = [f"{self.states} states of open files that nobody goes on with: {fate}"] if self.states else []
        return [summary(self.uploads, self.aborted), *states]


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Finds and aborts the abandoned uploads of one sink. `topics` are the configured ones; the log adds those that it knows."""

    store: ObjectStore
    log: CommitLog
    data_keys: DataKeys
    paths: StatePaths
    topics: tuple[str, ...]
    clock_ms: Callable[[], int]

    def judged(self, *, older_than_ms: int) -> list[JudgedUpload]:
        """Every pending upload of the sink, in order of key. Raises StorageError without the right to list, LogDamaged."""
        state = self.log.load()
        topics = {*self.topics, *state.topic_ids, *(tp.topic for tp in state.progress)}
        uploads = self._listed(topics)
        requests = rewrite_requests(self.store, self.paths)  # before the log: what is not asked for any more is in it
        asked = {(file.key, file.upload.id) for _, request in requests for file in request.files}
        self.log.load()  # after the listing: what was committed in between is in the entry that is looked at
        kept = self._open_files.uploads_in_use(younger_than_ms=older_than_ms, now_ms=self.clock_ms())
        kept |= asked
        return judge(uploads, self.log.last, kept=kept, younger_than_ms=older_than_ms, now_ms=self.clock_ms())

    def preview(self, *, older_than_ms: int) -> Swept:
        """What `sweep` would do. Raises as `judged`, HintUnusable."""
        judged = tuple(self.judged(older_than_ms=older_than_ms))
        states = list(self._open_files.overtaken(older_than_ms=older_than_ms, now_ms=self.clock_ms()))
        return Swept(judged, 0, len(states), done=False)

    def sweep(self, *, older_than_ms: int) -> Swept:
        """Aborts the abandoned uploads, and removes the states that nobody goes on with. Raises as `judged`, HintUnusable."""
        judged = tuple(self.judged(older_than_ms=older_than_ms))
        aborted = self.abort(judged)
        states = self._open_files.remove_overtaken(older_than_ms=older_than_ms, now_ms=self.clock_ms())
        return Swept(judged, aborted, states, done=True)

    @property
    def _open_files(self) -> OpenFileStates:
        return OpenFileStates(self.store, self.paths)

    def abort(self, judged: Iterable[JudgedUpload]) -> int:
        """Aborts the abandoned ones, and says how many; those that are gone already count. Raises StorageError."""
        abandoned = [one.upload for one in judged if one.verdict is UploadState.ABANDONED]
        for upload in abandoned:
            self.store.abort_upload(upload.key, upload.id)
        return len(abandoned)

    def _listed(self, topics: set[str]) -> list[ListedUpload]:
        found: dict[tuple[str, str], ListedUpload] = {}
        for prefix in dict.fromkeys((self.paths.root, *self.data_keys.prefixes(topics))):
            for upload in self._pending(prefix):
                if upload.key.startswith(self.paths.root) or self.data_keys.owner(upload.key, topics) is not None:
                    found[upload.key, upload.id] = upload
        return sorted(found.values(), key=lambda upload: (upload.key, upload.started_ms, upload.id))

    def _pending(self, prefix: str) -> list[ListedUpload]:
        try:
            return list(self.store.pending(prefix))
        except StorageUnavailable:
            raise
        except StorageError as error:
            text = (
                f"{error} Nothing was aborted: sweeping needs {LISTING_RIGHT} on the bucket itself, not on its objects."
            )
            raise StorageError(text) from None


def judge(
    uploads: Sequence[ListedUpload],
    last: CommitEntry | None,
    *,
    kept: AbstractSet[tuple[str, str]] = frozenset(),
    younger_than_ms: int,
    now_ms: int,
) -> list[JudgedUpload]:
    """What becomes of each upload, given the log's last entry (None: there is no log); `kept` are those of open files (key, id)."""
    waiting = {(file.upload.key, file.upload.id) for file in last.uncompleted} if last is not None else set()

    def verdict(upload: ListedUpload) -> UploadState:
        if (upload.key, upload.id) in waiting:
            return UploadState.COMMITTED
        if (upload.key, upload.id) in kept:
            return UploadState.OPEN
        return UploadState.YOUNG if now_ms - upload.started_ms < younger_than_ms else UploadState.ABANDONED

    return [JudgedUpload(upload, verdict(upload)) for upload in uploads]


def sweeper_of(settings: Settings, store: ObjectStore, *, clock_ms: Callable[[], int]) -> Sweeper:
    """The sweeper of resolved settings."""
    paths = state_paths(settings)
    return Sweeper(
        store=store,
        log=CommitLog(store, paths, clock_ms=clock_ms),
        data_keys=object_names(settings),
        paths=paths,
        topics=settings.names("topics"),
        clock_ms=clock_ms,
    )


def sweep_sink(settings: Settings, *, older_than: str, dry_run: bool, clock_ms: Callable[[], int]) -> Swept:
    """Sweeps after the sink of resolved settings, or shows what that would do. Raises ConfigError for an age that is none."""
    age_ms = duration_ms(older_than)
    with closing(S3Store(store_options(settings))) as store:
        sweeper = sweeper_of(settings, store, clock_ms=clock_ms)
        return (sweeper.preview if dry_run else sweeper.sweep)(older_than_ms=age_ms)


def duration_ms(text: str) -> int:
    """`90s`, `30m`, `24h`, `7d` as milliseconds. Raises ConfigError."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip(), re.ASCII)
    if not found or int(found[1]) == 0:
        raise ConfigError(
            [Problem("--older-than", text, "is not an age above zero.", "Write a number and a unit: 30m, 24h, 7d.")]
        )
    return int(found[1]) * UNITS_MS[found[2]]


def age_text(ms: int) -> str:
    """An age in its largest whole unit."""
    return next((f"{ms // size}{unit}" for unit, size in reversed(UNITS_MS.items()) if ms >= size), "0s")


def summary(judged: Sequence[JudgedUpload], aborted: int) -> str:
    """The totals, in one line."""
    counts = Counter(one.verdict for one in judged)
    left = counts[UploadState.ABANDONED] - aborted
    parts = [
        f"{aborted} aborted",
        f"{counts[UploadState.YOUNG]} young and kept",
        f"{counts[UploadState.COMMITTED]} committed and kept",
    ]
    if counts[UploadState.OPEN]:
        parts.append(f"{counts[UploadState.OPEN]} of open files and kept")
    if left:
        parts.insert(1, f"{left} would be aborted (--dry-run)")
    return f"{len(judged)} pending uploads of this sink: {', '.join(parts)}"
