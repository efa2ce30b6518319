"""What follows the commit log, and when is it called? The seam to the package `followers`.

After each commit all followers catch up, one after the other. What one raises, foreseen or not, is a warning: it holds neither another nor
the sink, and it is called again at the next chance. One that failed is left alone for `REST` times as long as its failure took, so that it
holds the loop for a tenth of the time at most: what fails at once is tried at once. Where files wait to become visible nobody is called.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import Defect, Fenced, SinkError, reason_of
from kafka_s3.model.protocols import Observer, join_observers
from kafka_s3.model.timing import iso_time

REST: Final = 9
_log = logging.getLogger(__name__)


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


@dataclass
class Followers:
    """The followers of one sink. `group` mirrors positions as group offsets, once a round where something was committed since."""

    all: Sequence[Follower] = ()
    observer: Observer = field(default_factory=join_observers)
    group: Follower | None = None
    _behind: set[str] = field(default_factory=set)
    _failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    _troubles: dict[str, tuple[int, str]] = field(default_factory=dict)
    _mirrored: int = -1

    @property
    def problems(self) -> tuple[str, ...]:
        """What cannot follow the log, why, and since when, as long as that lasts."""
        found: list[str] = []
        for one in (*self.all, *([self.group] if self.group is not None else [])):
            if isinstance(one, HinderedFollower):
                found += [f"{one.name}: {problem}" for problem in one.problems]
            elif one.name in self._troubles:
                since_ms, why = self._troubles[one.name]
                found.append(f"{one.name}, since {iso_time(since_ms, 'seconds')}: {why}")
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
            self.observer.follower_warned(f"{self.group.name}: {error} They follow after the next round.")

    def report(self, letters: Sequence[DeadLetter]) -> None:
        """Reports records at which topic-partitions stop to those that report dead letters."""
        for reporter in self.all if letters else ():
            if isinstance(reporter, DeadLetterReporter):
                try:
                    reporter.report(letters)
                except Exception as failed:  # what stops the topic-partition is the record
                    self.observer.follower_warned(f"{reporter.name}: {_foreseen(failed)}")

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
                    self.observer.follower_warned(f"{follower.name}: {error} It catches up at the next chance.")
        if refused is not None:
            raise refused

    def _rests(self, follower: Follower, log: CommitLog) -> bool:
        """Whether the follower is left alone for now."""
        failed_ms, took_ms = self._failed.get(follower.name, (0, 0))
        return 0 <= log.clock_ms() - failed_ms < REST * took_ms

    def _call(self, follower: Follower, log: CommitLog) -> None:
        called_ms = log.clock_ms()
        try:
            follower.catch_up(log)
        except Exception as raised:
            failed_ms, error = log.clock_ms(), _foreseen(raised)
            self._failed[follower.name] = failed_ms, failed_ms - called_ms
            since_ms, before = self._troubles.get(follower.name, (failed_ms, ""))
            self._troubles[follower.name] = since_ms, str(error)
            if error is raised:
                raise
            if str(error) != before:
                _log.error("%s failed in an unforeseen way", follower.name, exc_info=raised)
            raise error from raised
        self._troubles.pop(follower.name, None)


def _foreseen(error: Exception) -> SinkError:
    """Return an error of the product's own: the error itself, or one that says that nobody foresaw it."""
    if isinstance(error, SinkError):
        return error
    return Defect(f"{reason_of(error)} This is a defect of kafka-s3.")
