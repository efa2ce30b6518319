from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kafka_s3.local.cache import cache_folder, locked, new_folder
from kafka_s3.local.certificates import trust_store_options
from kafka_s3.local.errors import LocalServiceError
from kafka_s3.local.jars import ivy_file, kafka_package, module_name, resolve

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
    told: list[str] = []
    first = resolve(COORDINATES, progress=told.append)
    assert [jar.name for jar in first] == ["a-1.jar", "b-2.jar"]
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "")
    assert resolve(COORDINATES, progress=told.append) == first
    assert runs.read_text() == "run\n"
    assert len(told) == 1
    assert "org.example:thing_2.13:1.0" in told[0]


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


def test_the_ivy_file_names_what_to_fetch_and_what_to_leave_out() -> None:
    tree = ET.fromstring(ivy_file(["g.h:a_2.13:1.0", "x:y:2"], ["slf4j-api", "lz4-java"]))
    assert [(d.get("org"), d.get("name"), d.get("rev")) for d in tree.iter("dependency")] == [
        ("g.h", "a_2.13", "1.0"),
        ("x", "y", "2"),
    ]
    assert [e.get("module") for e in tree.iter("exclude")] == ["lz4-java", "slf4j-api"]


@pytest.mark.parametrize(
    ("jar", "module"),
    [
        ("chill_2.13-0.10.0.jar", "chill_2.13"),
        ("guava-33.4.0-jre.jar", "guava"),
        ("netty-all-4.1.118.Final.jar", "netty-all"),
        ("hadoop-client-api-3.4.1.jar", "hadoop-client-api"),
        ("hive-shims-0.23-2.3.10.jar", "hive-shims"),
        ("connect-repl.jar", "connect-repl"),
    ],
)
def test_the_artifact_of_a_jar_is_its_name_without_the_version(jar: str, module: str) -> None:
    assert module_name(jar) == module


def test_the_kafka_source_is_the_first_release_of_the_installed_sparks_minor_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_s3.local.jars.version", lambda package: "4.1.3")
    assert kafka_package() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"


def test_a_folder_whose_filling_fails_never_appears(tmp_path: Path) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "target") as folder:
            (folder / "half").write_text("x")
            raise ValueError("interrupted")

    with pytest.raises(ValueError, match="interrupted"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_the_second_to_fill_a_folder_keeps_the_first_ones(tmp_path: Path) -> None:
    with new_folder(tmp_path / "target") as late:
        (late / "who").write_text("late")
        with new_folder(tmp_path / "target") as early:
            (early / "who").write_text("early")
    assert (tmp_path / "target" / "who").read_text() == "early"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    script = (
        "from kafka_s3.local.cache import locked\n"
        "print('waiting', flush=True)\n"
        "with locked('name'): print('entered', flush=True)\n"
    )
    with locked("name"):
        other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "waiting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
    assert other.communicate(timeout=30)[0] == "entered\n"


def test_java_is_told_to_trust_what_python_trusts() -> None:
    first = trust_store_options()
    store = Path(first[0].partition("=")[2])
    assert store.is_relative_to(cache_folder())
    assert store.stat().st_size > 1000
    written = store.stat().st_mtime_ns
    assert trust_store_options() == first
    assert store.stat().st_mtime_ns == written
