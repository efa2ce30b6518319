"""How does a set of files become part of the bucket exactly once? The commit protocol, and the log that is the product's only state.

1. Tasks upload each closed file as a multipart upload and do not complete it. Nothing is visible. They report key, upload id and part
   ETags.
2. The driver writes commit entry N with `If-None-Match: *` (`append`). This is the commit: afterwards the files count, before it nothing
   does. Where an entry N exists already it is read back: the same `commit_id` means our own lost answer; otherwise another driver owns
   the sink, and this one stops as fenced.
3. The driver completes the uploads of entry N (`publish`, in parallel); a lost answer is found out by HEAD and the known ETag. A marker
   says that they are visible (`published`).
4. Only then may entry N+1 be written. So at most the last entry can be unpublished.
5. Start or restart (`claim`): an epoch entry fences any older driver. Before it the last entry is published, where neither a marker nor
   a successor says that it is: what is still pending is completed; where an upload is gone (a lifecycle rule, an abort) the file is
   written again from Kafka by its recorded offsets. Where Kafka has them no more, the start ends with an error that names them, or the
   epoch entry records a gap. What is published is never looked at again: it may be archived, compacted or rewritten.
6. Followers (mirrored group offsets, dead letter topic, tables) come after 3, are idempotent by N and catch up.

`driver.committer` goes these steps, for the sink as for what is done by hand.

Layout: `<state.prefix>/<sink>/commits/%020d.json`, and `checkpoints/%020d.json` with the state, at the latest 100 entries after the one
before, so that a start lists little.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from kafka_s3.commit.again import Rewrite, agreed, gaps_of, has_other_bytes, with_files
from kafka_s3.commit.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.commit.manifest import last_closed
from kafka_s3.commit.published import is_published
from kafka_s3.commit.reading import read_entries
from kafka_s3.commit.state import LogState, checkpoint_json, read_checkpoint
from kafka_s3.model.errors import (
    CommitUnknown,
    Fenced,
    LogDamaged,
    ObjectMissing,
    PreconditionFailed,
    StorageUnavailable,
    UploadMissing,
)
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import Gap
from kafka_s3.model.threads import ThreadPool
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

CHECKPOINT_EVERY: Final = 100
LISTED: Final = 1000
"""Keys of a page of a listing."""
NEAR: Final = 10 * CHECKPOINT_EVERY
"""So many entries before the end of the last closed stretch there is a checkpoint for certain."""
PUBLISH_THREADS: Final = 8
APPEND_TRIES: Final = 3
Publish = Callable[[CommitEntry], Sequence[Gap]]
"""Makes the files of a last entry visible; gives what it lost."""
_log = logging.getLogger(__name__)


class CommitLog:
    """One sink's log. Reading is free for all; writing needs `claim` first."""

    def __init__(self, store: ObjectStore, paths: StatePaths, *, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._paths = paths
        self.clock_ms = clock_ms
        self._epoch = 0
        self._checkpointed = -1
        self._driver = f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"
        self.state = LogState()
        self.last: CommitEntry | None = None

    @property
    def store(self) -> ObjectStore:
        """The bucket of the log and of the sink's objects."""
        return self._store

    @property
    def paths(self) -> StatePaths:
        """Where the log lies."""
        return self._paths

    def load(self) -> LogState:
        """Reads the state: the newest checkpoint, then the entries behind it. Raises LogDamaged."""
        self.state, self.last = LogState(), None
        checkpoint = self._newest_checkpoint()
        if checkpoint:
            self.state, self.last = read_checkpoint(self._store.get(checkpoint), key=checkpoint)
        self._checkpointed = self.state.version
        for key, entry in read_entries(self._store, self._paths, after=self.state.version):
            self._check_follows(key, entry)
            self._advance(entry)
        return self.state

    def _newest_checkpoint(self) -> str:
        """The key of the newest checkpoint, blank where there is none; of a long log only those beside its open end are listed."""
        folder = f"{self._paths.root}checkpoints/"
        found = (info.key for info in self._store.list(folder))
        some = list(islice(found, LISTED))
        if len(some) == LISTED:
            near = self._paths.checkpoint(max(last_closed(self._store, self._paths) - NEAR, 0))
            beside = [info.key for info in self._store.list(folder, start_after=near)] if near > some[-1] else []
            some = beside or [some[-1], *found]
        return some[-1] if some else ""

    def entries(self, *, after: int = -1) -> Iterator[CommitEntry]:
        """The entries with a version above `after`, in order; those of closed stretches without the ids of their uploads."""
        from kafka_s3.commit.history import read_history  # loads pyarrow

        for _, entry in read_history(self._store, self._paths, after=after):
            yield entry

    def entries_since(self, after: int) -> Iterable[CommitEntry]:
        """The entries after a version, none where there are none; the last one is at hand."""
        if self.state.version <= after:
            return []
        return [self.last] if self.last is not None and self.last.version == after + 1 else self.entries(after=after)

    def claim(self, *, cluster_id: str, publish: Publish) -> LogState:
        """Takes the sink over: publishes what the last driver left unpublished, then fences it with an epoch entry."""
        while True:
            self.load()
            lost: Sequence[Gap] = ()
            if self.last is not None and not is_published(self._store, self._paths, self.last):
                _log.info(
                    "publishing what the last driver left",
                    extra={"facts": {"version": self.last.version, "objects": len(self.last.files)}},
                )
                lost = publish(self.last)
            self._epoch = self.state.epoch + 1
            try:
                self.append(self.new_entry(EntryKind.EPOCH, cluster_id=cluster_id, gaps=tuple(lost)))
            except Fenced as error:  # the other driver was still writing: read on, publish its entry, try again
                _log.info("another driver was faster, claiming again", extra={"facts": {"reason": str(error)}})
                continue
            _log.info(
                "claimed",
                extra={"facts": {"epoch": self._epoch, "version": self.state.version, "driver": self._driver}},
            )
            return self.state

    def new_entry(self, kind: EntryKind, **members: Any) -> CommitEntry:
        """The next entry, not written yet."""
        committed_at = datetime.fromtimestamp(self.clock_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        return CommitEntry(
            version=self.state.version + 1,
            commit_id=str(uuid.uuid4()),
            epoch=self._epoch,
            sink=self._paths.sink,
            kind=kind,
            committed_at=committed_at.replace("+00:00", "Z"),
            driver=self._driver,
            **members,
        )

    def append(self, entry: CommitEntry) -> None:
        """Commits the entry. Raises Fenced where another driver wrote that version, CommitUnknown where the store does not answer."""
        key = self._paths.commit(entry.version)
        for _ in range(APPEND_TRIES):
            try:
                self._store.put_new(key, entry.to_json())
                break
            except PreconditionFailed:
                self._confirm(key, entry)
                break
            except StorageUnavailable as error:
                unknown = error
                _log.info("entry is put again", extra={"facts": {"version": entry.version, "reason": str(error)}})
        else:
            raise CommitUnknown(
                f"It cannot be told whether commit entry {key} was written: {unknown} The next attempt, or a restart, finds out; "
                "nothing is lost."
            ) from unknown
        self._advance(entry)

    def publish(self, entry: CommitEntry, *, rewrite: Rewrite) -> list[Gap]:
        """Makes every file of the entry visible, and gives the offsets of those that `rewrite` calls lost. Raises what that raises."""
        entry = self.last if self.last is not None and self.last.commit_id == entry.commit_id else entry
        pointers = [file for file in entry.files if file.role is Role.POINTER]  # after what they point to
        others = [file for file in entry.files if file.role is not Role.POINTER]
        with ThreadPool(PUBLISH_THREADS) as pool:
            gone = [file for wave in (others, pointers) for file in pool.each(self._complete, wave) if file is not None]
        if not gone:
            return []
        self.check_owner(entry.version)
        _log.warning(
            "uploads are gone, their files are made again",
            extra={"facts": {"version": entry.version, "files": [file.key for file in gone]}},
        )
        made = rewrite(entry, gone)
        for file in self._recounted(entry, made.files):
            self._store.complete_upload(file.upload)
        for file in gone:  # where another driver sent parts into an upload, it is still there
            self._store.abort_upload(file.upload.key, file.upload.id)
        return gaps_of(entry, made.lost)

    def _recounted(self, entry: CommitEntry, made: Sequence[DataFile]) -> Sequence[DataFile]:
        """The files to complete; where their bytes are others than before, the entry says so from now on."""
        if not has_other_bytes(entry, made):
            return made
        files = agreed(self._store, self._paths, entry, made=made)
        counted = with_files(entry, files)
        self._store.put(self._paths.commit(entry.version), counted.to_json())
        self.state = self.state.recounted(counted.totals.bytes - entry.totals.bytes)
        self.last = counted
        return files

    def check_owner(self, version: int) -> None:
        """Raises Fenced where an entry behind `version` exists that is not ours: its writer has published everything before it."""
        following = self._store.head(self._paths.commit(version + 1))
        if following is not None:
            _log.info("fenced", extra={"facts": {"epoch": self._epoch, "version": version}})
            raise Fenced(
                f"Sink {self._paths.sink}: commit entry {version + 1} was written by another driver. "
                "This driver stops; nothing that it did after the other took over counts."
            )

    def checkpoint(self) -> None:
        """Writes the state for quick starts, once 100 entries came since the last one; to be called when all entries are published."""
        if self.last is not None and self.state.version - self._checkpointed >= CHECKPOINT_EVERY:
            self._store.put(self._paths.checkpoint(self.state.version), checkpoint_json(self.state, self.last))
            self._checkpointed = self.state.version

    def _complete(self, file: DataFile) -> DataFile | None:
        try:
            self._store.complete_upload(file.upload)
        except UploadMissing:
            return file
        return None

    def _confirm(self, key: str, entry: CommitEntry) -> None:
        try:
            found = read_entry(self._store.get(key), key=key)
        except ObjectMissing as error:
            raise CommitUnknown(f"Commit entry {key} was refused as existing, but is not there.") from error
        except (
            StorageUnavailable
        ) as error:  # not to be tried again as it is: the next attempt would meet our own entry as a stranger's
            raise CommitUnknown(
                f"It cannot be told who wrote commit entry {key}: {error} The next attempt, or a restart, finds out; nothing is lost."
            ) from error
        if found.commit_id != entry.commit_id:
            _log.info("fenced", extra={"facts": {"epoch": entry.epoch, "by_epoch": found.epoch, "by": found.driver}})
            raise Fenced(
                f"Sink {entry.sink} is owned by another driver now ({found.driver}, epoch {found.epoch}, entry {found.version} at "
                f"{found.committed_at}); this driver (epoch {entry.epoch}) stops. Run one driver per sink name."
            )

    def _check_follows(self, key: str, entry: CommitEntry) -> None:
        """An entry left out would take positions back, and records would be written twice."""
        wanted = self._paths.commit(self.state.version + 1)
        if self._paths.commit(entry.version) != key:
            raise LogDamaged(
                f"Commit entry {key} is damaged: it calls itself entry {entry.version}. "
                "Restore the object from a bucket version or backup."
            )
        if key != wanted:
            raise LogDamaged(
                f"Commit entry {wanted} is missing, though {key} is there. Restore the object from a bucket version or backup, "
                "and keep lifecycle rules away from the sink's state."
            )

    def _advance(self, entry: CommitEntry) -> None:
        self.state = self.state.after(entry)
        self.last = entry
