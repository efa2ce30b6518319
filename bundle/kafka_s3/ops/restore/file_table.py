"""Where are the files of a plan, however many there are? In a temporary database, of which a few MiB are in memory.

`FileTable` holds what the log or the bucket tells; `PlannedFiles` are those of one topic-partition that are wanted, in order.
"""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import ROLES
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.readers import StoredObject
from kafka_s3.ops.restore.values import StoredFile

CACHE_KIB: Final = 16 << 10
"""What of the database is in memory at most; the rest is in a file that goes with the process."""
_TABLES: Final = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE;
CREATE TABLE told (id INTEGER PRIMARY KEY, topic TEXT, partition INT, directory TEXT, first INT, last INT, until INT, rest BLOB);
CREATE INDEX told_place ON told (topic, partition, directory, first);
CREATE INDEX told_first ON told (topic, partition, first);
CREATE TABLE planned (plan INT, number INT, first INT, wanted INT, bytes INT, file BLOB, PRIMARY KEY (plan, number)) WITHOUT ROWID;
CREATE INDEX planned_first ON planned (plan, first);
BEGIN;
"""
_OF: Final = "topic = ? AND partition = ?"


class _Database(sqlite3.Connection):
    """A temporary database. Raises LocalDiskError where the disk takes no more of it."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError as error:
            raise LocalDiskError(
                f"The plan's temporary file cannot grow: {error}. Make room there, have SQLITE_TMPDIR or TMPDIR name a larger disk, or "
                "restore one topic at a time."
            ) from error


class FileTable:
    """Files by topic-partition. Their temporary space is given back with the table and all that was planned of it.

    Every method raises LocalDiskError where the disk is full, and so do those of `PlannedFiles`.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, factory=_Database)  # no name: a file that nobody else sees
        self._db.executescript(f"PRAGMA cache_size = -{CACHE_KIB};{_TABLES}")
        self._plans = count()

    def add(self, file: StoredFile) -> None:
        """Takes a file in."""
        self._db.execute(
            "INSERT INTO told (topic, partition, directory, first, last, until, rest) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*file.topic_partition, file.directory, file.first_offset, file.last_offset, file.until, _rest(file)),
        )

    def add_object(self, file: StoredFile) -> None:
        """Takes a file of one object in, or the object to the file of its directory and first offset, if there is one."""
        tp = file.topic_partition
        place = (*tp, file.directory, file.first_offset)
        found = self._db.execute(
            f"SELECT id, rest FROM told WHERE {_OF} AND directory = ? AND first = ?", place
        ).fetchone()
        if found is None:
            self.add(file)
            return
        records, low, high, parts = marshal.loads(found[1])
        merged = {one[0]: one for one in (*parts, *_parts(file))}
        rest = marshal.dumps((records, low, high, list(merged.values())))
        self._db.execute("UPDATE told SET rest = ? WHERE id = ?", (rest, found[0]))

    def forget_topic(self, topic: str) -> None:
        """Its files so far are of another topic of that name."""
        self._db.execute("DELETE FROM told WHERE topic = ?", (topic,))

    def forget(self, tp: TopicPartition, first: int, *, last: int) -> None:
        """The files of these offsets, both included, never appeared."""
        self._db.execute(f"DELETE FROM told WHERE {_OF} AND first = ? AND last = ?", (*tp, first, last))

    def cut_at(self, tp: TopicPartition, offset: int) -> None:
        """What is at or behind the offset is not wanted of the files so far: the n-th row is at the first offset and n, or later."""
        self._db.execute(f"DELETE FROM told WHERE {_OF} AND first >= ?", (*tp, offset))
        self._db.execute(
            f"UPDATE told SET until = min(? - first, coalesce(until, ? - first)) WHERE {_OF} AND last >= ?",
            (offset, offset, *tp, offset),
        )

    def cut_apart(self) -> None:
        """Of files of one directory that overlap, the earlier one ends where the later begins."""
        self._db.execute(
            "UPDATE told SET until = (SELECT min(later.first) FROM told AS later WHERE later.topic = told.topic AND "
            "later.partition = told.partition AND later.directory = told.directory AND later.first > told.first) - first"
        )

    def topic_partitions(self) -> list[TopicPartition]:
        """Those with files, in order."""
        rows = self._db.execute("SELECT DISTINCT topic, partition FROM told ORDER BY topic, partition")
        return [TopicPartition(*row) for row in rows]

    def of(self, tp: TopicPartition) -> Iterator[StoredFile]:
        """A topic-partition's files by first offset and directory."""
        query = f"SELECT directory, first, last, until, rest FROM told WHERE {_OF} ORDER BY first, directory"
        for directory, first, last, until, rest in self._db.execute(query, tp):
            yield _unpacked(tp, directory, first, last, 0, until, rest)

    def plan(self, tp: TopicPartition) -> PlannedFiles:
        """An empty list of a topic-partition's files."""
        return PlannedFiles(self._db, next(self._plans), tp)


class PlannedFiles:
    """Files of one topic-partition in order, each with its number."""

    def __init__(self, db: sqlite3.Connection, plan: int, tp: TopicPartition) -> None:
        self._db, self._plan, self._tp, self._count = db, plan, tp, 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> StoredFile:
        (found,) = self._db.execute(
            "SELECT file FROM planned WHERE plan = ? AND number = ?", (self._plan, number)
        ).fetchone()
        return self._file(found)

    def append(self, file: StoredFile) -> None:
        """Puts a file behind the others."""
        size = sum(part.size for part in file.parts.values())
        packed = marshal.dumps(
            (file.directory, file.first_offset, file.last_offset, file.skip, file.until, _rest(file))
        )
        row = (self._plan, self._count, file.first_offset, file.wanted, size, packed)
        self._db.execute("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?)", row)
        self._count += 1

    def since(self, number: int) -> Iterator[tuple[int, StoredFile]]:
        """The files from a number on, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND number >= ? ORDER BY number"
        for found, packed in self._db.execute(query, (self._plan, number)):
            yield found, self._file(packed)

    def at(self, first_offset: int) -> Iterator[tuple[int, StoredFile]]:
        """The files with that first offset, with their numbers."""
        query = "SELECT number, file FROM planned WHERE plan = ? AND first = ?"
        for found, packed in self._db.execute(query, (self._plan, first_offset)):
            yield found, self._file(packed)

    def records(self, until: int | None = None) -> int | None:
        """How many records are wanted of the files before a number (None: of all); None where a file does not say."""
        end = self._count if until is None else until
        query = "SELECT count(*) - count(wanted), coalesce(sum(wanted), 0) FROM planned WHERE plan = ? AND number < ?"
        unknown, known = self._db.execute(query, (self._plan, end)).fetchone()
        return None if unknown else known

    @property
    def size(self) -> int:
        """The bytes of all objects."""
        (found,) = self._db.execute(
            "SELECT coalesce(sum(bytes), 0) FROM planned WHERE plan = ?", (self._plan,)
        ).fetchone()
        return int(found)

    def _file(self, packed: bytes) -> StoredFile:
        directory, first, last, skip, until, rest = marshal.loads(packed)
        return _unpacked(self._tp, directory, first, last, skip, until, rest)


def _parts(file: StoredFile) -> list[tuple[str, str, int, str]]:
    return [(role.value, part.key, part.size, part.format) for role, part in file.parts.items()]


def _rest(file: StoredFile) -> bytes:
    """What nobody asks the database for."""
    return marshal.dumps((file.records, file.min_timestamp, file.max_timestamp, _parts(file)))


def _unpacked(
    tp: TopicPartition, directory: str, first: int, last: int | None, skip: int, until: int | None, rest: bytes
) -> StoredFile:
    records, low, high, parts = marshal.loads(rest)
    objects = {ROLES[role]: StoredObject(*one) for role, *one in parts}
    return StoredFile(tp, first, directory, objects, records, last, low, high, skip, until)
