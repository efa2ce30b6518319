"""What do the reports of tasks mean? Entries in which every record is accounted for, of a bounded number of files each, or a stop.

A topic-partition stops at a record that its task cannot pass over, or where so many records are dead letters that something else is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.task.dead_letters import LIMIT_FROM, excess
from kafka_s3.model.errors import CommitError, RecordError
from kafka_s3.model.files import DeadLetterCount, Totals, counted
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import TaskReport

LIMIT_REMEDY: Final = (
    "Nothing of their batch was committed. Correct the configuration or the producers; to go on as it is, raise "
    "errors.deadletter.max.ratio (1 is no limit)."
)


_log = logging.getLogger(__name__)


def portions(reports: Sequence[TaskReport], *, max_files: int) -> Iterator[list[TaskReport]]:
    """The reports in groups, one entry each, of at most `max_files` files; a report that has more is alone."""
    portion: list[TaskReport] = []
    files = 0
    for report in reports:
        if portion and files + len(report.files) > max_files:
            yield portion
            portion, files = [], 0
        portion.append(report)
        files += len(report.files)
    if portion:
        yield portion


def entry_of(
    reports: Sequence[TaskReport], log: CommitLog, epochs: Mapping[TopicPartition, int | None]
) -> CommitEntry | None:
    """The next entry of the log for reports of different topic-partitions, None where they change nothing.

    `epochs` are the leader epochs of the logs at the last poll.

    Raises CommitError where the records of a report do not add up.
    """
    changed = [r for r in reports if r.frontier != r.start or r.files]
    if not changed:
        return None
    progress = {
        r.topic_partition: replace(
            _progress(r, log.state.progress[r.topic_partition]), leader_epoch=epochs.get(r.topic_partition)
        )
        for r in changed
    }
    files = tuple(file for report in changed for file in report.files)
    values = counted(files)
    written, dead = sum(file.records for file in values), sum(len(r.dead) for r in changed)
    skipped = sum(r.skipped for r in changed)
    return log.new_entry(
        EntryKind.DATA,
        progress=progress,
        files=files,
        dead_letters={r.topic_partition: DeadLetterCount(len(r.dead), r.stages) for r in changed if len(r.dead)},
        skipped={r.topic_partition: r.skipped for r in changed if r.skipped},
        totals=Totals(
            written + dead + skipped, written, dead, skipped, len(values), sum(file.bytes for file in values)
        ),
    )


def _progress(report: TaskReport, before: Progress) -> Progress:
    """How far a topic-partition is after the report, once its records add up."""
    values = counted(report.files)
    dead = before.recorded.plus(report.dead)
    accounted = sum(file.records for file in values) + len(dead.before(report.frontier)) + report.skipped
    if accounted != report.rows:
        raise CommitError(
            f"{report.topic_partition} [{report.start}, {report.frontier}): {report.rows} records read, but {accounted} written, "
            "dead-lettered or skipped. Nothing was committed. This is a defect of kafka-s3; please report it."
        )
    written = max((file.last_offset + 1 for file in values), default=before.written)
    return Progress(report.frontier, written, dead.since(report.frontier))


def log_reports(reports: Sequence[TaskReport]) -> None:
    """What tasks did, and which files they closed for what reason."""
    for report in reports:
        place = {"partition": str(report.topic_partition)}
        facts = {name: getattr(report, name) for name in ("start", "until", "read", "frontier")}
        counts = {"files": len(report.files), "dead_letters": len(report.dead), "skipped": report.skipped}
        _log.debug("task done", extra={"facts": {**place, **facts, **counts, "pending": report.tail.records}})
        for file in report.files:
            content = {"key": file.key, "reason": str(file.reason), "role": str(file.role), "records": file.records}
            offsets = {"bytes": file.bytes, **place, "first": file.first_offset, "last": file.last_offset}
            _log.debug("file closed", extra={"facts": content | offsets})


def stop_errors(reports: Sequence[TaskReport], *, sink: str) -> dict[TopicPartition, RecordError]:
    """The topic-partitions that stop at a record that their tasks could not pass over, and the errors with which they do.

    Each error names the settings for the bad records of all of them.
    """
    stopped = [report for report in reports if report.failure is not None]
    needs = dict.fromkeys(setting for report in stopped for setting in report.needs)
    leniency = (
        f"To go on without such records: kafka-s3 run CONFIG {' '.join(f'--set {setting}' for setting in needs)}."
    )
    return {report.topic_partition: _stop_error(report, sink, leniency) for report in stopped}


def _stop_error(report: TaskReport, sink: str, leniency: str) -> RecordError:
    reason = (report.failure or "").removesuffix(".")
    place: dict[str, str | int] = {"topic": report.topic_partition.topic, "partition": report.topic_partition.partition}
    place |= zip(("stage", "offset"), report.failed_at or (), strict=False)
    return RecordError(
        f"Sink {sink} cannot pass over {reason}. Nothing of this batch of {report.topic_partition} was committed: its next offset is "
        f"{report.start}. Correct the data or the configuration. {leniency} {report.remedy}",
        place,
    )


def stops_above_limit(reports: Sequence[TaskReport], *, sink: str, ratio: float) -> dict[TopicPartition, RecordError]:
    """The topic-partitions that stop at the limit, with the commonest reason: those whose own share of bad records is above it.

    A task stops by itself where its own are too many; many small ones are counted together here.
    """
    stops = {
        one.topic_partition: f"{one.excess} Most often: {one.commonest}" for one in reports if one.excess is not None
    }
    others = [one for one in reports if one.excess is None]
    read, dead = sum(one.read for one in others), sum(len(one.dead) for one in others)
    if read >= LIMIT_FROM and dead > ratio * read:
        worst = max(others, key=lambda report: len(report.dead))
        text = f"{excess(dead, read, ratio=ratio)} Most often, in {worst.topic_partition}: {worst.commonest}"
        stops |= {one.topic_partition: text for one in others if len(one.dead) > ratio * one.read}
    return {
        tp: RecordError(f"Sink {sink} has too many bad records: {text} {LIMIT_REMEDY}") for tp, text in stops.items()
    }
