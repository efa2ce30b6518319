"""What happens to a record that fails, and to a null value? The error policy of SEMANTICS A7 and A9."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kafka_s3.model.dead_letters import Failure, Stage
from kafka_s3.model.offsets import TopicPartition

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
        stops. `start` is where the topic-partition stands.
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
