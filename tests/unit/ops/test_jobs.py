"""Tests of the jobs: their arguments, their way through a folder, and how they leave, as files in a process that is there."""

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
from kafka_s3.ops.jobs import configurations, each_sink, job_parser, job_settings, leave
from tests.support.configurations import BASE
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


def test_a_continuous_sink_is_not_flushed(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run_sink.py", folder / "a.json", "--flush") == 2
    assert "--flush goes with --available-now" in capsys.readouterr().err


def test_the_keys_given_must_be_pairs(folder: Path) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        job_settings(folder / "a.json", given("a", "--set", "flush.size"))
