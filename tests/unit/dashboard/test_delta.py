"""What the dashboard makes of a Delta table's log: who is behind, what was rescued or left out, how columns changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from kafka_s3.store.memory import MemoryStore
from kafka_s3_dashboard.figures.delta import Behind, behind, column_changes, versions_table
from kafka_s3_dashboard.reading import delta
from kafka_s3_dashboard.reading.delta import TableLog, list_folder, read_table

FOLDER = "topics/orders/"


def line(**action: object) -> str:
    return json.dumps(action)


def add(path: str, rows: int | None, rescued: int = 0) -> str:
    stats = {} if rows is None else {"numRecords": rows, "nullCount": {"_rescued_data": rows - rescued}}
    return line(add={"path": path, "size": 10, "stats": json.dumps(stats)})


def schema(**types: object) -> str:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return line(metaData={"schemaString": json.dumps({"type": "struct", "fields": fields})})


def told(note: object, operation: str = "WRITE") -> str:
    return line(commitInfo={"timestamp": 5, "operation": operation, "userMetadata": json.dumps(note)})


def put(store: MemoryStore, *versions: list[str], first: int = 0) -> MemoryStore:
    for number, lines in enumerate(versions, first):
        store.put(f"{FOLDER}_delta_log/{number:020d}.json", "\n".join(lines).encode())
    return store


def read(store: MemoryStore, before: TableLog | None = None) -> TableLog:
    with ThreadPoolExecutor(1) as pool:
        return read_table(store, FOLDER, "orders", before=before or TableLog(), pool=pool)


VERSIONS = (
    [
        told({"kafka-s3": "orders", "entries": [1, 2]}),
        schema(a="long"),
        add("1", 5),
        line(txn={"appId": "kafka-s3-orders", "version": 2}),
    ],
    [
        told({"kafka-s3": "orders", "entries": [3, 3], "left_out": ["x.parquet"]}),
        add("2", 7, rescued=2),
        "{broken",
        "[]",
        "7",
    ],
    [told(None, "OPTIMIZE"), add("3", 12), line(remove={"path": "1"}), line(remove={"path": "2"})],
    [
        told({"kafka-s3": "other", "entries": [9, 9]}),
        schema(a="string", b={"type": "array"}),
        line(add={"path": "4", "size": 1, "stats": "{"}),
    ],
)


def test_versions_tell_their_entries_rows_and_what_was_rescued_or_left_out() -> None:
    found = read(put(MemoryStore(), *VERSIONS))
    table = versions_table(found.versions).set_index("version")
    assert table["entries"].to_dict() == {0: "1\u20132", 1: "3", 2: "", 3: ""}
    assert table["operation"].tolist() == ["WRITE", "OPTIMIZE", "WRITE", "WRITE"]
    assert table.loc[1, ["rows", "rescued", "left_out", "removed"]].tolist() == [7, 2, 1, 0]
    assert (table["removed"][2], found.position, found.version_of(2), found.version_of(4)) == (2, 2, 0, None)
    assert column_changes(found.columns).values.tolist() == [
        [3, 2, 'new b: {"type":"array"}; a: long to string'], [0, 1, "the first that was read"],
    ]  # fmt: skip


def test_files_and_rows_follow_the_log_and_are_unknown_where_a_file_does_not_tell() -> None:
    store = put(MemoryStore(), *VERSIONS[:3])
    found = read(store)
    assert found.files is not None
    assert (found.files.files, found.files.rows, found.files.bytes) == ({"3": (10, 12)}, 12, 10)
    later = read(put(store, VERSIONS[3], first=3), found)
    assert later.files is not None
    assert (len(later.files.files), later.files.rows, len(later.versions)) == (2, None, 4)


def test_of_a_log_that_is_too_long_or_begins_late_or_has_too_many_files_they_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(put(MemoryStore(), VERSIONS[1], first=7)).files is None
    monkeypatch.setattr(delta, "MOST_FILES", 0)
    assert read(put(MemoryStore(), *VERSIONS)).files is None
    monkeypatch.undo()
    monkeypatch.setattr(delta, "NEWEST", 2)
    found = read(put(MemoryStore(), *VERSIONS))
    assert (found.files, [one.version for one in found.versions]) == (None, [2, 3])
    broken = put(MemoryStore(), *VERSIONS)
    broken.put(f"{FOLDER}_delta_log/_last_checkpoint", b"{")
    assert read(broken).files is None


def test_a_table_is_behind_by_the_entries_after_its_position() -> None:
    objects = pd.DataFrame({"version": [1, 2, 2, 5], "records": [1, 10, 100, 1000], "made": False})
    assert behind(objects, 1) == Behind(2, 3, 1110)
    assert behind(objects, 5) == Behind(0, 0, 0)


def test_the_log_of_a_table_and_what_is_no_parquet_are_no_files_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    store = put(MemoryStore(), *VERSIONS)
    store.put(f"{FOLDER}_delta_log/00000000000000000003.checkpoint.parquet", b"")
    for name in ("A/1.parquet", "z/2.parquet", "z/2.keys.json"):
        store.put(FOLDER + name, b"12")
    found = list_folder(store, FOLDER)
    assert ([key.removeprefix(FOLDER) for key in found.keys], found.bytes, found.whole) == (
        ["A/1.parquet", "z/2.parquet"],
        4,
        True,
    )
    assert list_folder(store, f"{FOLDER}z/").bytes == 2
    monkeypatch.setattr(delta, "MOST_LISTED", 1)
    assert not list_folder(store, FOLDER).whole
