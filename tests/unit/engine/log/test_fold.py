"""What follows from the entries of a log, one after another?"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from kafka_s3.engine.log.entry import LAST_OFFSET, CommitEntry, EntryKind, Progress
from kafka_s3.engine.log.fold import LogFold, Segment
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.engine.log.spill import SegmentStore
from kafka_s3.model.errors import LocalDiskError
from kafka_s3.model.files import DataFile, DeadLetterCount, Reason, Upload
from kafka_s3.model.offsets import Gap, OffsetSet, TopicPartition

TP = TopicPartition("orders", 0)


def entry(version: int, kind: EntryKind, frontier: int | None = None, **more: object) -> CommitEntry:
    progress = {} if frontier is None else {TP: Progress(frontier)}
    found = CommitEntry(version, f"id-{version}", 1, "sink", kind, "2024-01-15T10:00:00Z", progress=progress)
    return replace(found, **more)  # type: ignore[arg-type]


def file(first: int, last: int, *, parts: int = 1) -> DataFile:
    upload = Upload(f"{first}.json", "id", tuple(f"{number:032x}" for number in range(parts)), 7)
    return DataFile(upload.key, *TP, first, last, 1, 7, None, 5, "d=1", "", "json", Reason.SCHEMA, upload)


def positioned(frontier: int = 0) -> LogFold:
    fold = LogFold()
    fold.add(entry(0, EntryKind.POSITION, frontier, topic_ids={"orders": "A"}))
    return fold


def test_a_data_entry_accounts_for_the_offsets_from_the_frontier_on() -> None:
    fold, files = positioned(5), (file(5, 7),)
    counts = {"dead_letters": {TP: DeadLetterCount(1, {"value": 1})}, "skipped": {TP: 2}}
    (segment,) = fold.add(entry(1, EntryKind.DATA, 11, files=files, **counts))
    assert segment == Segment(TP, 1, "2024-01-15T10:00:00Z", 5, 11, files, dead_letters=1, skipped=2)
    assert str(segment) == "orders-0 [5, 11), commit entry 1"
    assert fold.frontier == {TP: 11}


def test_a_position_behind_the_frontier_supersedes_what_reaches_beyond_it_but_recorded_dead_letters() -> None:
    fold = positioned()
    fold.add(entry(1, EntryKind.DATA, 10))
    (reset,) = fold.add(entry(2, EntryKind.POSITION, progress={TP: Progress(4, recorded=OffsetSet(((6, 7),)))}))
    assert isinstance(reset, Reset)
    assert (reset.before, reset.frontier, reset.goes_back) == (10, 4, True)
    assert [reset.supersedes(until) for until in (4, 5, 10)] == [False, True, True]
    assert reset.to_read == OffsetSet(((4, 5), (8, LAST_OFFSET)))


def test_a_position_ahead_of_the_frontier_leaves_a_gap_unless_the_entry_names_its_own() -> None:
    by_hand = positioned().add(entry(1, EntryKind.POSITION, 9))
    assert [event for event in by_hand if isinstance(event, Gap)] == [Gap(*TP, 0, 8, "position")]
    lost = Gap(*TP, 0, 8, "retention")
    named = positioned().add(entry(1, EntryKind.POSITION, 9, gaps=(lost,)))
    assert [event for event in named if isinstance(event, Gap)] == [lost]
    assert not any(isinstance(event, Reset) and event.goes_back for event in (*by_hand, *named))


def test_a_topic_of_another_id_supersedes_all_that_was_written_and_a_blank_id_nothing() -> None:
    fold = positioned()
    fold.add(entry(1, EntryKind.DATA, 10, topic_ids={"orders": ""}))
    assert fold.topic_ids == {"orders": "A"}
    recreated, position = fold.add(entry(2, EntryKind.POSITION, 3, topic_ids={"orders": "B"}))
    assert isinstance(recreated, Reset)
    assert isinstance(position, Reset)
    assert (recreated.recreated, recreated.supersedes(0), 12 in recreated.to_read) == (True, True, True)
    assert (position.before, position.goes_back) == (None, False)


def test_a_replay_accounts_for_the_dead_letters_that_it_resolves() -> None:
    fold, resolved = positioned(10), OffsetSet(((2, 3), (7, 7)))
    (segment,) = fold.add(entry(1, EntryKind.REPLAY, resolved={TP: resolved}, files=(file(2, 7),)))
    assert isinstance(segment, Segment)
    assert (segment.start, segment.until, segment.resolved, segment.is_current) == (2, 8, resolved, False)
    assert fold.frontier == {TP: 10}


def test_behind_a_missing_entry_starts_are_guesses_until_the_next_one() -> None:
    fold = positioned()
    fold.lose_track()
    (guess,) = fold.add(entry(2, EntryKind.DATA, 20, files=(file(12, 15),)))
    (known,) = fold.add(entry(3, EntryKind.DATA, 25))
    assert isinstance(guess, Segment)
    assert isinstance(known, Segment)
    assert [(one.start, one.sure) for one in (guess, known)] == [(12, False), (20, True)]
    assert not fold.complete


def test_segments_in_memory_are_bounded_in_bytes_however_many_parts_their_files_have() -> None:
    store, parts = SegmentStore(held_bytes=20_000), 2_000
    tracemalloc.start()
    for number in range(40):  # 100 kB each
        store.add(Segment(TP, number, "", number, number + 1, (file(number, number, parts=parts),)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 400_000
    assert [(one.version, len(one.files[0].upload.parts)) for one in store.of(TP)] == [(n, parts) for n in range(40)]


def test_a_full_disk_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch, small_disk: None) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.spill.CACHE_KIB", 64)
    store = SegmentStore(held_bytes=1)

    def fill() -> None:
        for number in range(100_000):
            store.add(Segment(TopicPartition(f"topic-{number}", 0), number, "", 0, 1, (file(0, 0),)))

    with pytest.raises(LocalDiskError, match=r"temporary file cannot grow.*TMPDIR"):
        fill()
