"""Where is what a walk over a long log has to keep? In a temporary database, of which a few MiB are in memory.

`SegmentStore` keeps a log's segments by topic-partition; what is not a segment has tables of its own (`TemporaryDatabase`).
"""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import REASONS, ROLES, DataFile, Upload
from kafka_s3.model.offsets import OffsetSet, TopicPartition

CACHE_KIB: Final = 16 << 10
"""What of a database is in memory at most; the rest is in a file that goes with the process."""
HELD_BYTES: Final = 8 << 20
"""Packed segments that are in memory before they are compressed and go to the database."""
_FILE: Final = attrgetter(
    "key", "topic", "partition", "first_offset", "last_offset", "records", "bytes", "min_timestamp", "max_timestamp",
    "encoded_partition", "schema", "format",
)  # fmt: skip
_UPLOAD: Final = attrgetter("key", "id", "parts", "size")
_MADE: Final[Callable[..., DataFile]] = DataFile


class TemporaryDatabase(sqlite3.Connection):
    """Tables that nobody else sees; their space is given back with the last reference.

    Every statement raises LocalDiskError, with `remedy` behind what helps always, where the disk takes no more.
    """

    def __init__(self, tables: str, *, remedy: str = "") -> None:
        super().__init__("", isolation_level=None)  # without a name
        self._remedy = remedy
        self.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; "
            f"PRAGMA cache_size = -{CACHE_KIB}; {tables} BEGIN;"
        )

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Runs a statement."""
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError as error:
            raise LocalDiskError(
                f"A temporary file cannot grow: {error}. Make room there, or have SQLITE_TMPDIR or TMPDIR name a larger disk{self._remedy}."
            ) from error


class SegmentStore:
    """Segments by topic-partition in the order of the log, read as often as it takes, a few MiB at a time."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._most, self._held = held_bytes, 0
        self._recent: dict[TopicPartition, list[bytes]] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, list[tuple[int, Reset]]] = {}
        self._db: TemporaryDatabase | None = None

    def __iter__(self) -> Iterator[TopicPartition]:
        """The topic-partitions, in order."""
        return iter(sorted(self._counts))

    def add(self, segment: Segment) -> None:
        """Takes the next segment of a topic-partition in. Raises LocalDiskError."""
        tp, packed = segment.topic_partition, _packed(segment)
        self._counts[tp] = self._counts.get(tp, 0) + 1
        self._recent.setdefault(tp, []).append(packed)
        self._held += len(packed)
        if self._held > self._most:
            self._spill()

    def reset(self, reset: Reset) -> None:
        """Takes a reset in, which may supersede segments so far."""
        count = self._counts.setdefault(reset.topic_partition, 0)
        self._resets.setdefault(reset.topic_partition, []).append((count, reset))

    def of(self, topic_partition: TopicPartition) -> Iterator[Segment]:
        """The segments of a topic-partition in the order of the log, with what later resets say of them."""
        resets = [one for one in self._resets.get(topic_partition, ()) if one[1].goes_back]
        for number, segment in enumerate(self._all(topic_partition)):
            for count, reset in resets:
                if number < count and reset.supersedes(segment.until):
                    same = not reset.replaces_records(segment.until)
                    read_again = same and (segment.read_again or not segment.superseded)
                    segment = replace(segment, superseded=True, read_again=read_again)
            yield segment

    def resets_after(self, topic_partition: TopicPartition, version: int) -> list[Reset]:
        """The resets of a topic-partition by entries behind this one."""
        return [reset for _, reset in self._resets.get(topic_partition, ()) if reset.version > version]

    def was_superseded(self, topic_partition: TopicPartition, number: int, offset: int, *, by: int) -> bool:
        """Whether an offset that a topic-partition's segment of this number claims was to be read again when entry `by` was written."""
        resets = self._resets.get(topic_partition, ())
        return any(number < count and reset.version <= by and offset in reset.to_read for count, reset in resets)

    def _all(self, tp: TopicPartition) -> Iterator[Segment]:
        if self._db is not None:
            query = "SELECT segments FROM spilled WHERE topic = ? AND partition = ? ORDER BY id"
            for (compressed,) in self._db.execute(query, tp):
                yield from (_unpacked(tp, one) for one in marshal.loads(zlib.decompress(compressed)))
        yield from (_unpacked(tp, one) for one in self._recent.get(tp, ()))

    def _spill(self) -> None:
        if self._db is None:
            self._db = TemporaryDatabase(
                "CREATE TABLE spilled (id INTEGER PRIMARY KEY, topic TEXT, partition INT, segments BLOB);"
                "CREATE INDEX spilled_of ON spilled (topic, partition, id);"
            )
        for tp, packed in self._recent.items():
            row = (*tp, zlib.compress(marshal.dumps(packed), 1))
            self._db.execute("INSERT INTO spilled (topic, partition, segments) VALUES (?, ?, ?)", row)
        self._recent, self._held = {}, 0


def _packed(segment: Segment) -> bytes:
    files = [(_FILE(file), file.reason.value, file.role.value, _UPLOAD(file.upload)) for file in segment.files]
    resolved = None if segment.resolved is None else segment.resolved.ranges
    return marshal.dumps((
        segment.version, segment.committed_at, segment.start, segment.until, files, segment.dead_letters, segment.skipped,
        segment.sure, resolved,
    ))  # fmt: skip


def _unpacked(tp: TopicPartition, packed: bytes) -> Segment:
    version, committed_at, start, until, files, dead_letters, skipped, sure, resolved = marshal.loads(packed)
    return Segment(
        tp, version, committed_at, start, until,
        tuple(_MADE(*plain, REASONS[reason], Upload(*upload), ROLES[role]) for plain, reason, role, upload in files),
        dead_letters, skipped, sure, resolved=None if resolved is None else OffsetSet(resolved),
    )  # fmt: skip
