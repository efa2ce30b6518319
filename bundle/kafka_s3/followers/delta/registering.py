"""How do tables get their names in the catalog? Each is registered once it is there; nothing that is registered is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafka_s3.connect.naming.table_names import TableName, TableNames, place
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.entries import EntryFiles
from kafka_s3.followers.delta.follower import PATIENCE_MS
from kafka_s3.model.errors import SinkError, TableRefused

if TYPE_CHECKING:
    from kafka_s3.followers.delta.zero_copy import ZeroCopy


class Catalog(Protocol):
    """Where tables have names."""

    def location(self, name: TableName) -> str | None:
        """Where the table of that name lies, None where there is none. Raises TableError."""
        ...

    def register(self, name: TableName, location: str) -> None:
        """Gives the Delta table at a location that name, unless the name is taken. Raises TableError."""
        ...


@dataclass(slots=True)
class Registering:
    """Takes entries as `inner`, and registers each table. `location` gives the URL of a topic's table.

    A table that cannot be registered follows on; the reason is a warning, and it is tried again later.
    """

    inner: ZeroCopy
    catalog: Catalog
    names: TableNames
    location: Callable[[str], str]
    clock_ms: Callable[[], int]
    warn: Callable[[str], None]
    _done: set[str] = field(default_factory=set)
    _waits: dict[str, int] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    def begin(self, topics: Sequence[str]) -> None:
        """Registers the tables that are there already: the name may have been configured later."""
        self.inner.begin(topics)
        for topic in topics:
            self._try(topic)

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes entries, then registers the table if it is not."""
        self.inner.take(topic, entries, log=log, after=after)
        self._try(topic)

    def _try(self, topic: str) -> None:
        if topic in self._done or self._waits.get(topic, 0) > self.clock_ms():
            return
        try:
            if self.inner.exists(topic):
                self._register(topic)
                self._done.add(topic)
        except SinkError as error:
            self._waits[topic] = self.clock_ms() + PATIENCE_MS
            if self._told.get(topic) != str(error):
                self._told[topic] = str(error)
                self.warn(f"Delta tables: the table of {topic} is not registered, but follows on: {error}")

    def _register(self, topic: str) -> None:
        name, wanted = self.names.of(topic), self.location(topic)
        found = self.catalog.location(name)
        if found is None:
            self.catalog.register(name, wanted)
            found = self.catalog.location(name)
        if found is None or place(found) != place(wanted):
            raise TableRefused(
                f"{name} is already registered at {found}, not at {wanted}. That registration is left as it is: remove it (of an external "
                "table no file is deleted), or set another delta.table.name."
            )
