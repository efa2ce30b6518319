"""What do the processes of a sink not load, and what do they let go of once it is loaded?"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kafka_s3.run.spark import unneeded
from kafka_s3.run.spark.daemon import WORKERS_FOR

DRIVER = """
import sys
from kafka_s3.run.spark.session import begun_jvm

with begun_jvm(name="driver", cores="1"):
    from pyspark.sql.types import NumpyArrayConverter

assert not NumpyArrayConverter().can_convert(1)  # what each call of the JVM asks
print(sorted({"pandas", "grpc"} & set(sys.modules)))

import grpc, pandas

print(sorted({"pandas", "grpc"} & set(sys.modules)))
"""

WORKER = """
import importlib, sys, types
from zipimport import zipimporter

sys.path.insert(0, sys.argv[1])
from kafka_s3.run.spark import daemon

def serve():
    loaded, read = set(sys.modules), []
    zipimporter.invalidate_caches = lambda self: read.append(self.archive)
    importlib.invalidate_caches()  # as Spark's worker does before each task

    from kafka_s3.kafka.reader.messages import why_unusable
    from kafka_s3.run.spark.reader_choice import Trial

    with open("/proc/self/status") as held:
        of_files = next(int(line.split()[1]) for line in held if line.startswith("RssFile:"))
    assert why_unusable() is None
    print(read, sorted(set(sys.modules) - loaded), of_files)

sys.modules["pyspark.daemon"] = types.SimpleNamespace(manager=serve)
daemon.main()
"""

of_linux = pytest.mark.skipif(not unneeded.MAPPINGS.is_file(), reason="the system does not say what a process holds")


def output(program: str, *arguments: str) -> str:
    environment = {**os.environ, WORKERS_FOR: "records"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_driver_loads_nothing_for_tests_and_whoever_needs_it_still_can() -> None:
    assert output(DRIVER).splitlines() == ["[]", "['grpc', 'pandas']"]


@of_linux
def test_a_worker_begins_with_all_its_modules_and_without_the_code_that_loaded_them(tmp_path: Path) -> None:
    archive = tmp_path / "sent.zip"
    with zipfile.ZipFile(archive, "w") as sent:
        sent.writestr("of_a_user.py", "")
    read, loaded, of_files_kb = output(WORKER, str(archive)).split()
    assert (read, loaded) == ("[]", "[]")
    assert int(of_files_kb) < 40 << 10


def test_where_the_system_does_not_say_what_is_mapped_nothing_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unneeded, "MAPPINGS", tmp_path / "hidden")
    monkeypatch.setattr(unneeded.ctypes, "CDLL", None)
    unneeded.release_code()
