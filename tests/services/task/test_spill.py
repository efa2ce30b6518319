<<<<<<< HEAD
"""What a process spills is its own, and goes with it."""
=======
"""What becomes of records that waited on local disk when their process is killed?"""
>>>>>>> refs/heads/storage

from __future__ import annotations

import os
<<<<<<< HEAD
import signal
import subprocess
import sys
=======
>>>>>>> refs/heads/storage
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

<<<<<<< HEAD
from kafka_s3.task import spill
from kafka_s3.task.uploads import spill_folder
=======
from kafka_s3.storage.memory import MemoryStore
from kafka_s3.task import spill
from kafka_s3.task.uploads import FileUpload, spill_folder
>>>>>>> refs/heads/storage


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill._own_folder.cache_clear()
    yield
    spill._own_folder.cache_clear()


<<<<<<< HEAD
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


=======
>>>>>>> refs/heads/storage
def records_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


<<<<<<< HEAD
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
=======
def test_tasks_of_a_process_share_its_folder_and_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = spill_folder(), spill_folder()

    assert first != second
    assert first.parent == second.parent
    assert [path.name.startswith(spill.HELD) for path in tmp_path.iterdir()] == [True]


def test_a_folder_that_was_cleaned_away_is_made_again() -> None:
    spill_folder().rmdir()
    next(Path(tempfile.gettempdir()).iterdir()).rmdir()

    upload = FileUpload(MemoryStore(), "key", part_size=1 << 20, folder=spill_folder())
    upload.add(b"more")
    upload.spill()
    assert upload.in_memory() == 0


def test_a_forked_child_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = spill_folder().parent
    monkeypatch.setattr(os, "getpid", lambda: -2)

    assert spill_folder().parent != parents
    assert parents.is_dir()
>>>>>>> refs/heads/storage
