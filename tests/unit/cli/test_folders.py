"""Tests of commands that take a folder of configurations, as the tasks of the bundle call them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli import arguments
from kafka_s3.cli.main import app
from kafka_s3.model.errors import ConfigError
from kafka_s3.run.wiring import bucket
from kafka_s3.run.wiring.bucket import SinkFolder
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.configurations import BASE, BLOCK_GZIP
from tests.support.filled import beat, worked

SINK = {
    **BASE,
    "flush.size": "3",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "kafka.bootstrap.servers": "localhost:9092",
}


def write(folder: Path, name: str, **changes: str | None) -> None:
    config = {key: text for key, text in {**SINK, "name": name, **changes}.items() if text is not None}
    (folder / f"{name}.json").write_text(json.dumps(config))


def test_the_work_is_done_for_each_and_the_highest_exit_code_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = worked(hours=1)
    state = made.log().load()
    beat(made, version=state.version, totals=state.totals)
    monkeypatch.setattr(bucket, "folder_of", lambda settings: SinkFolder("bucket", "_kafka_s3", made.store))
    monkeypatch.setattr("kafka_s3.cli.status.now_ms", lambda: made.now)
    write(tmp_path, made.settings.name)
    well = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert (well.exit_code, well.stderr) == (0, f"--- {made.settings.name}.json\n")
    alone = CliRunner().invoke(app, ["check", str(tmp_path / f"{made.settings.name}.json")])
    assert well.stdout == alone.stdout
    made.store.put(state_paths(made.settings).commit(state.version - 1), b"{")
    damaged = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert damaged.exit_code == 1
    assert "is damaged" in damaged.stdout
    write(tmp_path, "wrong", **{"flush.size": "few"})
    both = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert both.exit_code == 2
    assert "is damaged" in both.stdout
    assert "flush.size" in both.stderr


def test_a_folder_without_configurations_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sweep", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert "holds no configuration" in str(done.exception)


def test_settings_go_over_the_file_and_a_set_over_both(tmp_path: Path) -> None:
    write(tmp_path, "a")
    text = "# of all sinks\nflush.size=7\ns3.region=eu-\\\n  central-1\n"
    target = arguments.sink_settings(
        sink=str(tmp_path / "a.json"), settings_text=text, overrides=["flush.size=8"], worker=None,
        bucket=None, store_url=None, region="", service_credential=None, prefix="",
    )  # fmt: skip
    assert target.number("flush.size") == 8
    assert target.text("s3.region") == "eu-central-1"


def test_a_sink_that_has_nothing_to_do_is_named_and_left(tmp_path: Path) -> None:
    write(tmp_path, "a", **BLOCK_GZIP)
    done = CliRunner().invoke(app, ["compact", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "a is left as it is. It writes Block-GZIP" in " ".join(done.stdout.split())


def test_an_age_is_a_time_before_now() -> None:
    week_ago = datetime.now(UTC) - timedelta(days=7)
    assert abs(arguments.time_of("--since", "7d") - week_ago) < timedelta(minutes=5)


def test_the_entry_point_returns_if_all_went_well_and_exits_with_the_code_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform takes each SystemExit for a failure."""
    [entry_point] = [one for one in entry_points(group="console_scripts") if one.name == "kafka-s3"]
    main = entry_point.load()
    write(tmp_path, "a")
    monkeypatch.setattr(sys, "argv", ["kafka-s3", "delta", "maintain", str(tmp_path)])
    main()
    write(tmp_path, "b", **{"flush.size": "few"})
    with pytest.raises(SystemExit, match="2"):
        main()
