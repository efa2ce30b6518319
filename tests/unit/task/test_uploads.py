"""Whatever is added, spilled and cut into parts, the object holds the bytes in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_s3.model.errors import LocalDiskError
from kafka_s3.storage.memory import MemoryStore
from kafka_s3.task.uploads import FileUpload, spill_folder
from tests.support.examples import examples

STEPS = st.lists(st.binary(max_size=40) | st.none(), max_size=20)  # bytes to add, or None to spill


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(1, 30))
def test_the_object_holds_all_bytes_in_parts_of_the_given_size(
    tmp_path: Path, steps: list[bytes | None], part_size: int
) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=part_size, folder=tmp_path)
    for step in steps:
        if step is None:
            upload.spill()
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
    sent = FileUpload(store, "key", part_size=10, folder=tmp_path).finish()
    store.complete_upload(sent)

    assert (store.objects, len(sent.parts), sent.size) == ({"key": b""}, 1, 0)


@pytest.mark.parametrize("spilled", [True, False])
def test_an_aborted_upload_leaves_nothing(tmp_path: Path, spilled: bool) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=4, folder=tmp_path)
    upload.add(b"123456")
    if spilled:
        upload.spill()
    upload.abort()

    assert (store.uploads, store.objects, list(tmp_path.iterdir())) == ({}, {}, [])


def test_nothing_is_begun_before_a_part_is_full(tmp_path: Path) -> None:
    store = MemoryStore()
    upload = FileUpload(store, "key", part_size=4, folder=tmp_path)
    upload.add(b"123")
    assert store.uploads == {}
    upload.add(b"4")
    assert [dict(pending.parts) for pending in store.uploads.values()] == [{1: b"1234"}]


def test_a_full_local_disk_is_named_with_the_ways_out(tmp_path: Path) -> None:
    upload = FileUpload(MemoryStore(), "key", part_size=1 << 20, folder=tmp_path)
    upload.add(b"123")
    upload.spill()
    (spilled,) = tmp_path.iterdir()
    spilled.unlink()
    spilled.symlink_to("/dev/full")  # takes no byte
    upload.add(b"4567")

    with pytest.raises(LocalDiskError, match=r"4 bytes of key .*No space left on device.*writer\.memory\.bytes"):
        upload.spill()


def test_a_disk_that_takes_no_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(LocalDiskError, match=r"No folder can be made on local disk: No such file.*TMPDIR"):
        spill_folder()
