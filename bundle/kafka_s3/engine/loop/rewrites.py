"""How do objects take the place of others? The log's owner commits what is asked for, and deletes the originals when their time is over.

1. Requests (`engine.log.rewrites`) are looked for at the start, and when the sink is asked to. One that holds becomes an entry, by the
   steps of every entry: it is put, its uploads are completed, a marker says so, followers catch up. From the entry on the new objects
   count, and the old ones do not.
2. `grace_ms` after the entry the originals are deleted, then an entry says so. The driver's clock and the store's both have to agree that
   the time is over: either may be wrong. Between publication and deletion both are listed. Tables
   that follow the log have to have followed to the entry by then (`followed`): until then they name the originals.

A death anywhere leaves what the next owner goes on with: a request without an entry, an entry whose uploads are pending, originals of which
some are deleted. What the bucket refuses holds nothing else up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_s3.engine.log.entry import LAST_OFFSET, CommitEntry, EntryKind, iso_ms, read_entry
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import RequestState, judge_request, originals, rewrite_requests
from kafka_s3.model.errors import LogDamaged, ObjectMissing, PreconditionFailed, StorageError, StorageUnavailable
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import RewriteSummary
from kafka_s3.store.store import ObjectStore

REST_MS: Final = 3_600_000
"""How long originals are left alone that the bucket did not let go."""
MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
THREADS: Final = 8
CHECKED_MS: Final = 5_000
"""So long a driver trusts that it still owns the log, while it deletes: whoever is held up for longer asks again."""
_log = logging.getLogger(__name__)


FollowedVersion = Callable[[Iterable[str]], int]
"""Gives the entry up to which the tables of all these topics have come. Raises LogDamaged, StorageError."""


def no_tables(_: Iterable[str]) -> int:
    """Of a sink whose objects no table names."""
    return LAST_OFFSET


@dataclass
class Rewrites:
    """The rewrites of one sink. `commit` takes an entry through all steps; `warn` says what is left undone, and why; `done` what is done.

    Not thread-safe.
    """

    log: CommitLog
    commit: Callable[[CommitEntry], None]
    warn: Callable[[str], None]
    grace_ms: int = DAY_MS
    followed: FollowedVersion = no_tables
    done: Callable[[RewriteSummary], None] = lambda done: None
    _looks: bool = True
    _noticed: str = ""
    _rests_until_ms: int = 0
    _settled: set[str] = field(default_factory=set)

    def attend(self) -> None:
        """Does what is due. Raises CommitError, and StorageUnavailable where an entry is not in all places yet."""
        now = self.log.clock_ms()
        if self._looks:
            self.settle_requests()
        if self._rests_until_ms - REST_MS > now or now >= self._rests_until_ms:
            self.delete_originals()

    def look(self) -> None:
        """Requests are looked for next."""
        self._looks = True

    def notice(self, asked: str) -> None:
        """Requests are looked for next, if this is another asking than the last."""
        self._looks = self._looks or asked != self._noticed
        self._noticed = asked

    def settle_requests(self) -> None:
        """Commits the requests that hold, and ends the others. Raises as `attend`."""
        self._looks = True
        try:
            found = [one for one in rewrite_requests(self.log.store, self.log.paths) if one[0] not in self._settled]
        except (LogDamaged, StorageError) as error:
            if not isinstance(error, StorageUnavailable):
                self._looks = False
                self.warn(f"Requests for rewrites cannot be read; they are looked for again at the next time: {error}")
            return
        self._looks = not all([self._settle(key, request) for key, request in found])

    def _settle(self, key: str, request: CommitEntry) -> bool:
        """Commits or ends a request; whether it needs no further look."""
        try:
            state, why = self._judged(request)
        except StorageUnavailable as error:
            _log.info("a rewrite waits", extra={"facts": {"request": request.commit_id, "reason": str(error)}})
            return False
        if state is RequestState.OPEN:
            about = self.log.new_entry(EntryKind.REWRITE)
            own = {name: getattr(about, name) for name in ("version", "epoch", "committed_at", "sink")}
            self.commit(replace(request, **own))
            replaced = sum(len(swap.keys) for swap in request.swaps)
            self.done(RewriteSummary(about.version, request.reason, made=len(request.files), replaced=replaced))
        try:
            if state is RequestState.REFUSED:
                self.log.check_owner(
                    self.log.state.version
                )  # what a driver does not know that was replaced is no reason
                self.warn(f"A rewrite asked for by {request.driver} is not done: {why} Its uploads are ended.")
                end_uploads(self.log.store, request)
            self.log.store.delete(key)
        except StorageUnavailable:  # the next look finds the request settled
            return False
        except StorageError as error:
            self.warn(f"{key} is settled, but could not be removed: {error} Grant s3:DeleteObject on it, or delete it.")
        self._settled.add(key)
        return True

    def _judged(self, request: CommitEntry) -> tuple[RequestState, str]:
        if request.sink != self.log.paths.sink or request.version > self.log.state.version:
            return RequestState.REFUSED, "It is about another log than the one that is here."
        state, why = judge_request(request, self.log.entries(after=request.version))
        if state is RequestState.OPEN and not uploads_exist(self.log.store, request):
            return RequestState.REFUSED, "Its uploads are gone."
        return state, why

    def delete_originals(self) -> None:
        """Deletes the originals whose time is over, and says so in the log. Raises as `attend`."""
        now = self.log.clock_ms()
        unseen = {one.version for one in self.log.waiting}  # what takes their place cannot be seen yet
        due = [
            version
            for version, one in self.log.state.replaced.items()
            if version not in unseen and now - iso_ms(one.committed_at) >= self.grace_ms
        ]
        due = self._due_by_store([version for version in due if self._is_followed(version, now)], now)
        gone = {version: keys for version in due if (keys := self._delete(version))}
        if gone:
            entry = self.log.new_entry(EntryKind.REWRITE, deleted=tuple(gone))
            self.commit(entry)
            self.done(RewriteSummary(entry.version, deleted=sum(gone.values())))

    def _due_by_store(self, versions: Sequence[int], now_ms: int) -> list[int]:
        """Return the versions whose grace is over by the store's clock."""
        if not versions:
            return []
        store, paths = self.log.store, self.log.paths
        try:
            store.put(paths.clock(), b"")
            store_ms = _modified_ms(store, paths.clock())
            waits = {
                version: self.grace_ms - store_ms + _modified_ms(store, paths.commit(version)) for version in versions
            }
        except StorageError as error:
            _log.info("Originals are deleted later: %s", error)
            waits = dict.fromkeys(versions, MINUTE_MS)
        if min(waits.values()) > 0:
            self._rests_until_ms = now_ms + min(*waits.values(), REST_MS)
        return [version for version, wait_ms in waits.items() if wait_ms <= 0]

    def _is_followed(self, version: int, now_ms: int) -> bool:
        """Whether no table names the originals of an entry any more."""
        topics = {tp.topic for tp in self.log.state.replaced[version].topic_partitions}
        try:
            followed = self.followed(topics) >= version
        except (StorageError, LogDamaged) as error:
            _log.info("originals are deleted later", extra={"facts": {"version": version, "reason": str(error)}})
            followed = False
        if not followed:
            self._rests_until_ms = now_ms + MINUTE_MS
        return followed

    def _delete(self, version: int) -> int:
        """Deletes the originals of an entry; gives how many, 0 where not all of them are gone."""
        key = self.log.paths.commit(version)
        try:
            entry = read_entry(self.log.store.get(key), key=key)
            keys = originals(entry, self.log.state.replaced[version].topic_partitions)
            owned = _Owned(self.log)
            with ThreadPool(THREADS) as pool:
                list(pool.each(owned.delete, keys))
        except StorageUnavailable as error:
            _log.info("originals are deleted later", extra={"facts": {"version": version, "reason": str(error)}})
            return 0
        except (StorageError, LogDamaged) as error:
            self._rests_until_ms = self.log.clock_ms() + REST_MS
            self.warn(
                f"Objects that entry {version} has replaced stay in the bucket, where listings find their records twice: {error} Grant "
                "s3:DeleteObject on them; they are tried again within the hour."
            )
            return 0
        _log.info("originals deleted", extra={"facts": {"version": version, "objects": len(keys)}})
        return len(keys)


@dataclass
class _Owned:
    """Deletes what its driver may delete: each time it has made sure, at most `CHECKED_MS` ago, that it still owns the log."""

    log: CommitLog
    _checked_ms: int = -CHECKED_MS
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delete(self, key: str) -> None:
        """Delete what is at the key now; whatever takes its place meanwhile is another driver's. Raises Fenced, StorageError."""
        info = self.log.store.head(key)
        if info is None:
            return
        with self._lock:
            if not 0 <= self.log.clock_ms() - self._checked_ms < CHECKED_MS:
                self.log.check_owner(self.log.state.version)
                self._checked_ms = self.log.clock_ms()
        with suppress(PreconditionFailed):
            self.log.store.delete(key, info.etag)


def _modified_ms(store: ObjectStore, key: str) -> int:
    info = store.head(key)
    if info is None:
        raise ObjectMissing(f"There is no object {key}.")
    return info.modified_ms


def uploads_exist(store: ObjectStore, request: CommitEntry) -> bool:
    """Whether all uploads of a request are pending. Raises StorageError."""
    with ThreadPool(THREADS) as pool:
        return all(pool.each(lambda file: store.upload_exists(file.key, file.upload.id), request.files))


def end_uploads(store: ObjectStore, request: CommitEntry) -> None:
    """Ends the uploads of a request that never becomes an entry. Raises StorageError."""
    for file in request.files:
        store.abort_upload(file.upload.key, file.upload.id)
