"""A log is read newest first, in parts, from the bucket and from this machine's cache, while it grows, and whatever is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_s3.model.errors import StorageError
from kafka_s3.naming.state_paths import StatePaths
from kafka_s3.storage.faults import Fault, FaultyStore, Verb
from kafka_s3.storage.memory import MemoryStore
from reading.cache_files import CacheFiles, default_folder
from reading.history import History, Snapshot
from reading.watch import Watch
from tests.support.big_log import big_log
from tests.support.filled import beat, worked
from tests.support.memory_world import START_MS
from tests.support.waiting import eventually

PATHS = StatePaths("_kafka_s3", "big")
Reader = Callable[..., History]


@pytest.fixture
def reader() -> Iterator[Reader]:
    """Histories that end with the test."""
    made: list[History] = []

    def start(store: object, paths: StatePaths = PATHS, *, cache: Path | None = None) -> History:
        history = History(
            store, paths, clock_ms=lambda: START_MS, caches=lambda one: CacheFiles(cache, one) if cache else None
        )  # type: ignore[arg-type]
        made.append(history)
        return history

    yield start
    for history in made:
        history.close()


def until(history: History, holds: Callable[[Snapshot], bool]) -> Snapshot:
    deadline = time.monotonic() + 200
    while not holds(history.ask()):
        assert time.monotonic() < deadline, history.snapshot
        time.sleep(0.02)
    return history.snapshot


def done(snapshot: Snapshot) -> bool:
    return snapshot.number > 0 and snapshot.complete


def reads(calls: list[tuple[str, str]]) -> int:
    return sum(verb == "get" and "/commits/" in key for verb, key in calls)


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return big_log(1230, 2, until_ms=START_MS)


def test_the_newest_entries_come_first_and_then_all_others(store: MemoryStore, reader: Reader) -> None:
    history = reader(store)
    first = history.first(10)
    assert first.total == 1230
    assert first.frames.entries["version"].max() == 1229
    whole = until(history, done)
    assert list(whole.frames.entries["version"]) == list(range(1230))
    assert whole.frames.files["records"].sum() == whole.known.log.totals.written + 123  # type: ignore[union-attr]


def test_a_second_start_reads_from_the_cache_what_the_first_has_read(
    store: MemoryStore, reader: Reader, tmp_path: Path
) -> None:
    before = until(reader(store, cache=tmp_path), done)
    deadline = time.monotonic() + 200
    while len(list(tmp_path.rglob("*.arrow"))) < 3:  # a block of 1000 and two of 100
        assert time.monotonic() < deadline
        time.sleep(0.02)
    watched = FaultyStore(store, [])
    after = until(reader(watched, cache=tmp_path), done)
    assert list(after.frames.files["name"]) == list(before.frames.files["name"])
    assert reads(watched.calls) < 250


def test_a_damaged_cache_file_is_read_from_the_bucket_again(store: MemoryStore, reader: Reader, tmp_path: Path) -> None:
    until(reader(store, cache=tmp_path), done)
    deadline = time.monotonic() + 200
    while len(list(tmp_path.rglob("*.arrow"))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for path in tmp_path.rglob("*.arrow"):
        path.write_bytes(path.read_bytes()[:100])
    assert list(until(reader(store, cache=tmp_path), done).frames.entries["version"]) == list(range(1230))


def test_the_folder_of_the_cache_is_the_users_own_and_can_be_switched_off(tmp_path: Path) -> None:
    assert default_folder({"KAFKA_S3_DASHBOARD_CACHE": ""}) is None
    assert default_folder({"KAFKA_S3_DASHBOARD_CACHE": str(tmp_path)}) == tmp_path
    assert default_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "kafka-s3/dashboard"


def test_a_log_that_grows_is_followed(reader: Reader) -> None:
    made = worked(hours=2)
    history = reader(made.store, StatePaths("_kafka_s3", "orders"))
    before = until(history, done)
    made.add(range(100, 110))
    made.now += 10 * 3_600_000
    made.sink.cycle()
    after = until(history, lambda now: now.total > before.total and now.complete)
    assert list(after.frames.entries["version"]) == [entry.version for entry in made.entries()]


def test_a_log_that_was_deleted_and_begun_anew_is_not_mixed_with_the_old_one(reader: Reader) -> None:
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


def test_a_bucket_that_refuses_is_told_and_what_was_read_stays(reader: Reader) -> None:
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
    history.first(10)  # asks once
    eventually(lambda: done(history.snapshot))
    before = len(watched.calls)
    time.sleep(0.3)
    assert len(watched.calls) == before


def test_a_sink_without_entries_is_known_and_empty(reader: Reader) -> None:
    made = worked(hours=1)
    for key in list(made.store.objects):
        if "/commits/" in key:
            made.store.delete(key)
    beat(made)
    found = until(reader(made.store, StatePaths("_kafka_s3", "orders")), lambda now: now.number > 0)
    assert (found.total, found.complete, found.known.heartbeat.pid) == (0, True, 7)  # type: ignore[union-attr]


def test_all_sinks_of_a_bucket_are_watched_and_a_refusal_is_told() -> None:
    made = worked(hours=1)
    for key, content in big_log(5, 1, until_ms=START_MS).objects.items():
        made.store.put(key, content)
    watch = Watch(made.store, "_kafka_s3", clock_ms=lambda: START_MS)
    deadline = time.monotonic() + 200
    while not watch.ask(5).looked_ms:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [known.name for known in watch.sight.sinks] == ["big", "orders"]
    watch.close()

    def refuse(_: str) -> None:
        raise StorageError("no")

    refusing = Watch(
        FaultyStore(made.store, [Fault(Verb.LIST, refuse, nth=None)]), "_kafka_s3", clock_ms=lambda: START_MS
    )
    assert refusing.ask(5).trouble == "no"
    refusing.close()
