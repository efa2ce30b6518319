"""What becomes of the records of a task that cannot be written? Dead letters, skips, or the end of the task, as the policy says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_s3.model.dead_letters import DeadLetter, dead_letter
from kafka_s3.model.failures import Failure, rejection
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offset_sets import OffsetSet
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.records.values import Longs
from kafka_s3.task.error_policy import NULL_FAILS, NULL_SKIPPED, ErrorAction, ErrorPolicy


class Stopped(Exception):
    """The task met a record at which the sink stops."""

    def __init__(self, failure: Failure, letter: DeadLetter) -> None:
        self.failure = failure
        self.letter = letter


class BadRecords:
    """The bad records of one task. `failures` and `nulls` raise Stopped where the policy lets nothing pass."""

    def __init__(self, topic_partition: TopicPartition, policy: ErrorPolicy) -> None:
        self._topic_partition = topic_partition
        self._policy = policy
        self._letters: list[DeadLetter] = []
        self._skipped: list[Longs] = []

    def nulls(self, offsets: list[int], batch: pa.RecordBatch) -> None:
        """Records without a value, where those are not written."""
        if not offsets:
            return
        verdict = self._policy.null()
        if verdict is ErrorAction.SKIP:
            self.dropped(offsets)
            return
        text = NULL_FAILS if self._policy.nulls == "fail" else NULL_SKIPPED
        self._bury([rejection(offset, text) for offset in offsets], batch, lambda _: verdict)

    def dropped(self, offsets: list[int]) -> None:
        """Records that are not written, and nobody's fault: of those only the number is told."""
        if offsets:
            self._skipped.append(np.array(offsets, np.int64))

    def failures(self, failures: Sequence[Failure], batch: pa.RecordBatch) -> None:
        """Records that a step of the pipeline refused; `batch` is what was read, with keys and headers where letters need them."""
        if failures:
            self._bury(failures, batch, self._policy.failure)

    def _bury(
        self, failures: Sequence[Failure], batch: pa.RecordBatch, verdict: Callable[[Failure], ErrorAction]
    ) -> None:
        offsets = batch.column("offset").to_numpy()
        for failure in failures:
            at = int(np.searchsorted(offsets, failure.offset))
            row: dict[str, Any] = {name: batch.column(name)[at].as_py() for name in batch.schema.names}
            letter = dead_letter(failure, self._topic_partition, row)
            if verdict(failure) is ErrorAction.STOP:
                raise Stopped(failure, letter)
            self._letters.append(letter)

    @property
    def offsets(self) -> OffsetSet:
        """The offsets of the dead letters."""
        return OffsetSet.of(letter.offset for letter in self._letters)

    @property
    def stages(self) -> dict[str, int]:
        """How many became dead letters at which stage."""
        return dict(Counter(letter.stage for letter in self._letters))

    def skipped_before(self, frontier: int) -> int:
        """How many of the records below the frontier were skipped."""
        return sum(int(np.count_nonzero(offsets < frontier)) for offsets in self._skipped)

    def letters_in_order(self) -> list[DeadLetter]:
        """The dead letters by offset."""
        return sorted(self._letters, key=lambda letter: letter.offset)


def dead_letter_file(letters: Sequence[DeadLetter], sent: Upload) -> DataFile:
    """The log's row of a dead letter file: `letters` in order of offsets, at least one."""
    first, last = letters[0], letters[-1]
    times = [letter.timestamp for letter in letters if letter.timestamp is not None]
    return DataFile(
        sent.key,
        *first.topic_partition,
        first.offset,
        last.offset,
        len(letters),
        sent.size,
        min(times, default=None),
        max(times, default=None),
        encoded_partition="",
        schema="",
        format="dead_letters",
        reason=Reason.DEAD_LETTER,
        upload=sent,
        role=Role.DEAD_LETTER,
    )
