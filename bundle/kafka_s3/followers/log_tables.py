"""How do readers of a long log come by it quickly? It follows the log: each stretch of entries that is full becomes Parquet, once.

Entries are read again for it, a few at a time, so that neither a commit waits long nor memory holds more than a stretch. Where a stretch
ends follows from the entries alone: whoever makes it again makes the same. Three tables are put, then the manifest that names them; a crash
in between costs their making once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.history import RESTORE, Tables, digest, joined, parquet_of, tables_of
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.reading import Manifest, Stretch, read_entries, read_manifest
from kafka_s3.model.errors import LogDamaged

STRETCH_ENTRIES: Final = 1000
STRETCH_FILES: Final = 50_000
"""A stretch is full with so many entries, or as soon as they count so many files. Part of the layout: other numbers, other objects."""
STEP_ENTRIES: Final = 100
STEP_FILES: Final = 10_000
"""What is read at a time; an entry may have more files."""


@dataclass
class OpenStretch:
    """Entries on their way into the next stretch, as tables: the first and the last, and the files that they count."""

    tables: list[Tables] = field(default_factory=list)
    first: CommitEntry | None = None
    last: CommitEntry | None = None
    entries: int = 0
    files: int = 0

    def add(self, entries: Sequence[CommitEntry], *, after: int) -> None:
        """Takes the entries after a version in. Raises LogDamaged, also where one is left out."""
        for version, entry in enumerate(entries, after + 1):
            if entry.version != version:
                raise LogDamaged(f"Commit entry {version} is missing, though {entry.version} is there. {RESTORE}")
        self.tables.append(tables_of(entries))
        self.first, self.last = self.first or replace(entries[0], files=()), replace(entries[-1], files=())
        self.entries += len(entries)
        self.files += sum(entry.totals.files for entry in entries)


@dataclass
class LogTables:
    """The follower. What it finds in the bucket and cannot go on with is reported once, and left as it is until the next start."""

    warn: Callable[[str], None]
    name: str = "log tables"
    most_entries: int = STRETCH_ENTRIES
    most_files: int = STRETCH_FILES
    _manifest: Manifest | None = None
    _pending: OpenStretch = field(default_factory=OpenStretch)
    _refused: bool = False

    def catch_up(self, log: CommitLog) -> None:
        """Reads a few entries of a stretch that has ended, and writes it when all are there. Raises StorageError."""
        if self._refused or (self._manifest is None and not self._due(log, Manifest())):
            return
        try:
            if self._manifest is None:
                self._manifest = read_manifest(log.store, log.paths)
            if self._due(log, self._manifest):
                self._step(log, self._manifest)
        except LogDamaged as error:
            self._refused = True
            self.warn(f"{self.name}: {error} Until then, and the next start, no more of the log becomes tables.")

    def _due(self, log: CommitLog, manifest: Manifest) -> bool:
        """Whether the entries behind the last stretch fill another one."""
        files = log.state.totals.files - sum(stretch.files for stretch in manifest.stretches)
        return log.state.version - manifest.last >= self.most_entries or files >= self.most_files

    def _step(self, log: CommitLog, manifest: Manifest) -> None:
        pending = self._pending
        after = manifest.last if pending.last is None else pending.last.version
        entries: list[CommitEntry] = []
        files = 0
        with closing(read_entries(log.store, log.paths, after=after)) as found:
            for _, entry in islice(found, STEP_ENTRIES):
                entries.append(entry)
                files += entry.totals.files
                full = pending.entries + len(entries) == self.most_entries or pending.files + files >= self.most_files
                if full or files >= STEP_FILES:
                    break
            else:
                full = False
        if entries:
            pending.add(entries, after=after)
        if full:
            self._close(log, manifest)

    def _close(self, log: CommitLog, manifest: Manifest) -> None:
        """Puts the stretch, unless another manifest is there than before: then a new stretch begins behind that one."""
        pending, self._pending = self._pending, OpenStretch()
        found = read_manifest(log.store, log.paths)
        if found != manifest:
            self._manifest = found
            return
        self._manifest = Manifest((*manifest.stretches, write_stretch(log, pending)))
        log.store.put(log.paths.log_manifest(), self._manifest.to_json())


def write_stretch(log: CommitLog, pending: OpenStretch) -> Stretch:
    """Puts the tables of a stretch, and gives what its manifest is to say. Raises StorageError."""
    first, last, tables = pending.first, pending.last, joined(pending.tables)
    assert first is not None
    assert last is not None
    content = parquet_of(tables)
    for name, parquet in content.items():
        log.store.put(log.paths.log_table(name, first.version, last=last.version), parquet)
    return Stretch(
        first.version,
        last.version,
        commits=(first.commit_id, last.commit_id),
        committed_at=(first.committed_at, last.committed_at),
        files=pending.files,
        rows={name: len(table) for name, table in tables.items()},
        sha256={name: digest(parquet) for name, parquet in content.items()},
    )
