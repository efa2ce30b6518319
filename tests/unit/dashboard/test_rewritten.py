"""What was written, compacted and erased are different things on every page, and what was erased is nowhere to be seen."""

from __future__ import annotations

import pytest

from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.history import tables_of
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3_dashboard.figures import data, delta, partitions, rotations
from kafka_s3_dashboard.figures.data import MEASURED, Window, delays
from kafka_s3_dashboard.reading.frames import Frames, frames_of, part_of, part_of_tables
from kafka_s3_dashboard.reading.letters import letter_files, read_page, source_of
from kafka_s3_dashboard.reading.tables import TableStatus
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TIME, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.rewriting import ask_for_compaction
from tests.unit.ops.erasure.test_forgetting import KEYS, forget

EVERYTHING = Window(0, 1 << 52)
DAY_MS = 86_400_000
FILES, SIZE = 6, 3


def compacted_and_erased() -> World:
    """Six files of three records each and a bad record, put together a day later; then the records and the letter of Anna are erased."""
    world = World({"flush.size": str(SIZE), "rewrite.grace.ms": str(DAY_MS), **KEYS, **TOLERANT})
    world.start()
    for offset in range(FILES * SIZE + 1):
        who, bad = ("anna", offset == FILES * SIZE) if offset in (0, FILES * SIZE) else ("berta", False)
        value = b"{ anna" if bad else b'{"n":%d,"who":"%s"}' % (offset, who.encode())
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, who.encode(), value))
    world.now += 1000
    assert world.sink.poll_and_commit()
    world.now += DAY_MS
    assert ask_for_compaction(world, world.store)
    world.sink.rewrites.notice(str(world.now))
    assert world.sink.poll_and_commit()
    world.now += 60_000
    forget(world, where=None, key="anna")
    return world


@pytest.fixture(scope="module")
def world() -> World:
    return compacted_and_erased()


@pytest.fixture(scope="module", params=["entries", "tables"])
def frames(world: World, request: pytest.FixtureRequest) -> Frames:
    entries = world.entries()
    ends = {"first": 0, "last": len(entries) - 1}
    if request.param == "entries":
        return frames_of([part_of(entries, **ends)])
    return frames_of([part_of_tables(tables_of(entries), **ends)])


def test_files_are_those_that_were_written_and_delays_those_of_their_commits(frames: Frames) -> None:
    assert data.totals(frames.entries)["files"] == FILES
    found = rotations.summary(frames.files, EVERYTHING)
    assert (found.files, found.reasons["reason"].tolist()) == (FILES, ["flush.size"])
    late = delays(frames.files[[*MEASURED, "role", "reason"]], EVERYTHING)
    assert late["slow_ms"].tolist() == [1000]
    assert delta.changes(frames.files).empty


def test_compacted_and_erased_objects_have_their_sizes_before_and_after(frames: Frames) -> None:
    found = rotations.rewritten(frames.rewrites)
    assert {name: one.erased for name, one in found.items()} == {"compaction": 0, "erasure": 2}
    sizes = rotations.swapped(frames.files, frames.swaps)
    assert sizes.known
    assert (sizes.before["files"].sum(), sizes.after["files"].sum()) == (FILES + 1, 2)
    assert sizes.before["lower"].tolist() == sizes.after["lower"].tolist()
    newest = frames.files["version"] == frames.files["version"].max()
    cut = rotations.swapped(frames.files[newest.to_numpy()], frames.swaps.assign(bytes=-1))
    assert not cut.known


def test_the_layout_is_that_of_the_objects_that_count(world: World, frames: Frames) -> None:
    live = [one.file for one in live_objects(world.entries()).values() if one.file.role is Role.VALUE]
    found = partitions.directories(frames.files)
    assert found[["files", "records", "bytes"]].values.tolist() == [
        [len(live), sum(file.records for file in live), sum(file.bytes for file in live)]
    ]
    leaf = partitions.leaf(found, f"orders/{live[0].encoded_partition}")
    assert leaf is not None
    shown = partitions.files_of(frames.files, leaf)
    assert [f"{folder}{name}" for folder, name in zip(shown["folder"], shown["name"], strict=True)] == [live[0].key]
    objects = partitions.topic_objects(frames.files, "orders")
    assert objects is not None
    assert [one.key for one in objects.newest] == [live[0].key]


def test_a_table_that_has_not_followed_a_rewrite_is_behind_without_a_missing_record(
    world: World, frames: Frames
) -> None:
    files = frames.files.assign(format="parquet")
    objects = delta.objects_of(files, "orders")
    last = world.entries()[-1].version
    before = delta.completeness_of(objects, frames.swaps, TableStatus("orders", "Delta", last - 1))
    assert (before.verdict, before.missing.records, before.replaced) == (delta.BEHIND, 0, 1)
    assert delta.completeness_of(objects, frames.swaps, TableStatus("orders", "Delta", last)).verdict == delta.COMPLETE
    assert delta.live(objects)["records"].sum() == FILES * SIZE - 1


def test_a_letter_that_was_erased_is_not_shown_though_its_file_is_still_in_the_bucket(
    world: World, frames: Frames
) -> None:
    files = letter_files(frames)
    source = source_of(world.store, frames, files, LetterSelection(states=frozenset(LetterState)))
    [filed] = read_page(source).letters
    letter = filed.letter
    assert (filed.state, letter.offset, letter.key, letter.value) == (LetterState.ERASED, FILES * SIZE, None, None)
    became = next(entry for entry in world.entries() if entry.dead_letters)
    assert files["version"].tolist() == [became.version]
    originals = [key for key in world.store.objects if "/dead-letters/" in key]
    assert len(originals) == 2
    still_open = LetterSelection(states=frozenset({LetterState.OPEN}))
    assert read_page(source_of(world.store, frames, files, still_open)).letters == ()


@pytest.mark.parametrize("by_tables", [False, True])
def test_an_object_of_several_partitions_is_one_that_counts_in_the_place_of_all_its_originals(by_tables: bool) -> None:
    topics = [TopicPartition("orders", number) for number in range(3)]
    config = {**TIME, "flush.size": "2", "rewrite.grace.ms": str(DAY_MS), "compact.across.partitions": "true"}
    world = World(config, topics=topics)
    world.start()
    for tp in topics:
        world.add(range(4), tp=tp)
    assert world.sink.poll_and_commit()
    world.now += DAY_MS
    assert ask_for_compaction(world, world.store)
    world.sink.rewrites.notice(str(world.now))
    assert world.sink.poll_and_commit()
    entries = world.entries()
    ends = {"first": 0, "last": len(entries) - 1}
    part = part_of_tables(tables_of(entries), **ends) if by_tables else part_of(entries, **ends)
    frames = frames_of([part])
    found = partitions.directories(frames.files)[["files", "records", "bytes"]].values.tolist()
    (file,) = [one.file for one in live_objects(entries).values()]
    assert found == [[1, 12, file.bytes]]
    sizes = rotations.swapped(frames.files, frames.swaps)
    assert (sizes.before["files"].sum(), sizes.after["files"].sum()) == (6, 1)
    assert data.totals(frames.entries)["files"] == 6
