"""Do the README's commands run as they stand there, from an environment that holds nothing but the wheel and what it needs?

Most tests share the packages of this environment with one that has the wheel; one installs what the README says into an empty one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kafka_s3.cli.dashboard import port_of
from kafka_s3.kafka.brokers import KafkaBrokers
from tests.services.bundle.fresh_environment import copied_sources
from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT
from tests.support.waiting import eventually

README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
TARGETS = re.findall(r"^(make \w+) +#", README, re.MULTILINE)
NOISE = (" WARN ", "WARNING", "log4j", "Traceback")


def blocks(kind: str, page: str = README) -> list[str]:
    """Return the blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def block(kind: str) -> str:
    """The first block of a kind."""
    return blocks(kind)[0]


def terminal(programs: Path) -> dict[str, str]:
    """The variables of a terminal in which the environment of these programs is active."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYSPARK_", "MAKE"))}
    return own | {"PATH": f"{programs}{os.pathsep}{own['PATH']}", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def environment(python: Path) -> dict[str, str]:
    """The same, without a network for pip, which has all of it already."""
    return terminal(python.parent) | {
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def ran(line: str, folder: Path, variables: Mapping[str, str]) -> str:
    """What a line of a terminal prints."""
    done = subprocess.run(["bash", "-ec", line], capture_output=True, text=True, env=variables, cwd=folder)
    assert done.returncode == 0, line + done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def checkout(python: Path, tmp_path: Path) -> Path:
    """A copy of the checkout whose `.venv` is made: by the wheel, since what `make` installs would come from the network."""
    sources = copied_sources(tmp_path)
    for name in ("Makefile", "requirements.txt", "requirements-dashboard.txt", "requirements-java.txt"):
        shutil.copy(ROOT / name, sources)
    (sources / ".venv").symlink_to(python.parent.parent)
    for name in (".ready", ".ready-for-the-dashboard"):
        (sources / ".venv" / name).touch()
    return sources


@pytest.fixture
def taken() -> Iterator[int]:
    """The port that the dashboard would take first, taken."""
    first = port_of(None, "127.0.0.1")
    with socket.create_server(("127.0.0.1", first)):
        yield first


@pytest.mark.parametrize(
    ("words", "called"),
    [
        ("demo", ".venv/bin/kafka-s3 demo"),
        ("dashboard", ".venv/bin/kafka-s3 demo --dashboard"),
        ("dashboard PORT=8600", ".venv/bin/kafka-s3 demo --dashboard --port 8600"),
    ],
)
def test_the_make_targets_call_the_command_that_is_run_below(words: str, called: str) -> None:
    assert TARGETS == ["make demo", "make dashboard", "make release"]
    command = [
        "make",
        "--dry-run",
        "--assume-old=.venv/.ready",
        "--assume-old=.venv/.ready-for-the-dashboard",
        *words.split(),
    ]
    own = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }  # tests may run below a make
    reported = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=own, check=True).stdout
    assert reported.strip() == called


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd judges its own files")
def test_systemd_takes_the_unit_as_it_is_there(tmp_path: Path) -> None:
    unit = tmp_path / "kafka-s3@orders.service"
    unit.write_text(block("ini").replace("/opt/kafka-s3/bin/kafka-s3", shutil.which("true") or ""))
    judged = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (judged.returncode, [line for line in judged.stderr.splitlines() if unit.name in line]) == (0, [])


@pytest.mark.nightly  # every run installs the wheel, a little quicker
def test_the_install_lines_give_the_command(python: Path, tmp_path: Path) -> None:
    sources, variables = copied_sources(tmp_path), environment(python)
    first, *lines = block("bash").splitlines()
    assert first == "python3 -m venv .venv && . .venv/bin/activate"
    for line in lines:
        ran(line, sources, variables)
    assert ran("kafka-s3 --version", sources, variables).startswith("kafka-s3 ")


@pytest.mark.nightly  # downloads some 600 MB
@pytest.mark.timeout(1800)
def test_an_empty_environment_with_the_readmes_extras_runs_each_of_its_lines(tmp_path: Path) -> None:
    """The installation, the demo, the way from one's own topic to its proof, and the page on tests, in order.

    Only places and topic are put in.
    """
    sources = copied_sources(tmp_path)
    variables = terminal(sources / ".venv" / "bin")
    install, *lines = blocks("bash")
    ran(install, sources, variables)
    log = tmp_path / "demo.log"
    with log.open("wb") as output:
        words = ["kafka-s3", "demo", "--records", "3000", "--keep"]
        demo = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=sources)
    try:
        eventually(
            lambda: "stay up until" in log.read_text() or demo.poll() is not None, seconds=900, what=log.read_text
        )
        assert_made(log.read_text())
        (exported,) = re.findall(r"^ *export (.*)$", log.read_text(), re.MULTILINE)
        variables |= dict(word.split("=", 1) for word in shlex.split(exported))
        own_topic(sources / "s3-sink.json", kafka=variables["KAFKA"], s3=variables["S3"])
        reported = [ran(line, sources, variables) for line in lines]
    finally:
        demo.terminate()
        assert demo.wait(60) == 0
    assert [line.split()[1] for line in "".join(lines).splitlines()] == ["validate", "doctor", "run", "verify"]
    assert "are accounted for exactly once" in reported[-1]
    (tests,) = blocks("bash", TESTING)
    assert re.search(r"^=+ \d+ passed in ", ran(tests, sources, variables), re.MULTILINE)


def own_topic(config: Path, *, kafka: str, s3: str) -> None:
    """The README's configuration with the places of these services, its bucket, and a topic that is none of the demo's, with records."""
    shown = json.loads(block("json"))
    shown["config"] |= {
        "topics": "purchases",
        "kafka.bootstrap.servers": kafka,
        "store.url": s3,
        "s3.region": "us-east-1",
    }
    config.write_text(json.dumps(shown))
    bucket = urllib.request.Request(f"{s3}/{shown['config']['s3.bucket.name']}", method="PUT")
    urllib.request.urlopen(bucket, timeout=30).close()
    KafkaBrokers(kafka).create_topic(shown["config"]["topics"])
    produce(kafka, shown["config"]["topics"], [Given(document(id=number)) for number in range(20)])


@pytest.mark.nightly
def test_the_demo_runs_outside_of_the_repository_and_its_commands_run_as_they_are_printed(
    python: Path, tmp_path: Path
) -> None:
    """From the wheel alone: the services stay, and somebody copies the commands into another terminal."""
    log, variables = tmp_path / "demo.log", environment(python)
    with log.open("wb") as output:
        words = [python.parent / "kafka-s3", "demo", "--records", "3000", "--keep"]
        demo = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=tmp_path)
    try:
        eventually(lambda: "stay up until" in log.read_text() or demo.poll() is not None, what=log.read_text)
        reported = log.read_text()
        ran(reported.partition("\nNext\n")[2].partition("Kafka, S3 and registry stay up")[0], tmp_path, variables)
    finally:
        demo.terminate()
        assert demo.wait(60) == 0
    assert_made(reported)


@pytest.mark.nightly
def test_make_demo_runs_and_so_do_the_commands_that_it_prints(python: Path, checkout: Path) -> None:
    variables = environment(python)
    reported = ran(TARGETS[0], checkout, variables)
    assert_made(reported)
    following = [line.strip() for line in reported.partition("\nNext\n")[2].splitlines() if line.strip()]
    assert [line.split()[1] for line in following] == ["validate", "demo", "demo"]
    assert "is valid" in ran(following[0], checkout, variables)


@pytest.mark.nightly
def test_make_dashboard_shows_what_the_demo_made_on_the_next_port_that_is_free(
    python: Path, checkout: Path, taken: int
) -> None:
    log = checkout.parent / "dashboard.log"
    with log.open("wb") as output:
        command = subprocess.Popen(
            shlex.split(TARGETS[1]),
            stdout=output, stderr=subprocess.STDOUT, env=environment(python), cwd=checkout, start_new_session=True,
        )  # fmt: skip
    try:
        address = re.compile(r"http://127\.0\.0\.1:(\d+)\S*$", re.MULTILINE)
        served = lambda: [match for match in address.finditer(log.read_text()) if int(match[1]) in range(8501, 8521)]  # noqa: E731
        eventually(lambda: bool(served()) or command.poll() is not None, what=log.read_text)
        (found,) = {match[0] for match in served()}
        assert f":{taken}" not in found
        with urllib.request.urlopen(found, timeout=60) as answer:
            assert answer.status == 200
    finally:
        os.killpg(command.pid, signal.SIGTERM)
        command.wait(60)
    assert_made(log.read_text())


def assert_made(reported: str) -> None:
    """Two sinks have worked, all is there, and nothing else was reported."""
    assert reported.count("are accounted for exactly once.") == 2
    assert "records were broken on purpose" in reported
    read = re.findall(r"(delta-rs|pyiceberg) reads ([\d,]+) rows in (\d+) objects", reported)
    assert read[0][0] == "delta-rs"
    assert len({(rows, files) for _, rows, files in read}) == 1, read
    assert not [noise for noise in NOISE if noise in reported]
