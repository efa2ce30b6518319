"""A log is read newest first, in parts, from the bucket and from this machine's cache, while it grows, and whatever is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.log_tables import LogTables
from kafka_s3.model.errors import StorageError
from kafka_s3.store.memory import MemoryStore
from kafka_s3_dashboard.reading.history import History, Snapshot
from kafka_s3_dashboard.reading.watch import Watch
from kafka_s3_testing.faults import Fault, FaultyStore, Verb
from tests.support.big_log import big_log
from tests.support.filled import beat, worked
from tests.support.memory_world import START_MS
from tests.support.waiting import eventually

PATHS = StatePaths("_kafka_s3", "big")
Reader = Callable[..., History]


@pytest.fixture
def reader() -> Iterator[Reader]:
    """Histories that hardly rest between two looks, and end with the test."""
    made: list[History] = []

    def start(store: object, paths: StatePaths = PATHS, **more: int) -> History:
        history = History(store, paths, clock_ms=lambda: START_MS, look_every_s=0.05, **more)  # type: ignore[arg-type]
        made.append(history)
        return history

    yield start
    for history in made:
        history.close()


def until(history: History, holds: Callable[[Snapshot], bool]) -> Snapshot:
    eventually(lambda: holds(history.ask(0)), what=lambda: str(history.snapshot))
    return history.snapshot


def done(snapshot: Snapshot) -> bool:
    return snapshot.number > 0 and snapshot.complete


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return big_log(630, 2, until_ms=START_MS)


def test_the_newest_entries_come_first_and_then_all_others(store: MemoryStore, reader: Reader) -> None:
    history = reader(store)
    first = history.ask(10)
    assert first.total == 630
    assert first.frames.entries["version"].max() == 629
    whole = until(history, done)
    assert list(whole.frames.entries["version"]) == list(range(630))
    assert whole.frames.files["records"].sum() == whole.known.log.totals.written + 63  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def compacted() -> MemoryStore:
    """A log of 330 entries, of which 300 are in three stretches."""
    found = big_log(330, 2, until_ms=START_MS)
    log = CommitLog(found, PATHS, clock_ms=lambda: START_MS)
    log.load()
    follower = LogTables(print, most_entries=100)
    for _ in range(4):
        follower.catch_up(log)
    return found


def without(store: MemoryStore, part: str) -> MemoryStore:
    """Another bucket with the objects whose keys do not hold this."""
    found = MemoryStore(lambda: START_MS)
    for key, content in store.objects.items():
        if part not in key:
            found.put(key, content)
    return found


def test_closed_stretches_are_read_as_tables(compacted: MemoryStore, reader: Reader) -> None:
    wanted, watched = until(reader(without(compacted, "/log/")), done), FaultyStore(compacted, [])
    found = until(reader(watched), done)
    for name in ("entries", "files", "counts", "gaps"):
        pd.testing.assert_frame_equal(
            getattr(found.frames, name), getattr(wanted.frames, name), check_categorical=False
        )
    assert len({key for verb, key in watched.calls if verb.startswith("get") and "/commits/" in key}) < 130


def test_a_stretch_that_is_damaged_is_read_entry_by_entry(
    compacted: MemoryStore, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    key = PATHS.log_table("files", 100, last=199)
    damaged = without(compacted, key)
    damaged.put(key, b"no Parquet")
    assert list(until(reader(damaged), done).frames.entries["version"]) == list(range(330))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Commit entries 100 to 199 are read one by one"
    ]


def test_of_a_log_with_too_many_files_the_newest_are_held(compacted: MemoryStore, reader: Reader) -> None:
    found = until(reader(compacted, most_files=250), lambda now: now.bounded)
    assert not found.complete
    assert list(found.frames.entries["version"]) == list(range(200, 330))
    assert len(found.frames.files) >= 260


def test_a_log_that_grows_is_followed(reader: Reader) -> None:
    made = worked(hours=2)
    history = reader(made.store, StatePaths("_kafka_s3", "orders"))
    before = until(history, done)
    made.add(range(100, 110))
    made.now += 10 * 3_600_000
    made.sink.poll_and_commit()
    after = until(history, lambda now: now.total > before.total and now.complete)
    assert list(after.frames.entries["version"]) == [entry.version for entry in made.entries()]


def test_a_log_that_was_deleted_and_replaced_is_not_mixed_with_the_old_one(reader: Reader) -> None:
    old, new = big_log(30, 1, until_ms=START_MS), worked(hours=1, name="big")
    history = reader(old)
    until(history, done)
    for key in old.objects:
        old.delete(key)
    for key, content in new.store.objects.items():
        old.put(key, content)
    after = until(history, lambda now: now.total == len(new.entries()) and now.complete)
    assert after.frames.entries["driver"].astype(str).nunique() == 1
    assert after.frames.files["topic"].astype(str).isin(["orders", "payments"]).all()


@pytest.mark.parametrize("how", ["damaged", "missing"])
@pytest.mark.parametrize("version", [3, 120, 149])
def test_everything_but_a_bad_entry_is_read_and_the_entry_is_named(reader: Reader, how: str, version: int) -> None:
    store = big_log(150, 1, until_ms=START_MS)
    key = PATHS.commit(version)
    if how == "damaged":
        store.put(key, b"{not json")
    else:
        store.delete(key)
        if version == 149:  # nobody can miss the last one
            assert until(reader(store), done).total == 149
            return
    found = until(reader(store), done)
    assert [one.version for one in found.damage] == [version]
    assert key in found.damage[0].text
    assert list(found.frames.entries["version"]) == [number for number in range(150) if number != version]


def test_an_entry_that_was_restored_is_read_after_all(reader: Reader) -> None:
    store = big_log(50, 1, until_ms=START_MS)
    content = store.get(PATHS.commit(20))
    store.put(PATHS.commit(20), b"")
    history = reader(store)
    assert until(history, done).damage
    store.put(PATHS.commit(20), content)
    assert until(history, lambda now: not now.damage and now.complete).read == 50


def test_a_bucket_that_refuses_is_reported_and_what_was_read_stays(reader: Reader) -> None:
    store = big_log(20, 1, until_ms=START_MS)

    class Closing(FaultyStore):
        shut = False

        def get(self, key: str) -> bytes:
            if self.shut:
                raise StorageError("GetObject failed with AccessDenied. Grant s3:GetObject.")
            return super().get(key)

    guarded = Closing(store, [])
    history = reader(guarded)
    until(history, done)
    guarded.shut = True
    refused = until(history, lambda now: bool(now.trouble))
    assert "Grant s3:GetObject" in refused.trouble
    assert refused.read == 20
    guarded.shut = False
    assert until(history, lambda now: not now.trouble).read == 20


def test_nothing_is_read_while_nobody_asks(store: MemoryStore, reader: Reader) -> None:
    watched = FaultyStore(store, [])
    history = reader(watched)
    history.ask(10)  # asks once
    eventually(lambda: done(history.snapshot))
    before = len(watched.calls)
    time.sleep(0.1)  # a second look would come twice meanwhile
    assert len(watched.calls) == before


def test_a_sink_without_entries_is_known_and_empty(reader: Reader) -> None:
    made = worked(hours=1)
    for key in list(made.store.objects):
        if "/commits/" in key:
            made.store.delete(key)
    beat(made)
    found = until(reader(made.store, StatePaths("_kafka_s3", "orders")), lambda now: now.number > 0)
    assert (found.total, found.complete, found.known.heartbeat.pid) == (0, True, 7)  # type: ignore[union-attr]


def test_all_sinks_of_a_bucket_are_watched_and_a_refusal_is_reported() -> None:
    made = worked(hours=1)
    for key, content in big_log(5, 1, until_ms=START_MS).objects.items():
        made.store.put(key, content)
    watch = Watch(made.store, "_kafka_s3", clock_ms=lambda: START_MS)
    eventually(lambda: watch.ask(5).looked_ms > 0)
    assert [known.name for known in watch.sight.sinks] == ["big", "orders"]
    watch.close()

    def refuse(_: str) -> None:
        raise StorageError("no")

    refusing = Watch(
        FaultyStore(made.store, [Fault(Verb.LIST, refuse, nth=None)]), "_kafka_s3", clock_ms=lambda: START_MS
    )
    assert refusing.ask(5).trouble == "no"
    refusing.close()
