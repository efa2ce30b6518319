"""Lines of thousands of small files: whatever comes in which order, waits in memory or on disk, or leaves, each file gets its own."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText
from kafka_s3.engine.open_files import small_files, states
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batch
from kafka_s3.engine.open_files.file_encoders import OneSchema
from kafka_s3.engine.open_files.open_files import OpenFile, OpenObject
from kafka_s3.engine.open_files.small_files import DirectoryLines, LinesByDirectory, SmallFiles, lines_by_directory
from kafka_s3.engine.open_files.spill import read_through
from kafka_s3.engine.open_files.states import StateBytes, StateContent, opened_state
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import Role
from kafka_s3.model.tasks import OpenState
from kafka_s3.objects.text import json_format
from kafka_s3.store.memory import MemoryStore

NAMES = ["d=a", "d=b", "d=c", "d=d", "d=e"]
RECORDS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 30), st.sampled_from([NO_TIMESTAMP, 5, 6, 7])),
    min_size=1,
    max_size=30,
)  # directory, bytes of text, time
STEPS = st.lists(RECORDS | st.sampled_from(["release", "pause", *NAMES]), max_size=12)  # a name: its directory leaves


@dataclass
class Expected:
    """What one directory has to hold."""

    text: bytes = b""
    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def check(self, lines: DirectoryLines) -> None:
        times = [time for time in self.times if time != NO_TIMESTAMP]
        assert bytes(lines.text) == self.text
        assert (lines.first_offset, lines.last_offset, lines.records) == (
            self.offsets[0],
            self.offsets[-1],
            len(self.offsets),
        )
        assert (lines.low, lines.high) == (min(times, default=None), max(times, default=None))


def lines_of(first: int, records: list[tuple[str, int, int]]) -> LinesByDirectory:
    offsets = np.arange(first, first + len(records))
    texts = pa.array(
        [b"%d" % (offset + 10**size) for offset, (_, size, _) in zip(offsets.tolist(), records, strict=True)],
        pa.binary(),
    )
    run = Run(offsets, np.array([time for *_, time in records]), JsonText(texts, None, lines=True), None)
    codes = np.array([NAMES.index(name) for name, *_ in records], np.int32)
    return lines_by_directory(mixed_batch([RoutedRun(run, codes, NAMES, None)]), 0, len(records))


@given(STEPS, st.sampled_from([1, 2, 1_000]), st.sampled_from([1, 40, 1 << 20]), st.sampled_from([0, 60, 1 << 20]))
def test_each_directory_has_its_lines_in_the_order_in_which_they_came(
    tmp_path_factory: pytest.TempPathFactory, steps: list, share_files: int, share_bytes: int, joined_bytes: int
) -> None:
    files, expected, offset, store = SmallFiles(), dict[str, Expected](), 0, MemoryStore()
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_files, "SHARE_FILES", share_files)
        patch.setattr(small_files, "SHARE_BYTES", share_bytes)
        patch.setattr(small_files, "JOINED_BYTES", joined_bytes)
        patch.setattr(states, "IN_MEMORY", joined_bytes)
        patch.setattr(states, "FETCHED_BYTES", 50)
        for step in steps:
            if step == "release":
                files.release(folder)
                assert files.memory() == 0
            elif step == "pause":
                content = StateBytes(folder)
                size = len(made := StateContent({"small": files.pause(content)}, content))
                assert len(files) == 0
                store.put("state", made)
                with opened_state(store, OpenState("state", size, 1, 0, 0), folder) as document:
                    files = SmallFiles.resumed(document["small"])
            elif isinstance(step, str):
                left = dict(files.pop([step, "d=unknown"]))
                assert [*left] == ([step] if step in expected else [])
                for name, lines in left.items():
                    expected.pop(name).check(lines)
            else:
                lines = lines_of(offset, step)
                files.add(lines)
                for number, (name, size, time) in enumerate(step, start=offset):
                    one = expected.setdefault(name, Expected())
                    one.text += b"%d\n" % (number + 10**size)
                    one.offsets.append(number)
                    one.times.append(time)
                offset += len(step)
            assert sorted(files.names()) == sorted(expected)
            assert len(files) == len(expected)
            assert files.bytes == sum(len(one.text) for one in expected.values())
            assert files.sizes(NAMES).tolist() == [
                len(expected[name].text) if name in expected else 0 for name in NAMES
            ]
        found = [pair for share in files.shares() for pair in share]

    assert sorted(name for name, _ in found) == sorted(expected)
    for name, lines in found:
        expected[name].check(lines)
    files.drop()
    assert (len(files), files.bytes, files.memory(), [*files.shares()]) == (0, 0, 0, [])


def test_what_waits_on_local_disk_is_one_file_that_goes_with_the_last_of_them(tmp_path: Path) -> None:
    files = SmallFiles()
    for first in (0, 2):
        files.add(lines_of(first, [("d=a", 1, 5), ("d=b", 1, 5)]))
        files.release(tmp_path)

    assert len([*tmp_path.iterdir()]) == 1
    assert {name: bytes(lines.text) for share in files.shares() for name, lines in share} == {
        "d=a": b"10\n12\n",
        "d=b": b"11\n13\n",
    }
    files.drop()
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_says_what_could_not_be_kept_and_the_way_out(tmp_path: Path) -> None:
    files = SmallFiles()
    files.add(lines_of(0, [("d=a", 1, 5), ("d=b", 1, 5)]))

    with pytest.raises(LocalDiskError, match=r"6 bytes of 2 files cannot be kept on local disk.*writer\.memory\.bytes"):
        files.release(tmp_path / "gone")
    assert {name for share in files.shares() for name, _ in share} == {"d=a", "d=b"}


@pytest.mark.parametrize("level", [None, -1])
def test_a_file_does_not_hold_what_the_other_files_got_of_a_text(tmp_path: Path, level: int | None) -> None:
    text, form = bytearray(b'{"n":1}\n{"n":2}\n'), json_format(gzip_level=level, decimals="BASE64")
    upload = FileUpload(MemoryStore(), "key", part_size=5 << 20)
    target = OpenObject(Role.VALUE, form, OneSchema(form.open(None), None), upload)
    file = OpenFile("d=a", {Role.VALUE: target}, first_offset=3)
    file.append_lines(DirectoryLines(memoryview(text)[:8], 3, 3, 1, None, None))
    text.clear()  # an error as long as anybody looks at it
    target.finish()

    waiting = StateBytes(tmp_path)
    upload.pause(waiting)
    content = b"".join(read_through(waiting.pieces))
    assert (content if level is None else gzip.decompress(content)) == b'{"n":1}\n'
    assert (file.records, file.last_offset, file.min_timestamp) == (1, 3, None)


def test_thousands_of_steps_make_few_texts() -> None:
    files = SmallFiles()
    for first in range(3_000):
        files.add(lines_of(first, [(NAMES[first % 5], 1, 5)]))

    assert len(files._texts) < 20
    found = {name: lines for share in files.shares() for name, lines in share}
    assert bytes(found["d=c"].text) == b"".join(b"%d\n" % (n + 10) for n in range(2, 3_000, 5))


def test_what_the_last_file_leaves_behind_waits_for_nobody(tmp_path: Path) -> None:
    files = SmallFiles()
    files.add(lines_of(0, [("d=a", 1, 5), ("d=b", 1, 5)]))
    files.release(tmp_path)
    files.add(lines_of(2, [("d=b", 1, 5)]))
    assert [name for name, _ in files.pop(["d=a"])] == ["d=a"]
    assert [*tmp_path.iterdir()]
    assert [bytes(lines.text) for _, lines in files.pop(["d=b"])] == [b"11\n12\n"]
    assert (files.memory(), [*tmp_path.iterdir()]) == (0, [])
