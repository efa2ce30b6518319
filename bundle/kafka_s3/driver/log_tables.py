"""How do readers of a long log come by it quickly? It follows the log: each stretch of entries that is full becomes Parquet, once.

Entries are read again for it, a few at a time, so that neither a commit waits long nor memory holds more than a stretch. Where a stretch
ends follows from the entries alone: whoever makes it again makes the same. Three tables are put, then the manifest that names them; a crash
in between costs their making once more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from kafka_s3.commit.entry import CommitEntry
from kafka_s3.commit.history import digest, parquet_of
from kafka_s3.commit.log import CommitLog
from kafka_s3.commit.manifest import Manifest, Stretch, read_manifest
from kafka_s3.commit.reading import read_entries
from kafka_s3.commit.tables import Tables, joined, tables_of
from kafka_s3.model.errors import LogDamaged

STRETCH_ENTRIES: Final = 1000
STRETCH_FILES: Final = 50_000
"""A stretch is full with so many entries, or as soon as they count so many files. Part of the layout: other numbers, other objects."""
STEP_ENTRIES: Final = 100
STEP_FILES: Final = 10_000
"""What is read at a time; an entry may have more files."""


@dataclass
class Pending:
    """Entries on their way into the next stretch, as tables."""

    tables: list[Tables] = field(default_factory=list)
    ends: list[CommitEntry] = field(default_factory=list)
    files: int = 0

    @property
    def full(self) -> bool:
        """Whether the stretch ends here."""
        return len(self.tables) == STRETCH_ENTRIES or self.files >= STRETCH_FILES

    def add(self, entry: CommitEntry) -> None:
        """Takes the next entry in. Raises LogDamaged, also where it is not the next one."""
        if self.last is not None and entry.version != self.last + 1:
            raise LogDamaged(
                f"Commit entry {self.last + 1} is missing, though {entry.version} is there. Restore the object from a bucket version or backup."
            )
        self.tables.append(tables_of(entry))
        self.ends = [*self.ends[:1], replace(entry, files=())]
        self.files += entry.totals.files

    @property
    def last(self) -> int | None:
        """The last version, None where there is none yet."""
        return self.ends[-1].version if self.ends else None


@dataclass
class LogTables:
    """The follower. What it finds in the bucket and cannot go on with is told once, and left as it is until the next start."""

    warn: Callable[[str], None]
    name: str = "log tables"
    _manifest: Manifest | None = None
    _pending: Pending = field(default_factory=Pending)
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
        return log.state.version - manifest.last >= STRETCH_ENTRIES or files >= STRETCH_FILES

    def _step(self, log: CommitLog, manifest: Manifest) -> None:
        pending = self._pending
        after = manifest.last if pending.last is None else pending.last
        before = pending.files
        with closing(read_entries(log.store, log.paths, after=after)) as found:
            for _, entry in islice(found, STEP_ENTRIES):
                pending.add(entry)
                if pending.full:
                    self._close(log, manifest)
                    return
                if pending.files - before >= STEP_FILES:
                    return

    def _close(self, log: CommitLog, manifest: Manifest) -> None:
        """Puts the stretch, unless another manifest is there than before: then it begins anew behind that one."""
        pending, self._pending = self._pending, Pending()
        found = read_manifest(log.store, log.paths)
        if found != manifest:
            self._manifest = found
            return
        stretch = write_stretch(log, joined(pending.tables), ends=(pending.ends[0], pending.ends[-1]), files=pending.files)
        self._manifest = Manifest((*manifest.stretches, stretch))
        log.store.put(log.paths.log_manifest(), self._manifest.to_json())


def write_stretch(log: CommitLog, tables: Tables, *, ends: tuple[CommitEntry, CommitEntry], files: int) -> Stretch:
    """Puts the tables of a stretch, and gives what its manifest is to say. Raises StorageError."""
    first, last = ends
    content = parquet_of(tables)
    for name, parquet in content.items():
        log.store.put(log.paths.log_table(name, first.version, last=last.version), parquet)
    return Stretch(
        first.version,
        last.version,
        commits=(first.commit_id, last.commit_id),
        committed_at=(first.committed_at, last.committed_at),
        files=files,
        rows={name: len(table) for name, table in tables.items()},
        sha256={name: digest(parquet) for name, parquet in content.items()},
    )
