"""Do the files of a turn fit the tables, and each other? Checked on the driver, between the tasks' reports and the commit.

Tasks are told the columns of their topic's table, and keep to them; but two tasks may bring the same new column in different types. Then
the second is run again, told what the first has brought. Under `failOnNewColumns` a new column or a wider type stops the sink here.
`admission` decides, file by file; here it is done. By example: docs/worked-examples.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NoReturn

from kafka_s3.engine.task.table_guard.columns import Fit, Mode, read_columns
from kafka_s3.followers.delta.admission import Admission, admission
from kafka_s3.followers.delta.expected import ExpectedColumns
from kafka_s3.model.errors import RecordError, StorageError
from kafka_s3.model.protocols import Source
from kafka_s3.model.tasks import Assignment, TaskFailure, TaskOutcome, TaskReport
from kafka_s3.store.store import ObjectStore, abort_uploads

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GuardedSource:
    """The engine, whose reports are let through where the tables can hold their files."""

    source: Source
    store: ObjectStore
    expected: ExpectedColumns
    mode: Mode
    _lock: Lock = field(default_factory=Lock)

    def read(self, assignments: Sequence[Assignment]) -> list[TaskOutcome]:
        """As the engine. What the mode stops for has failed, with its uploads aborted."""
        with self._lock:
            self.expected.poll(sorted({one.topic_partition.topic for one in assignments}))
        done: list[TaskOutcome] = []
        due = list(assignments)
        while due:
            with self._lock:
                told = self.expected.schema_strings()
            outcomes = self.source.read([replace(one, table=told.get(one.topic_partition.topic)) for one in due])
            remade = {one.topic_partition for one in due if one.only is not None}
            judged = [self._judged(one, told) if one.topic_partition not in remade else one for one in outcomes]
            done += [one for one in judged if one is not None]
            ended = {one.topic_partition for one in done}
            due = [one for one in due if one.topic_partition not in ended]
        return done

    def _judged(self, outcome: TaskOutcome, told: Mapping[str, str]) -> TaskOutcome | None:
        """The outcome where it can be committed, a failure where the mode stops for it, None where its task has to run again."""
        if isinstance(outcome, TaskFailure):
            return outcome
        try:
            with self._lock:
                again = self._runs_again(outcome, told)
        except RecordError as error:
            self._abort([outcome])
            return TaskFailure(outcome.topic_partition, error)
        if again:
            self._abort([outcome])
        return None if again else outcome

    def _runs_again(self, report: TaskReport, told: Mapping[str, str]) -> bool:
        """Does what is decided on each file of a report; whether its task has to run again. Raises RecordError."""
        topic = report.topic_partition.topic
        for text in report.columns:
            decided, found = admission(
                read_columns(text), self.expected.of(topic), told=told.get(topic), mode=self.mode
            )
            match decided:
                case Admission.STOP:
                    self._stop(report, found)
                case Admission.RUN_AGAIN:
                    return True
                case Admission.EXPECT:
                    self.expected.expect(topic, found.columns)
        return False

    def _stop(self, report: TaskReport, found: Fit) -> NoReturn:
        tp, table = report.topic_partition, self.expected.table_name(report.topic_partition.topic)
        texts = "; ".join([*found.conflicts.values(), *found.wider.values(), *found.new.values()])
        raise RecordError(
            f"{tp} stops before the commit (delta.schema.evolution.mode={self.mode}): its records from offset {report.start} on do "
            f"not fit the table {table}: {texts}. Nothing of this batch was committed. To go on: ALTER TABLE {table} ADD "
            "COLUMNS (...), or start once with --set delta.schema.evolution.mode=addNewColumns."
        )

    def _abort(self, reports: Iterable[TaskReport]) -> None:
        """Ends the uploads of reports; what the bucket does not take now, the driver looks for."""
        try:
            abort_uploads(self.store, (file for report in reports for file in report.files))
        except StorageError as error:
            _log.info("uploads are removed later", extra={"facts": {"reason": str(error)}})
