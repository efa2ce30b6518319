"""How far did an earlier run come? The target topic says it: each record that is written back carries where it was in the bucket.

A target partition gets the records of one source partition in one order, in transactions. So what counts of a killed run is the beginning
of that order, and its last record says where to go on. Records of others in between do not matter.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.tools.kafka_records import KafkaRecords
from kafka_s3.tools.restore.file_table import PlannedFiles
from kafka_s3.tools.restore.stored import StoredFile

ORIGIN: Final = "kafka_s3.origin"
"""The header's name. Its value: topic/partition/first offset of the file/row in it/a checksum of the file's directory."""
FIRST_WINDOW: Final = 1_000
LONGEST_WINDOW: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """A record in the order of a source partition: the number of its file, and its row in it."""

    file: int
    row: int


def origin(file: StoredFile, row: int) -> bytes:
    """The value of the header for a row of a file."""
    return f"{_place(file)}/{row}/{_checksum(file)}".encode()


def _place(file: StoredFile) -> str:
    return f"{file.topic_partition.topic}/{file.topic_partition.partition}/{file.first_offset}"


def _checksum(file: StoredFile) -> str:
    return f"{zlib.crc32(file.directory.encode()):08x}"


class Origins:
    """The headers of one source partition's files, read back."""

    def __init__(self, files: PlannedFiles) -> None:
        self._files = files
        self._last: tuple[str, str, int, StoredFile] | None = None

    def read(self, headers: Sequence[dict[str, object]]) -> Position | None:
        """Which record of these files a record with such headers is; None: none of them."""
        for header in headers:
            value = header["value"]
            if header["key"] == ORIGIN and isinstance(value, bytes):
                place, row, checksum = ([*value.decode("ascii", "replace").rsplit("/", 2), "", ""])[:3]
                found = self._file(place, checksum) if row.isdigit() else None
                if (
                    found is not None
                    and found[1].skip <= int(row)
                    and (found[1].until is None or int(row) < found[1].until)
                ):
                    return Position(found[0], int(row))
        return None

    def _file(self, place: str, checksum: str) -> tuple[int, StoredFile] | None:
        """The file of a place with its number; most records are of the same one as those before."""
        if self._last is None or self._last[:2] != (place, checksum):
            first = place.rpartition("/")[2]
            fitting = (
                (number, file) for number, file in self._files.at(int(first) if first.isdigit() and len(first) < 19 else -1)
                if (_place(file), _checksum(file)) == (place, checksum)
            )  # fmt: skip
            found = next(fitting, None)
            if found is None:
                return None
            self._last = (place, checksum, *found)
        return self._last[2:]


def last_position(kafka: KafkaRecords, target: TopicPartition, files: PlannedFiles) -> Position | None:
    """The last of these files' records that the target has; None: it has none of them.

    Raises ConfigError where the target has some, but not from the first on: then it is not the work of this call that is to go on;
    KafkaUnavailable where no broker leads the target.
    """
    starts, heads = kafka.starts([target]), kafka.heads([target])
    if target not in starts or target not in heads:
        raise KafkaUnavailable(f"No broker answers for {target} (no leader, or deleted). Call again when one does.")
    origins, start, head = Origins(files), starts[target], heads[target]
    until, window, found = head, FIRST_WINDOW, None
    while found is None and until > start:
        since = max(start, until - window)
        found = _last(kafka, target, origins, since, until)
        until, window = since, min(window * 10, LONGEST_WINDOW)
    if found is not None and (first := _first(kafka, target, origins, start, head)) != Position(0, files[0].skip):
        assert first is not None
        begun = files[first.file]
        rule = f"holds records of {begun.topic_partition} from offset {begun.first_offset} on, not from {files[0].first_offset} on."
        raise ConfigError(
            [Problem("--to-topic", target.topic, rule, "Choose the same range as before, or another topic.")]
        )
    return found


def _last(kafka: KafkaRecords, target: TopicPartition, origins: Origins, since: int, until: int) -> Position | None:
    found = None
    for batch in kafka.batches(target, since, until=until):
        for headers in batch.column("headers"):
            found = origins.read(headers.as_py() or ()) or found
    return found


def _first(kafka: KafkaRecords, target: TopicPartition, origins: Origins, start: int, head: int) -> Position | None:
    for batch in kafka.batches(target, start, until=head):
        for headers in batch.column("headers"):
            if (position := origins.read(headers.as_py() or ())) is not None:
                return position
    return None
