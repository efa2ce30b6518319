"""How does a set of files become part of the bucket exactly once? The commit protocol, and the log that is the product's only state.

1. Tasks upload each closed file as a multipart upload and do not complete it. Nothing is visible. They report key, upload id and part
   ETags.
2. The driver writes commit entry N with `If-None-Match: *` (`append`). This is the commit: afterwards the files count, before it nothing
   does. Where an entry N exists already it is read back: the same `commit_id` means our own lost answer; otherwise another driver owns
   the sink, and this one stops as fenced.
3. The driver completes the uploads of entry N (`publish`, in parallel); a lost answer is found out by HEAD and the known ETag. A marker
   says that they are visible (`published`).
4. Only then may entry N+1 be written. A file whose upload cannot be completed (its prefix is throttled, say) does not hold the others:
   entry N+1 names it as waiting, and so does each later one until it is visible. So the last entry names all uploads that may be pending.
5. Start or restart (`claim`): an epoch entry fences any older driver. Before it the last entry is published, where neither a marker nor
   a successor says that it is: what is still pending is completed; where an upload is gone (a lifecycle rule, an abort) the file is
   written again from Kafka by its recorded offsets. Where Kafka has them no more, the file's topic-partition stops with an error that names
   them, or an entry records a gap. What is published is never looked at again: it may be archived, compacted or rewritten.
6. Followers (mirrored group offsets, dead letter topic, tables) come after 3, are idempotent by N and catch up.

`engine.loop.committer` goes these steps, for the sink as for what is done by hand.

Layout: `<state.prefix>/<sink>/commits/%020d.json`, and `checkpoints/%020d.json` with the state, at the latest 100 entries after the one
before, so that a start lists little.
"""

from __future__ import annotations

import json
import logging
import socket
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, WaitingFile, committed_ms, read_entry
from kafka_s3.engine.log.fold import LogState, checkpoint_json, read_checkpoint
from kafka_s3.engine.log.reading import last_closed, read_entries
from kafka_s3.engine.log.remade import Remake, agree_on_remade, gaps_of_lost, with_files
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import (
    CommitUnknown,
    Fenced,
    LogDamaged,
    ObjectMissing,
    PreconditionFailed,
    SinkError,
    StorageError,
    StorageUnavailable,
    UploadMissing,
)
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import Gap, TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.store.store import ObjectStore


def mark_published(store: ObjectStore, paths: StatePaths, entry: CommitEntry) -> None:
    """Notes that the objects of an entry, and those that waited, are visible; without any there is nothing to note. Raises StorageError."""
    if entry.uncompleted:
        marker = {"version": entry.version, "commit_id": entry.commit_id}
        store.put(paths.published(entry.epoch), json.dumps(marker, separators=(",", ":")).encode())


def is_published(store: ObjectStore, paths: StatePaths, entry: CommitEntry) -> bool:
    """Whether the objects that a log's last entry names are known to be visible. Raises LogDamaged, StorageError."""
    if not entry.uncompleted:
        return True
    key = paths.published(entry.epoch)
    try:
        return str(json.loads(store.get(key))["commit_id"]) == entry.commit_id
    except ObjectMissing:
        return False
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(
            f"The marker {key} cannot be read ({type(error).__name__}). Delete it: the uploads of entry {entry.version} are then looked at "
            "once more."
        ) from error


CHECKPOINT_EVERY: Final = 100
LISTED: Final = 1000
"""Keys of a page of a listing."""
NEAR: Final = 10 * CHECKPOINT_EVERY
"""So many entries before the end of the last closed stretch there is a checkpoint for certain."""
PUBLISH_THREADS: Final = 8
APPEND_TRIES: Final = 3
FINDS_OUT: Final = "The next attempt, or a restart, finds out; nothing is lost."
Publish = Callable[[CommitEntry], Sequence[Gap]]
"""Makes the files of a last entry visible, as far as that is possible now; gives what it lost."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """What became of files that were to be made visible: the offsets of those that are lost, and why others are not visible yet."""

    gaps: tuple[Gap, ...] = ()
    failed: tuple[tuple[WaitingFile, SinkError], ...] = ()


class CommitLog:
    """One sink's log, in the `store` of its objects, below `paths`. Reading is free for all; writing needs `claim` first."""

    def __init__(self, store: ObjectStore, paths: StatePaths, *, clock_ms: Callable[[], int]) -> None:
        self.store = store
        self.paths = paths
        self.clock_ms = clock_ms
        self._epoch = 0
        self._checkpointed = -1
        self._driver = f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"
        self.state = LogState()
        self.last: CommitEntry | None = None
        self.waiting: tuple[WaitingFile, ...] = ()

    def load(self) -> LogState:
        """Reads the state: the newest checkpoint, then the entries behind it. Raises LogDamaged."""
        self.state, self.last, self.waiting = LogState(), None, ()
        checkpoint = self._newest_checkpoint()
        if checkpoint:
            self.state, self.last = read_checkpoint(self.store.get(checkpoint), key=checkpoint)
        self._checkpointed = self.state.version
        for key, entry in read_entries(self.store, self.paths, after=self.state.version):
            self._check_follows(key, entry)
            self._advance(entry)
        return self.state

    def catch_up(self) -> None:
        """Reads the entries that came since; where none did, that is one small request. Raises LogDamaged, StorageError."""
        if self.store.head(self.paths.commit(self.state.version + 1)) is None:
            return
        for key, entry in read_entries(self.store, self.paths, after=self.state.version):
            self._check_follows(key, entry)
            self._advance(entry)

    def _newest_checkpoint(self) -> str:
        """The key of the newest checkpoint, blank where there is none; of a long log only those beside its open end are listed."""
        folder = f"{self.paths.root}checkpoints/"
        found = (info.key for info in self.store.list(folder))
        some = list(islice(found, LISTED))
        if len(some) == LISTED:
            near = self.paths.checkpoint(max(last_closed(self.store, self.paths) - NEAR, 0))
            beside = [info.key for info in self.store.list(folder, start_after=near)] if near > some[-1] else []
            some = beside or [some[-1], *found]
        return some[-1] if some else ""

    def entries(self, *, after: int = -1) -> Iterator[CommitEntry]:
        """The entries with a version above `after`, in order; those of closed stretches without the ids of their uploads."""
        from kafka_s3.engine.log.history import read_history  # loads pyarrow

        yield from read_history(self.store, self.paths, after=after)

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
            if self.last is not None and not is_published(self.store, self.paths, self.last):
                facts = {"version": self.last.version, "objects": len(self.last.uncompleted)}
                _log.info("publishing what the last driver left", extra={"facts": facts})
                lost = publish(self.last)
            self._epoch = self.state.epoch + 1
            try:
                self.append(self.new_entry(EntryKind.EPOCH, cluster_id=cluster_id, gaps=tuple(lost)))
            except Fenced as error:  # the other driver was still writing: read on, publish its entry, try again
                _log.info("another driver was faster, claiming again", extra={"facts": {"reason": str(error)}})
                continue
            claimed = {"epoch": self._epoch, "version": self.state.version, "driver": self._driver}
            _log.info("claimed", extra={"facts": claimed})
            return self.state

    def new_entry(self, kind: EntryKind, **members: Any) -> CommitEntry:
        """Return the next entry, not written yet. Its time is that of the last one if this driver's clock is behind."""
        now_ms = self.clock_ms()
        if self.last is not None:
            now_ms = max(now_ms, committed_ms(self.last))
        committed_at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return CommitEntry(
            version=self.state.version + 1,
            commit_id=str(uuid.uuid4()),
            epoch=self._epoch,
            sink=self.paths.sink,
            kind=kind,
            committed_at=committed_at.replace("+00:00", "Z"),
            driver=self._driver,
            **members,
        )

    def append(self, entry: CommitEntry) -> None:
        """Commits the entry, which names what waits to be completed. Raises Fenced where another driver wrote that version, CommitUnknown
        where the store does not answer.
        """
        entry = replace(entry, waiting=self.waiting) if self.waiting else entry
        key = self.paths.commit(entry.version)
        for _ in range(APPEND_TRIES):
            try:
                self.store.put_new(key, entry.to_json())
                break
            except PreconditionFailed:
                entry = self._confirmed(key, entry)
                break
            except StorageUnavailable as error:
                unknown = error
                _log.info("entry is put again", extra={"facts": {"version": entry.version, "reason": str(error)}})
        else:
            raise CommitUnknown(
                f"It is not known whether commit entry {key} was written: {unknown} {FINDS_OUT}"
            ) from unknown
        self._advance(entry)

    def publish(self, entry: CommitEntry, *, remake: Remake) -> Published:
        """Makes the files of the last entry visible, and those that waited; `remake` makes again those whose uploads are gone.

        What fails waits, and keeps nothing else from becoming visible. Raises Fenced, LogDamaged, CommitUnknown.
        """
        entry = self.last if self.last is not None and self.last.commit_id == entry.commit_id else entry
        return self._publish_files(
            [*entry.waiting, *(WaitingFile(entry.version, file) for file in entry.files)], remake
        )

    def publish_waiting(self, topic_partitions: Collection[TopicPartition], *, remake: Remake) -> Published:
        """The same for the files of these topic-partitions that wait; the others go on waiting."""
        wanted = [one for one in self.waiting if one.file.topic_partition in topic_partitions]
        others = [one for one in self.waiting if one.file.topic_partition not in topic_partitions]
        found = self._publish_files(wanted, remake)
        self.waiting = (*others, *self.waiting)
        return found

    def _publish_files(self, wanted: Sequence[WaitingFile], remake: Remake) -> Published:
        failed, gaps = dict[TopicPartition, SinkError](), list[Gap]()
        gone, left = self._complete_uploads(wanted, failed)
        if gone:
            self.check_owner(self.state.version)
        for (version, tp), files in groupby(gone, key=lambda one: (one.version, one.file.topic_partition)):
            some = list(files)
            try:
                gaps += self._remake(self._entry(version), [one.file for one in some], remake)
            except (Fenced, CommitUnknown, LogDamaged):
                raise
            except SinkError as error:
                failed[tp] = error
                left += some
        names = {(one.version, one.file.key) for one in left}  # their uploads may be others meanwhile
        self.waiting = tuple(one for one in self._files_of_last() if (one.version, one.file.key) in names)
        return Published(tuple(gaps), tuple((one, failed[one.file.topic_partition]) for one in self.waiting))

    def _files_of_last(self) -> list[WaitingFile]:
        """All files that the last entry names."""
        assert self.last is not None
        return [*self.last.waiting, *(WaitingFile(self.last.version, file) for file in self.last.files)]

    def _complete_uploads(
        self, wanted: Sequence[WaitingFile], failed: dict[TopicPartition, SinkError]
    ) -> tuple[list[WaitingFile], list[WaitingFile]]:
        """Completes uploads; gives those that are gone, and those left. Of a topic-partition that has `failed` no more are tried."""

        def tried(one: WaitingFile) -> WaitingFile | None:
            """Where it is not visible: the file."""
            tp = one.file.topic_partition
            if tp in failed:
                return one
            try:
                self.store.complete_upload(one.file.upload)
            except UploadMissing:
                gone.append(one)
            except StorageError as error:
                failed[tp] = error
                return one
            return None

        gone, left = list[WaitingFile](), list[WaitingFile]()
        pointers = [one for one in wanted if one.file.role is Role.POINTER]  # after what they point to
        others = [one for one in wanted if one.file.role is not Role.POINTER]
        with ThreadPool(PUBLISH_THREADS) as pool:
            for wave in (others, pointers):
                left += [one for one in pool.each(tried, wave) if one is not None]
        return sorted(gone, key=lambda one: (one.version, one.file.topic_partition, one.file.key)), left

    def _remake(self, entry: CommitEntry, gone: list[DataFile], remake: Remake) -> list[Gap]:
        """Makes files again of an entry and completes them. raises what `remake` raises, StorageError."""
        facts = {"version": entry.version, "files": [file.key for file in gone]}
        _log.warning("uploads are gone, their files are made again", extra={"facts": facts})
        made = remake(entry, gone)
        for file in self._recounted(entry, made.files):
            self.store.complete_upload(file.upload)
        for file in gone:  # where another driver sent parts into an upload, it is still there
            self.store.abort_upload(file.upload.key, file.upload.id)
        return gaps_of_lost(entry, made.lost)

    def _recounted(self, entry: CommitEntry, made: Sequence[DataFile]) -> Sequence[DataFile]:
        """Note the new uploads in the entry, and in the last one; return the files to complete."""
        if not made:
            return made
        files = agree_on_remade(self.store, self.paths, entry, made=made)
        counted = with_files(entry, files)
        self.store.put(self.paths.commit(entry.version), counted.to_json())
        self.state = self.state.recounted(counted.totals.bytes - entry.totals.bytes)
        assert self.last is not None
        if entry.version == self.last.version:
            self.last = counted
        else:
            self.last = self.last.with_waiting(entry.version, files)
            self.store.put(self.paths.commit(self.last.version), self.last.to_json())
        return files

    def _entry(self, version: int) -> CommitEntry:
        """An entry that the last one still names. Raises LogDamaged, StorageError."""
        assert self.last is not None
        if version == self.last.version:
            return self.last
        key = self.paths.commit(version)
        return read_entry(self.store.get(key), key=key)

    def check_owner(self, version: int) -> None:
        """Raises Fenced where an entry behind `version` exists that is not ours: its writer has published everything before it."""
        following = self.store.head(self.paths.commit(version + 1))
        if following is not None:
            _log.info("fenced", extra={"facts": {"epoch": self._epoch, "version": version}})
            raise Fenced(
                f"Sink {self.paths.sink}: commit entry {version + 1} was written by another driver. "
                "This driver stops; nothing that it did after the other took over counts."
            )

    def checkpoint(self) -> None:
        """Writes the state for quick starts, once 100 entries came since the last one; to be called when all entries are published."""
        if self.last is not None and self.state.version - self._checkpointed >= CHECKPOINT_EVERY:
            self.store.put(self.paths.checkpoint(self.state.version), checkpoint_json(self.state, self.last))
            self._checkpointed = self.state.version

    def _confirmed(self, key: str, entry: CommitEntry) -> CommitEntry:
        """The entry of a version as it is stored, where it is ours. Raises Fenced, CommitUnknown."""
        try:
            found = read_entry(self.store.get(key), key=key)
        except ObjectMissing as error:
            raise CommitUnknown(f"Commit entry {key} was refused as existing, but is not there.") from error
        except StorageUnavailable as error:
            # not to be tried again as it is: our own entry would be met as a stranger's
            raise CommitUnknown(f"It is not known who wrote commit entry {key}: {error} {FINDS_OUT}") from error
        if found.commit_id != entry.commit_id:
            _log.info("fenced", extra={"facts": {"epoch": entry.epoch, "by_epoch": found.epoch, "by": found.driver}})
            raise Fenced(
                f"Sink {entry.sink} is owned by another driver now ({found.driver}, epoch {found.epoch}, entry {found.version} at "
                f"{found.committed_at}); this driver (epoch {entry.epoch}) stops. Run one driver per sink name."
            )
        return found

    def _check_follows(self, key: str, entry: CommitEntry) -> None:
        """An entry left out would take positions back, and records would be written twice."""
        wanted = self.paths.commit(self.state.version + 1)
        if self.paths.commit(entry.version) != key:
            what = f"Commit entry {key} is damaged: it calls itself entry {entry.version}"
            raise LogDamaged(f"{what}. Restore the object from a bucket version or backup.")
        if key != wanted:
            raise LogDamaged(
                f"Commit entry {wanted} is missing, though {key} is there. Restore the object from a bucket version or backup, "
                "and keep lifecycle rules away from the sink's state."
            )

    def _advance(self, entry: CommitEntry) -> None:
        self.state = self.state.after(entry)
        self.last = entry
