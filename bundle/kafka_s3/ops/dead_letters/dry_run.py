"""What would become of open dead letters now? They go through the current configuration's pipeline, and nothing reaches the bucket.

Per topic-partition in offset order, with every rotation rule off: one file per directory and schema. Letters and files are held in memory.
Where Delta tables are kept, letters pass the same gate as any other record: one that the table cannot hold fails again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from kafka_s3.engine.log.dead_letters import Ledger, LetterFile, LetterSelection, LetterState, letters
from kafka_s3.engine.task.worker import Pipeline
from kafka_s3.followers.dead_letter_source import Guard, ReplaySource, lenient, unguarded
from kafka_s3.model.dead_letters import DeadLetter, read_letters
from kafka_s3.model.errors import CommitError
from kafka_s3.model.files import DataFile, Reason, Role, counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, TaskReport, reports_of
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore

NOT_OURS: Final = (Role.DEAD_LETTER, Role.POINTER)


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What a replay would do: the files it would write, whose parts wait in `content`, and the letters that succeed or fail again."""

    version: int = -1
    files: tuple[DataFile, ...] = ()
    done: tuple[DeadLetter, ...] = ()
    failed: tuple[DeadLetter, ...] = ()
    missing: tuple[LetterFile, ...] = ()
    content: MemoryStore = field(default_factory=MemoryStore)


def dry_run(
    chosen: Sequence[DeadLetter],
    pipeline: Pipeline,
    *,
    version: int,
    missing: Sequence[LetterFile],
    now_ms: int,
    guard: Guard = unguarded,
) -> DryRunResult:
    """What would become of letters, in the order of topic-partition and offset. `version`, `missing`: what the log and bucket had of them.

    Raises RecordError where a table stops the sink at new columns.
    """
    by_place = {tp: list(some) for tp, some in groupby(chosen, key=lambda letter: letter.topic_partition)}
    outcome = DryRunResult(version, missing=tuple(missing))
    source = guard(ReplaySource(by_place, lenient(pipeline), outcome.content), outcome.content)
    reports = {
        report.topic_partition: report
        for report in reports_of(source.read([_whole(tp, some, now_ms=now_ms) for tp, some in by_place.items()]))
    }
    for tp, some in by_place.items():
        outcome = _told(outcome, some, reports[tp])
    return outcome


def open_letters(
    ledger: Ledger, store: ObjectStore, *, selection: LetterSelection, missing: Callable[[LetterFile], None]
) -> list[DeadLetter]:
    """The selected open letters in the order of topic-partition and offset, each coordinate once."""
    wanted = replace(selection, states=frozenset({LetterState.OPEN}))
    found = letters(ledger, store, selection=wanted, missing=missing)
    latest = {(filed.letter.topic_partition, filed.letter.offset): filed.letter for filed in found}
    return [latest[place] for place in sorted(latest)]


def _failed(report: TaskReport, content: MemoryStore) -> list[DeadLetter]:
    """The letters that failed again, with the reason of this time: from the dead letter file, which goes no further than memory."""
    found: list[DeadLetter] = []
    for file in report.files:
        if file.role is Role.DEAD_LETTER:
            content.complete_upload(file.upload)
            found += read_letters(content.get(file.key))
    return found


def _whole(tp: TopicPartition, chosen: Sequence[DeadLetter], *, now_ms: int) -> Assignment:
    first, last = chosen[0].offset, chosen[-1].offset
    return Assignment(tp, first, last + 1, (Delivery(now_ms, last + 1),), close=Reason.FLUSH_NOW)


def _told(before: DryRunResult, chosen: Sequence[DeadLetter], report: TaskReport) -> DryRunResult:
    """The outcome with the letters of one more topic-partition."""
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
