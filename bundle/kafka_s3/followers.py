"""What follows the commit log? The mirrored consumer group and the dead letter topic.

They come after publication, are idempotent by entry, and catch up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kafka_s3.commit_log import CommitLog
from kafka_s3.dead_letters import DeadLetter, context_headers, read_lines
from kafka_s3.errors import ObjectMissing
from kafka_s3.model import Role
from kafka_s3.naming import StatePaths
from kafka_s3.source import Brokers, Message
from kafka_s3.storage.store import ObjectStore


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
        fresh = [log.last] if log.last is not None and log.last.version == done + 1 else log.entries(after=done)
        for entry in fresh:
            files = [file for file in entry.files if file.role is Role.DEAD_LETTER]
            for file in files:
                self.send(read_lines(self.store.get(file.key)))
            if files:
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
