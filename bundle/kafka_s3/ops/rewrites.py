"""How does a rewrite that was asked for come into the log? The sink at work takes it; where none is, this process owns the log meanwhile.

For whoever has made objects that take the place of others (`compact`, `forget`), in whatever process.
"""

from __future__ import annotations

import getpass
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any, Final

from kafka_s3.connect.config.settings import Settings
from kafka_s3.engine.control.commands import CommandRequest, ask_look
from kafka_s3.engine.log.entry import BY_HAND, CommitEntry, EntryKind
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.rewrites import RequestState, judge_request
from kafka_s3.engine.loop.committer import Committer
from kafka_s3.engine.loop.rewrites import Rewrites
from kafka_s3.model.errors import CommitError, ConfigError, Problem, TableError
from kafka_s3.model.files import DataFile
from kafka_s3.ops.positions import DriverAtWork, check_idle
from kafka_s3.run.wiring.followers import compactor_of, followed_by_tables, tables_without_spark

WAIT_S: Final = 300.0
"""How long a sink at work has to take what is asked for."""
LOOK_S: Final = 0.5
ASK_AGAIN_S: Final = 10.0
QUIET_MS: Final = 60_000
Warn = Callable[[str], None]


class NotTaken(CommitError):
    """The sink has not taken a rewrite, or has refused it; the objects are as they were."""


def who() -> str:
    """Who asks, as the log names it."""
    return f"{getpass.getuser()}@{socket.gethostname()}{BY_HAND}"


def check_topics(wanted: Set[str], entries: Iterable[CommitEntry]) -> None:
    """Raises ConfigError for a topic that no object of the log is of: it may be misspelt, and nothing would be found."""
    known = {file.topic for entry in entries for file in entry.files} if wanted else set()
    for topic in sorted(wanted - known):
        hint = f"Topics with objects: {', '.join(sorted(known)) or 'none'}."
        raise ConfigError([Problem("--topic", topic, "has no object in the log.", hint)])


@dataclass
class RewriteRequests:
    """Those of one sink. A sink at work has `wait_s` seconds for each."""

    settings: Settings
    log: CommitLog
    clock_ms: Callable[[], int]
    warn: Warn
    wait_s: float = WAIT_S

    def taken(self, request: CommitEntry) -> CommitEntry:
        """The entry that a request has become, by the sink at work, or by this process where none is.

        Raises NotTaken, CommitError, StorageError.
        """
        deadline = time.monotonic() + self.wait_s
        key = self.log.paths.rewrite_request(request.commit_id)
        while self.log.store.head(key) is not None:
            self.log.load()
            try:
                check_idle(self.log, now_ms=self.clock_ms(), within_ms=QUIET_MS)
            except DriverAtWork as error:
                self._ask(request, key)
                if time.monotonic() >= deadline and self.log.store.head(key) is not None:
                    raise NotTaken(
                        f"Sink {self.log.paths.sink} has not taken a rewrite within {self.wait_s:.0f} s; is it paused? It waits in {key}, "
                        "and the sink takes it when it goes on, or starts."
                    ) from error
            else:
                self._take()
        return self._entry(request)

    def _take(self) -> None:
        """As the owner of the log, which ends any driver that began meanwhile."""
        compactor = compactor_of(self.settings, self.log.store)
        committer = Committer(self.log, lambda entry, gone: _remade(compactor.remake, entry, gone))
        committer.claim(self.log.state.cluster_id)
        grace_ms = self.settings.number("rewrite.grace.ms")
        followed = followed_by_tables(self.settings, self.log.store)
        rewrites = Rewrites(self.log, committer.commit, self.warn, grace_ms, followed)
        rewrites.settle_requests()
        self._follow()
        rewrites.delete_originals()

    def _follow(self) -> None:
        """The tables follow at once; one that cannot follow does so when the sink runs again."""
        for tables in tables_without_spark(self.settings, self.log.store, clock_ms=self.clock_ms, warn=self.warn):
            try:
                tables.catch_up(self.log)
            except TableError as error:
                self.warn(f"{tables.name}: {error}")

    def _ask(self, request: CommitEntry, key: str) -> None:
        """Asks the sink at work to look, and gives it a while."""
        asked = CommandRequest(uuid.uuid4().hex, self.clock_ms(), request.driver)
        ask_look(self.log.store, self.log.paths, asked)
        until = time.monotonic() + min(ASK_AGAIN_S, self.wait_s)
        while time.monotonic() < until and self.log.store.head(key) is not None:
            time.sleep(LOOK_S)

    def _entry(self, request: CommitEntry) -> CommitEntry:
        since = list(self.log.entries(after=request.version))
        state, why = judge_request(request, since)
        if state is not RequestState.DONE:
            raise NotTaken(
                f"A rewrite was not taken: {why or 'its uploads were gone.'} Nothing has changed; repeat the command."
            )
        return next(entry for entry in since if entry.commit_id == request.commit_id)


def _remade(remake: Callable[..., Any], entry: CommitEntry, gone: list[DataFile]) -> Any:
    if entry.kind is EntryKind.REWRITE:
        return remake(entry, gone)
    raise CommitError(
        f"Commit entry {entry.version} counts files whose uploads are gone; they are made again from Kafka by a run. Start the sink once "
        "with `kafka-s3 run`, stop it, then repeat."
    )
