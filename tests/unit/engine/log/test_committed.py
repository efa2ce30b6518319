"""Which objects does a stretch of entries commit, each once, and up to which entry can all be read?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.engine.log.committed import committed_files, complete_through, entries_between, last_committed_by
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, Progress, Swap, WaitingFile
from kafka_s3.engine.log.fold import UNPUBLISHED
from kafka_s3.engine.log.log import CommitLog, mark_published
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
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


def test_what_is_read_again_counts_with_the_later_entry() -> None:
    first, back = entry(1, file(0, 1), file(2, 5), until=6), entry(2, until=3, kind=EntryKind.POSITION)
    found = committed_files([first, back, entry(3, file(3, 5), until=6)], "orders")
    assert [(one.entry, one.facts.first_offset, one.rows) for one in found] == [(1, 0, 2), (1, 2, 1), (3, 3, 3)]
    again = committed_files(
        [first, replace(back, progress={ORDERS: Progress(0)}), entry(3, file(0, 5), until=6)], "orders"
    )
    assert [(one.entry, one.facts.first_offset, one.rows) for one in again] == [(3, 0, 6)]


def rewrite(version: int, *originals: DataFile, by: DataFile, deleted: tuple[int, ...] = ()) -> CommitEntry:
    swap = Swap(ORDERS, tuple(one.key for one in originals), by.key, sum(one.records for one in originals), "d")
    made = entry(version, by, kind=EntryKind.REWRITE, swaps=(swap,), deleted=deleted)
    return replace(made, progress={})


MERGED = replace(file(0, 3), key="topics/orders/p=0/merged.json", upload=Upload("merged", "id", ("e",), 10))
PAIR = [entry(1, file(0, 1), until=2), entry(2, file(2, 3), until=4)]


def test_a_rewrites_object_stands_for_what_it_replaced_wherever_the_stretch_ends() -> None:
    merge = rewrite(3, file(0, 1), file(2, 3), by=MERGED)
    assert keys(*PAIR, merge) == [(3, MERGED.key)]
    assert [one.facts.key for one in committed_files(PAIR, "orders", later=[merge])] == [MERGED.key]


def test_a_rewrite_commits_no_records_of_its_own() -> None:
    merge = rewrite(3, file(0, 1), file(2, 3), by=MERGED)
    assert keys(merge, entry(4, file(4, 5), until=6)) == [(4, file(4, 5).key)]
    assert committed_files([entry(4, file(4, 5), until=6)], "orders", later=[replace(merge, version=5)]) != []


def test_where_a_rewrite_merged_more_than_the_stretch_its_originals_are_read_while_they_are_there() -> None:
    merge, gone = (
        rewrite(3, file(0, 1), file(2, 3), by=MERGED),
        replace(rewrite(4, by=MERGED, deleted=(3,)), swaps=(), files=()),
    )
    assert [one.facts.key for one in committed_files(PAIR[1:], "orders", later=[merge])] == [file(2, 3).key]
    with pytest.raises(
        LogDamaged, match=r"of entry 2 is deleted: entry 3 merged it with objects of entries that are not meant here"
    ):
        committed_files(PAIR[1:], "orders", later=[merge, gone])
    assert [one.facts.key for one in committed_files(PAIR, "orders", later=[merge, gone])] == [MERGED.key]


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


def test_a_log_without_entries_is_complete_through_none() -> None:
    log = CommitLog(MemoryStore(), StatePaths("_kafka_s3", "sink"), clock_ms=lambda: 0)
    log.load()
    assert complete_through(log) == -1


def test_a_stretch_beyond_the_end_of_a_log_is_named_with_what_is_missing() -> None:
    log = log_of(entry(0), entry(1))
    assert [one.version for one in entries_between(log, 0, 1)] == [0, 1]
    with pytest.raises(LogDamaged, match="end before entry 2"):
        list(entries_between(log, 0, 3))
