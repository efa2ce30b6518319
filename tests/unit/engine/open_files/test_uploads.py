"""Whatever is added, spilled and cut into parts, the object holds the bytes in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_s3.engine.open_files.spill import SpillFile, SpillFolder
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.errors import LocalDiskError
from kafka_s3.store.memory import MemoryStore
from tests.support.examples import examples

STEPS = st.lists(st.binary(max_size=40) | st.none(), max_size=20)  # bytes to add, or None to spill


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(1, 30))
def test_the_object_holds_all_bytes_in_parts_of_the_given_size(
    tmp_path: Path, steps: list[bytes | None], part_size: int
) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=part_size)
    for step in steps:
        if step is None:
            upload.spill(SpillFile(tmp_path))
            assert upload.in_memory() == 0
        else:
            upload.add(step)
        assert upload.in_memory() < part_size
    sent = upload.finish()
    sizes = [len(part) for pending in store.uploads.values() for part in pending.parts.values()]
    assert store.objects == {}
    store.complete_upload(sent)

    whole = b"".join(step or b"" for step in steps)
    assert store.objects == {"key": whole}
    assert sent.size == len(whole)
    assert set(sizes[:-1]) <= {part_size}
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_one_empty_part(tmp_path: Path) -> None:
    store = MemoryStore()
    sent = FileUpload(store, "key", part_size=10).finish()
    store.complete_upload(sent)

    assert (store.objects, len(sent.parts), sent.size) == ({"key": b""}, 1, 0)


@pytest.mark.parametrize("spilled", [True, False])
def test_an_aborted_upload_leaves_nothing(tmp_path: Path, spilled: bool) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=4)
    upload.add(b"123456")
    if spilled:
        upload.spill(SpillFile(tmp_path))
    upload.abort()

    assert (store.uploads, store.objects, list(tmp_path.iterdir())) == ({}, {}, [])


def test_nothing_is_begun_before_a_part_is_full(tmp_path: Path) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=4)
    upload.add(b"123")
    assert store.uploads == {}
    upload.add(b"4")
    assert [dict(pending.parts) for pending in store.uploads.values()] == [{1: b"1234"}]


def test_a_full_local_disk_is_named_with_the_ways_out(tmp_path: Path) -> None:
    upload = FileUpload(MemoryStore(), "key", part_size=1 << 20)
    upload.add(b"123")
    disk = SpillFile(tmp_path)
    upload.spill(disk)
    (spilled,) = tmp_path.iterdir()
    spilled.unlink()
    spilled.symlink_to("/dev/full")  # takes no byte
    upload.add(b"4567")

    with pytest.raises(LocalDiskError, match=r"4 bytes of key .*No space left on device.*writer\.memory\.bytes"):
        upload.spill(disk)


def test_a_disk_that_takes_no_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(LocalDiskError, match=r"No folder can be made on local disk: No such file.*TMPDIR"):
        SpillFolder()


def test_uploads_share_a_file_on_local_disk_which_goes_with_the_last_of_them(tmp_path: Path) -> None:
    store, disk = MemoryStore(), SpillFile(tmp_path)
    uploads = [FileUpload(store, f"key-{at}", part_size=100) for at in range(3)]
    for turn in range(2):
        for at, upload in enumerate(uploads):
            upload.add(b"%d-%d;" % (at, turn))
            upload.spill(disk)
    assert len([*tmp_path.iterdir()]) == 1

    uploads[1].abort()
    store.complete_upload(uploads[0].finish())
    assert len([*tmp_path.iterdir()]) == 1
    store.complete_upload(uploads[2].finish())
    assert store.objects == {"key-0": b"0-0;0-1;", "key-2": b"2-0;2-1;"}
    assert [*tmp_path.iterdir()] == []


def test_parts_grow_so_that_an_object_has_no_more_than_s3_takes() -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=1)
    upload.add(b"x" * 7_000)
    sent = upload.finish()
    assert len(sent.parts) == 3_000
    store.complete_upload(sent)
    assert store.objects["key"] == b"x" * 7_000
