"""In which order does an entry become part of bucket and log? The one sequence, for the sink, for replays and for moves by hand.

1. The entry is appended to the log: this is the commit. Until its answer is known, nothing else is begun.
2. Its files are made visible, and a marker says so (`engine.log.published`). Files that are lost become gaps, by an entry of their own. Files
   that cannot be made visible now wait: `waits` learns why, later entries name them, and `publish_waiting` tries them again.
3. A checkpoint is written, where the last one is far behind.
4. Followers catch up once nothing waits. An error of one holds neither another nor the sink, and they are called again soon, or later
   where that took long.

What fails with an error that is worth another try is taken up by `finish` where it was left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog, Published, mark_published
from kafka_s3.engine.log.rewrites import Rewrite
from kafka_s3.engine.loop.follower import ByTheClock, Followed, Follower
from kafka_s3.engine.loop.phases import PhaseTimes
from kafka_s3.engine.loop.tagging import ObjectTags
from kafka_s3.model.errors import Fenced, SinkError, StorageError
from kafka_s3.model.offsets import Gap, TopicPartition
from kafka_s3.model.protocols import Observer, RoundPhase
from kafka_s3.store.store import abort_uploads

Done = Callable[[], None]
Waits = Callable[[TopicPartition, SinkError], None]
"""Learns which topic-partition has files that cannot be made visible now, and why."""
_log = logging.getLogger(__name__)


def nothing_more() -> None:
    """Nothing is to be done once an entry is committed."""


def _raise(topic_partition: TopicPartition, error: SinkError) -> None:
    """Nobody else is waiting for this entry."""
    raise error


@dataclass
class Committer:
    """Brings one entry after the other into the log and to its readers. Not thread-safe.

    Without `waits` what keeps a file from becoming visible is raised, and `finish` may be called again.
    """

    log: CommitLog
    rewrite: Rewrite
    followers: Sequence[Follower] = ()
    observer: Observer = field(default_factory=Observer)
    phases: PhaseTimes = field(default_factory=PhaseTimes)
    waits: Waits = _raise
    _begun: tuple[CommitEntry, Done] | None = None
    _unpublished: CommitEntry | None = None
    _visible: tuple[str, Published] = ("", Published())
    _followed: Followed = field(default_factory=Followed)
    _behind: set[str] = field(default_factory=set)

    def claim(self, cluster_id: str) -> None:
        """Takes the log over, with what the last driver left unpublished. Raises CommitError, OffsetsLost, StorageError."""
        self.log.claim(cluster_id=cluster_id, publish=self.publish)
        self._checkpoint()

    def commit(self, entry: CommitEntry, done: Done = nothing_more) -> None:
        """Takes an entry through all steps; `done` is called once it is in the log.

        Raises CommitUnknown, StorageUnavailable where `finish` has to be called again; Fenced, with its uploads aborted.
        """
        self.finish()
        self._begun = entry, done
        self.finish()

    def finish(self) -> None:
        """Takes what was begun to its end; raises as `commit` does. No entry is written behind an unpublished one."""
        while self._begun is not None or self._unpublished is not None:
            if self._begun is not None:
                with self.phases.of(RoundPhase.COMMIT):
                    self._append(*self._begun)
            if self._unpublished is None:
                continue
            with self.phases.of(RoundPhase.PUBLISH):
                gaps = self.publish(self._unpublished)
            self._unpublished = None
            if gaps:
                self._begin_gaps(gaps)
            with self.phases.of(RoundPhase.FOLLOW):
                self._checkpoint()
                self.follow()

    def publish_waiting(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Tries once more to make the waiting files of these topic-partitions visible. Raises as `publish`."""
        if not topic_partitions or self.log.last is None:
            return
        found = self.log.publish_waiting(topic_partitions, rewrite=self.rewrite)
        self._tell_waiting(found)
        gaps = self._settled(self.log.last, found)
        if gaps:
            self._begin_gaps(gaps)
            self.finish()
        elif not self.log.waiting:
            self.follow()

    def follow(self) -> None:
        """Lets the followers catch up, unless files wait. Raises Fenced; else what tagging raises where it must succeed, last."""
        self._catch_up(self.followers)

    def follow_late(self) -> None:
        """Lets those followers catch up that are behind, or whose time has come. Raises as `follow`."""
        late = [one for one in self.followers if one.name in self._behind or (isinstance(one, ByTheClock) and one.due)]
        self._catch_up(late)

    def _catch_up(self, followers: Sequence[Follower]) -> None:
        refused: SinkError | None = None
        if self.log.waiting:  # followers read what is visible
            self._behind |= {follower.name for follower in followers}
            return
        for follower in followers:
            self._behind.discard(follower.name)
            if self._followed.rests(follower, self.log) and not _must_succeed(follower):
                self._behind.add(follower.name)
                continue
            try:
                self._followed.catch_up(follower, self.log)
            except Fenced:
                raise
            except SinkError as error:
                self._behind.add(follower.name)
                if _must_succeed(follower):
                    refused = error
                else:
                    self.observer.warned(f"{follower.name}: {error} It catches up at the next chance.")
        if refused is not None:
            raise refused

    def _append(self, entry: CommitEntry, done: Done) -> None:
        try:
            self.log.append(entry)
        except Fenced:
            self._begun = None
            self._abandon(entry)
            raise
        facts = {
            "version": entry.version,
            "kind": str(entry.kind),
            "files": entry.totals.files,
            "objects": len(entry.files),
            "read": entry.totals.read,
        }
        _log.info("committed", extra={"facts": facts})
        self._begun, self._unpublished = None, entry
        done()

    def publish(self, entry: CommitEntry) -> Sequence[Gap]:
        """Makes the files of the log's last entry visible, once: where only the marker fails, the objects are not touched again.

        Gives what it lost. Raises Fenced, CommitError, StorageError, and what `waits` raises.
        """
        if self._visible[0] != entry.commit_id:
            found = self.log.publish(entry, rewrite=self.rewrite)
            self._tell_waiting(found)
            self._visible = entry.commit_id, found
        return self._settled(entry, self._visible[1])

    def _settled(self, entry: CommitEntry, found: Published) -> Sequence[Gap]:
        """Marks the last entry where everything that it names is visible; gives what was lost."""
        if found.gaps:
            lost = "; ".join(f"{gap.topic}-{gap.partition} {gap.first} to {gap.last}" for gap in found.gaps)
            self.observer.warned(f"Entry {entry.version}: neither upload nor records are left, gap recorded: {lost}")
        elif not self.log.waiting:
            mark_published(self.log.store, self.log.paths, entry)
            _log.debug("published", extra={"facts": {"version": entry.version, "objects": len(entry.files)}})
        return found.gaps

    def _tell_waiting(self, found: Published) -> None:
        for tp, error in {one.file.topic_partition: error for one, error in found.failed}.items():
            self.waits(tp, error)

    def _begin_gaps(self, gaps: Sequence[Gap]) -> None:
        self._begun = self.log.new_entry(EntryKind.POSITION, gaps=tuple(gaps)), nothing_more

    def _checkpoint(self) -> None:
        try:
            self.log.checkpoint()
        except StorageError as error:  # a start reads more, and the next entry tries again
            self.observer.warned(f"checkpoint: {error}")

    def _abandon(self, entry: CommitEntry) -> None:
        """Ends the uploads of an entry that another driver's stands in place of: they can never be committed."""
        try:
            abort_uploads(self.log.store, entry.files)
        except StorageError as error:
            _log.info("uploads are left to the sweep", extra={"facts": {"reason": str(error)}})


def _must_succeed(follower: Follower) -> bool:
    return isinstance(follower, ObjectTags) and follower.must_succeed
