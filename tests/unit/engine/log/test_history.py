"""Does every entry come back from its rows as it was, and do the columns say what users expect of them?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.history import (
    DEAD_LETTER_FILES,
    ENTRIES,
    FILES,
    entries_of,
    joined,
    parquet_of,
    tables_of,
    without_upload_ids,
)
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import DataFile, DeadLetterCount, Reason, Role, Totals, Upload
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition
from tests.support.big_log import entries
from tests.support.examples import examples
from tests.support.memory_world import START_MS

ORDERS = TopicPartition("orders", 0)
KEY = "topics/orders/hour=08/orders+0+0000000000.json"
FILE = DataFile(
    KEY, "orders", 0, 0, 9, 10, 100, START_MS, None, "hour=08", "order v1", "json", Reason.FLUSH_SIZE,
    Upload(KEY, "secret-id", ("0" * 32, "1" * 32), 100),
)  # fmt: skip
ENTRY = CommitEntry(
    7, "commit-7", 2, "sink", EntryKind.DATA, "2024-01-15T10:00:00.123Z", "cluster", {ORDERS: Progress(11, 10, OffsetSet(((12, 12),)), 3)},
    (FILE, replace(FILE, key="letters", role=Role.DEAD_LETTER, upload=Upload("letters", "x", (), 100)), replace(FILE, role=Role.KEY)),
    {ORDERS: DeadLetterCount(3, {"VALUE_CONVERTER": 2, "SINK": 1})}, {ORDERS: 4}, (Gap("orders", 1, 0, 5, "retention"),), {"orders": "id"},
    Totals(17, 10, 3, 4, 1, 100), "host/1",
)  # fmt: skip


def test_an_entry_becomes_a_row_a_row_for_each_file_and_one_for_each_dead_letter_file() -> None:
    tables = tables_of([ENTRY])
    (entry,) = tables[ENTRIES].to_pylist()
    assert entry["committed_at"] == datetime(2024, 1, 15, 10, 0, 0, 123_000, tzinfo=UTC)
    assert {name: entry[name] for name in ("version", "kind", "read", "files", "objects")} == {
        "version": 7, "kind": "data", "read": 17, "files": 1, "objects": 3,
    }  # fmt: skip
    file, sidecar = tables[FILES].to_pylist()
    assert file["min_timestamp"] == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert (file["key"], file["reason"], file["encoded_partition"], file["max_timestamp"]) == (
        KEY,
        "flush.size",
        "hour=08",
        None,
    )
    assert (file["number"], sidecar["number"], sidecar["role"]) == (0, 2, "key")
    assert (file["counted"], sidecar["counted"]) == (True, True)
    (letters,) = tables[DEAD_LETTER_FILES].to_pylist()
    assert dict(letters["stages"]) == {"VALUE_CONVERTER": 2, "SINK": 1}


odd_files = st.builds(
    replace,
    st.just(FILE),
    min_timestamp=st.none() | st.integers(-(2**62), 2**62),
    bytes=st.integers(0, 200),
    encoded_partition=st.text(max_size=5),
    key=st.sampled_from([KEY, "other"]),
    role=st.sampled_from(Role),
    reason=st.sampled_from(Reason),
)


@given(files=st.lists(odd_files, max_size=4), kind=st.sampled_from(EntryKind))
@settings(max_examples=examples(40))
def test_whatever_a_log_holds_comes_back_from_its_rows(files: list[DataFile], kind: EntryKind) -> None:
    resolved = {ORDERS: OffsetSet(((1, 2), (5, 5)))} if kind is EntryKind.REPLAY else {}
    entry = replace(ENTRY, files=tuple(files), kind=kind, resolved=resolved)
    assert list(entries_of(tables_of([entry]))) == [without_upload_ids(entry)]


def test_the_id_of_an_upload_is_the_only_thing_left_out() -> None:
    content = b"".join(parquet_of(tables_of([ENTRY])).values())
    assert b"secret-id" not in content
    (found,) = entries_of(tables_of([ENTRY]))
    assert replace(found, files=ENTRY.files) == ENTRY
    assert [replace(file, upload=other.upload) for file, other in zip(found.files, ENTRY.files, strict=True)] == list(
        ENTRY.files
    )


def test_entries_stay_in_their_order_when_tables_are_joined() -> None:
    some = list(entries(12, 3, until_ms=START_MS))
    assert list(entries_of(joined([tables_of([entry]) for entry in some]))) == list(map(without_upload_ids, some))


@pytest.mark.parametrize("change", [{"partition": 2**40}, {"first_offset": 2**70}])
def test_what_no_column_can_hold_is_reported_with_the_entry(change: dict[str, Any]) -> None:
    with pytest.raises(LogDamaged, match="entries 7 to 7"):
        tables_of([replace(ENTRY, files=(replace(FILE, **change),))])


def test_times_are_times_in_utc() -> None:
    tables = tables_of([ENTRY])
    for name in (ENTRIES, FILES, DEAD_LETTER_FILES):
        assert tables[name].schema.field("committed_at").type == pa.timestamp("ms", tz="UTC")
