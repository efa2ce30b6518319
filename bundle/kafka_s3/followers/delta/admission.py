"""What becomes of a task's report because of one of its files: commit it, run the task again, stop the sink? Pure, nothing is asked here.

By example: docs/worked-examples.md.
"""

from __future__ import annotations

from enum import Enum, auto

from kafka_s3.engine.task.table_guard.columns import Fit, Mode, TableColumns, fit, rescuing


class Admission(Enum):
    """What becomes of a report."""

    KEEP = auto()
    """The file is let through; the expected columns stay."""
    EXPECT = auto()
    """The file is let through; the columns of the fit are expected from now on."""
    RUN_AGAIN = auto()
    """The task did not know the expected columns, and differs from them: it runs again, told them."""
    STOP = auto()
    """The mode stops the sink before the commit."""


def admission(
    file: TableColumns, expected: TableColumns | None, *, told: str | None, mode: Mode
) -> tuple[Admission, Fit]:
    """What becomes of a report with a file of these columns, and how they fit the expected ones (None: no table, no file yet).

    `told` is the schema string that the task was given, None where it was given none.
    """
    if expected is None:
        return Admission.EXPECT, Fit(rescuing(file) if mode is Mode.RESCUE else file)
    found = fit(expected, file)
    knew = told == expected.schema_string()
    if mode is Mode.FAIL and (found.new or found.wider):
        return Admission.STOP, found
    if found.refusals(mode):
        return Admission.STOP if knew else Admission.RUN_AGAIN, found
    if mode is Mode.RESCUE and found.new and not knew:  # the task knew of no table, and rescued nothing
        return Admission.RUN_AGAIN, found
    return Admission.EXPECT if mode is Mode.ADD else Admission.KEEP, found
