"""What happens to a record that fails, and to a null value? The error policy of SEMANTICS A7 and A9."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kafka_s3.model import Stage
from kafka_s3.records import Failure

NULL_FAILS = "Null valued records are not writeable with current behavior.on.null.values 'settings."
NULL_SKIPPED = "Skipping null value record."


class Verdict(Enum):
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

    def failure(self, failure: Failure) -> Verdict:
        """Kinder than the original unless strict: under tolerance every bad record becomes a dead letter."""
        if not self.tolerant:
            return Verdict.STOP
        if self.strict and (failure.stops_original or (failure.stage is Stage.TASK_PUT and not self.reporter)):
            return Verdict.STOP
        return Verdict.DEAD_LETTER

    def reports(self, failure: Failure) -> bool:
        """Whether a record at which the sink stops goes to the dead letter topic first, as in the original (SEMANTICS A9.1)."""
        return self.reporter and not failure.stops_original and failure.message != NULL_FAILS

    def null(self) -> Verdict:
        """`fail` stops; `ignore` skips, and reports where there is a reporter and the user did not switch that off."""
        if self.nulls == "fail":
            return Verdict.STOP
        if not (self.reporter and self.report_nulls):
            return Verdict.SKIP
        return Verdict.STOP if self.strict and not self.tolerant else Verdict.DEAD_LETTER
