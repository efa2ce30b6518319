"""What a process spills is its own, and goes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_s3.task import spill
from kafka_s3.task.uploads import spill_folder


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill._own_folder.cache_clear()
    yield
    spill._own_folder.cache_clear()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has spilled, and lives."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", SPILLS], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spilled\n"
        yield process
        process.kill()


def records_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_what_a_killed_process_spilled_is_gone_after_the_next_start(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert records_in(tmp_path) == [b"a record that nobody else may read"]

    spill_folder()
    assert records_in(tmp_path) == []


def test_what_a_living_process_spilled_stays(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    spill_folder()

    assert other.poll() is None
    assert records_in(tmp_path) == [b"a record that nobody else may read"]


SPILLS = """
import sys, time
from kafka_s3.storage.memory import MemoryStore
from kafka_s3.task.uploads import FileUpload, spill_folder
upload = FileUpload(MemoryStore(), "key", part_size=1 << 20, folder=spill_folder())
upload.add(b"a record that nobody else may read")
upload.spill()
print("spilled", flush=True)
time.sleep(60)
"""
