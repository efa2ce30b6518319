"""What follows the commit log, and when is it called? The seam to the package `followers`.

After each commit all followers catch up, one after the other. What one raises, foreseen or not, is a warning when it says something
new: it holds neither another follower nor the sink. One that failed is called again at the next chance, and after longer pauses when it
fails again; one that knows its problems leaves alone what it cannot follow, and is called as ever for the rest. In any case it is left
alone for `REST` times as long as its failure took, so that it holds the loop for a tenth of the time at most. While files wait to become
visible no follower is called.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import Defect, Fenced, SinkError, reason_of
from kafka_s3.model.protocols import Observer, join_observers
from kafka_s3.model.timing import iso_time, retry_pause_ms

REST: Final = 9
_log = logging.getLogger(__name__)
_VARYING: Final = re.compile(r"[\w.]*\d[\w.]*")
"""Words that differ from one try to the next: durations, times, numbers of entries, ids of requests."""


class Follower(Protocol):
    """Something that is brought up to the log's last published entry. It is idempotent by entry, and catches up."""

    @property
    def name(self) -> str:
        """What is followed, for messages."""

    def catch_up(self, log: CommitLog) -> None:
        """Follows the log; may raise any SinkError, and is then called again soon."""


@runtime_checkable
class TimedFollower(Protocol):
    """A follower that has work without any entry, when time has passed."""

    @property
    def due(self) -> bool:
        """Whether it wants to be called now. Asks nobody: it is read with every poll."""


@runtime_checkable
class RequiredFollower(Protocol):
    """A follower whose error may stop the sink."""

    @property
    def must_succeed(self) -> bool:
        """Whether what it raises stops the sink."""


@runtime_checkable
class HinderedFollower(Protocol):
    """A follower that knows what it cannot follow: an error is over with the next call that succeeds, and this is not."""

    @property
    def problems(self) -> Sequence[str]:
        """What it cannot follow, why, and since when, as long as that lasts; without its name. Asks nobody."""


@runtime_checkable
class DeadLetterReporter(Protocol):
    """A follower that is also given the record at which a topic-partition stops: no entry will have it."""

    @property
    def name(self) -> str:
        """What is followed, for messages."""

    def report(self, letters: Iterable[DeadLetter]) -> None:
        """Reports dead letters, whatever the log says of them."""


@dataclass(frozen=True, slots=True)
class FollowerFailure:
    """Failures of a follower in a row: how many, the reason of the last one, since when (epoch ms), and until when it is left alone."""

    count: int
    reason: str
    since_ms: int
    failed_ms: int
    rest_ms: int


@dataclass
class Followers:
    """The followers of one sink. `group` mirrors positions as group offsets, once a round where something was committed since."""

    all: Sequence[Follower] = ()
    observer: Observer = field(default_factory=join_observers)
    group: Follower | None = None
    _behind: set[str] = field(default_factory=set)
    _failures: dict[str, FollowerFailure] = field(default_factory=dict)
    _reported: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _mirrored: int = -1

    @property
    def problems(self) -> tuple[str, ...]:
        """What cannot follow the log, why, and since when, as long as that lasts."""
        found: list[str] = []
        for one in (*self.all, *([self.group] if self.group is not None else [])):
            if isinstance(one, HinderedFollower):
                found += [f"{one.name}: {problem}" for problem in one.problems]
            elif one.name in self._failures:
                failure = self._failures[one.name]
                found.append(f"{one.name}, since {iso_time(failure.since_ms, 'seconds')}: {failure.reason}")
        return tuple(found)

    def catch_up(self, log: CommitLog) -> None:
        """Lets all catch up, unless files wait. Raises Fenced; else what one raises that must succeed, once all were called."""
        self._catch_up(self.all, log)

    def catch_up_late(self, log: CommitLog) -> None:
        """Lets those catch up that are behind, or whose time has come. Raises as `catch_up`."""
        late = [one for one in self.all if one.name in self._behind or (isinstance(one, TimedFollower) and one.due)]
        self._catch_up(late, log)

    def mirror_group(self, log: CommitLog) -> None:
        """Brings the group's offsets up to date, where there is a group; what fails is tried again after the next round. Raises Fenced."""
        version = log.state.version
        if self.group is None or version == self._mirrored or self._rests(self.group, log):
            return
        try:
            self._call(self.group, log)
            self._mirrored = version
        except Fenced:
            raise
        except SinkError as error:
            self._warn(self.group, error, "They follow after a later round.")

    def report(self, letters: Sequence[DeadLetter]) -> None:
        """Reports records at which topic-partitions stop to those that report dead letters."""
        for reporter in self.all if letters else ():
            if isinstance(reporter, DeadLetterReporter):
                try:
                    reporter.report(letters)
                except Exception as failed:  # what stops the topic-partition is the record
                    self._warn(reporter, _foreseen(failed), "")

    def _catch_up(self, followers: Sequence[Follower], log: CommitLog) -> None:
        refused: SinkError | None = None
        if log.waiting:  # followers read what is visible
            self._behind |= {follower.name for follower in followers}
            return
        for follower in followers:
            self._behind.discard(follower.name)
            required = isinstance(follower, RequiredFollower) and follower.must_succeed
            if self._rests(follower, log) and not required:
                self._behind.add(follower.name)
                continue
            try:
                self._call(follower, log)
            except Fenced:
                raise
            except SinkError as error:
                self._behind.add(follower.name)
                if required:
                    refused = error
                else:
                    self._warn(follower, error, "It catches up when it can.")
        if refused is not None:
            raise refused

    def _rests(self, follower: Follower, log: CommitLog) -> bool:
        """Return whether the follower is left alone for now."""
        failure = self._failures.get(follower.name)
        return failure is not None and 0 <= log.clock_ms() - failure.failed_ms < failure.rest_ms

    def _call(self, follower: Follower, log: CommitLog) -> None:
        called_ms = log.clock_ms()
        try:
            follower.catch_up(log)
        except Exception as raised:
            error, before = _foreseen(raised), self._failures.get(follower.name)
            self._note_failure(follower, str(error), called_ms=called_ms, failed_ms=log.clock_ms())
            if error is raised:
                raise
            if before is None or _kinds((str(error),)) != _kinds((before.reason,)):
                _log.error("%s failed in an unforeseen way", follower.name, exc_info=raised)
            raise error from raised
        self._failures.pop(follower.name, None)
        self._reported[follower.name] &= _kinds(follower.problems) if isinstance(follower, HinderedFollower) else set()

    def _note_failure(self, follower: Follower, reason: str, *, called_ms: int, failed_ms: int) -> None:
        before = self._failures.get(follower.name, FollowerFailure(0, "", failed_ms, failed_ms, 0))
        rest_ms = REST * (failed_ms - called_ms)
        paces_itself = isinstance(follower, HinderedFollower) or follower is self.group
        if not paces_itself:
            rest_ms = max(rest_ms, retry_pause_ms(before.count + 1))
        self._failures[follower.name] = FollowerFailure(before.count + 1, reason, before.since_ms, failed_ms, rest_ms)

    def _warn(self, follower: Follower | DeadLetterReporter, error: SinkError, consequence: str) -> None:
        """Warn of an error, unless the follower has failed in the same way since it last succeeded."""
        problems = follower.problems if isinstance(follower, HinderedFollower) else ()
        kinds = _kinds(problems or (str(error),))
        if not kinds <= self._reported[follower.name]:
            self._reported[follower.name] |= kinds
            self.observer.follower_warned(f"{follower.name}: {error} {consequence}".rstrip())


def _kinds(texts: Iterable[str]) -> set[str]:
    return {_VARYING.sub("#", text) for text in texts}


def _foreseen(error: Exception) -> SinkError:
    """Return an error of the product's own: the error itself, or one that says that nobody foresaw it."""
    if isinstance(error, SinkError):
        return error
    return Defect(f"{reason_of(error)} This is a defect of kafka-s3.")
