"""What the dashboard says of a Delta table is what the table's own log says: judged by delta-rs, on a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from kafka_s3.local.s3 import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedS3
from kafka_s3.model.errors import StorageError
from kafka_s3.storage.faults import FaultyStore
from reading.delta_versions import KEPT_S, Added, TableLog, TableLogs
from tests.support.clock import Clock
from tests.support.filled import Tabled

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


def read_on(logs: TableLogs, clock: Clock) -> TableLog:
    """What is known after another look, which the call that begins it does not wait for."""
    clock.now += KEPT_S + 1
    logs.of([FOLDER])
    logs._held[FOLDER].coming.result(200)
    (found,) = logs.of([FOLDER])
    return found


def test_versions_are_those_that_delta_rs_finds(tabled: Tabled, logs: TableLogs, s3: EmbeddedS3) -> None:
    (found,) = logs.of([FOLDER])
    table = DeltaTable(f"s3://{tabled.bucket}/{FOLDER}", storage_options={
        "aws_endpoint_url": s3.endpoint_url, "aws_allow_http": "true", "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY,
    })  # fmt: skip
    notes = {
        one["version"]: json.loads(one["userMetadata"])["entries"] for one in table.history() if "userMetadata" in one
    }
    assert {one.version: [one.first, one.last] for one in found.added} == notes
    assert [found.version_of(entry) for entry in tabled.entries] == list(range(len(tabled.entries)))
    assert found.version_of(tabled.entries[-1] + 1) is None
    assert table.version() == found.added[-1].version


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
    assert read_on(refused, clock).added
    refused.close()


def test_versions_of_others_are_left_out_and_those_of_a_rebuild_count(tabled: Tabled) -> None:
    mine = TableLogs(tabled.store, "shipments")
    assert mine.of([FOLDER])[0].added == ()
    rebuilt = TableLogs(_Rewritten(tabled.store), "shipments")
    assert rebuilt.of([FOLDER])[0].added[0] == Added(0, tabled.entries[0], tabled.entries[0])
    mine.close()
    rebuilt.close()


class _Rewritten(FaultyStore):
    """The table as a rebuild would have written it."""

    def get(self, key: str) -> bytes:
        return super().get(key).replace(b'\\"kafka-s3\\":\\"orders\\"', b'\\"kafka-s3\\":\\"rebuild\\"')
