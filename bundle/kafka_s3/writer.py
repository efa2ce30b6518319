"""Which records go into which file of a topic-partition, and when do its files close? The state machine of SEMANTICS A3.2 and A3.3.

The writer sees runs of decoded, stamped and partitioned records in offset order, delivery by delivery. All open files of the
topic-partition close together; a closed file is an uncompleted upload plus a row of facts for the commit log.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kafka_s3.formats.format import Encoder, Format
from kafka_s3.model import DataFile, Reason, TopicPartition, Upload
from kafka_s3.naming import Naming
from kafka_s3.records import NO_TIMESTAMP, Longs, Run, Values
from kafka_s3.rotation import (
    ELSEWHERE,
    NOTHING_WRITTEN,
    Codes,
    Pending,
    RotationRules,
    Side,
    Stop,
    first_row,
    next_stop,
)
from kafka_s3.schemas.connect import ConnectSchema
from kafka_s3.storage.store import ObjectStore
from kafka_s3.uploads import FileUpload


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how files are written; `memory` is the budget in bytes for everything a task holds open."""

    store: ObjectStore
    naming: Naming
    format: Format
    part_size: int
    memory: int
    threads: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A run with each record's directory (`names[codes[i]]`) and, under a time partitioner, its time."""

    run: Run
    codes: Codes
    names: list[str]
    times: Longs | None


@dataclass(slots=True)
class OpenFile:
    """One open file: its directory and schema, and what has gone in so far."""

    encoded_partition: str
    schema: ConnectSchema | None
    encoder: Encoder
    upload: FileUpload
    first_offset: int
    last_offset: int = -1
    records: int = 0
    min_timestamp: int | None = None
    max_timestamp: int | None = None

    def append(self, offsets: Longs, timestamps: Longs, values: Values) -> None:
        """Adds records of this file's directory and schema."""
        self.encoder.append(values)
        self.upload.add(self.encoder.take())
        self.last_offset = int(offsets[-1])
        self.records += len(offsets)
        known = timestamps[timestamps != NO_TIMESTAMP]
        if len(known):
            low, high = int(known.min()), int(known.max())
            self.min_timestamp = low if self.min_timestamp is None else min(low, self.min_timestamp)
            self.max_timestamp = high if self.max_timestamp is None else max(high, self.max_timestamp)

    def memory(self) -> int:
        """Bytes held in memory."""
        return self.encoder.pending() + self.upload.in_memory()

    def release(self) -> None:
        """Encodes and spills what is held in memory."""
        self.encoder.compact()
        self.upload.add(self.encoder.take())
        self.upload.spill()


@dataclass(slots=True)
class TopicPartitionWriter:
    """The open files of one topic-partition and what has been closed.

    `frontier` is one past the last record in a closed file; records after it are pending and will be read again.
    """

    topic_partition: TopicPartition
    rules: RotationRules
    output: Output
    frontier: int
    next_rotation_ms: int | None
    records: int = 0
    base_ms: int | None = None
    closed: list[DataFile] = field(default_factory=list)
    _open: dict[str, OpenFile] = field(default_factory=dict)
    _directory: str = ""
    _offset: int = -1

    def begin_delivery(self, now_ms: int) -> None:
        """An expired schedule moves on before the first record, so that a quiet night is no reason to flush (SEMANTICS A3.4)."""
        if self.records == 0 and self._expired(now_ms):
            self.next_rotation_ms = self.rules.next_rotation(now_ms)
        elif self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def end_delivery(self, now_ms: int) -> None:
        """The idle commit: the schedule is looked at once more when the delivery is done."""
        if self.records and self._expired(now_ms):
            self._rotate_by_clock(now_ms)

    def write(self, part: Partitioned) -> None:
        """Writes records of one delivery, closing files wherever a rule says so."""
        row = 0
        while row < len(part.run):
            stop = self._stop(part, row)
            if stop.row > row and not self._append(part, row, stop.row):
                self.close(Reason.SCHEMA)
                continue
            row = stop.row
            if stop.reason is Reason.FLUSH_BYTES and self.encoded_bytes() < self.rules.flush_bytes:
                continue
            if stop.reason is not None:
                self.close(stop.reason)

    def close(self, reason: Reason) -> None:
        """Closes every open file, in first-seen order."""
        files = list(self._open.values())
        for file in files:
            file.encoder.finish()
            file.upload.add(file.encoder.take())
        with ThreadPoolExecutor(max_workers=max(min(self.output.threads, len(files)), 1)) as pool:
            uploads = list(pool.map(lambda file: file.upload.finish(), files))
        for file, upload in zip(files, uploads, strict=True):
            self.closed.append(self._data_file(file, upload, reason))
        if files:
            self.frontier = self._offset + 1
        self._open.clear()
        self.records, self.base_ms = 0, None

    def abort(self) -> None:
        """Drops what is open and the uploads of what was closed: none of it will be committed."""
        for file in self._open.values():
            file.upload.abort()
        for closed in self.closed:
            self.output.store.abort_upload(closed.upload.key, closed.upload.id)

    def discard_open(self) -> None:
        """Drops the open tail, which is read again next time."""
        for file in self._open.values():
            file.upload.abort()

    def encoded_bytes(self) -> int:
        """Encoded size of the open files, in bytes."""
        return sum(file.encoder.size() for file in self._open.values())

    @property
    def open_files(self) -> int:
        """How many files are open."""
        return len(self._open)

    def _expired(self, now_ms: int) -> bool:
        return self.next_rotation_ms is not None and now_ms >= self.next_rotation_ms

    def _rotate_by_clock(self, now_ms: int) -> None:
        self.next_rotation_ms = self.rules.next_rotation(now_ms)
        self.close(Reason.ROTATE_SCHEDULE)

    def _stop(self, part: Partitioned, row: int) -> Stop:
        if self.base_ms is None and part.times is not None:
            self.base_ms = int(part.times[row])
        code = part.names.index(self._directory) if self._directory in part.names else ELSEWHERE
        pending = Pending(self.records, self.base_ms, code if self.records else NOTHING_WRITTEN)
        stop = next_stop(self.rules, pending, start=row, times=part.times, codes=part.codes)
        for other in (self._schema_stop(part, row, stop.row), self._cap_stop(part, row, stop.row)):
            if other is not None and other.row < stop.row:
                stop = other
        return stop

    def _schema_stop(self, part: Partitioned, row: int, end: int) -> Stop | None:
        """The first record whose directory has an open file of another schema (`schema.compatibility=NONE`, SEMANTICS A6)."""
        conflicts = [
            code
            for code, name in enumerate(part.names)
            if name in self._open and self._open[name].schema != part.run.schema
        ]
        if not conflicts:
            return None
        found = first_row(lambda a, b: np.isin(part.codes[a:b], conflicts), start=row, end=end)
        return Stop(found, Reason.SCHEMA, Side.BEFORE) if found < end else None

    def _cap_stop(self, part: Partitioned, row: int, end: int) -> Stop | None:
        """The first record that needs one more open file than `partitioner.max.open.files`."""
        if self.rules.max_open_files <= 0:
            return None
        seen = set(self._open)
        for at in range(row, end):
            name = part.names[part.codes[at]]
            if name not in seen and len(seen) >= self.rules.max_open_files:
                return Stop(at, Reason.MAX_OPEN_FILES, Side.BEFORE)
            seen.add(name)
        return None

    def _append(self, part: Partitioned, start: int, stop: int) -> bool:
        """Writes rows `[start, stop)`; False, with nothing written, where a file with an inferred schema cannot take them."""
        groups = list(_groups(part, start, stop))
        for name, run in groups:
            fits = getattr(self._open[name].encoder, "fits", None) if name in self._open else None
            if fits is not None and not fits(run.values):
                return False
        for name, run in groups:
            file = self._open.get(name) or self._opened(name, run)
            file.append(run.offsets, run.timestamps, run.values)
        self.records += stop - start
        self._directory = part.names[part.codes[stop - 1]]
        self._offset = int(part.run.offsets[stop - 1])
        self._release_memory()
        return True

    def _opened(self, name: str, run: Run) -> OpenFile:
        output, first = self.output, int(run.offsets[0])
        key = output.naming.key(self.topic_partition, name, offset=first, extension=output.format.extension)
        upload = FileUpload(output.store, key, part_size=output.part_size, folder=output.folder)
        self._open[name] = OpenFile(name, run.schema, output.format.open(run.schema), upload, first)
        return self._open[name]

    def _release_memory(self) -> None:
        """Keeps the task within its budget: the files that hold most are encoded and spilled first, down to half the budget."""
        if len(self._open) == 1:
            return
        held = {name: file.memory() for name, file in self._open.items()}
        total = sum(held.values())
        if total <= self.output.memory:
            return
        for name in sorted(held, key=lambda name: -held[name]):
            self._open[name].release()
            total -= held[name]
            if total <= self.output.memory // 2:
                return

    def _data_file(self, file: OpenFile, upload: Upload, reason: Reason) -> DataFile:
        return DataFile(
            key=upload.key,
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            first_offset=file.first_offset,
            last_offset=file.last_offset,
            records=file.records,
            bytes=upload.size,
            min_timestamp=file.min_timestamp,
            max_timestamp=file.max_timestamp,
            encoded_partition=file.encoded_partition,
            schema=file.schema.label() if file.schema is not None else "",
            format=self.output.format.name,
            reason=reason,
            upload=upload,
        )


def _groups(part: Partitioned, start: int, stop: int) -> Iterator[tuple[str, Run]]:
    """The rows `[start, stop)` by directory, in first-seen order."""
    codes = part.codes[start:stop]
    if (codes == codes[0]).all():
        yield part.names[codes[0]], part.run.slice(start, stop)
        return
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    for rows in sorted(np.split(order, cuts), key=lambda rows: int(rows[0])):
        yield part.names[codes[rows[0]]], part.run.take(rows + start)
