"""How far did an earlier run come? Its transactions say it: each commits, with its records, to a consumer group how many records the
restore has written and which was the last.

Nothing in the target topic is believed, for whoever may write to it can forge that. Each record carries a header with its place in the
bucket and the id of the restore that wrote it: for people, and to notice a restore whose progress is not known any more.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_s3.kafka.producing import ProducerProgress
from kafka_s3.model.errors import ConfigError, KafkaUnavailable, Problem
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.ops.kafka_records import KafkaRecords
from kafka_s3.ops.restore.file_table import PlannedFiles
from kafka_s3.ops.restore.stored import StoredFile
from kafka_s3.ops.restore.values import Headers

ORIGIN: Final = "kafka_s3.origin"
"""The header's name. Its value: the restore's id/topic/partition/first offset of the file/row in it/a checksum of the file's directory."""
OWN: Final = "kafka-s3-restore-"
"""Begins the names of consumer groups and of transactions."""


@dataclass(frozen=True, slots=True)
class Position:
    """A record in the order of a source partition: the number of its file, and its row in it."""

    file: int
    row: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A restore of one source partition: its id, how many records it has written, and the last of them."""

    id: str
    count: int
    last: Position


def begun_anew() -> Begun:
    """A restore that has written nothing."""
    return Begun(secrets.token_hex(8), 0, Position(0, -1))


def group_of(source: TopicPartition, target: TopicPartition) -> str:
    """The consumer group that keeps the progress from one partition to the other."""
    return f"{OWN}{source}-to-{target}"


def origin(restore: str, file: StoredFile, row: int) -> str:
    """The mark of a row of a file."""
    tp = file.topic_partition
    return f"{restore}/{tp.topic}/{tp.partition}/{file.first_offset}/{row}/{zlib.crc32(file.directory.encode()):08x}"


def unmarked(headers: Headers) -> Headers:
    """The headers without marks of earlier restores."""
    return tuple(header for header in headers if header[0] != ORIGIN)


def note_of(restore: str, topic_id: str, files: PlannedFiles, mark: str) -> str:
    """What is committed beside the count of records: the id of the target topic, the first mark of the restore, and the last."""
    return f"{topic_id} {origin(restore, files[0], files[0].skip)} {mark}"


def begun_of(progress: ProducerProgress, files: PlannedFiles, *, target: TopicPartition, topic_id: str) -> Begun | None:
    """The restore that has committed this; None where it was to a topic that was deleted since.

    Raises ConfigError where it began elsewhere, or its last record is not among these files: then it is not the work of this call.
    """
    there, first, last = [*progress.note.split(" "), "", "", ""][:3]
    if there != topic_id:
        return None
    restore = first.partition("/")[0]
    position = position_of(last, files)
    if first != origin(restore, files[0], files[0].skip) or position is None:
        begun = "/".join(first.split("/")[1:4])
        rule = f"holds {progress.written:,} records of a restore that began at {begun} (topic/partition/offset), not where this one would."
        raise ConfigError(
            [Problem("--to-topic", target.topic, rule, "Choose the same range as before, or another topic.")]
        )
    return Begun(restore, progress.written, position)


def position_of(mark: str, files: PlannedFiles) -> Position | None:
    """Which record of these files a mark means; None: none of them."""
    parts = mark.split("/")
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts[3:5]):
        return None
    row = int(parts[4])
    for number, file in files.at(int(parts[3])):
        if origin(parts[0], file, row) == mark and file.skip <= row and (file.until is None or row < file.until):
            return Position(number, row)
    return None


def check_unmarked(kafka: KafkaRecords, target: TopicPartition, files: PlannedFiles) -> None:
    """Raises ConfigError where the target has marks of these files, though no progress of a restore is known; KafkaUnavailable where no
    broker leads the target.
    """
    starts, heads = kafka.starts([target]), kafka.heads([target])
    if target not in starts or target not in heads:
        raise KafkaUnavailable(f"No broker answers for {target} (no leader, or deleted). Call again when one does.")
    for batch in kafka.batches(target, starts[target], until=heads[target]):
        for headers in batch.column("headers"):
            if _marked(headers.as_py() or (), files):
                rule = (
                    f"has records that are marked ({ORIGIN}) as those to be restored, but Kafka knows of no progress of it: that was "
                    "forgotten (offsets.retention.minutes), or another producer wrote them."
                )
                raise ConfigError([Problem("--to-topic", target.topic, rule, "Choose another topic.")])


def _marked(headers: Sequence[dict[str, object]], files: PlannedFiles) -> bool:
    marks = [header["value"] for header in headers if header["key"] == ORIGIN]
    return any(isinstance(mark, bytes) and position_of(mark.decode("ascii", "replace"), files) for mark in marks)
