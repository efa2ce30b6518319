"""Rows of thousands of small files: whatever comes in which order, waits in memory or on disk, or leaves, each file gets its own."""

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
from kafka_s3.connect.records.values import NO_TIMESTAMP, AvroBodies, JsonText, StructColumns, Values, table_bytes
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.open_files import small_files, states
from kafka_s3.engine.open_files.batch import RoutedRun, mixed_batch
from kafka_s3.engine.open_files.file_encoders import OneSchema
from kafka_s3.engine.open_files.open_files import OpenFile, OpenObject
from kafka_s3.engine.open_files.row_forms import ColumnForm, LineForm, RowForm, resumed_form
from kafka_s3.engine.open_files.small_files import DirectoryRows, RowsByDirectory, SmallFiles, rows_by_directory
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


STRUCT = ConnectSchema(
    SchemaType.STRUCT,
    name="Row",
    fields=(
        Field("text", ConnectSchema(SchemaType.STRING)),
        Field("texts", ConnectSchema(SchemaType.ARRAY, items=ConnectSchema(SchemaType.STRING))),
    ),
)


def lines(texts: list[bytes]) -> tuple[Values, ConnectSchema | None]:
    return JsonText(pa.array(texts, pa.binary()), None, lines=True), None


def bodies(texts: list[bytes]) -> tuple[Values, ConnectSchema | None]:
    return AvroBodies(pa.array(texts, pa.binary()), {"type": "record", "name": "Row"}, bytes), STRUCT


def columns(texts: list[bytes]) -> tuple[Values, ConnectSchema | None]:
    some = pa.array([[text.decode(), None] if len(text) % 2 else None for text in texts], pa.list_(pa.string()))
    return StructColumns(pa.table({"text": pa.array([text.decode() for text in texts]), "texts": some})), STRUCT


MAKERS = {"lines": lines, "bodies": bodies, "columns": columns}


def text_of(rows: DirectoryRows) -> list[bytes]:
    """The texts of which rows were made."""
    if rows.table.column_names == ["text", "texts"]:
        found = [(text.encode(), texts) for text, texts in zip(*rows.table.to_pydict().values(), strict=True)]
        assert all((texts == [text.decode(), None]) if len(text) % 2 else texts is None for text, texts in found)
        return [text for text, _ in found]
    return [bytes(text).rstrip() for text in rows.table.column(0).to_pylist()]


@dataclass
class Expected:
    """What one directory has to hold."""

    texts: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def check(self, rows: DirectoryRows) -> None:
        times = [time for time in self.times if time != NO_TIMESTAMP]
        assert text_of(rows) == self.texts
        assert (rows.first_offset, rows.last_offset, rows.records) == (
            self.offsets[0],
            self.offsets[-1],
            len(self.offsets),
        )
        assert (rows.low, rows.high) == (min(times, default=None), max(times, default=None))


def text(offset: int, size: int) -> bytes:
    return b"%d" % (offset + 10**size)


def rows_of(first: int, records: list[tuple[str, int, int]], kind: str = "lines") -> RowsByDirectory:
    offsets = np.arange(first, first + len(records))
    values, schema = MAKERS[kind]([text(n, size) for n, (_, size, _) in zip(offsets.tolist(), records, strict=True)])
    run = Run(offsets, np.array([time for *_, time in records]), values, schema)
    codes = np.array([NAMES.index(name) for name, *_ in records], np.int32)
    return rows_by_directory(mixed_batch([RoutedRun(run, codes, NAMES, None)]), 0, len(records))


@given(
    st.sampled_from([*MAKERS]),
    STEPS,
    *(st.sampled_from(sizes) for sizes in ([1, 2, 1_000], [1, 40, 1 << 20], [0, 200, 1 << 20], [1, 1 << 20])),
)
def test_each_directory_has_its_rows_in_the_order_in_which_they_came(
    tmp_path_factory: pytest.TempPathFactory, kind: str, steps: list, share_files: int, share_bytes: int, joined_bytes: int,
    stream_bytes: int,
) -> None:  # fmt: skip
    files, expected, offset, store = SmallFiles(), dict[str, Expected](), 0, MemoryStore()
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_files, "SHARE_FILES", share_files)
        patch.setattr(small_files, "SHARE_BYTES", share_bytes)
        patch.setattr(small_files, "JOINED_BYTES", joined_bytes)
        patch.setattr(small_files, "STREAM_BYTES", stream_bytes)
        patch.setattr(small_files, "MERGED", 2)
        patch.setattr(states, "IN_MEMORY", joined_bytes)
        patch.setattr(states, "FETCHED_BYTES", 50)
        for step in steps:
            if step == "release":
                files.release(folder)
                assert files.memory() == 0
            elif step == "pause":
                files = paused_and_resumed(files, folder, store)
            elif isinstance(step, str):
                left = dict(files.pop([step, "d=unknown"]))
                assert [*left] == ([step] if step in expected else [])
                for name, found in left.items():
                    expected.pop(name).check(found)
            else:
                added = rows_of(offset, step, kind)
                files.add(added)
                assert files.form == added.form
                for number, (name, size, time) in enumerate(step, start=offset):
                    one = expected.setdefault(name, Expected())
                    one.texts.append(text(number, size))
                    one.offsets.append(number)
                    one.times.append(time)
                offset += len(step)
            assert sorted(files.names()) == sorted(expected)
            assert len(files) == len(expected)
            assert files.bytes == files.sizes(NAMES).sum()
            if kind == "lines":
                assert files.sizes(NAMES).tolist() == [
                    sum(len(one) + 1 for one in expected[name].texts) if name in expected else 0 for name in NAMES
                ]
        found = [pair for share in files.shares() for pair in share]

    assert sorted(name for name, _ in found) == sorted(expected)
    for name, rows in found:
        expected[name].check(rows)
    files.drop()
    assert (len(files), files.bytes, files.memory(), [*files.shares()]) == (0, 0, 0, [])


def paused_and_resumed(files: SmallFiles, folder: Path, store: MemoryStore) -> SmallFiles:
    """The files after their way through a state, as another task has them."""
    form = files.form
    content = StateBytes(folder)
    about = None if form is None else content.placed(form.paused())
    made = StateContent({"small": files.pause(content), "form": about}, content)
    assert len(files) == 0
    store.put("state", made)
    with opened_state(store, OpenState("state", len(made), 1, 0, 0), folder) as document:
        again: RowForm | None = None
        if form is not None:
            again = resumed_form(states.in_memory(document["form"]), form.schema)
            assert again == form
        return SmallFiles.resumed(document["small"], again)


@pytest.mark.parametrize("kind", MAKERS)
def test_what_waits_on_local_disk_is_one_file_that_goes_with_the_last_of_them(tmp_path: Path, kind: str) -> None:
    files = SmallFiles()
    for first in (0, 2):
        files.add(rows_of(first, [("d=a", 1, 5), ("d=b", 1, 5)], kind))
        files.release(tmp_path)

    assert len([*tmp_path.iterdir()]) == 1
    assert {name: text_of(rows) for share in files.shares() for name, rows in share} == {
        "d=a": [b"10", b"12"],
        "d=b": [b"11", b"13"],
    }
    files.drop()
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_says_what_could_not_be_kept_and_the_way_out(tmp_path: Path) -> None:
    files = SmallFiles()
    files.add(rows_of(0, [("d=a", 1, 5), ("d=b", 1, 5)]))

    with pytest.raises(LocalDiskError, match=r"bytes of 2 files cannot be kept on local disk.*writer\.memory\.bytes"):
        files.release(tmp_path / "gone")
    assert {name for share in files.shares() for name, _ in share} == {"d=a", "d=b"}


@pytest.mark.parametrize("level", [None, -1])
def test_a_file_has_what_waited_as_its_own_records(tmp_path: Path, level: int | None) -> None:
    form = json_format(gzip_level=level, decimals="BASE64")
    upload = FileUpload(MemoryStore(), "key", part_size=5 << 20)
    target = OpenObject(Role.VALUE, form, OneSchema(form.open(None), None), upload)
    file = OpenFile("d=a", {Role.VALUE: target}, first_offset=3)
    file.append_rows(DirectoryRows(pa.table({"": [b'{"n":1}\n']}), 3, 3, 1, None, None, 8), LineForm())
    target.finish()

    waiting = StateBytes(tmp_path)
    upload.pause(waiting)
    content = b"".join(read_through(waiting.pieces))
    assert (content if level is None else gzip.decompress(content)) == b'{"n":1}\n'
    assert (file.records, file.last_offset, file.min_timestamp) == (1, 3, None)


@pytest.mark.parametrize("kind", MAKERS)
def test_memory_that_is_released_while_files_leave_takes_no_rows_of_those_to_come(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "SHARE_FILES", 1)
    monkeypatch.setattr(small_files, "MERGED", 2)
    files = SmallFiles()
    for first in (0, 5):
        files.add(rows_of(first, [(name, 1, 5) for name in NAMES], kind))
    found = {}
    for name, rows in files.pop(files.names()):
        found[name] = text_of(rows)
        files.release(tmp_path)

    assert found == {name: [b"%d" % (10 + at), b"%d" % (15 + at)] for at, name in enumerate(NAMES)}
    assert (len(files), files.bytes, files.memory(), [*tmp_path.iterdir()]) == (0, 0, 0, [])


def test_what_was_merged_on_local_disk_leaves_no_copy_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MERGED", 4)
    files = SmallFiles()
    for first in range(64):
        files.add(rows_of(first, [(NAMES[first % 5], 20, 5)]))
        files.release(tmp_path)

    (whole,) = files._sorted
    assert whole.tier == 3
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [sum(stream.size for stream in whole.streams)]
    assert {name: len(text_of(rows)) for share in files.shares() for name, rows in share} == {
        name: 13 - (at == 4) for at, name in enumerate(NAMES)
    }


def test_rows_that_pack_well_are_not_unpacked_all_at_once_when_a_state_goes_on(tmp_path: Path) -> None:
    store, count = MemoryStore(), 4_000
    values = StructColumns(pa.table({"text": ["x" * 2_000] * count, "texts": pa.nulls(count, pa.list_(pa.string()))}))
    run = Run(np.arange(count), np.zeros(count, np.int64), values, STRUCT)
    files, codes = SmallFiles(), np.arange(count, dtype=np.int32) % 5
    files.add(rows_by_directory(mixed_batch([RoutedRun(run, codes, NAMES, None)]), 0, count))
    size = files.bytes
    assert size > count * 2_000

    files = paused_and_resumed(files, tmp_path, store)
    assert 0 < files.memory() < len(store.objects["state"]) < size // 100
    files.release(tmp_path)
    assert (files.memory(), files.bytes, len([*tmp_path.iterdir()])) == (0, size, 1)
    assert [rows.table["text"].to_pylist() for share in files.shares() for _, rows in share] == [
        ["x" * 2_000] * 800
    ] * 5


def test_rows_of_files_that_have_left_take_no_room_on_local_disk(tmp_path: Path) -> None:
    files = SmallFiles()
    files.add(rows_of(0, [("d=a", 1, 5)]))
    files.release(tmp_path)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    files.add(rows_of(1, [("d=b", 1, 5)]))
    assert [name for name, _ in files.pop(["d=b"])] == ["d=b"]
    for _ in range(2):
        files.release(tmp_path)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == size
    assert [(name, text_of(rows)) for share in files.shares() for name, rows in share] == [("d=a", [b"10"])]


def test_thousands_of_steps_make_few_tables() -> None:
    files = SmallFiles()
    for first in range(3_000):
        files.add(rows_of(first, [(NAMES[first % 5], 1, 5)]))

    assert len(files._held) < 20
    found = {name: rows for share in files.shares() for name, rows in share}
    assert text_of(found["d=c"]) == [b"%d" % (n + 10) for n in range(2, 3_000, 5)]


def test_a_few_rows_of_a_batch_do_not_keep_the_rest_of_it_in_memory() -> None:
    batch = rows_of(0, [(NAMES[n % 5], n % 7, 5) for n in range(30_000)], "columns")
    files = SmallFiles()
    files.add(batch.select(np.array([3])))
    held = files._held[0].table

    assert files.memory() < table_bytes(batch.table) // 3
    assert held.get_total_buffer_size() < 2 * table_bytes(held)


def test_rows_that_differ_in_schema_or_columns_do_not_wait_together() -> None:
    first, wider = pa.schema([("n", pa.int64())]), pa.schema([("n", pa.int64()), ("m", pa.int64())])
    assert ColumnForm(STRUCT, first) == ColumnForm(STRUCT, first)
    assert ColumnForm(STRUCT, first) != ColumnForm(STRUCT, wider)
    assert ColumnForm(STRUCT, first) != ColumnForm(None, first)


def test_what_the_last_file_leaves_behind_waits_for_nobody(tmp_path: Path) -> None:
    files = SmallFiles()
    files.add(rows_of(0, [("d=a", 1, 5), ("d=b", 1, 5)]))
    files.release(tmp_path)
    files.add(rows_of(2, [("d=b", 1, 5)]))
    assert [name for name, _ in files.pop(["d=a"])] == ["d=a"]
    assert [*tmp_path.iterdir()]
    assert [text_of(rows) for _, rows in files.pop(["d=b"])] == [[b"11", b"12"]]
    assert (files.memory(), [*tmp_path.iterdir()]) == (0, [])
