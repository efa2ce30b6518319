"""Jobs: what they take, how they go through a folder, and how they leave. As a platform runs them: the file, in a process that is there."""

from __future__ import annotations

import json
import runpy
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.model.errors import ConfigError, StorageError
from kafka_s3.ops.jobs import configurations, each_sink, job_parser, job_settings, leave, look_at_each
from kafka_s3.run.wiring.bucket import SinkFolder
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.configurations import BASE
from tests.support.filled import beat, worked
from tests.support.repository import ROOT

Run = Callable[..., int]
SINK = {
    **BASE,
    "flush.size": "3",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "kafka.bootstrap.servers": "localhost:9092",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(script: str, *arguments: object) -> int:
        """The exit code; a job for which all is well returns."""
        path = str(ROOT / "jobs" / script)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as left:
            return left.code if isinstance(left.code, int) and left.code else -1
        return 0

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.properties", "a.json"):
        config = {**SINK, "name": name.partition(".")[0]}
        text = (
            json.dumps(config)
            if name.endswith("json")
            else "".join(f"{key}={value}\n" for key, value in config.items())
        )
        (tmp_path / name).write_text(text)
    (tmp_path / "a.job.yml").write_text("resources: {}\n")
    return tmp_path


def given(*arguments: object) -> Namespace:
    return job_parser(None, config="").parse_args([str(argument) for argument in arguments])


def test_a_folder_means_its_configurations_by_name(folder: Path) -> None:
    assert [path.name for path in configurations(folder)] == ["a.json", "b.properties"]
    assert configurations(folder / "a.json") == [folder / "a.json"]


def test_a_folder_without_configurations_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert each_sink(given(tmp_path), lambda settings: True) == 2
    assert "holds no configuration (.json, .properties). Name another folder" in capsys.readouterr().err


def test_settings_go_over_the_file_and_a_set_over_both(folder: Path) -> None:
    text = "# of all sinks\nflush.size=7\ns3.region=eu-\\\n  central-1\n"
    settings = job_settings(folder / "a.json", given("a", "--settings", text, "--set", "flush.size=8"))
    assert settings.number("flush.size") == 8
    assert settings.text("s3.region") == "eu-central-1"


def test_one_that_fails_does_not_end_it_and_the_highest_code_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(settings: Settings) -> bool:
        if settings.name == "a":
            raise StorageError("the bucket is closed")
        return True

    assert each_sink(given(folder), work) == 1
    reported = capsys.readouterr()
    assert reported.out.split() == ["---", "a.json", "---", "b.properties"]
    assert "StorageError the bucket is closed" in reported.err
    (folder / "b.properties").write_text("name=b\n")
    assert each_sink(given(folder), work) == 2


def test_looks_at_many_are_reported_in_order_each_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(settings: Settings) -> tuple[str, bool]:
        if settings.name == "b":
            raise StorageError("the bucket is closed")
        return "a is STALE", False

    assert look_at_each(given(folder), look) == 1
    reported = capsys.readouterr()
    assert reported.out.splitlines() == ["--- a.json", "a is STALE", "--- b.properties"]
    assert "StorageError the bucket is closed" in reported.err
    assert look_at_each(given(folder), lambda settings: ("well", True)) == 0


def test_a_watch_reads_the_log_also_behind_what_the_heartbeat_shows() -> None:
    made = worked(hours=1)
    state = made.log().load()
    beat(made, version=state.version, totals=state.totals)
    check = runpy.run_path(str(ROOT / "jobs" / "check_sinks.py"), run_name="watch")["check"]
    check.__globals__["folder_of"] = lambda settings: SinkFolder("bucket", "_kafka_s3", made.store)
    check.__globals__["now_ms"] = lambda: made.now
    limits = Namespace(max_lag=None, max_delay=None, max_dead_letters=None)
    assert check(made.settings, limits)[1]
    made.store.put(state_paths(made.settings).commit(state.version - 1), b"{")
    line, well = check(made.settings, limits)
    assert not well
    assert "is damaged" in line


def test_well_is_a_plain_return() -> None:
    leave(0)
    with pytest.raises(SystemExit, match="2"):
        leave(2)


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "jobs").glob("*.py")))
def test_a_page_says_what_is_wrong_with_a_configuration(
    run: Run, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "orders.json"
    config.write_text('{"name": "orders"}')
    assert run(script, config) == 2
    assert "ConfigError" in capsys.readouterr().err


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "jobs").glob("*.py")))
def test_a_page_explains_itself(
    run: Run, script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(ROOT / "jobs" / script), run_name="__main__")
    reported = capsys.readouterr().out
    assert f"jobs/{script} CONFIG" in reported
    assert "--settings TEXT" in reported


def test_a_job_with_nothing_to_do_returns(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("maintain_tables.py", folder) == 0
    assert "a keeps no Delta tables" in capsys.readouterr().out


def test_a_continuous_sink_is_not_flushed(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run_sink.py", folder / "a.json", "--flush") == 2
    assert "--flush goes with --available-now" in capsys.readouterr().err


def test_the_keys_given_must_be_pairs(folder: Path) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        job_settings(folder / "a.json", given("a", "--set", "flush.size"))
