"""What becomes of a report, by mode, what its task was told, and how its file differs from the expected columns."""

from __future__ import annotations

import pytest

from kafka_s3.engine.task.table_guard.columns import RESCUED, Mode, TableColumns
from kafka_s3.followers.delta.guard import Admission, admission

EXPECTED = TableColumns.of({"n": "integer"})
GIVEN = EXPECTED.schema_string()
FILES = {
    "same": TableColumns.of({"n": "integer"}),
    "new": TableColumns.of({"n": "integer", "x": "string"}),
    "wider": TableColumns.of({"n": "long"}),
    "conflict": TableColumns.of({"n": "string"}),
}
KEEP, EXPECT, AGAIN, STOP = Admission.KEEP, Admission.EXPECT, Admission.RUN_AGAIN, Admission.STOP


@pytest.mark.parametrize(
    ("mode", "file", "told", "untold"),
    [
        (Mode.ADD, "same", EXPECT, EXPECT),
        (Mode.ADD, "new", EXPECT, EXPECT),
        (Mode.ADD, "wider", EXPECT, EXPECT),
        (Mode.ADD, "conflict", STOP, AGAIN),
        (Mode.FAIL, "same", KEEP, KEEP),
        (Mode.FAIL, "new", STOP, STOP),
        (Mode.FAIL, "wider", STOP, STOP),
        (Mode.FAIL, "conflict", STOP, AGAIN),
        (Mode.RESCUE, "same", KEEP, KEEP),
        (Mode.RESCUE, "new", KEEP, AGAIN),
        (Mode.RESCUE, "wider", STOP, AGAIN),
        (Mode.RESCUE, "conflict", STOP, AGAIN),
        (Mode.NONE, "same", KEEP, KEEP),
        (Mode.NONE, "new", KEEP, KEEP),
        (Mode.NONE, "wider", STOP, AGAIN),
        (Mode.NONE, "conflict", STOP, AGAIN),
    ],
)
def test_a_task_that_knew_the_columns_stops_the_sink_where_one_that_did_not_runs_again(
    mode: Mode, file: str, told: Admission, untold: Admission
) -> None:
    earlier = TableColumns.of({"n": "short"}).schema_string()
    assert admission(FILES[file], EXPECTED, given=GIVEN, mode=mode)[0] is told
    assert {admission(FILES[file], EXPECTED, given=one, mode=mode)[0] for one in (None, earlier)} == {untold}


def test_what_a_file_adds_is_expected_after_the_columns_there_are() -> None:
    _, found = admission(FILES["new"], EXPECTED, given=None, mode=Mode.ADD)
    assert found.columns == FILES["new"]


@pytest.mark.parametrize("mode", Mode)
def test_the_first_file_of_a_topic_without_a_table_says_what_is_expected(mode: Mode) -> None:
    decided, found = admission(FILES["same"], None, given=None, mode=mode)
    assert decided is EXPECT
    assert list(found.columns.fields) == ["n", *([RESCUED] if mode is Mode.RESCUE else [])]
