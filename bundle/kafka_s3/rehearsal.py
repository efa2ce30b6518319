"""What would become of open dead letters now? They go through the current configuration's pipeline, and nothing reaches the bucket.

Per topic-partition in offset order, with every rotation rule off: one file per directory and schema. Letters and files are held in memory.
Where Delta tables are kept, letters pass the same gate as any other record: one that the table cannot hold fails again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_s3.dead_letter_files import Ledger, LetterFile, Selection, State, letters
from kafka_s3.dead_letters import DeadLetter, read_lines
from kafka_s3.errors import CommitError
from kafka_s3.model import DataFile, Reason, Role, TopicPartition, counted
from kafka_s3.policy import ErrorPolicy
from kafka_s3.rotation import RotationRules
from kafka_s3.source import Source
from kafka_s3.storage.memory import MemoryStore
from kafka_s3.storage.store import ObjectStore
from kafka_s3.tasks import Assignment, Delivery, TaskReport
from kafka_s3.worker import Pipeline

BATCH: Final = 1000
NOT_OURS: Final = (Role.DEAD_LETTER, Role.POINTER)
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER)),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a replay would do: the files it would write, whose parts wait in `content`, and the letters that succeed or fail again."""

    version: int = -1
    files: tuple[DataFile, ...] = ()
    done: tuple[DeadLetter, ...] = ()
    failed: tuple[DeadLetter, ...] = ()
    missing: tuple[LetterFile, ...] = ()
    content: MemoryStore = field(default_factory=MemoryStore)


Guard: TypeAlias = Callable[[Source, ObjectStore], Source]
"""Puts the watch of the Delta tables before an engine; the store is the one that has the engine's uploads."""


def unguarded(source: Source, store: ObjectStore) -> Source:
    """The engine itself: no tables are kept."""
    return source


@dataclass(frozen=True, slots=True)
class LetterSource:
    """The engine of a replay: letters instead of Kafka's records, through the same pipeline, into a store of its own."""

    letters: Mapping[TopicPartition, Sequence[DeadLetter]]
    pipeline: Pipeline
    store: ObjectStore

    def read(self, assignments: Sequence[Assignment]) -> list[TaskReport]:
        """One report per assignment, in their order."""
        return [self._read(one) for one in assignments]

    def _read(self, one: Assignment) -> TaskReport:
        return self.pipeline.process(one, batches_of(self.letters[one.topic_partition]), self.store)


def rehearse(
    chosen: Sequence[DeadLetter],
    pipeline: Pipeline,
    *,
    version: int,
    missing: Sequence[LetterFile],
    now_ms: int,
    guard: Guard = unguarded,
) -> Rehearsal:
    """The rehearsal of letters in the order of topic-partition and offset. `version`, `missing`: what the log and bucket had of them.

    Raises RecordError where a table stops the sink at new columns.
    """
    by_place = {tp: list(some) for tp, some in groupby(chosen, key=lambda letter: letter.topic_partition)}
    rehearsal = Rehearsal(version, missing=tuple(missing))
    source = guard(LetterSource(by_place, lenient(pipeline), rehearsal.content), rehearsal.content)
    reports = {
        report.topic_partition: report
        for report in source.read([_whole(tp, some, now_ms=now_ms) for tp, some in by_place.items()])
    }
    for tp, some in by_place.items():
        rehearsal = _told(rehearsal, some, reports[tp])
    return rehearsal


def open_letters(
    ledger: Ledger, store: ObjectStore, *, selection: Selection, missing: Callable[[LetterFile], None]
) -> list[DeadLetter]:
    """The selected open letters in the order of topic-partition and offset, each coordinate once."""
    wanted = replace(selection, states=frozenset({State.OPEN}))
    found = letters(ledger, store, selection=wanted, missing=missing)
    latest = {(filed.letter.topic_partition, filed.letter.offset): filed.letter for filed in found}
    return [latest[place] for place in sorted(latest)]


def lenient(pipeline: Pipeline) -> Pipeline:
    """The pipeline with rotation off, and with every failure a dead letter again: nothing is skipped, nothing stops the replay."""
    nulls = "write" if pipeline.policy.nulls == "write" else "ignore"
    policy = ErrorPolicy(tolerant=True, reporter=True, nulls=nulls, report_nulls=True, strict=False)
    return replace(pipeline, rules=RotationRules(tombstones=pipeline.rules.tombstones), policy=policy)


def _failed(report: TaskReport, content: MemoryStore) -> list[DeadLetter]:
    """The letters that failed again, with the reason of this time: from the dead letter file, which goes no further than memory."""
    found: list[DeadLetter] = []
    for file in report.files:
        if file.role is Role.DEAD_LETTER:
            content.complete_upload(file.upload)
            found += read_lines(content.get(file.key))
    return found


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


def _whole(tp: TopicPartition, chosen: Sequence[DeadLetter], *, now_ms: int) -> Assignment:
    first, last = chosen[0].offset, chosen[-1].offset
    return Assignment(tp, first, last + 1, (Delivery(now_ms, last + 1),), close=Reason.FLUSH_NOW)


def _told(before: Rehearsal, chosen: Sequence[DeadLetter], report: TaskReport) -> Rehearsal:
    """The rehearsal with the letters of one more topic-partition."""
    files = tuple(file for file in report.files if file.role not in NOT_OURS)
    failed = _failed(report, before.content)
    again = {letter.offset for letter in failed}
    done = [letter for letter in chosen if letter.offset not in again]
    if sum(file.records for file in counted(files)) != len(done):
        raise CommitError(
            f"{report.topic_partition}: {len(chosen)} dead letters, but the records written and failed are not as many. Nothing was "
            "committed. This is a defect of kafka-s3; please report it."
        )
    return replace(before, files=before.files + files, done=(*before.done, *done), failed=(*before.failed, *failed))
