"""What have tasks left in the bucket? Open files that go on where the last task stopped, and what nobody needs: the driver's side of both.

The commit log does not know of them. The hint that is written here holds for a topic-partition as long as the log's frontier, the topic and
the configuration are those it was written for, and Kafka's log is still the one that was read (`topics.py` asks the brokers at each poll);
the task looks at the state itself. Whatever does not hold is dropped with one line that says why, and the tail is read again from the
frontier.

A task ends what it began, if it can. Where it cannot (its process died, the bucket refuses its keys) the driver lists: what is pending
below the topic's keys and belongs to such a topic-partition is needed only where the log's last entry names it, or the open files that go
on. All else is ended, before the topic-partition is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from kafka_s3.connect.naming.keys import DataKeys, last_of_rewritten
from kafka_s3.engine.log.fold import LogState
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.loop.planner import PartitionState
from kafka_s3.engine.open_files.states import NEW_TABLE_SCHEMA, HintedState, HintUnusable, OpenFileStates, state_uploads
from kafka_s3.model.errors import ObjectMissing, StorageError, StorageUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.protocols import Observer
from kafka_s3.model.tasks import TaskReport
from kafka_s3.store.store import ListedUpload, ObjectStore

LISTING_RIGHT: Final = "s3:ListBucketMultipartUploads"
SUSPECT_AGAIN_MS: Final = 600_000
"""How long (ms) after they were suspected they are suspected again: a task that was given up may have gone on meanwhile."""
MANY: Final = 8
"""Of so many topics, or topic-partitions, all is listed that begins as their keys do: one request for each 1,000 there are."""


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
                by_a_task = last_of_rewritten(upload.key) is None
                if owner is not None and owner in suspects and by_a_task:
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


_log = logging.getLogger(__name__)
THREADS: Final = 16
"""How many kept open files are read or removed at a time."""


@dataclass
class OpenStates:
    """The kept open files of one sink. `written` and `bytes` count the state objects of this run.

    `keeps` is False where the bucket does not let the sink delete: states would pile up, so the tail is read again instead. `left` are
    topic-partitions of which overtaken states may still be there.
    """

    states: OpenFileStates
    fingerprint: str
    observer: Observer
    written: int = 0
    bytes: int = 0
    keeps: bool = True
    left: set[TopicPartition] = field(default_factory=set)
    _noted: dict[TopicPartition, str] = field(default_factory=dict)
    _there: dict[TopicPartition, list[str]] = field(default_factory=dict)
    _continued: set[str] = field(default_factory=set)

    def restored(
        self, partitions: Mapping[TopicPartition, PartitionState], log: CommitLog
    ) -> dict[TopicPartition, PartitionState]:
        """A new driver's topic-partitions, with the open files of the last one where its hint holds; other states are removed.

        Raises Fenced where another driver has taken over meanwhile.
        """
        found, ended = dict(partitions), list[str]()
        try:
            self.keeps = self._may_delete()
            if not self.keeps:
                return found
            last = self._last_noted()
            listed = self.states.keys()
            log.check_owner(log.state.version)  # else what was read may be a successor's
            if last is None:
                self.states.write_hint(())
            for noted in last or ():
                tp = noted.topic_partition
                why = self._mismatch(noted, partitions.get(tp), log.state)
                if why:
                    self._warn_dropped(tp, why)
                    ended.append(noted.state.key)
                else:
                    found[tp] = _with(partitions[tp], noted)
                    self._noted[tp] = noted.state.key
                    self._there[tp] = [noted.state.key]
            self._remove_others(listed, ended, log.state.epoch)
        except StorageError as error:
            self.observer.warned(f"Open files of the last driver were not looked at; the sink goes on. {error}")
        return found

    def _last_noted(self) -> list[HintedState] | None:
        """What the last driver noted; None, after one line that says why, where that cannot be used. Raises StorageError."""
        try:
            return self.states.read_hint()
        except HintUnusable as error:
            self.observer.warned(str(error))
            return None

    def reported(self, reports: Sequence[TaskReport]) -> None:
        """Learns which states tasks left, from committed reports; `note` has to follow."""
        for report in reports:
            tp = report.topic_partition
            if report.dropped == NEW_TABLE_SCHEMA:
                _log.info("%s: open files start again with the table's new schema", tp)
            elif report.dropped:
                self._warn_dropped(tp, report.dropped)
            else:
                self._continued.update(self._there.get(tp, ()))
            if report.state is not None:
                self.written, self.bytes = self.written + 1, self.bytes + report.state.bytes
                self._there.setdefault(tp, []).append(report.state.key)

    def note(self, partitions: Mapping[TopicPartition, PartitionState], log: CommitLog) -> None:
        """Notes what holds now, then removes what was overtaken.

        Raises Fenced where another driver has taken over: what holds is then its to say.
        """
        now = {tp: one.open_state.key for tp, one in partitions.items() if one.open_state is not None}
        if now == self._noted:
            return
        overtaken = [key for tp, keys in self._there.items() for key in keys if key != now.get(tp)]
        self._noted = now
        try:
            log.check_owner(log.state.version)
            self.states.write_hint(self._to_note(partitions, log.state))
            with ThreadPool(THREADS) as pool:
                list(pool.each(self._remove, overtaken))
        except StorageError as error:  # only a hint is lost
            self.left |= self._there.keys()
            self.observer.warned(f"Open files could not be noted; the sink goes on. {error}")
        self._there = {tp: [key] for tp, key in now.items()}
        self._continued.clear()

    def _remove(self, key: str) -> None:
        if key in self._continued:  # its uploads went on in another state, or into objects
            self.states.remove(key)
        else:
            self.states.remove_with_uploads(key)

    def abandoned(self, reports: Sequence[TaskReport]) -> None:
        """Removes the states of reports that will not be committed, with the uploads that their tasks began.

        What those took over is left: it is of a state that the next start goes on with, or the driver that has replaced this one.
        """
        try:
            for report in reports:
                if report.state is not None:
                    self.states.remove_unused(report.state.key)
        except StorageError as error:  # `sweep` finds what is left
            self.observer.warned(f"Open files that nobody goes on with were not removed. {error}")

    def _may_delete(self) -> bool:
        """Tries it on an object that is not there. Raises StorageUnavailable."""
        folder = self.states.paths.open_states()
        try:
            self.states.remove(f"{folder}none")
        except StorageUnavailable:
            raise
        except StorageError as error:
            self.observer.warned(
                f"Open files are not kept, and each poll reads their records again: {error} Grant s3:DeleteObject on "
                f"{folder}*, or set tail.state.enable=false."
            )
            return False
        return True

    def _to_note(self, partitions: Mapping[TopicPartition, PartitionState], log: LogState) -> list[HintedState]:
        ids = log.topic_ids
        return [
            HintedState(
                tp,
                ids.get(tp.topic, ""),
                self.fingerprint,
                one.rotation_ms,
                one.tail,
                one.open_state,
                one.open_epoch,
                log.progress[tp].recorded,
            )
            for tp, one in partitions.items()
            if one.open_state is not None
        ]

    def _mismatch(self, noted: HintedState, found: PartitionState | None, log: LogState) -> str:
        """Why a hint does not hold, blank where it does."""
        if found is None:
            return "the topic-partition is not read any more"
        if noted.fingerprint != self.fingerprint:
            return "they are of another configuration or version"
        if log.topic_ids.get(noted.topic_partition.topic, "") != noted.topic_id:
            return "they are of another topic of that name"
        if noted.state.frontier != found.frontier:
            return f"they begin at offset {noted.state.frontier}, and the sink is at {found.frontier}"
        examined, recorded = noted.state.examined, log.progress[noted.topic_partition].recorded
        if noted.recorded is not None and noted.recorded.before(examined) != recorded.before(examined):
            return "the position was set since, and dead letters that they do without are tried again"
        return ""

    def _warn_dropped(self, tp: TopicPartition, why: str) -> None:
        self.observer.warned(f"{tp}: open files of an earlier task are not continued, because {why}; read again.")

    def _remove_others(self, listed: Collection[str], ended: Collection[str], epoch: int) -> None:
        """Removes those of the listed states that nobody goes on from: those that were noted and have `ended`, and those that never held.

        A state of a later epoch than this driver's is a successor's; what has no epoch in its name is not a state of a driver.
        """
        kept = set(self._noted.values())
        epochs = {key: self.states.paths.open_state_epoch(key) for key in listed if key not in kept}
        others = [key for key, of_epoch in epochs.items() if of_epoch is not None and of_epoch <= epoch]
        if not others:
            return
        try:
            spared = {upload for key in kept for upload in state_uploads(key, self.states.store)}
        except ObjectMissing:  # somebody was there; what is left is the sweep's
            return
        for key in others:
            if key in ended:
                self.states.remove_with_uploads(key)
            else:
                self.states.remove_unused(key, spared)


def _with(partition_state: PartitionState, noted: HintedState) -> PartitionState:
    """The topic-partition as the last driver left it."""
    return replace(
        partition_state,
        rotation_ms=noted.rotation_ms,
        examined=noted.state.examined,
        examined_ms=partition_state.grown_ms,
        tail=noted.tail,
        open_state=noted.state,
        open_epoch=noted.leader_epoch,
    )
