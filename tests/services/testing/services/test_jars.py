"""Jars are fetched once, whoever else fetches them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_s3.run.java.cache import LocalServiceError, cache_folder, locked
from kafka_s3.run.java.jars import resolve

COORDINATES = ["org.example:thing_2.13:1.0"]

FAKE_JAVA = """#!/bin/sh
case "$*" in *-XshowSettings*) printf 'java.home = {home}\\nopenjdk version "17.0.1"\\n' >&2; exit 0;; esac
echo run >> {log}
for argument do case "$previous" in -retrieve) folder=$argument;; esac; previous=$argument; done
{then}
"""


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fake_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, then: str) -> Path:
    """A Java whose Ivy does `then`; returns the file that gets a line per run of it."""
    home, log = tmp_path / "jvm", tmp_path / "runs"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(FAKE_JAVA.format(home=home, log=log, then=then))
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return log


def test_jars_are_fetched_once_and_then_found_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = fake_java(monkeypatch, tmp_path, then='cd "${folder%/*}" && echo > a-1.jar && echo > b-2.jar')
    reported: list[str] = []
    first = resolve(COORDINATES, progress=reported.append)
    assert [jar.name for jar in first] == ["a-1.jar", "b-2.jar"]
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "")
    assert resolve(COORDINATES, progress=reported.append) == first
    assert runs.read_text() == "run\n"
    assert len(reported) == 1
    assert "org.example:thing_2.13:1.0" in reported[0]


def test_leaving_other_artifacts_out_is_another_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = fake_java(monkeypatch, tmp_path, then='cd "${folder%/*}" && echo > a-1.jar')
    assert resolve(COORDINATES)[0].parent != resolve(COORDINATES, without=["b"])[0].parent
    assert runs.read_text() == "run\nrun\n"


def test_a_download_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    then = f'[ "$(wc -l < {tmp_path}/runs)" = 1 ] && exit 1; cd "${{folder%/*}}" && echo > a-1.jar'
    fake_java(monkeypatch, tmp_path, then=then)
    assert [jar.name for jar in resolve(COORDINATES)] == ["a-1.jar"]


def test_a_download_that_fails_twice_leaves_nothing_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    then = 'echo > "${folder%/*}/half-1.jar"; echo "Server access error: no route"; exit 1'
    runs = fake_java(monkeypatch, tmp_path, then=then)
    with pytest.raises(LocalServiceError, match=r"check the network.*\n  Server access error: no route"):
        resolve(COORDINATES)
    assert runs.read_text() == "run\nrun\n"
    assert list((cache_folder() / "jars").iterdir()) == []


def test_a_jar_that_does_not_exist_is_distinguished_from_a_network_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = "\\t\\t::          UNRESOLVED DEPENDENCIES         ::\\n\\t\\t:: org.example#thing_2.13;1.0: not found\\n"
    fake_java(monkeypatch, tmp_path, then=f"printf '{there}'; exit 1")
    with pytest.raises(LocalServiceError, match=r"org\.example#thing_2\.13;1\.0 does not exist in Maven Central"):
        resolve(COORDINATES)
    away = f"\\tServer access error at url (java.net.UnknownHostException)\\n{there}"
    (tmp_path / "jvm/bin/java").write_text(
        FAKE_JAVA.format(home=tmp_path / "jvm", log=tmp_path / "runs", then=f"printf '{away}'; exit 1")
    )
    with pytest.raises(LocalServiceError, match="check the network"):
        resolve(COORDINATES)


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    script = (
        "from kafka_s3.run.java.cache import locked\n"
        "print('waiting', flush=True)\n"
        "with locked('name'): print('entered', flush=True)\n"
    )
    with locked("name"):
        other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "waiting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
    assert other.communicate(timeout=200)[0] == "entered\n"
