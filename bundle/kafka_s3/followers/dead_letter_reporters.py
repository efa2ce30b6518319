"""Who is notified of dead letters? The dead letter topic, and the log lines of failed records; both follow the commit log."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.progress import FollowerPosition
from kafka_s3.model.dead_letters import DeadLetter, context_headers, read_letters
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.files import Role
from kafka_s3.model.protocols import Brokers, Message
from kafka_s3.model.timing import RateLimiter
from kafka_s3.store.store import ObjectStore

_log = logging.getLogger(__name__)
Warn = Callable[[str], None]
LETTER_LINES_S: Final = 1
TIMESTAMP: Final = "kafka_s3.timestamp"
"""The header with a record's time (epoch ms) where the topic does not take that time (`message.timestamp.after.max.ms`)."""


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Publishes the dead letters of each entry to the topic `errors.deadletterqueue.topic.name`, from the log's first entry on.

    How far it has come is an object beside the log. A crash between sending and noting that sends the entry's letters again. A dead
    letter file that is not there any more, or cannot be read, is a warning.
    """

    brokers: Brokers
    store: ObjectStore
    paths: StatePaths
    topic: str
    replication: int
    context: bool
    warn: Warn
    name: str = "dead letter topic"

    def catch_up(self, log: CommitLog) -> None:
        """Sends the letters of every entry since the last one noted."""
        done = self._position.read()
        done = -1 if done is None else done
        if log.state.version <= done:
            return
        for entry in log.entries_since(done):
            lists = _letter_lists(entry, self.store, warn=lambda text: self._warn(f"{text} Its letters are not sent."))
            first = next(lists, None)
            if first is not None:
                self.report(
                    chain(first, chain.from_iterable(lists))
                )  # at once: a producer takes half a second to begin
                self._position.note(entry.version)
        self._position.note(log.state.version)

    def report(self, letters: Iterable[DeadLetter]) -> None:
        """Produces dead letters, whatever the log says of them."""
        messages = (
            Message(
                letter.key,
                letter.value,
                letter.headers + (tuple(context_headers(letter, connector=self.paths.sink)) if self.context else ()),
                letter.timestamp,
                origin=(letter.topic, letter.partition, letter.offset),
            )
            for letter in letters
        )
        refused = self.brokers.produce(self.topic, messages, replication=self.replication)
        timed = [one.message for one in refused if one.message.timestamp is not None]
        refused = [one for one in refused if one.message.timestamp is None]
        if timed:  # a time that the topic does not take, or it does not take it either way
            again = [_without_time(message) for message in timed]
            refused += self.brokers.produce(self.topic, again, replication=self.replication)
        for one in refused:
            self._warn(
                f"{self.topic} does not take {_origin(one.message)}: {one.reason}. It stays in its dead letter file."
            )

    def _warn(self, text: str) -> None:
        self.warn(f"{self.name}: {text}")

    @property
    def _position(self) -> FollowerPosition:
        return FollowerPosition(self.store, self.paths, "dead-letter-topic")


@dataclass(slots=True)
class DeadLetterLog:
    """Says in a log line of each dead letter that it failed, where and why: `errors.log.enable`.

    At most one line a second for each stage, which counts those that it stands for; without `seldom` one line for each, as in the original.
    With `coordinates` (`errors.log.include.messages`) also topic, partition, offset and timestamp; as in the original, never the contents.
    It begins with the entries of this process: after a crash a letter may be in its file without a line.
    """

    store: ObjectStore
    sink: str
    coordinates: bool
    warn: Warn
    seldom: RateLimiter | None
    name: str = "log of failed records"
    _done: int | None = field(default=None, init=False)

    def catch_up(self, log: CommitLog) -> None:
        """Logs the letters of every entry since the last call."""
        done, self._done = self._done, log.state.version
        for entry in log.entries_since(done) if done is not None else ():
            for letters in _letter_lists(entry, self.store, warn=self.warn):
                self.report(letters)

    def report(self, letters: Iterable[DeadLetter]) -> None:
        """Logs letters, whatever the commit log says of them."""
        if self.seldom is None:
            for letter in letters:
                _log.error("record failed", extra={"facts": self._facts(letter)})
            return
        by_stage: dict[str, list[DeadLetter]] = {}
        for letter in letters:
            by_stage.setdefault(letter.stage, []).append(letter)
        for stage, alike in by_stage.items():
            if count := self.seldom.due(stage, len(alike)):
                _log.error("record failed", extra={"facts": {**self._facts(alike[0]), "records": count}})

    def _facts(self, letter: DeadLetter) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "sink": self.sink, "stage": letter.stage, "class": letter.component, "exception": letter.exception, "message": letter.message,
        }  # fmt: skip
        if self.coordinates:
            facts |= {
                "topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "timestamp": letter.timestamp,
            }  # fmt: skip
        return facts


def _without_time(message: Message) -> Message:
    """The message with the time of its sending; its own goes into a header."""
    own = (TIMESTAMP, str(message.timestamp).encode())
    return replace(message, timestamp=None, headers=(*message.headers, own))


def _origin(message: Message) -> str:
    topic, partition, offset = message.origin or ("", 0, 0)
    return f"{topic}-{partition} offset {offset}"


def _letter_lists(entry: CommitEntry, store: ObjectStore, *, warn: Warn) -> Iterator[list[DeadLetter]]:
    """The dead letters of an entry, file by file; `warn` is called for files that are gone or damaged."""
    for file in entry.files if entry.kind is not EntryKind.REWRITE else ():  # those were there before
        if file.role is not Role.DEAD_LETTER:
            continue
        try:
            letters = read_letters(store.get(file.key))
        except ObjectMissing:
            warn(f"{file.key} of entry {entry.version} is not there any more, {file.records} dead letters.")
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            warn(
                f"{file.key} of entry {entry.version} is damaged ({type(error).__name__}), {file.records} dead letters."
            )
        else:
            yield letters
