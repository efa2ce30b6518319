"""Do the quick starts work? Each page's commands run as they stand there, in order, and must print what stands there.

A block of `bash` is run; the block of `text` after it is what it prints. Other blocks are for people only. Sinks run on the tests' Spark;
every night also in the environment that the pages make, on a Spark that the command starts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from kafka_s3.connect.config.read import pairs
from kafka_s3.connect.config.validate import load, resolved
from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.files import Reason
from kafka_s3.run.wiring.running import run_until_drained
from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT, copy_checkout
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO, CLOUD = ROOT / "docs" / "quick-start-avro.md", ROOT / "docs" / "quick-start-cloud.md"
README = ROOT / "README.md"
SETUP = "make setup"
SERVICES = ".venv/bin/kafka-s3 demo --records 0 --keep"
EXPORT = re.compile(r"^export (\w+=\S+(?: \w+=\S+)*)$")
NOT_CHECKED = re.compile(r"^not checked: .* did not answer within .*\n", re.MULTILINE)
"""What `validate` says where the machine is so busy that the registry is late."""


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    kind: str
    text: str


@dataclass
class Reader:
    """Somebody who follows a page: a folder to work in, the variables of a terminal, and Spark for sinks that start none themselves."""

    folder: Path
    environment: dict[str, str]
    spark: SparkSession | None = None
    ran: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def follow(self, page: Path, *, after: int = 0) -> None:
        """Runs the commands of a page behind so many blocks, and fails where it promises another output."""
        found = blocks(page)[after:]
        for at, block in enumerate(found):
            if block.kind != "bash":
                continue
            printed = self.run(block.text)
            following = found[at + 1] if at + 1 < len(found) else Block("", "")
            if following.kind == "text":
                assert NOT_CHECKED.sub("", printed) == following.text, block.text

    def run(self, text: str) -> str:
        """What a block prints."""
        exports = [line for line in text.splitlines() if EXPORT.match(line)]
        for line in exports:
            self.environment |= pairs(shlex.split(line.removeprefix("export ")))
        rest = "".join(line + "\n" for line in text.splitlines() if line not in exports)
        self.ran.append(rest)
        if self.spark is not None and rest.startswith("kafka-s3 run "):
            return self.sink(rest, self.spark)
        done = subprocess.run(
            ["bash", "-e", "-c", rest],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=1500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        self.printed.append(done.stdout)
        return done.stdout

    def sink(self, command: str, spark: SparkSession) -> str:
        """Do what `kafka-s3 run` does, but on this session."""
        from kafka_s3.run.spark.launch import sink_on_spark

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            config, *words = shlex.split(os.path.expandvars(command.replace("\\\n", "")))[2:]
            sets = [value for option, value in pairwise(words) if option == "--set"]
            assert set(words) - set(sets) <= {"--set", "--available-now", "--flush"}
            assert "--available-now" in words
            settings = resolved(load(self.folder / config, overrides=pairs(sets)))
            sink = sink_on_spark(settings, spark)
            run_until_drained(sink, settings, Event(), close=Reason.FLUSH_NOW if "--flush" in words else None)
        return ""


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in order."""
    found = re.finditer(r"^```([\w-]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2]) for match in found]


def only(page: Path, kind: str) -> str:
    """The text of a page's only block of a kind."""
    (found,) = (block.text for block in blocks(page) if block.kind == kind)
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables that the services of both pages' first step print."""
    for page in (AVRO, CLOUD):
        assert blocks(page)[0].text == f"{SETUP}\n{SERVICES}\n"
    words = ["-m", "kafka_s3", *shlex.split(SERVICES)[1:]]
    process = SinkProcess(words, tmp_path_factory.mktemp("services") / "demo.log", {"PYTHONUNBUFFERED": "1"})
    with services(process) as variables:
        yield variables


@contextmanager
def services(process: SinkProcess) -> Iterator[dict[str, str]]:
    """Run the demo's services, and give the variables that they print."""
    with process as demo:

        def lines() -> list[str]:
            return [line.strip() for line in demo.output().splitlines() if EXPORT.match(line.strip())]

        eventually(lambda: len(lines()) == 1 and "stay up" in demo.output(), what=demo.output)
        yield pairs(shlex.split(lines()[0].removeprefix("export ")))
        demo.signal(signal.SIGTERM)
        assert demo.wait(30) == 0


@pytest.fixture
def reader(exported: dict[str, str], spark: SparkSession, tmp_path: Path) -> Reader:
    """A reader in a folder with the examples, whose `python` and `kafka-s3` are those of this run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("python", ""), ("kafka-s3", "-m kafka_s3 ")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        script.chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "bundle"), "COLUMNS": "200", **exported}
    return Reader(tmp_path, environment, spark)


@pytest.mark.parametrize(
    ("page", "example"), [(AVRO, "avro-quickstart.json"), (CLOUD, "cloud-quickstart.json")], ids=["avro", "cloud"]
)
def test_a_page_shows_the_configuration_that_it_runs(page: Path, example: str) -> None:
    shown = only(page, "json")
    assert shown == (ROOT / "examples" / example).read_text(encoding="utf-8")
    assert f"examples/{example}" in page.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_avro_quick_start_does_what_its_page_says(reader: Reader) -> None:
    reader.follow(AVRO)
    assert len(reader.ran) == 7

    from fastavro import reader as avro_reader

    contents = {}
    for path in sorted(reader.folder.glob("*.avro")):
        with path.open("rb") as file:
            contents[path.name] = list(avro_reader(file))
    assert contents == {
        "s3_topic+0+0000000000.avro": [{"f1": "value1"}, {"f1": "value2"}, {"f1": "value3"}],
        "s3_topic+0+0000000003.avro": [{"f1": "value4"}, {"f1": "value5"}, {"f1": "value6"}],
        "s3_topic+0+0000000006.avro": [{"f1": "value7"}, {"f1": "value8"}, {"f1": "value9"}],
    }
    assert avro_tools("tojson", reader.folder / "s3_topic+0+0000000000.avro") == only(AVRO, "avro-tools")
    schema = json.loads(avro_tools("getschema", reader.folder / "s3_topic+0+0000000006.avro"))
    assert (schema["name"], [member["name"] for member in schema["fields"]]) == ("myrecord", ["f1"])


def test_the_cloud_quick_start_does_what_its_page_says(reader: Reader) -> None:
    reader.follow(CLOUD)
    assert len(reader.ran) == 7


@pytest.mark.nightly  # downloads some 600 MB
@pytest.mark.timeout(2400)
def test_the_quick_starts_and_make_demo_work_in_the_environment_that_they_make(tmp_path: Path) -> None:
    """In a copy of the checkout, by the commands of their first step; each page's terminal has the programs of that environment alone."""
    clone = tmp_path / "clone"
    copy_checkout(clone)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_", "MAKE"))}
    reader = Reader(clone, {**own, "COLUMNS": "200"})
    reader.run(f"{SETUP}\n")
    python = clone / ".venv" / "bin" / "python"
    words = ["-m", "kafka_s3", *shlex.split(SERVICES)[1:]]
    variables = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": ""}
    process = SinkProcess(words, tmp_path / "demo.log", variables, python=str(python))
    with services(process) as exported:
        path = f"{python.parent}{os.pathsep}{own['PATH']}"
        for page in (AVRO, CLOUD):
            reader = Reader(clone, {**own, "PATH": path, "COLUMNS": "200", **exported})
            reader.follow(page)
            assert len(reader.ran) == 7
    assert Reader(clone, own).run("make demo\n").count("verify: Nothing found") == 2


def test_the_readme_leads_to_a_verified_object_of_ones_own_topic(reader: Reader) -> None:
    """Its commands as they stand there, behind the installation, which is run with the wheel (tests/services/bundle)."""
    config = json.loads(only(README, "json"))
    config["config"] |= {
        "kafka.bootstrap.servers": reader.environment["KAFKA"], "store.url": reader.environment["S3"], "s3.region": "us-east-1",
    }  # fmt: skip
    (reader.folder / "s3-sink.json").write_text(json.dumps(config))
    KafkaBrokers(reader.environment["KAFKA"]).create_topic("orders")
    produce(reader.environment["KAFKA"], "orders", [Given(document(id=number)) for number in range(20)])
    request = urllib.request.Request(f"{reader.environment['S3']}/my-bucket", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()

    at = next(at for at, block in enumerate(blocks(README)) if block.kind == "json")
    reader.follow(README, after=at)

    assert [text.split()[1] for text in reader.ran] == ["validate", "run", "verify"]
    assert "are accounted for exactly once" in reader.printed[-1]


def avro_tools(tool: str, file: Path) -> str:
    """What the Java tools print."""
    from kafka_s3.run.java.jars import resolve
    from kafka_s3.run.java.java import find_java

    jars = resolve(["org.apache.avro:avro-tools:1.12.0"])[0].parent
    command = [find_java().executable, "-cp", f"{jars}/*", "org.apache.avro.tool.Main", tool, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
