"""Tests of `kafka-s3 simulate` without a broker and a bucket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from tests.support.memory_world import BASE

RATE = ("--rate", "1", "--record-bytes", "100")


def test_a_rate_is_enough_and_prices_are_those_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({**BASE, "flush.size": "100", "poll.interval.ms": "60000"}))
    done = CliRunner().invoke(app, ["simulate", str(path), *RATE, "--price-writes", "1000", "--output", "json"])
    assert done.exit_code == 0, done.output
    forecast = json.loads(done.stdout)
    assert forecast["per_day"]["files"] == pytest.approx(864)
    assert forecast["month"]["writes"] == pytest.approx(forecast["per_day"]["writes"] * 365 / 12)
    done = CliRunner().invoke(app, ["simulate", str(path), *RATE])
    assert "A day under this configuration" in done.stdout
    assert "100% flush.size" in done.stdout
