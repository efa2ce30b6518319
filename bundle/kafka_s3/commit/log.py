"""How does a set of files become part of the bucket exactly once? The commit protocol, and the log that is the product's only state.

1. Tasks upload each closed file as a multipart upload and do not complete it. Nothing is visible. They report key, upload id and part
   ETags.
2. The driver writes commit entry N with `If-None-Match: *` (`append`). This is the commit: afterwards the files count, before it nothing
   does. Where an entry N exists already it is read back: the same `commit_id` means our own lost answer; otherwise another driver owns
   the sink, and this one stops as fenced.
3. The driver completes the uploads of entry N (`publish`, in parallel). The store settles lost answers by HEAD and the known ETag.
4. Only then may entry N+1 be written. So at most the last entry can be unpublished.
5. Start or restart (`claim`): an epoch entry fences any older driver. Before it the last entry is published again: what is still
   pending is completed; where an upload is gone (a lifecycle rule, an abort) the file is written again from Kafka by its recorded
   offsets. Whoever cannot do that stops with an error that names the offsets.
6. Followers (mirrored group offsets, dead letter topic, tables) come after 3, are idempotent by N and catch up.

Layout: `<state.prefix>/<sink>/commits/%020d.json`, and `checkpoints/%020d.json` with the state after every 100th entry, so that a start
lists little.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from kafka_s3.commit.entry import FORMAT, CommitEntry, EntryKind, Progress, read_entry
from kafka_s3.model.errors import (
    CommitUnknown,
    Fenced,
    LogDamaged,
    ObjectMissing,
    PreconditionFailed,
    StorageUnavailable,
    UploadMissing,
)
from kafka_s3.model.files import DataFile, Role, Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

CHECKPOINT_EVERY: Final = 100
PUBLISH_THREADS: Final = 8
APPEND_TRIES: Final = 3
Rewrite = Callable[[CommitEntry, list[DataFile]], list[DataFile]]
"""Writes files of an entry again from Kafka by their recorded offsets; gives them with their new uploads."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says after its last entry."""

    version: int = -1
    epoch: int = 0
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    cluster_id: str = ""

    def after(self, entry: CommitEntry) -> LogState:
        """The state after one more entry."""
        return LogState(
            version=entry.version,
            epoch=entry.epoch,
            progress={**self.progress, **entry.progress},
            topic_ids={**self.topic_ids, **entry.topic_ids},
            totals=Totals(**{name: value + getattr(entry.totals, name) for name, value in asdict(self.totals).items()}),
            cluster_id=entry.cluster_id or self.cluster_id,
        )

    @property
    def frontier(self) -> dict[TopicPartition, int]:
        """Per topic-partition the next offset to write."""
        return {tp: progress.frontier for tp, progress in self.progress.items()}


class CommitLog:
    """One sink's log. Reading is free for all; writing needs `claim` first."""

    def __init__(self, store: ObjectStore, paths: StatePaths, *, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._paths = paths
        self._clock_ms = clock_ms
        self._epoch = 0
        self._driver = f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"
        self.state = LogState()
        self.last: CommitEntry | None = None

    def load(self) -> LogState:
        """Reads the state: the newest checkpoint, then the entries behind it. Raises LogDamaged."""
        self.state, self.last = LogState(), None
        checkpoints = [info.key for info in self._store.list(f"{self._paths.root}checkpoints/")]
        if checkpoints:
            self.state, self.last = _read_checkpoint(self._store.get(checkpoints[-1]), checkpoints[-1])
        for key, entry in self._keyed(after=self.state.version):
            self._check_follows(key, entry)
            self._advance(entry)
        return self.state

    def entries(self, *, after: int = -1) -> Iterator[CommitEntry]:
        """The entries with a version above `after`, in order."""
        for _, entry in self._keyed(after=after):
            yield entry

    def claim(self, *, cluster_id: str, rewrite: Rewrite) -> LogState:
        """Takes the sink over: publishes what the last driver left unpublished, then fences it with an epoch entry."""
        while True:
            self.load()
            if self.last is not None:
                self.publish(self.last, rewrite=rewrite)
            self._epoch = self.state.epoch + 1
            try:
                self.append(self.new_entry(EntryKind.EPOCH, cluster_id=cluster_id))
                return self.state
            except Fenced:
                continue  # the other driver was still writing: read on, publish its entry, try again

    def new_entry(self, kind: EntryKind, **members: Any) -> CommitEntry:
        """The next entry, not written yet."""
        committed_at = datetime.fromtimestamp(self._clock_ms() / 1000, UTC).isoformat(timespec="milliseconds")
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
        else:
            raise CommitUnknown(
                f"It cannot be told whether commit entry {key} was written: {unknown} The next attempt, or a restart, settles it; "
                "nothing is lost."
            ) from unknown
        self._advance(entry)

    def publish(self, entry: CommitEntry, *, rewrite: Rewrite) -> None:
        """Makes every file of the entry visible; idempotent. Raises OffsetsLost (from `rewrite`) where a file cannot be made again."""
        pointers = [file for file in entry.files if file.role is Role.POINTER]  # after what they point to
        others = [file for file in entry.files if file.role is not Role.POINTER]
        with ThreadPoolExecutor(max_workers=PUBLISH_THREADS) as pool:
            gone = [file for wave in (others, pointers) for file in pool.map(self._complete, wave) if file is not None]
        if gone:
            self.check_owner(entry.version)
            for file in rewrite(entry, gone):
                self._store.complete_upload(file.upload)

    def check_owner(self, version: int) -> None:
        """Raises Fenced where an entry behind `version` exists that is not ours: its writer has published everything before it."""
        following = self._store.head(self._paths.commit(version + 1))
        if following is not None:
            raise Fenced(
                f"Sink {self._paths.sink}: commit entry {version + 1} was written by another driver. "
                "This driver stops; nothing that it did after the other took over counts."
            )

    def checkpoint(self) -> None:
        """Writes the state for quick starts; called when the last entry is published, does so at every 100th version."""
        if self.state.version % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1 and self.last is not None:
            self._store.put(self._paths.checkpoint(self.state.version), _checkpoint(self.state, self.last))

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
                f"It cannot be told who wrote commit entry {key}: {error} The next attempt, or a restart, settles it; nothing is lost."
            ) from error
        if found.commit_id != entry.commit_id:
            raise Fenced(
                f"Sink {entry.sink} is owned by another driver now ({found.driver}, epoch {found.epoch}, entry {found.version} at "
                f"{found.committed_at}); this driver (epoch {entry.epoch}) stops. Run one driver per sink name."
            )

    def _keyed(self, *, after: int) -> Iterator[tuple[str, CommitEntry]]:
        start = self._paths.commit(after) if after >= 0 else ""
        for info in self._store.list(f"{self._paths.root}commits/", start_after=start):
            yield info.key, read_entry(self._store.get(info.key), key=info.key)

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


def _checkpoint(state: LogState, last: CommitEntry) -> bytes:
    whole = replace(last, progress=state.progress, topic_ids=state.topic_ids, cluster_id=state.cluster_id)
    document = {
        "format": FORMAT,
        "entry": json.loads(whole.to_json()),
        "last": json.loads(last.to_json()),
        "totals": asdict(state.totals),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _read_checkpoint(content: bytes, key: str) -> tuple[LogState, CommitEntry]:
    try:
        document = json.loads(content)
        if document.get("format", FORMAT) > FORMAT:
            raise LogDamaged(
                f"Checkpoint {key} has format {document['format']}; this version reads up to {FORMAT}. Upgrade kafka-s3 to go on."
            )
        whole = read_entry(json.dumps(document["entry"]).encode(), key=key)
        last = read_entry(json.dumps(document["last"]).encode(), key=key)
        totals = Totals(**document["totals"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(
            f"Checkpoint {key} is damaged ({type(error).__name__}: {error}). Delete it: the commit entries say the same."
        ) from error
    state = LogState(whole.version, whole.epoch, dict(whole.progress), dict(whole.topic_ids), totals, whole.cluster_id)
    return state, last
