"""How do the files of log entries get into a topic's table without being copied? delta-rs adds the objects that are there.

Columns and statistics come from their footers, partition values from their directories. Where the columns go beyond the table's, these are
changed first; then the files go in, in one commit. A table that is not there is made from the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.delta.entries import ChangeReporter, EntryFiles, batches, by_topic, note_of
from kafka_s3.followers.delta.planner import TablePlanner
from kafka_s3.followers.delta.states import Commit, TableState
from kafka_s3.followers.delta.table import REMEDY, Table
from kafka_s3.model.errors import TableRefused, TableUnavailable

TRIES: Final = 3


@dataclass(slots=True)
class ZeroCopy:
    """Takes entries into the tables of one sink; `table` gives that of a topic, the same one each time."""

    table_planner: TablePlanner
    sink: str
    table: Callable[[str], Table]
    clock_ms: Callable[[], int]
    reporter: ChangeReporter

    def begin(self, topics: Sequence[str]) -> None:
        """Nothing is to be known of tables before there are files for them."""

    def exists(self, topic: str) -> bool:
        """Whether the topic has a table. Raises TableError."""
        return self.table(topic).state() is not None

    def take(self, topic: str, entries: Sequence[EntryFiles], *, log: CommitLog, after: int) -> None:
        """Takes the files of some entries of a topic; those of all earlier entries, too, where the table is not there yet."""
        state = self.table(topic).state()
        if after < 0 or state is not None:
            self._commit(topic, entries, state)
            return
        for batch in batches(log.entries(), entries[-1].version):
            self._commit(topic, by_topic(batch).get(topic, []), self.table(topic).state())

    def _commit(self, topic: str, entries: Sequence[EntryFiles], state: TableState | None) -> None:
        """Commits, on a newer state where another writer was faster."""
        for attempt in range(1, TRIES + 1):
            try:
                self._commit_on(state, topic, entries)
                return
            except TableUnavailable:
                if attempt == TRIES:
                    raise
                state = self.table(topic).state()

    def _commit_on(self, state: TableState | None, topic: str, entries: Sequence[EntryFiles]) -> None:
        table = self.table(topic)
        entries = [one for one in entries if state is None or one.version > state.position]
        if not entries:
            return
        if state is not None and state.obstacles:
            raise TableRefused(f"{table.address} has {', '.join(state.obstacles)}. {REMEDY}")
        files = [file for one in entries for file in one.files]
        if state is not None and state.position < 0:  # someone else's table, which may hold some of the files
            held = set(table.paths())
            files = [file for file in files if self.table_planner.layout.path(file) not in held]
        modified = {file.key: one.committed_ms for one in entries for file in one.files}
        plan = self.table_planner.plan(state, files, modified_ms=modified)
        note = note_of(self.sink, entries, plan)
        commit = Commit(entries[-1].version, plan.files, note=note, at_ms=self.clock_ms())
        self.reporter.tell(topic, plan)
        if state is None:
            if plan.files:
                table.create(plan.columns, plan.partition_by, commit)
            return
        if plan.columns.fields != state.columns.fields:
            table.evolve(plan.columns, at_ms=commit.at_ms)
            table.state()
        table.append(commit)
