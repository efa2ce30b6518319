"""Which files of the commit log belong into which table, in what batches, and how does a table's history name them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_s3.engine.log.dead_letters import committed_ms
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.followers.delta.layout import in_table
from kafka_s3.followers.delta.planner import TablePlan
from kafka_s3.model.files import DataFile

BATCH: Final = 1000
"""About how many files, and at most how many entries, go into one version of a table."""


@dataclass(frozen=True, slots=True)
class EntryFiles:
    """The files of one topic in one entry."""

    version: int
    committed_ms: int
    files: tuple[DataFile, ...]


def batches(entries: Iterable[CommitEntry], head: int) -> Iterator[list[CommitEntry]]:
    """Entries up to the head, in groups of about `BATCH` files."""
    batch: list[CommitEntry] = []
    files = 0
    for entry in entries:
        if entry.version > head:
            break
        batch.append(entry)
        files += len(entry.files)
        if files >= BATCH or len(batch) >= BATCH:
            yield batch
            batch, files = [], 0
    if batch:
        yield batch


def by_topic(entries: Iterable[CommitEntry]) -> dict[str, list[EntryFiles]]:
    """The entries' files that belong into tables, by topic."""
    found: dict[str, list[EntryFiles]] = {}
    for entry in entries:
        topics: dict[str, list[DataFile]] = {}
        for file in entry.files:
            if in_table(file):
                topics.setdefault(file.topic, []).append(file)
        for topic, files in topics.items():
            found.setdefault(topic, []).append(EntryFiles(entry.version, committed_ms(entry), tuple(files)))
    return found


def offset_ranges(files: Iterable[DataFile]) -> dict[str, list[list[int]]]:
    """Per topic-partition the inclusive offset ranges of files; ranges that touch are one."""
    found: dict[str, list[list[int]]] = {}
    for file in sorted(files, key=lambda file: file.first_offset):
        ranges = found.setdefault(str(file.topic_partition), [])
        if ranges and file.first_offset <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], file.last_offset)
        else:
            ranges.append([file.first_offset, file.last_offset])
    return found


def note_of(sink: str, entries: Sequence[EntryFiles], plan: TablePlan) -> dict[str, Any]:
    """What the table's history says of a version: `userMetadata`."""
    taken = [file for one in entries for file in one.files if file.key not in plan.left_out]
    note: dict[str, Any] = {
        "kafka-s3": sink,
        "entries": [entries[0].version, entries[-1].version],
        "offsets": offset_ranges(taken),
    }
    return note | ({"left_out": sorted(plan.left_out)} if plan.left_out else {})


@dataclass(slots=True)
class ChangeReporter:
    """Warns of files that stay out of a table, and once of columns that do."""

    warn: Callable[[str], None]
    _told: set[str] = field(default_factory=set)

    def tell(self, topic: str, plan: TablePlan) -> None:
        """Says what of a plan is not in the table."""
        for key, reason in plan.left_out.items():
            self.warn(f"Delta tables: {key} stays out of the table: {reason}.")
        fresh = [text for text in plan.omitted if f"{topic}/{text}" not in self._told]
        if fresh:
            self._told.update(f"{topic}/{text}" for text in fresh)
            self.warn(f"Delta tables: columns of {topic} stay in the files alone: {'; '.join(fresh)}.")
