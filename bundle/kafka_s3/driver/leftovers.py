"""What may tasks have left in the bucket that nobody needs? Uploads and kept open files of topic-partitions whose tasks failed.

A task ends what it began, if it can. Where it cannot (its process died, the bucket refuses its keys) the driver looks: what is pending
below the topic's keys and belongs to such a topic-partition is needed only where the log's last entry names it, or the open files that go
on. All else is ended, before the topic-partition is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from kafka_s3.commit.log import CommitLog
from kafka_s3.driver.partition_state import PartitionState
from kafka_s3.model.errors import ObjectMissing, StorageError, StorageUnavailable
from kafka_s3.model.observer import Observer
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.data_keys import DataKeys
from kafka_s3.storage.store import ListedUpload, ObjectStore
from kafka_s3.task.files.open_state import state_uploads

LISTING_RIGHT: Final = "s3:ListBucketMultipartUploads"
LOOK_EVERY_MS: Final = 600_000
"""How often all topic-partitions are looked at, ms."""
MANY_TOPICS: Final = 8
"""Of so many topics all pending uploads are listed that begin as their keys do: one request for each 1,000 there are."""
_log = logging.getLogger(__name__)


@dataclass
class Leftovers:
    """Ends what failed tasks left. `suspects` are the topic-partitions whose tasks may have left something; `looked_ms` is when all of them
    were suspected last.
    """

    store: ObjectStore
    log: CommitLog
    keys: DataKeys
    observer: Observer
    suspects: set[TopicPartition] = field(default_factory=set)
    looked_ms: int | None = None
    _may_list: bool = True

    def suspect(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Their tasks may have left something."""
        self.suspects.update(topic_partitions)

    def look_around(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Suspects all of them from time to time, and at the start: an earlier driver's tasks may have died, and tasks that were given up
        may still run for a while. Not at a sink's very first start: what is there then is somebody else's.
        """
        if self.looked_ms is not None and 0 <= now_ms - self.looked_ms < LOOK_EVERY_MS:
            return
        if self.log.state.epoch > 1 or self.looked_ms is not None:
            self.suspect(topic_partitions)
        self.looked_ms = now_ms

    def clean(self, states: Mapping[TopicPartition, PartitionState], *, busy: Collection[TopicPartition] = ()) -> None:
        """Ends what was left of the suspects, but of those whose tasks are at work. What the bucket refuses now is tried again.

        Raises Fenced where another driver has taken over: what is pending may be its own.
        """
        suspects = {tp for tp in self.suspects if tp not in busy}
        if not suspects or not self._may_list:
            return
        try:
            found = list(self._pending(suspects))
            stale = list(self._stale(suspects, states))
            if found or stale:
                self.log.check_owner(self.log.state.version)
                needed = self._needed(suspects, states)
                self._end([one for one in found if (one.key, one.id) not in needed], stale)
        except StorageUnavailable as error:
            _log.info("what failed tasks left is looked for again", extra={"facts": {"reason": str(error)}})
            return
        except StorageError as error:
            self._may_list = False
            self.observer.warned(
                f"What failed tasks leave in the bucket is not removed by the sink: {error} Grant {LISTING_RIGHT} on the bucket, or run "
                "kafka-s3 sweep from time to time."
            )
            return
        self.suspects -= suspects

    def _pending(self, suspects: Collection[TopicPartition]) -> Iterator[ListedUpload]:
        topics = {tp.topic for tp in suspects}
        prefixes = [*self.keys.prefixes(topics), *map(self.log.paths.dead_letters_of, sorted(topics))]
        if len(topics) >= MANY_TOPICS:
            prefixes = [_common(self.keys.prefixes(topics)), self.log.paths.dead_letters_of("").rstrip("/")]
        for prefix in dict.fromkeys(prefixes):
            for upload in self.store.pending(prefix):
                owner = self.keys.owner(upload.key, topics) or self.log.paths.dead_letters_owner(upload.key)
                if owner in suspects:
                    yield upload

    def _stale(
        self, suspects: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> Iterator[str]:
        """The keys of kept open files that nobody goes on with. Those of a later epoch are a successor's."""
        paths, epoch = self.log.paths, self.log.state.epoch
        for tp in sorted(suspects):
            kept = states[tp].open_state if tp in states else None
            for info in self.store.list(paths.open_states_of(tp)):
                if (kept is None or info.key != kept.key) and (paths.open_state_epoch(info.key) or 0) <= epoch:
                    yield info.key

    def _needed(
        self, suspects: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> set[tuple[str, str]]:
        """The uploads (key, id) that the log's last entry names, or the open files that go on."""
        last = self.log.last
        needed = {(file.upload.key, file.upload.id) for file in (() if last is None else last.uncompleted)}
        for tp in suspects:
            kept = states[tp].open_state if tp in states else None
            if kept is not None:
                try:
                    needed |= set(state_uploads(kept.key, self.store))
                except ObjectMissing:  # the next task finds that out
                    continue
        return needed

    def _end(self, uploads: Collection[ListedUpload], states: Collection[str]) -> None:
        for upload in uploads:
            self.store.abort_upload(upload.key, upload.id)
        for key in states:
            self.store.delete(key)
        if uploads or states:
            _log.info(
                "removed what failed tasks left", extra={"facts": {"uploads": len(uploads), "states": len(states)}}
            )


def _common(prefixes: Collection[str]) -> str:
    """What all of them begin with."""
    letters = takewhile(lambda some: len(set(some)) == 1, zip(*prefixes, strict=False))
    return "".join(some[0] for some in letters)
