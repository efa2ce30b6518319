"""How is a committed file made again whose upload is gone? From Kafka, by the offsets that the log records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.rewrites import Rewrite, Rewritten
from kafka_s3.model.errors import CommitError, KafkaUnavailable, OffsetsLost
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Brokers, Source
from kafka_s3.model.tasks import Assignment, Delivery, reports_of
from kafka_s3.store.store import ObjectStore, abort_uploads


@dataclass(frozen=True, slots=True)
class Recovery:
    """Makes files again whose uploads are gone, those of replayed dead letters by `replays_again`. `lost`: fail, or gap, under which what
    cannot be made is lost (`behavior.on.lost.offsets`).
    """

    brokers: Brokers
    source: Source
    store: ObjectStore
    lost: str
    replays_again: Rewrite | None = None

    def __call__(self, entry: CommitEntry, gone: list[DataFile]) -> Rewritten:
        """The files of an entry, made again. Raises OffsetsLost, CommitError, KafkaUnavailable."""
        if entry.kind is EntryKind.REPLAY and self.replays_again is not None:
            try:
                return self.replays_again(entry, gone)
            except OffsetsLost:
                if self.lost == "fail":
                    raise
                return Rewritten(lost=gone)
        lost = beyond_recovery(gone, self.brokers)
        if lost and self.lost == "fail":
            raise OffsetsLost(
                f"Commit entry {entry.version} counts files whose uploads are gone from the bucket, and Kafka no longer has their records: "
                f"{files_text(lost)}. If the objects were published and then removed, or are not needed, start with "
                "behavior.on.lost.offsets=gap, or move the position (kafka-s3 position set): either records a gap and goes on."
            )
        return Rewritten(self._from_kafka(entry, [file for file in gone if file not in lost]), lost)

    def _from_kafka(self, entry: CommitEntry, gone: list[DataFile]) -> list[DataFile]:
        """New uploads of the files `gone`, with the records that the entry gives them: each one's range is read again, for it alone."""
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
            (report,) = reports_of(self.source.read([wanted]))
            if [again.records for again in report.files] != [file.records]:
                abort_uploads(self.store, (*report.files, *made))
                raise CommitError(
                    f"{file.key} cannot be made again from Kafka: offsets {file.first_offset} to {file.last_offset} give other records "
                    "than the log counts. Was the configuration changed? Restore the earlier one, restart, then change it. Did compaction "
                    "remove some? Write what is left anew: "
                    f"kafka-s3 position set CONFIG {file.topic} {file.partition} {file.first_offset}."
                )
            (again,) = report.files
            made.append(replace(file, upload=again.upload, bytes=again.bytes))
        return made


def beyond_recovery(gone: Iterable[DataFile], brokers: Brokers) -> list[DataFile]:
    """The files whose records Kafka does not have any more. Raises KafkaUnavailable where it cannot tell."""
    wanted = list(gone)
    topics = brokers.describe(sorted({file.topic for file in wanted}))
    there = {TopicPartition(topic.name, partition) for topic in topics.values() for partition in topic.partitions}
    starts = brokers.starts({file.topic_partition for file in wanted} & there)
    silent = ({file.topic_partition for file in wanted} & there) - starts.keys()
    if silent:
        raise KafkaUnavailable(f"Kafka does not say where {', '.join(map(str, sorted(silent)))} begins: no leader?")
    return [file for file in wanted if starts.get(file.topic_partition, file.first_offset + 1) > file.first_offset]


def files_text(files: Iterable[DataFile]) -> str:
    """Keys and offsets of files, for a message."""
    return "; ".join(f"{file.key} (offsets {file.first_offset} to {file.last_offset})" for file in files)


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
