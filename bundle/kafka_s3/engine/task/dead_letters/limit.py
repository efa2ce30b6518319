"""Are so many of a task's records dead letters that something else is wrong? The dead letter limit, `errors.deadletter.max.ratio`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_s3.engine.task.dead_letters.file import DeadLetterFile

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

    def check(self, letters: DeadLetterFile) -> None:
        """Raises AboveLimit as soon as the rest of the range cannot make it right: the letters are not written to their end first."""
        if self.offsets >= LIMIT_FROM and len(letters) > self.ratio * self.offsets:
            raise AboveLimit(len(letters), self.offsets, ratio=self.ratio)

    def check_all(self, letters: DeadLetterFile, read: int) -> None:
        """Raises AboveLimit once the number of records is known."""
        if read >= LIMIT_FROM and len(letters) > self.ratio * read:
            raise AboveLimit(len(letters), read, ratio=self.ratio)
