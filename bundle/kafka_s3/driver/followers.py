"""What follows the commit log? The mirrored consumer group, the dead letter topic, and the log lines of failed records.

They come after publication, are idempotent by entry, and catch up.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kafka_s3.commit.entry import CommitEntry
from kafka_s3.commit.log import CommitLog
from kafka_s3.model.dead_letters import DeadLetter, context_headers, read_lines
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.files import Role
from kafka_s3.model.protocols import Brokers, Message
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.store import ObjectStore

_log = logging.getLogger(__name__)


class Follower(Protocol):
    """Something that is brought up to the log's last published entry."""

    @property
    def name(self) -> str:
        """What is followed, for messages."""
        ...

    def catch_up(self, log: CommitLog) -> None:
        """Follows the log; may raise KafkaUnavailable and is then called again after the next entry."""
        ...


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Mirrors the frontier to consumer group `connect-<name>`, so that lag tools work.

    Strict: as the original, one past the last record in an object, and nothing where no object was written yet (SEMANTICS A3.6).
    """

    brokers: Brokers
    group: str
    strict: bool
    name: str = "group offsets"

    def catch_up(self, log: CommitLog) -> None:
        """Commits the offsets of all topic-partitions."""
        written = {tp: p.written if self.strict else p.frontier for tp, p in log.state.progress.items()}
        self.brokers.commit_group(self.group, {tp: offset for tp, offset in written.items() if offset is not None})


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Publishes the dead letters of each entry to the topic `errors.deadletterqueue.topic.name`.

    How far it has come is an object beside the log. A crash between sending and noting that sends the entry's letters again.
    """

    brokers: Brokers
    store: ObjectStore
    paths: StatePaths
    topic: str
    replication: int
    context: bool
    name: str = "dead letter topic"

    def catch_up(self, log: CommitLog) -> None:
        """Sends the letters of every entry since the last one noted."""
        done = self._position()
        if log.state.version <= done:
            return
        for entry in _entries(log, after=done):
            found = list(_letter_lists(entry, self.store))
            for letters in found:
                self.send(letters)
            if found:
                self._note(entry.version)
        self._note(log.state.version)

    def send(self, letters: Iterable[DeadLetter]) -> None:
        """Produces dead letters, whatever the log says of them."""
        messages = [
            Message(
                letter.key,
                letter.value,
                letter.headers + (tuple(context_headers(letter, connector=self.paths.sink)) if self.context else ()),
                letter.timestamp,
                origin=(letter.topic, letter.partition, letter.offset),
            )
            for letter in letters
        ]
        self.brokers.produce(self.topic, messages, replication=self.replication)

    def _position(self) -> int:
        try:
            return int(json.loads(self.store.get(self._key))["version"])
        except ObjectMissing:
            return -1

    def _note(self, version: int) -> None:
        self.store.put(self._key, json.dumps({"version": version}).encode())

    @property
    def _key(self) -> str:
        return self.paths.follower("dead-letter-topic")


@dataclass(slots=True)
class DeadLetterLog:
    """Says in a log line of each dead letter that it failed, where and why: `errors.log.enable`.

    With `coordinates` (`errors.log.include.messages`) also topic, partition, offset and timestamp; as in the original, never the contents.
    It begins with the entries of this process: after a crash a letter may be in its file without a line.
    """

    store: ObjectStore
    sink: str
    coordinates: bool
    name: str = "log of failed records"
    _done: int | None = field(default=None, init=False)

    def catch_up(self, log: CommitLog) -> None:
        """Logs the letters of every entry since the last call."""
        done, self._done = self._done, log.state.version
        if done is None or log.state.version <= done:
            return
        for entry in _entries(log, after=done):
            for letters in _letter_lists(entry, self.store):
                self.send(letters)

    def send(self, letters: Iterable[DeadLetter]) -> None:
        """Logs letters, whatever the commit log says of them."""
        for letter in letters:
            _log.error("record failed", extra={"facts": self._facts(letter)})

    def _facts(self, letter: DeadLetter) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "sink": self.sink, "stage": letter.stage, "class": letter.component, "exception": letter.exception, "message": letter.message,
        }  # fmt: skip
        if self.coordinates:
            facts |= {
                "topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "timestamp": letter.timestamp,
            }  # fmt: skip
        return facts


REPORTERS: Final = (DeadLetterTopic, DeadLetterLog)


def _entries(log: CommitLog, *, after: int) -> Iterable[CommitEntry]:
    """The entries after a version; the last one is at hand."""
    return [log.last] if log.last is not None and log.last.version == after + 1 else log.entries(after=after)


def _letter_lists(entry: CommitEntry, store: ObjectStore) -> Iterator[list[DeadLetter]]:
    """The dead letters of an entry, file by file."""
    for file in entry.files:
        if file.role is Role.DEAD_LETTER:
            yield read_lines(store.get(file.key))
