"""Are so many records dead letters that something else is wrong? The dead letter limit, `errors.deadletter.max.ratio`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kafka_s3.model.dead_letters import DeadLetter, read_lines
from kafka_s3.model.errors import RecordError, StorageError
from kafka_s3.model.files import Role
from kafka_s3.model.tasks import TaskReport
from kafka_s3.storage.store import ObjectStore

LIMIT_FROM: Final = 100  # a smaller batch says little about the share of bad records
LIMIT_REMEDY: Final = (
    "Nothing of this batch was committed. Correct the configuration or the producers; to go on as it is, raise "
    "errors.deadletter.max.ratio (1 is no limit)."
)


def stop_above_limit(
    reports: Sequence[TaskReport], store: ObjectStore, *, sink: str, ratio: float
) -> RecordError | None:
    """The error with which a sink stops at the limit, with the commonest reason; None below it. Their uploads are used up."""
    exceeded = above_limit(reports, ratio=ratio)
    if exceeded is None:
        return None
    return RecordError(f"Sink {sink} stops: {exceeded} Most often: {most_frequent(reports, store)} {LIMIT_REMEDY}")


def above_limit(reports: Sequence[TaskReport], *, ratio: float) -> str | None:
    """A sentence with the numbers where more of a turn's records became dead letters than the ratio allows, else None."""
    read, dead = sum(report.read for report in reports), sum(len(report.dead) for report in reports)
    if read < LIMIT_FROM or dead <= ratio * read:
        return None
    return f"{dead} of {read} records of this batch would become dead letters, and errors.deadletter.max.ratio is {ratio:g}."


def most_frequent(reports: Sequence[TaskReport], store: ObjectStore) -> str:
    """The commonest stage and exception of a turn's dead letters, with an example; the stage alone where they cannot be read.

    Only their files tell, and an upload cannot be read: so they are completed, read and deleted. One that is left behind does no harm:
    no entry counts it, and the next attempt writes over it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], DeadLetter] = {}
    for letter in _letters(reports, store):
        counts[letter.stage, letter.exception] += 1
        examples.setdefault((letter.stage, letter.exception), letter)
    if not counts:
        stages = sum((Counter(report.stages) for report in reports), Counter[str]())
        return f"stage {stages.most_common(1)[0][0]}."
    ((place, times),) = counts.most_common(1)
    return f"{times} times {place[1]}, for example {examples[place]}."


def _letters(reports: Sequence[TaskReport], store: ObjectStore) -> Iterator[DeadLetter]:
    for file in (file for report in reports for file in report.files if file.role is Role.DEAD_LETTER):
        try:
            if store.head(file.key) is not None:
                continue  # of a position that was moved back: letters that are committed are not written over
            store.complete_upload(file.upload)
            yield from read_lines(store.get(file.key))
            store.delete(file.key)
        except StorageError:
            continue  # the reason is missing from the text; the limit holds all the same
