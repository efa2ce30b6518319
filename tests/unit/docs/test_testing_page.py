"""The page about users' own tests: its examples are those of `examples/`, which run from the wheel (tests/services/bundle)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from kafka_s3.connect.config.read import read_config
from kafka_s3.connect.config.validate import validate
from kafka_s3_testing import plugin
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def test_the_page_has_a_line_for_each_fixture_and_for_no_other() -> None:
    fixtures = {name for name, found in vars(plugin).items() if isinstance(found, type(plugin.spark))}
    assert fixtures == {*re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)}


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_the_code_of_the_page_is_in_the_examples(block: str) -> None:
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("test_*.py")]
    lines = {line.strip() for text in examples for line in text.splitlines()}
    assert {line.strip() for line in block.splitlines()} <= lines


@pytest.mark.parametrize("name", ["orders.json", "orders-table.json"])
def test_the_configurations_of_the_examples_are_ones_that_a_sink_takes(name: str) -> None:
    config = {**read_config(Path(ROOT / "examples" / name)).texts, "kafka.bootstrap.servers": "localhost:9092"}
    checked = validate(config)
    assert checked.problems == ()
    assert checked.warnings == ()


def test_what_a_fixture_gives_has_the_members_that_the_page_shows() -> None:
    from kafka_s3_testing.sink_run import SinkRun

    reported = {*re.findall(r"`made\.(\w+)", PAGE)}
    assert reported == {name for name, _ in inspect.getmembers(SinkRun) if not name.startswith("_")}
