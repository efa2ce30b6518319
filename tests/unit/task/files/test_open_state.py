"""A state of open files that does not hold says what is different."""

from __future__ import annotations

import pytest

from kafka_s3.task.files.open_state import StateUnusable, check_state

STATE = {"identity": "this configuration", "table": "two columns", "start": 4}


@pytest.mark.parametrize(
    ("name", "told"),
    [("identity", "configuration or version"), ("table", "schema of the table"), ("start", "start")],
)
def test_what_is_different_is_named(name: str, told: str) -> None:
    check_state(STATE, STATE)
    with pytest.raises(StateUnusable, match=f"it is of another {told}"):
        check_state(STATE, {**STATE, name: "other"})
