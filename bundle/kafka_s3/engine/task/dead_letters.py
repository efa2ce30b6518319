"""What becomes of the records of a task that cannot be written? Dead letters, skips, or the end of the task, as the policy says.

The error policy of SEMANTICS A7 and A9 decides on each. Dead letters go line by line into an upload: none of them is kept in memory. Where
so many are bad that something else is wrong, the dead letter limit (`errors.deadletter.max.ratio`) ends the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from os import PathLike
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.values import Longs
from kafka_s3.engine.log.entry import LAST_OFFSET
from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.dead_letters import DeadLetter, Failure, LetterLines, Stage, dead_letter, rejection
from kafka_s3.model.deflate import ENGINE_BYTES
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.objects.format import Paused
from kafka_s3.store.store import ObjectStore


@dataclass(slots=True)
class ReadCounter:
    """The records read since the frontier of the assignment, whatever becomes of them; `_below` has how many lie below the next frontier.

    Between two batches that can come to lie at two offsets only among the records that are read: where it is, if nothing closes, and
    behind the last record that was written, if all that is open does. What was read behind that one is left out, rejected or filtered,
    and no file ends there. So two counts are enough, whatever offsets a filter drops.

    Say the frontier is 3, and 3, 4 and 5 are read: 4 is written and its file stays open. A later frontier is 3 (no record below it), 5
    (two of them), or behind a record that is still to be read (three, and those below it).
    """

    _read: int = 0
    _below: Mapping[int, int] = field(default_factory=dict)

    def add(self, offsets: Longs, *, frontier: int, written: int) -> None:
        """Counts a batch when its records are written: those below the frontier are in closed files, the last one's offset is `written`."""
        likely, known = (frontier, written + 1), self._below
        new = {
            one: 0 if one in known else int(np.searchsorted(offsets, one)) for one in likely
        }  # none below a known one
        self._below = {one: self.below(one) + new[one] for one in likely}
        self._read += len(offsets)

    def below(self, frontier: int) -> int:
        """How many there are below a frontier."""
        return self._below.get(frontier, self._read)

    def pause(self, frontier: int) -> Paused:
        """What the next task counts on from, above the frontier that is reported now."""
        settled = self.below(frontier)
        before = [[offset, count - settled] for offset, count in self._below.items()]
        return {"read": self._read - settled, "before": before}

    def resume(self, paused: Paused) -> None:
        self._read, self._below = paused["read"], {offset: count for offset, count in paused["before"]}


NULL_FAILS = "Null valued records are not writeable with current behavior.on.null.values 'settings."
NULL_SKIPPED = "Skipping null value record."
NULLS_PASS = "behavior.on.null.values=ignore"


class ErrorAction(Enum):
    """What to do with a record that is not written."""

    DEAD_LETTER = "dead letter"
    SKIP = "skip"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """`tolerant`: errors.tolerance=all. `reporter`: a dead letter topic or error logging is on. `nulls`: fail, ignore or write."""

    tolerant: bool
    reporter: bool
    nulls: str
    report_nulls: bool
    strict: bool

    def failure(self, failure: Failure) -> ErrorAction:
        """Kinder than the original unless strict: under tolerance every bad record becomes a dead letter."""
        if not self.tolerant:
            return ErrorAction.STOP
        if self.strict and (failure.stops_original or (failure.stage is Stage.TASK_PUT and not self.reporter)):
            return ErrorAction.STOP
        return ErrorAction.DEAD_LETTER

    def reports(self, failure: Failure) -> bool:
        """Whether a record at which the sink stops goes to the dead letter topic first, as in the original (SEMANTICS A9.1)."""
        return self.reporter and not failure.stops_original and failure.message != NULL_FAILS

    def null(self) -> ErrorAction:
        """`fail` stops; `ignore` skips, and reports where there is a reporter and the user did not switch that off."""
        if self.nulls == "fail":
            return ErrorAction.STOP
        if not (self.reporter and self.report_nulls):
            return ErrorAction.SKIP
        return ErrorAction.STOP if self.strict and not self.tolerant else ErrorAction.DEAD_LETTER

    def needs(self, failures: Iterable[Failure]) -> tuple[str, ...]:
        """The settings under which none of these records would stop the sink, each once."""
        return tuple(dict.fromkeys(setting for failure in failures for setting in self._leniency(failure)))

    def remedy(self, stop: Failure, topic_partition: TopicPartition, *, start: int, needs: Sequence[str]) -> str:
        """What `needs`, the settings for the records that were met, may leave over; and how to go on without the one at which the sink
        stops. `start` is the frontier of the topic-partition.
        """
        topic, partition = topic_partition
        later = self.nulls == "fail" and NULLS_PASS not in needs
        others = stop.offset - start
        records = "1 other record that is" if others == 1 else f"{others:,} other records that are"
        cost = f", which gives up {records} in no object yet, too (offsets {start} to {stop.offset - 1})"
        return (
            f"{f'Records without a value, if there are any, need --set {NULLS_PASS} as well. ' if later else ''}"
            f"To skip this one without a trace: kafka-s3 position set CONFIG {topic} {partition} {stop.offset + 1}"
            f"{cost if others > 0 else ''}."
        )

    def _leniency(self, failure: Failure) -> list[str]:
        """The settings under which such a record would not stop the sink."""
        if failure.message == NULL_FAILS:
            return [NULLS_PASS]
        settings = [] if self.tolerant else ["errors.tolerance=all"]
        if self.strict and failure.stops_original:
            settings.append("compatibility.strict=false")
        elif self.strict and failure.stage is Stage.TASK_PUT and not self.reporter:
            settings.append("errors.log.enable=true")
        return settings


@dataclass(slots=True)
class DeadLetterFile:
    """The dead letter file of one task; `key` names it by the offset of its first letter. No letter, no upload."""

    topic_partition: TopicPartition
    store: ObjectStore
    key: Callable[[int], str]
    part_size: int = field(kw_only=True)
    folder: PathLike[str] = field(kw_only=True)
    _lines: LetterLines = field(default_factory=LetterLines)
    _upload: FileUpload | None = None
    _offsets: list[Longs] = field(default_factory=list)
    _times: tuple[int, int] | None = None
    _reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    _examples: dict[tuple[str, str], str] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many letters there are."""
        return self._reasons.total()

    def add(self, letters: list[DeadLetter]) -> None:
        """Takes letters in the order of their offsets, all behind those of the last call."""
        if self._upload is None:
            self._upload = FileUpload(self.store, self.key(letters[0].offset), part_size=self.part_size)
        for letter in letters:
            self._upload.add(self._lines.line(letter))
            self._note(letter)
        self._offsets.append(np.array([letter.offset for letter in letters], np.int64))

    def memory(self) -> int:
        """Bytes held in memory."""
        held = sum(offsets.nbytes for offsets in self._offsets)
        return held if self._upload is None else held + ENGINE_BYTES + self._upload.in_memory()

    def release(self) -> None:
        """Moves what waits to local disk. Raises LocalDiskError."""
        if self._upload is not None:
            self._upload.spill(SpillFile(self.folder))

    def finish(self) -> DataFile | None:
        """The log's row of the file, once its upload has all its parts; None where there are no letters."""
        if self._upload is None:
            return None
        self._upload.add(self._lines.end())
        sent, (low, high) = self._upload.finish(), self._times or (None, None)
        first, last = int(self._offsets[0][0]), int(self._offsets[-1][-1])
        return DataFile(
            sent.key, *self.topic_partition, first, last, len(self), sent.size, low, high, encoded_partition="", schema="",
            format="dead_letters", reason=Reason.DEAD_LETTER, upload=sent, role=Role.DEAD_LETTER,
        )  # fmt: skip

    def abort(self) -> None:
        """Drops the upload."""
        if self._upload is not None:
            self._upload.abort()

    @property
    def offsets(self) -> OffsetSet:
        return OffsetSet.of(offset for offsets in self._offsets for offset in offsets.tolist())

    @property
    def stages(self) -> dict[str, int]:
        """How many letters there are of each stage."""
        found: Counter[str] = Counter()
        for (stage, _), count in self._reasons.items():
            found[stage] += count
        return dict(found)

    @property
    def commonest(self) -> str:
        """The commonest exception with its number and an example, for an error text; blank where there are no letters."""
        if not self._reasons:
            return ""
        ((reason, count),) = self._reasons.most_common(1)
        return f"{count} times {reason[1]}, for example {self._examples[reason]}."

    def _note(self, letter: DeadLetter) -> None:
        reason, at = (letter.stage, letter.exception), letter.timestamp
        self._reasons[reason] += 1
        self._examples.setdefault(reason, str(letter))
        if at is not None:
            low, high = self._times or (at, at)
            self._times = min(low, at), max(high, at)


LIMIT_FROM: Final = 100
"""Fewer records say little about the share of bad ones."""


class AboveLimit(Exception):
    """More of a task's records are dead letters than the limit allows; its text is the sentence that says so."""

    def __init__(self, dead: int, of: int, *, ratio: float) -> None:
        super().__init__(excess(dead, of, ratio=ratio))


def excess(dead: int, of: int, *, ratio: float) -> str:
    """What the limit says to so many dead letters."""
    return (
        f"{dead} of {of} records of this batch would become dead letters, and errors.deadletter.max.ratio is {ratio:g}."
    )


@dataclass(frozen=True, slots=True)
class DeadLetterLimit:
    """`ratio` of the records may be dead letters; `offsets` are as many records as the task's range can hold at most."""

    ratio: float
    offsets: int

    def check(self, letters: DeadLetterFile, records: int) -> None:
        """Raises AboveLimit where there are too many for so many records."""
        if records >= LIMIT_FROM and len(letters) > self.ratio * records:
            raise AboveLimit(len(letters), records, ratio=self.ratio)


AT_ONCE: Final = 1000
"""So many letters are held: of a batch all may be bad, and as Python objects and JSON they take ten times its memory."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The first record that the policy does not let pass. `needs` are the settings under which all such records of its batch would pass."""

    failure: Failure
    letter: DeadLetter
    needs: tuple[str, ...]


@dataclass(slots=True)
class BadRecords:
    """The bad records of one task, on their way into `file`."""

    topic_partition: TopicPartition
    policy: ErrorPolicy
    file: DeadLetterFile
    limit: DeadLetterLimit
    _skipped: ReadCounter = field(default_factory=ReadCounter)
    _dropped: list[int] = field(default_factory=list)

    def note_dropped(self, offsets: Sequence[int]) -> None:
        """Records that are not written, and nobody's fault: of those only the number is reported."""
        self._dropped += offsets

    def find_stop(self, failures: Sequence[Failure], nulls: Sequence[int] = ()) -> int:
        """Return the offset of the first of these bad records at which the task stops, `LAST_OFFSET` if all of them pass."""
        offsets = [failure.offset for failure in failures if self.policy.failure(failure) is ErrorAction.STOP]
        if self.policy.null() is ErrorAction.STOP:
            offsets += nulls
        return min(offsets, default=LAST_OFFSET)

    def handle(self, failures: Sequence[Failure], nulls: Sequence[int], batch: pa.RecordBatch) -> Stop | None:
        """Make dead letters of the bad records of a batch: of those that a step refused, and of null values that are not written.

        If the policy does not let one of them pass, only the records before it become dead letters, and it is returned. `batch` is what
        was read, with keys and headers if letters need them. Raises AboveLimit if the letters of this task are too many.
        """
        refused = [(failure, self.policy.failure(failure)) for failure in failures]
        refused += self._judged_nulls(nulls)
        refused.sort(key=lambda pair: pair[0].offset)
        stops = [failure for failure, verdict in refused if verdict is ErrorAction.STOP]
        passed = [failure for failure, _ in refused if not stops or failure.offset < stops[0].offset]
        for first in range(0, len(passed), AT_ONCE):
            self.file.add([self._letter(failure, batch) for failure in passed[first : first + AT_ONCE]])
            self.limit.check(self.file, self.limit.offsets)  # the rest of the range cannot make it right
        return Stop(stops[0], self._letter(stops[0], batch), self.policy.needs(stops)) if stops else None

    def check_all(self, read: int) -> None:
        """Raises AboveLimit where the letters of this task are too many for the records that were read."""
        self.limit.check(self.file, read)

    def keep_within(self, budget: int, others: Callable[[], int]) -> None:
        """Leaves the task's memory to others where the letters and these need more than `budget` bytes. Raises LocalDiskError."""
        held = self.file.memory()
        if held and held + others() > budget:
            self.file.release()

    def count_skipped(self, *, until: int, frontier: int, written: int) -> None:
        """Count what was skipped before the offset `until` of a batch that is written, as `ReadCounter.add` does."""
        skipped = [offset for offset in sorted(self._dropped) if offset < until]
        self._skipped.add(np.array(skipped, np.int64), frontier=frontier, written=written)
        self._dropped = []

    def skipped_before(self, frontier: int) -> int:
        """How many of the records below the frontier were skipped."""
        return self._skipped.below(frontier)

    def pause(self, frontier: int) -> Paused:
        """The skipped records, as `ReadCounter` does; dead letters are committed with each task."""
        return self._skipped.pause(frontier)

    def resume(self, paused: Paused) -> None:
        """Counts on."""
        self._skipped.resume(paused)

    def _letter(self, failure: Failure, batch: pa.RecordBatch) -> DeadLetter:
        return dead_letter(failure, self.topic_partition, _row(batch, failure.offset))

    def _judged_nulls(self, offsets: Sequence[int]) -> list[tuple[Failure, ErrorAction]]:
        verdict = self.policy.null()
        if verdict is ErrorAction.SKIP:
            self.note_dropped(offsets)
            return []
        text = NULL_FAILS if self.policy.nulls == "fail" else NULL_SKIPPED
        return [(rejection(offset, text), verdict) for offset in offsets]


def _row(batch: pa.RecordBatch, offset: int) -> dict[str, Any]:
    at = int(np.searchsorted(batch.column("offset").to_numpy(), offset))
    return {name: batch.column(name)[at].as_py() for name in batch.schema.names}
