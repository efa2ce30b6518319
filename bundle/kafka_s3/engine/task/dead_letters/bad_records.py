"""What becomes of the records of a task that cannot be written? Dead letters, skips, or the end of the task, as the policy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafka_s3.engine.task.dead_letters.file import DeadLetterFile
from kafka_s3.engine.task.dead_letters.limit import DeadLetterLimit
from kafka_s3.engine.task.error_policy import NULL_FAILS, NULL_SKIPPED, ErrorAction, ErrorPolicy
from kafka_s3.engine.task.examined import Examined
from kafka_s3.model.dead_letters import DeadLetter, Failure, dead_letter, rejection
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.format import Paused

AT_ONCE: Final = 1000
"""So many letters are held: of a batch all may be bad, and as Python objects and JSON they take ten times its memory."""


class Stopped(Exception):
    """The task met a record at which the sink stops. `needs` are the settings under which all those of its batch would pass."""

    def __init__(self, failure: Failure, letter: DeadLetter, needs: tuple[str, ...]) -> None:
        self.failure = failure
        self.letter = letter
        self.needs = needs


class BadRecords:
    """The bad records of one task, on their way into `file`."""

    def __init__(
        self, topic_partition: TopicPartition, policy: ErrorPolicy, file: DeadLetterFile, limit: DeadLetterLimit
    ) -> None:
        self.file = file
        self._topic_partition = topic_partition
        self._policy = policy
        self._limit = limit
        self._skipped = Examined()
        self._dropped: list[int] = []

    def dropped(self, offsets: Sequence[int]) -> None:
        """Records that are not written, and nobody's fault: of those only the number is told."""
        self._dropped += offsets

    def take(self, failures: Sequence[Failure], nulls: Sequence[int], batch: pa.RecordBatch) -> None:
        """The bad records of a batch: those that a step refused, and those without a value where such are not written.

        `batch` is what was read, with keys and headers where letters need them. Raises Stopped at the first record with which the policy
        lets nothing pass, AboveLimit where the letters of this task are too many.
        """
        refused = [(failure, self._policy.failure(failure)) for failure in failures]
        refused += self._judged_nulls(nulls)
        refused.sort(key=lambda pair: pair[0].offset)
        stops = [failure for failure, verdict in refused if verdict is ErrorAction.STOP]
        if stops:
            raise Stopped(stops[0], self._letter(stops[0], batch), self._policy.needs(stops))
        for first in range(0, len(refused), AT_ONCE):
            self.file.add([self._letter(failure, batch) for failure, _ in refused[first : first + AT_ONCE]])
            self._limit.check(self.file)

    def check_all(self, read: int) -> None:
        """Raises AboveLimit where the letters of this task are too many for the records that were read."""
        self._limit.check_all(self.file, read)

    def keep_within(self, budget: int, others: Callable[[], int]) -> None:
        """Leaves the task's memory to others where the letters and these need more than `budget` bytes. Raises LocalDiskError."""
        held = self.file.memory()
        if held and held + others() > budget:
            self.file.release()

    def count_skipped(self, *, frontier: int, written: int) -> None:
        """Counts what was skipped of a batch that is written, as `Examined.add` does."""
        self._skipped.add(np.array(sorted(self._dropped), np.int64), frontier=frontier, written=written)
        self._dropped = []

    def skipped_before(self, frontier: int) -> int:
        """How many of the records below the frontier were skipped."""
        return self._skipped.below(frontier)

    def pause(self, frontier: int) -> Paused:
        """The skipped records, as `Examined` does; dead letters are committed with each task."""
        return self._skipped.pause(frontier)

    def resume(self, paused: Paused) -> None:
        """Counts on."""
        self._skipped.resume(paused)

    def _letter(self, failure: Failure, batch: pa.RecordBatch) -> DeadLetter:
        return dead_letter(failure, self._topic_partition, _row(batch, failure.offset))

    def _judged_nulls(self, offsets: Sequence[int]) -> list[tuple[Failure, ErrorAction]]:
        verdict = self._policy.null()
        if verdict is ErrorAction.SKIP:
            self.dropped(offsets)
            return []
        text = NULL_FAILS if self._policy.nulls == "fail" else NULL_SKIPPED
        return [(rejection(offset, text), verdict) for offset in offsets]


def _row(batch: pa.RecordBatch, offset: int) -> dict[str, Any]:
    at = int(np.searchsorted(batch.column("offset").to_numpy(), offset))
    return {name: batch.column(name)[at].as_py() for name in batch.schema.names}
