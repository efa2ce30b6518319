"""What becomes of records that waited on local disk when their process is killed?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_s3.engine.open_files import spill
from kafka_s3.engine.open_files.spill import SpillFile, SpillFolder
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.store.memory import MemoryStore


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill._own_folder.cache_clear()
    yield
    spill._own_folder.cache_clear()


def records_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_tasks_of_a_process_share_its_folder_and_have_folders_of_their_own(tmp_path: Path) -> None:
    first, second = Path(SpillFolder()), Path(SpillFolder())

    assert first != second
    assert first.parent == second.parent
    assert [path.name.startswith(spill.HELD) for path in tmp_path.iterdir()] == [True]


def test_a_task_makes_its_folder_for_the_first_records_that_wait_there_and_leaves_none(tmp_path: Path) -> None:
    with SpillFolder() as folder:
        (of_process,) = tmp_path.iterdir()
        assert [*of_process.iterdir()] == []

        upload = FileUpload(MemoryStore(), "key", part_size=1 << 20)
        upload.add(b"more")
        upload.spill(SpillFile(folder))
        assert records_in(Path(folder)) == records_in(of_process) == [b"more"]

    assert [*of_process.iterdir()] == []


def test_a_folder_that_was_cleaned_away_is_made_again() -> None:
    Path(SpillFolder()).rmdir()
    next(Path(tempfile.gettempdir()).iterdir()).rmdir()

    upload = FileUpload(MemoryStore(), "key", part_size=1 << 20)
    upload.add(b"more")
    upload.spill(SpillFile(SpillFolder()))
    assert upload.in_memory() == 0


def test_a_forked_child_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = Path(SpillFolder()).parent
    monkeypatch.setattr(os, "getpid", lambda: -2)

    assert Path(SpillFolder()).parent != parents
    assert parents.is_dir()


def test_what_a_killed_process_left_is_swept_by_the_next_one_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    dies = "import os, signal, sys; sys.stdin.read(); os.kill(os.getpid(), signal.SIGKILL)"
    imports = "from kafka_s3.engine.open_files.spill import SpillFolder\nfrom pathlib import Path\n"
    spills = imports + "(Path(SpillFolder()) / 'part').write_bytes(b'a record'); print(flush=True); "
    process = subprocess.Popen(
        [sys.executable, "-c", spills + dies], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    SpillFolder()
    assert records_in(tmp_path) == [b"a record"]

    process.communicate(b"")
    spill._own_folder.cache_clear()
    SpillFolder()
    assert records_in(tmp_path) == []
