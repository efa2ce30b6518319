"""What may tasks have left in the bucket that nobody needs? Uploads and kept open files of topic-partitions whose tasks failed.

A task ends what it began, if it can. Where it cannot (its process died, the bucket refuses its keys) the driver lists: what is pending
below the topic's keys and belongs to such a topic-partition is needed only where the log's last entry names it, or the open files that go
on. All else is ended, before the topic-partition is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from kafka_s3.connect.naming.keys import DataKeys
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.planner import PartitionState
from kafka_s3.engine.open_files.state_object import state_uploads
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.model.errors import ObjectMissing, StorageError, StorageUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import Observer
from kafka_s3.store.store import ListedUpload, ObjectStore

LISTING_RIGHT: Final = "s3:ListBucketMultipartUploads"
SUSPECT_AGAIN_MS: Final = 600_000
"""How long (ms) after they were suspected they are suspected again: a task that was given up may have gone on meanwhile."""
MANY: Final = 8
"""Of so many topics, or topic-partitions, all is listed that begins as their keys do: one request for each 1,000 there are."""
THREADS: Final = 16
"""How many kept open files are read side by side."""
_log = logging.getLogger(__name__)


@dataclass
class Leftovers:
    """Ends what failed tasks left. `suspects` are the topic-partitions whose tasks may have left something; `later` says when (epoch ms)
    others are suspected again.
    """

    store: ObjectStore
    log: CommitLog
    keys: DataKeys
    observer: Observer
    clock_ms: Callable[[], int]
    suspects: set[TopicPartition] = field(default_factory=set)
    later: dict[TopicPartition, int] = field(default_factory=dict)
    _may_list: bool = True

    def suspect(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Their tasks may have left something, and tasks that were given up may still do so for a while."""
        some = set(topic_partitions)
        self.suspects |= some
        self.later |= dict.fromkeys(some, self.clock_ms() + SUSPECT_AGAIN_MS)

    def suspect_earlier_driver(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """An earlier driver's tasks may have died. At a sink's very first start there was none: what is there is somebody else's."""
        if self.log.state.epoch > 1:
            self.suspect(topic_partitions)

    def suspect_again(self) -> None:
        """Suspects those once more whose time has come."""
        now = self.clock_ms()
        due = {tp for tp, at in self.later.items() if not now < at <= now + SUSPECT_AGAIN_MS}
        self.suspects |= due
        self.later = {tp: at for tp, at in self.later.items() if tp not in due}

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
                needed = self._needed({owner for owner, _ in found}, states)
                self._end([one for _, one in found if (one.key, one.id) not in needed], stale)
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

    def _pending(self, suspects: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, ListedUpload]]:
        """The pending uploads of the suspects."""
        topics = {tp.topic for tp in suspects}
        prefixes = [*self.keys.prefixes(topics), *map(self.log.paths.dead_letters_of, sorted(topics))]
        if len(topics) >= MANY:
            prefixes = [_common(self.keys.prefixes(topics)), self.log.paths.dead_letters_of("").rstrip("/")]
        for prefix in dict.fromkeys(prefixes):
            for upload in self.store.pending(prefix):
                owner = self.keys.owner(upload.key, topics) or self.log.paths.dead_letters_owner(upload.key)
                if owner is not None and owner in suspects:
                    yield owner, upload

    def _stale(
        self, suspects: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> Iterator[str]:
        """The keys of kept open files that nobody goes on with. Those of a later epoch are a successor's."""
        paths, epoch = self.log.paths, self.log.state.epoch
        kept = {one.open_state.key for one in states.values() if one.open_state is not None}
        own = tuple(paths.open_states_of(tp) for tp in sorted(suspects))
        for folder in own if len(own) < MANY else (paths.open_states(),):
            for info in self.store.list(folder):
                of_epoch = paths.open_state_epoch(info.key)
                if info.key.startswith(own) and info.key not in kept and of_epoch is not None and of_epoch <= epoch:
                    yield info.key

    def _needed(
        self, owners: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> set[tuple[str, str]]:
        """The uploads (key, id) that the log's last entry names, or the open files of these topic-partitions that go on."""
        last = self.log.last
        needed = {(file.upload.key, file.upload.id) for file in (() if last is None else last.uncompleted)}
        open_states = [states[tp].open_state for tp in owners if tp in states]
        with ThreadPool(THREADS) as pool:
            for uploads in pool.each(self._uploads, [one.key for one in open_states if one is not None]):
                needed |= uploads
        return needed

    def _uploads(self, key: str) -> set[tuple[str, str]]:
        try:
            return set(state_uploads(key, self.store))
        except ObjectMissing:  # the next task finds that out
            return set()

    def _end(self, uploads: Collection[ListedUpload], states: Collection[str]) -> None:
        for upload in uploads:
            self.store.abort_upload(upload.key, upload.id)
        for key in states:
            OpenFileStates(self.store, self.log.paths).remove(key)
        if uploads or states:
            _log.info(
                "removed what failed tasks left", extra={"facts": {"uploads": len(uploads), "states": len(states)}}
            )


def _common(prefixes: Collection[str]) -> str:
    """What all of them begin with."""
    letters = takewhile(lambda some: len(set(some)) == 1, zip(*prefixes, strict=False))
    return "".join(some[0] for some in letters)
