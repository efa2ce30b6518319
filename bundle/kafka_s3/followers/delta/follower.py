"""How does a Delta table come to hold exactly the files of the commit log? It follows the log, entry by entry, after publication.

1. How far all tables have come is an object beside the log (`place`); how far one has come is in the table itself, as the
   transaction version of the sink's application. The object may lag behind the tables, never the other way round.
2. The files of the entries since then are taken per topic, at most `BATCH` at a time (`ZeroCopy`, or `Copying` for tables of Spark).
3. A crash anywhere: the table's own transaction version says what is in it already.
4. A table that is not there is made from the whole log. So a sink may begin with a table at any time.

A table that cannot follow keeps the place that it has reached, is tried again later, and holds up neither the sink nor other tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.entries import EntryFiles, batches, by_topic
from kafka_s3.followers.progress import Places, note_places, read_places
from kafka_s3.model.errors import SinkError, TableError, TableRefused, TableUnavailable
from kafka_s3.store.store import ObjectStore

PATIENCE_MS: Final = 60_000
"""How long a table that refused is left alone."""


class TableWriter(Protocol):
    """What takes log entries into tables."""

    def begin(self, topics: Sequence[str]) -> None:
        """Is told once which topics the log knows. Raises nothing."""
        ...

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic into its table, all since entry `after`, each once. Raises TableError."""
        ...


class DeltaTables:
    """The follower that keeps a Delta table of each topic; `place` is the key of the object that says how far all have come."""

    name = "Delta tables"

    def __init__(
        self, table_writer: TableWriter, store: ObjectStore, place: str, *, clock_ms: Callable[[], int]
    ) -> None:
        self._table_writer = table_writer
        self._store = store
        self._place = place
        self._clock_ms = clock_ms
        self._places: Places | None = None
        self._waits: dict[str, int] = {}

    @property
    def due(self) -> bool:
        """Whether a table that is behind may be tried again. Asks nobody."""
        places, now = self._places, self._clock_ms()
        return places is not None and any(self._waits.get(topic, 0) <= now for topic in places.behind)

    def catch_up(self, log: CommitLog) -> None:
        """Brings every table up to the log's last entry. Raises TableError that names all tables that could not follow."""
        try:
            failures = self._catch_up(log)
        except TableError:
            raise
        except SinkError as error:  # the log or the bucket does not answer
            raise TableUnavailable(str(error)) from error
        if failures:
            raise TableError(" ".join(str(error) for error in failures))

    def _catch_up(self, log: CommitLog) -> list[TableError]:
        if self._places is None:
            self._places = read_places(self._store, self._place)
            self._table_writer.begin(sorted({tp.topic for tp in log.state.progress}))
        places = self._places
        failures: list[TableError] = []
        now, head = self._clock_ms(), log.state.version
        for topic in [topic for topic in places.behind if self._waits.get(topic, 0) <= now]:
            self._follow(topic, log, places=places, head=head, failures=failures)
        if places.version < head:
            self._follow_all(log, places=places, head=head, failures=failures)
        return failures

    def _follow_all(self, log: CommitLog, *, places: Places, head: int, failures: list[TableError]) -> None:
        """All tables but those that are behind, from the common place on."""
        after, held = places.version, set(places.behind)
        for batch in batches(log.entries_since(after), head):
            for topic, entries in by_topic(batch).items():
                if topic in held or topic in places.behind:
                    continue
                try:
                    self._table_writer.take(topic, entries, log=log, after=after)
                except TableError as error:
                    self._hold(topic, places, after=after, error=error, failures=failures)
            after = batch[-1].version
            places.version = after
            note_places(self._store, self._place, places)

    def _follow(self, topic: str, log: CommitLog, *, places: Places, head: int, failures: list[TableError]) -> None:
        """One table that is behind, up to the head."""
        after = places.behind[topic]
        try:
            for batch in batches(log.entries(after=after), head):
                entries = by_topic(batch).get(topic)
                if entries:
                    self._table_writer.take(topic, entries, log=log, after=after)
                after = batch[-1].version
                places.behind[topic] = after
        except TableError as error:
            self._hold(topic, places, after=after, error=error, failures=failures)
            return
        if places.version >= head:
            del places.behind[topic]
        note_places(self._store, self._place, places)

    def _hold(self, topic: str, places: Places, *, after: int, error: TableError, failures: list[TableError]) -> None:
        places.behind[topic] = after
        self._waits[topic] = self._clock_ms() + (PATIENCE_MS if isinstance(error, TableRefused) else 0)
        failures.append(error)
