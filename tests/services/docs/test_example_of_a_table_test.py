"""The example that shows users how to test a pipeline on a table is itself a test: its tests, on the Spark session of this run."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import test_orders_table as example

from kafka_s3.config.validate import validate
from kafka_s3.local.tables import delta_tables_of
from kafka_s3.model.errors import RecordError

test_cancelled_orders = example.test_cancelled_orders_bring_no_revenue
test_a_broken_record = example.test_a_broken_record_is_not_in_the_table


def test_the_configuration_is_one_that_a_sink_takes() -> None:
    checked = validate(example.CONFIG)
    assert checked.problems == ()
    assert checked.warnings == ()


def test_a_record_that_stops_the_sink_stops_the_test(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        delta_tables_of({**example.CONFIG, "errors.tolerance": "none"}, {"orders": [b"{broken"]}, tmp_path)


def test_the_manual_shows_the_example() -> None:
    assert "examples/test_orders_table.py" in Path("docs/delta.md").read_text(encoding="utf-8")
