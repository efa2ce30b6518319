"""What the README shows to be copied is right as it stands there; its commands are run in tests/services."""

from __future__ import annotations

import configparser
import json
import logging
import re
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import ConfigError
from tests.support.repository import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def product() -> Iterator[None]:
    """The product's logger is put back as it was: `run` sets it up."""
    logger = logging.getLogger("kafka_s3")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def block(kind: str) -> str:
    """The only block of a kind."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_configuration_to_copy_is_the_example_and_needs_nothing_more() -> None:
    assert block("json") == (ROOT / "examples" / "s3-sink.json").read_text(encoding="utf-8")
    checked = validate(json.loads(block("json"))["config"] | {"name": "orders-to-s3"})
    assert (checked.problems, checked.warnings) == ((), ())


def test_bad_records_do_with_the_configuration_to_copy_what_the_text_says() -> None:
    """`errors.tolerance` is none by default, as in Connect: the text must not promise more than the configuration asks for."""
    config = json.loads(block("json"))["config"]
    assert validate(config | {"name": "orders"}).usable().text("errors.tolerance") == "all"
    assert "never stop the stream" not in README
    assert README.count("`errors.tolerance=all`") == README.count("one stops its Kafka partition") == 2


def test_the_unit_runs_a_command_that_there_is_and_waits_for_its_commit() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(block("ini"))
    service = unit["Service"]
    program, *words = service["ExecStart"].split()
    assert program.endswith("/kafka-s3")
    assert runs(words)
    assert service["RestartPreventExitStatus"] == "2"  # what the command line says of a wrong configuration
    assert int(service["TimeoutStopSec"]) >= 90


def test_the_lines_of_the_image_are_those_of_the_dockerfile() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^docker build .*\ndocker run .*$", README, re.MULTILINE)
    assert shown == "\n".join(re.findall(r"^#   (docker .*)$", text, re.MULTILINE)[:2])


def test_the_image_has_no_compiler_no_pip_and_a_user_without_rights() -> None:
    stages = [
        stage
        for stage in re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    ]
    last = stages[-1]
    assert len(stages) == 2
    assert not re.search(r"\b(gcc|build-essential|python3-venv|pip)\b", last)
    assert re.search(r"^USER 10001$", last, re.MULTILINE)
    (health,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", last, re.MULTILINE)
    (words,) = re.findall(r"^CMD (\[.*\])$", last, re.MULTILINE)
    assert runs(json.loads(words))
    assert runs(json.loads(health)[1:])
    (module,) = (found for stage in stages for found in re.findall(r"python -m (kafka_s3[\w.]+)", stage))
    assert find_spec(module) is not None


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"kafka-s3 ([a-z][a-z-]+)", README.partition("## Commands")[2])))
)
def test_every_command_that_is_listed_exists(name: str) -> None:
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def runs(words: list[str]) -> bool:
    """Whether the command takes these words: all that it lacks is the file."""
    reported = CliRunner().invoke(app, words)
    return isinstance(reported.exception, ConfigError) and words[1] in str(reported.exception)


def test_who_reads_kafka_is_documented_with_the_factors_that_were_measured() -> None:
    benchmarks = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    first_table = benchmarks.partition("## Figures\n")[2].partition("\n## ")[0]
    figures = {name: float(text) for name, text in re.findall(r"^\| ([\w-]+) \| ([\d.]+)", first_table, re.MULTILINE)}
    (told,) = (part for part in README.split("\n\n") if part.startswith("**Who does what.**"))
    text = " ".join(told.split())
    pairs = [("json-to-json", "JSON to JSON"), ("avro-to-parquet", "Avro to Parquet")]
    for path, words in pairs:
        assert f"{words} {figures[f'{path}-by-spark']:.2f} instead of {figures[path]:.2f}" in text
    factors = sorted(round(figures[path] / figures[f"{path}-by-spark"]) for path, _ in pairs)
    assert factors == [5, 6]
    assert "five to six times the CPU" in text
    plain = figures["avro-to-parquet"] / figures["plain-spark-avro-to-parquet"]
    assert "a twelfth of the CPU of plain Spark" in README
    assert round(plain) == 12


@pytest.mark.parametrize("path", ["jobs/run_sink.py", "docs/security.md", "docs/architecture.md", "README.md"])
def test_a_page_that_says_who_reads_names_both_readers(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "librdkafka" in text
    assert "kafka.reader=spark" in text
    assert "the tasks read through Spark's Java consumer" not in text


def test_no_page_installs_a_package_that_is_not_published() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"""pip install (?:-\S+ )*["']?kafka-s3\b""", text), path
