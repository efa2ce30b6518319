"""How are dead letters read as records again? Through the pipeline, rotation off: for a replay, and for its lost files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_s3.engine.log.dead_letters import (
    LetterFile,
    LetterSelection,
    LetterState,
    letters,
    read_ledger,
)
from kafka_s3.engine.log.entry import CommitEntry, committed_ms
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.task.dead_letters import ErrorPolicy
from kafka_s3.engine.task.rotation import RotationRules
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.errors import CommitError, OffsetsLost
from kafka_s3.model.files import DataFile, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, Delivery, TaskOutcome, reports_of
from kafka_s3.store.store import ObjectStore, abort_uploads

BATCH: Final = 1000
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER)),
])  # fmt: skip

Guard: TypeAlias = Callable[[Source, ObjectStore], Source]
"""Puts the watch of the Delta tables before an engine; the store is the one that has the engine's uploads."""


def unguarded(source: Source, store: ObjectStore) -> Source:
    """The engine itself: no tables are kept."""
    return source


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The engine of a replay: letters instead of Kafka's records, through the same pipeline, into a store of its own."""

    letters: Mapping[TopicPartition, Sequence[DeadLetter]]
    pipeline: Pipeline
    store: ObjectStore

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """One outcome per assignment, in their order."""
        return [
            self.pipeline.outcome(one, batches_of(self.letters[one.topic_partition]), self.store) for one in assignments
        ]


def lenient(pipeline: Pipeline) -> Pipeline:
    """The pipeline with rotation off, and with every failure a dead letter again: nothing is skipped, nothing stops the replay."""
    nulls = "write" if pipeline.policy.nulls == "write" else "ignore"
    policy = ErrorPolicy(tolerant=True, reporter=True, nulls=nulls, report_nulls=True, strict=False)
    return replace(
        pipeline, rules=RotationRules(tombstones=pipeline.rules.tombstones), policy=policy, dead_letter_ratio=1.0
    )


def remake_from_letters(
    entry: CommitEntry,
    gone: list[DataFile],
    *,
    pipeline: Pipeline,
    store: ObjectStore,
    paths: StatePaths,
    guard: Guard = unguarded,
) -> list[DataFile]:
    """New uploads of the files `gone` of an entry of kind replay, from the dead letters that it resolves."""
    ledger, made, missing = read_ledger(store, paths), list[DataFile](), list[LetterFile]()
    for file in gone:
        tp = file.topic_partition
        offsets = entry.resolved.get(tp, OffsetSet()).since(file.first_offset).before(file.last_offset + 1)
        wanted = LetterSelection(
            topics=frozenset({tp.topic}), partition=tp.partition, states=frozenset({LetterState.REPLAYED})
        )
        found = [
            filed
            for filed in letters(ledger, store, selection=wanted, missing=missing.append)
            if filed.settled == entry.version
        ]
        inside = [filed.letter for filed in found if _covers(offsets, filed.letter.offset)]
        until = file.last_offset + 1
        only = Assignment(
            tp, file.first_offset, until, (Delivery(committed_ms(entry), until),),
            close=file.reason, only=file, data_key=_values_of(file, entry).key,
        )  # fmt: skip
        inside.sort(key=lambda letter: letter.offset)
        [report] = reports_of(guard(ReplaySource({tp: inside}, lenient(pipeline), store), store).read([only]))
        if [again.records for again in report.files] != [file.records]:
            abort_uploads(store, (*report.files, *made))
            if missing:
                raise OffsetsLost(
                    f"Commit entry {entry.version} counts {file.key}, whose upload is gone, and so is the dead letter file that it "
                    f"was made from: {', '.join(one.file.key for one in missing)}. Restore that, or start with "
                    "behavior.on.lost.offsets=gap, which records a gap and goes on."
                )
            raise CommitError(
                f"{file.key} cannot be made again from its dead letters: offsets {file.first_offset} to {file.last_offset} give other "
                "records than the log counts. Was the configuration changed? Restore the one of the replay, restart, then change it."
            )
        made.append(replace(file, upload=report.files[0].upload, bytes=report.files[0].bytes))
    return made


def batches_of(some: Sequence[DeadLetter]) -> Iterator[pa.RecordBatch]:
    """Letters in offset order as the batches that Kafka would give of their records."""
    for at in range(0, len(some), BATCH):
        rows = [_row(letter) for letter in some[at : at + BATCH]]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(letter: DeadLetter) -> Mapping[str, object]:
    headers = [{"key": name, "value": value} for name, value in letter.headers]
    return {
        "offset": letter.offset, "timestamp": letter.timestamp, "key": letter.key, "value": letter.value, "headers": headers,
    }  # fmt: skip


def _covers(offsets: OffsetSet, offset: int) -> bool:
    return any(first <= offset <= last for first, last in offsets.ranges)


def _values_of(file: DataFile, entry: CommitEntry) -> DataFile:
    """The object of values that belongs to a file of the entry; the file itself where there is none."""
    identity = (file.topic_partition, file.encoded_partition, file.first_offset)
    values = (other for other in entry.files if other.role is Role.VALUE)
    return next((v for v in values if (v.topic_partition, v.encoded_partition, v.first_offset) == identity), file)
