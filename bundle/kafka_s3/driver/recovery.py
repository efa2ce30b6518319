"""How is a committed file made again whose upload is gone? From Kafka, by the offsets that the log records."""

from __future__ import annotations

from dataclasses import replace

from kafka_s3.commit.entry import CommitEntry
from kafka_s3.model.errors import CommitError, OffsetsLost
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.protocols import Brokers, Source
from kafka_s3.model.tasks import Assignment, Delivery


def rewrite_from_kafka(entry: CommitEntry, gone: list[DataFile], *, brokers: Brokers, source: Source) -> list[DataFile]:
    """New uploads of the files `gone`, with the records that the entry gives them.

    A whole range is read again as the entry's task read it, for all files of a topic-partition in the entry; files that are not
    gone are dropped. Raises OffsetsLost, naming files and offsets, where Kafka no longer has the records.
    """
    starts = brokers.starts({file.topic_partition for file in gone})
    lost = [file for file in gone if starts[file.topic_partition] > file.first_offset]
    if lost:
        names = "; ".join(f"{file.key} (offsets {file.first_offset} to {file.last_offset})" for file in lost)
        raise OffsetsLost(
            f"Commit entry {entry.version} counts files whose uploads are gone from the bucket, and Kafka no longer has their records: "
            f"{names}. Restore them from a copy, or record a gap by moving the position."
        )
    made: list[DataFile] = []
    for file in gone:
        wanted = Assignment(
            file.topic_partition,
            file.first_offset,
            file.last_offset + 1,
            (Delivery(0, file.last_offset + 1),),
            close=file.reason,
            only=file,
            data_key=_values_of(file, entry).key,
        )
        (report,) = source.read([wanted])
        if [again.records for again in report.files] != [file.records]:
            raise CommitError(
                f"{file.key} cannot be made again from Kafka: offsets {file.first_offset} to {file.last_offset} give other records than "
                "the log counts. Was the configuration changed? Restore the earlier one, restart, then change it."
            )
        (again,) = report.files
        made.append(replace(file, upload=again.upload, bytes=again.bytes))
    return made


def _values_of(file: DataFile, entry: CommitEntry) -> DataFile:
    """The object of values that belongs to a file of the entry; the file itself where there is none."""
    place = (file.topic_partition, file.encoded_partition, file.first_offset)
    return next(
        (
            other
            for other in entry.files
            if other.role is Role.VALUE
            and (other.topic_partition, other.encoded_partition, other.first_offset) == place
        ),
        file,
    )
