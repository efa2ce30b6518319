"""What the demo prints is text: a path that looks like markup is printed as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_s3.cli.display import console
from kafka_s3_testing.demo import show_next


def test_the_path_of_a_configuration_is_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show_next(console(), {Path("[bold]orders.json"): {}}, {"KAFKA": "localhost:9092"}, stays=True)
    shown = capsys.readouterr().out
    assert "run [bold]orders.json --available-now" in shown
    assert "\nNext\n" in shown
