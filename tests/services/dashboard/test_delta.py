"""What the dashboard says of a Delta table is what the table's own log says: judged by delta-rs, on a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_s3.model.errors import StorageError
from kafka_s3_dashboard.figures.delta import rows_in_folder
from kafka_s3_dashboard.reading.delta import KEPT_S, TableLog, TableLogs, list_folder
from kafka_s3_testing.faults import FaultyStore
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from tests.support.clock import Clock
from tests.support.filled import Tabled, with_table
from tests.support.numbers import numbers
from tests.support.waiting import eventually

FOLDER = "topics/orders/"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watched(tabled: Tabled) -> FaultyStore:
    return FaultyStore(tabled.store, [])


@pytest.fixture
def logs(watched: FaultyStore, clock: Clock) -> Iterator[TableLogs]:
    found = TableLogs(watched, "orders", clock_s=clock)
    yield found
    found.close()


def opened(s3: EmbeddedS3, bucket: str) -> DeltaTable:
    return DeltaTable(f"s3://{bucket}/{FOLDER}", storage_options={
        "aws_endpoint_url": s3.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
    })  # fmt: skip


def read_on(logs: TableLogs, clock: Clock) -> TableLog:
    """What is known after another look, which the call that begins it does not wait for."""
    clock.now += KEPT_S + 1
    logs.of([FOLDER])
    eventually(lambda: logs.ready(FOLDER))
    (found,) = logs.of([FOLDER])
    return found


def test_versions_are_those_that_delta_rs_finds(tabled: Tabled, logs: TableLogs, s3: EmbeddedS3) -> None:
    (found,) = logs.of([FOLDER])
    table = opened(s3, tabled.bucket)
    notes = {
        one["version"]: json.loads(one["userMetadata"])["entries"] for one in table.history() if "userMetadata" in one
    }
    assert {one.version: [one.first, one.last] for one in found.versions} == notes
    assert [found.version_of(entry) for entry in tabled.entries] == list(range(len(tabled.entries)))
    assert found.version_of(tabled.entries[-1] + 1) is None
    assert table.version() == found.versions[-1].version


def test_files_and_rows_are_those_that_delta_rs_counts_also_behind_optimize_and_a_checkpoint(s3: EmbeddedS3) -> None:
    made = with_table(s3, f"bucket-{next(numbers)}")
    table = opened(s3, made.bucket)

    def read() -> TableLog:
        logs = TableLogs(made.store, "orders")
        (found,) = logs.of([FOLDER])
        logs.close()
        return found

    def agrees(found: TableLog) -> bool:
        files = pa.table(table.get_add_actions(flatten=True))
        assert found.files is not None
        held = {path: (size, rows) for path, (size, rows) in found.files.files.items()}
        columns = [files.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
        return held == {path: (size, rows) for path, size, rows in zip(*columns, strict=True)}

    before = read()
    assert agrees(before)
    assert (before.position, before.files and before.files.rows) == (made.entries[-1], 6)
    table.optimize.compact()
    table.update_incremental()
    after = read()
    assert agrees(after)
    assert (after.versions[-1].operation, after.versions[-1].removed, after.files and len(after.files.files)) == (
        "OPTIMIZE",
        3,
        1,
    )
    table.create_checkpoint()
    for number in range(3):  # as the table's retention would
        made.store.delete(f"{FOLDER}_delta_log/{number:020d}.json")
    assert agrees(read())
    assert read().position == made.entries[-1]
    assert dict(read().columns[-1].types) == {"n": "long", "partition": "string"}
    folder = list_folder(made.store, FOLDER)
    objects = pd.DataFrame({"version": [], "records": [], "bytes": [], "folder": [], "name": []})
    assert (len(folder.keys), folder.whole) == (4, True)
    assert rows_in_folder(folder, objects, read(), FOLDER) is None  # the log's objects are not told here
    keys = [key.rpartition("/") for key in folder.keys if "orders+" in key]
    objects = pd.DataFrame(
        {"folder": [f"{above}/" for above, _, _ in keys], "name": [name for _, _, name in keys], "records": 2}
    )
    assert rows_in_folder(folder, objects, read(), FOLDER) == 12
    assert rows_in_folder(replace(folder, whole=False), objects, read(), FOLDER) is None


def test_each_version_is_read_once(watched: FaultyStore, logs: TableLogs, clock: Clock) -> None:
    before = read_on(logs, clock)
    calls = len(watched.calls)
    assert read_on(logs, clock) == before
    assert [verb for verb, _ in watched.calls[calls:]] == ["list"]


def test_a_topic_without_a_table_has_no_versions(logs: TableLogs) -> None:
    assert logs.of(["topics/none/"]) == [TableLog()]


def test_a_table_that_may_not_be_read_says_nothing_and_keeps_what_was_known(tabled: Tabled, clock: Clock) -> None:
    class Closing(FaultyStore):
        shut = False

        def get(self, key: str) -> bytes:
            if self.shut:
                raise StorageError("GetObject failed with AccessDenied. Grant s3:GetObject.")
            return super().get(key)

    store = Closing(tabled.store, [])
    store.shut = True
    refused = TableLogs(store, "orders", clock_s=clock)
    assert refused.of([FOLDER]) == [TableLog()]
    store.shut = False
    read_on(refused, clock)
    assert read_on(refused, clock).versions
    refused.close()


def test_versions_of_others_are_left_out_and_those_of_a_rebuild_count(tabled: Tabled) -> None:
    mine = TableLogs(tabled.store, "shipments")
    assert {one.first for one in mine.of([FOLDER])[0].versions} == {-1}
    rebuilt = TableLogs(_Rewritten(tabled.store), "shipments")
    one = rebuilt.of([FOLDER])[0].versions[0]
    assert (one.version, one.first, one.last) == (0, tabled.entries[0], tabled.entries[0])
    mine.close()
    rebuilt.close()


class _Rewritten(FaultyStore):
    """The table as a rebuild would have written it."""

    def get(self, key: str) -> bytes:
        return super().get(key).replace(b'\\"kafka-s3\\":\\"orders\\"', b'\\"kafka-s3\\":\\"rebuild\\"')
