"""Which objects does a stretch of entries commit, each once, and up to which entry can all be read?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.committed import committed_files, complete_through, last_committed_by
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress, WaitingFile
from kafka_s3.engine.log.log import CommitLog, mark_published
from kafka_s3.engine.log.rewrites import UNPUBLISHED
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import Gap, TopicPartition
from kafka_s3.store.memory import MemoryStore

ORDERS = TopicPartition("orders", 0)
BEGIN = datetime(2024, 1, 15, 10, tzinfo=UTC)


def file(first: int, last: int, *, role: Role = Role.VALUE, folder: str = "p=0", topic: str = "orders") -> DataFile:
    infix = {Role.KEY: ".keys", Role.HEADER: ".headers"}.get(role, "")
    key = f"topics/{topic}/{folder}/{topic}+0+{first:010d}{infix}.json"
    count = last - first + 1
    return DataFile(
        key, topic, 0, first, last, count, 10, None, None, folder, "", "json", Reason.FLUSH_SIZE, Upload(key, "id", ("e",), 10), role
    )  # fmt: skip


def entry(version: int, *files: DataFile, until: int = 0, kind: EntryKind = EntryKind.DATA, **more: Any) -> CommitEntry:
    at = (BEGIN + timedelta(minutes=version)).isoformat()
    progress = {ORDERS: Progress(until)} if kind is not EntryKind.EPOCH else {}
    return CommitEntry(version, f"c{version}", 1, "sink", kind, at, progress=progress, files=files, **more)


def keys(*entries: CommitEntry) -> list[tuple[int, str]]:
    return [(one.entry, one.facts.key) for one in committed_files(entries, "orders")]


def test_values_and_keys_of_a_file_are_one_and_a_file_of_keys_alone_holds_tombstones() -> None:
    value, key, tombstones = file(0, 1), file(0, 1, role=Role.KEY), file(2, 3, role=Role.KEY, folder="p=1")
    found = committed_files([entry(1, value, key, tombstones, file(0, 1, role=Role.HEADER), until=4)], "orders")
    assert [(one.values, one.keys) for one in found] == [(value, key), (None, tombstones)]


def test_other_topics_and_files_that_hold_no_records_are_left_out() -> None:
    letters = replace(file(0, 0), key="letters", role=Role.DEAD_LETTER)
    assert keys(entry(1, letters, file(0, 0, role=Role.HEADER), until=1)) == []
    assert committed_files([entry(1, file(0, 1), until=2)], "others") == []


def test_an_object_that_was_written_again_counts_with_the_later_entry() -> None:
    back = entry(2, until=0, kind=EntryKind.POSITION)
    found = committed_files([entry(1, file(0, 1), file(2, 3), until=4), back, entry(3, file(0, 3), until=4)], "orders")
    assert [(one.entry, one.facts.first_offset, one.facts.last_offset, one.read_again) for one in found] == [
        (1, 2, 3, True), (3, 0, 3, False),
    ]  # fmt: skip


def test_a_file_whose_upload_was_lost_for_good_never_appeared() -> None:
    lost = entry(2, until=4, kind=EntryKind.EPOCH, gaps=(Gap("orders", 0, 2, 3, UNPUBLISHED),))
    assert keys(entry(1, file(0, 1), file(2, 3), until=4), lost) == [(1, file(0, 1).key)]


def log_of(*entries: CommitEntry, published: bool = True) -> CommitLog:
    store, paths = MemoryStore(), StatePaths("_kafka_s3/", "sink")
    for one in entries:
        store.put(paths.commit(one.version), one.to_json())
    if published:
        mark_published(store, paths, entries[-1])
    log = CommitLog(store, paths, clock_ms=lambda: 0)
    log.load()
    return log


def test_an_entry_is_complete_when_all_that_it_names_is_visible() -> None:
    first, second = entry(0, file(0, 1), until=2), entry(1, file(2, 3), until=4)
    assert complete_through(log_of(first, second)) == 1
    assert complete_through(log_of(first, second, published=False)) == 0
    waits = replace(second, waiting=(WaitingFile(0, file(0, 1)),))
    assert complete_through(log_of(first, waits, published=False)) == -1
    assert complete_through(log_of(first, waits)) == 1
    assert complete_through(log_of(first, entry(1, kind=EntryKind.EPOCH), published=False)) == 1


@given(st.integers(1, 40), st.integers(-3, 60))
def test_the_last_entry_of_a_time_is_found(count: int, minute: int) -> None:
    log = log_of(*(entry(version, until=version) for version in range(count)))
    found = last_committed_by(log, BEGIN + timedelta(minutes=minute, seconds=30), until=count - 1)
    assert found == min(max(minute, -1), count - 1)
