"""The command line: what it prints, and what its exit code says."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kafka_s3.cli.display import ProgressObserver, bucket_tree, progress_bar, size_text, totals_verdict
from kafka_s3.engine.log.fold import LogState
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import RoundSummary
from kafka_s3.run.logs import LogFormat, LogObserver, log_to_stderr
from kafka_s3.store.store import ObjectInfo

GOOD = json.loads(Path("examples/orders.json").read_text(encoding="utf-8"))
ROUND = RoundSummary(
    version=7, started_ms=0, ended_ms=1500, read=12, totals=Totals(12, 10, 1, 1, 2, 99), files=(),
    frontier={TopicPartition("orders", 0): 12}, lag={TopicPartition("orders", 0): 3},
)  # fmt: skip


def kafka_s3(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_s3", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_validate_accepts_the_examples() -> None:
    done = kafka_s3("validate", "examples/orders.json", "--worker", "examples/worker.properties")
    assert done.returncode == 0, done.stderr
    assert "is valid" in done.stdout


def test_validate_reports_every_problem_at_once_and_exits_2(tmp_path: Path) -> None:
    bad = {**GOOD["config"], "flush.size": "many", "s3.compression.type": "snappy", "topics": "", "flsh.size": "3"}
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"name": "bad", "config": bad}), encoding="utf-8")
    done = kafka_s3("validate", str(path))
    assert done.returncode == 2
    for key in ("flush.size", "s3.compression.type", "topics", "kafka.bootstrap.servers"):
        assert key in done.stderr
    assert "Did you mean" in done.stderr


def test_broken_json_is_reported_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{\n  "name": "x",\n  "config" {}\n}', encoding="utf-8")
    done = kafka_s3("validate", str(path))
    assert done.returncode == 2
    assert "line 3" in done.stderr
    assert "column" in done.stderr
    assert "Traceback" not in done.stderr


def test_effective_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text(
        json.dumps({**GOOD["config"], "name": "x", "aws.secret.access.key": "canary-value"}), encoding="utf-8"
    )
    done = kafka_s3("validate", str(path), "--worker", "examples/worker.properties", "--effective")
    assert done.returncode == 0, done.stderr
    assert "flush.size = 10000" in done.stdout
    assert "canary-value" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("run", "examples/orders.json", "--flush"), "--available-now"),
        (("run", "no-such-file.json"), "no-such-file.json"),
        (("validate", "examples/orders.json", "--set", "flush.size"), "KEY=VALUE"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_exits_2(arguments: tuple[str, ...], names: str) -> None:
    done = kafka_s3(*arguments)
    assert done.returncode == 2
    assert names in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bucket_that_does_not_answer_ends_a_look_with_the_reason_of_each_try(tmp_path: Path) -> None:
    path = tmp_path / "away.json"
    where = {"kafka.bootstrap.servers": "127.0.0.1:9", "store.url": "http://127.0.0.1:9"}
    path.write_text(json.dumps({"name": "away", "config": {**GOOD["config"], **where}}), encoding="utf-8")
    done = kafka_s3("check", str(path))
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert re.search(r"WARNING request is tried again attempt=1 wait_s=\S+ reason=.*127\.0\.0\.1:9", first)
    assert last.startswith("StorageUnavailable ")


def test_help_names_every_command_and_the_version_is_reported() -> None:
    shown = kafka_s3("--help").stdout
    assert all(command in shown for command in ("run", "validate", "demo"))
    assert kafka_s3("--version").stdout.startswith("kafka-s3 ")


def test_a_round_is_one_json_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON)
    LogObserver().round_done(ROUND)
    (line,) = capsys.readouterr().err.splitlines()
    reported = json.loads(line)
    assert (reported["event"], reported["read"], reported["written"], reported["dead_letters"], reported["lag"]) == (
        "round",
        12,
        10,
        1,
        3,
    )
    assert reported["seconds"] == 1.5


def test_a_round_is_one_text_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.TEXT)
    LogObserver().warned("the bucket does not answer")
    assert "WARNING trying again reason=the bucket does not answer" in capsys.readouterr().err


def test_the_tree_cuts_long_folders_and_says_so() -> None:
    out = Console(file=io.StringIO(), width=100)
    out.print(bucket_tree("lake", [ObjectInfo(f"topics/a/{n}.json", 2048, "", 0) for n in range(9)]))
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert "0.json 2.0 KiB" in shown
    assert "... and 5 more" in shown


@pytest.mark.parametrize(
    ("totals", "verdict"), [(Totals(3, 1, 1, 1), "read = written"), (Totals(3, 1, 1, 0), "do not add up")]
)
def test_the_totals_say_whether_they_add_up(totals: Totals, verdict: str) -> None:
    assert verdict in totals_verdict(LogState(totals=totals))


def test_the_bar_shows_files_and_lag() -> None:
    out = Console(file=io.StringIO(), width=200, force_terminal=True)
    with ProgressObserver(progress_bar(out)) as bar:
        bar.round_done(ROUND)
        bar.warned("Kafka is away")
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert "2 files" in shown
    assert "lag 3" in shown
    assert "Kafka is away" in shown


def test_sizes_are_for_people() -> None:
    assert [size_text(n) for n in (12, 2048, 5 << 20, 3 << 40)] == ["12 B", "2.0 KiB", "5.0 MiB", "3.0 TiB"]
