"""What would become of open dead letters now? They go through the current configuration's pipeline, and nothing reaches the bucket.

Per topic-partition in offset order, with every rotation rule off: one file per directory and schema. Letters and files are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

import pyarrow as pa

from kafka_s3.dead_letter_files import Ledger, LetterFile, Selection, State, letters
from kafka_s3.dead_letters import DeadLetter, read_lines
from kafka_s3.errors import CommitError
from kafka_s3.model import DataFile, Reason, Role, TopicPartition, counted
from kafka_s3.policy import ErrorPolicy
from kafka_s3.rotation import RotationRules
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


def rehearse(
    chosen: Sequence[DeadLetter], pipeline: Pipeline, *, version: int, missing: Sequence[LetterFile], now_ms: int
) -> Rehearsal:
    """The rehearsal of letters in the order of topic-partition and offset. `version`, `missing`: what the log and bucket had of them."""
    rehearsal, pipeline = Rehearsal(version, missing=tuple(missing)), lenient(pipeline)
    for tp, some in groupby(chosen, key=lambda letter: letter.topic_partition):
        rehearsal = _rehearsed(rehearsal, tp, list(some), pipeline=pipeline, now_ms=now_ms)
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


def _rehearsed(
    before: Rehearsal, tp: TopicPartition, chosen: list[DeadLetter], *, pipeline: Pipeline, now_ms: int
) -> Rehearsal:
    """The rehearsal with the letters of one more topic-partition."""
    first, last = chosen[0].offset, chosen[-1].offset
    whole = Assignment(tp, first, last + 1, (Delivery(now_ms, last + 1),), close=Reason.FLUSH_NOW)
    report = pipeline.process(whole, batches_of(chosen), before.content)
    files = tuple(file for file in report.files if file.role not in NOT_OURS)
    failed = _failed(report, before.content)
    again = {letter.offset for letter in failed}
    done = [letter for letter in chosen if letter.offset not in again]
    if sum(file.records for file in counted(files)) != len(done):
        raise CommitError(
            f"{tp}: {len(chosen)} dead letters, but the records written and failed are not as many. Nothing was committed. This is a "
            "defect of kafka-s3; please report it."
        )
    return replace(before, files=before.files + files, done=(*before.done, *done), failed=(*before.failed, *failed))
