"""Do full stretches of the log become tables, which readers take for the entries, and only while they are what was written?"""

from __future__ import annotations

import json
import logging
import random

import numpy as np
import pytest

from kafka_s3.engine.log import log as commit_log
from kafka_s3.engine.log.entry import CommitEntry
from kafka_s3.engine.log.history import entries_of, known_stretches, read_history, tables_of, without_upload_ids
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.reading import Manifest, Stretch, read_entries
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers import log_tables
from kafka_s3.followers.log_tables import STRETCH_ENTRIES, LogTables
from kafka_s3.model.errors import ObjectMissing, StorageUnavailable
from kafka_s3.ops.verify.claims import sums
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectStore
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, Verb, raising
from tests.support.big_log import PARTITIONS, big_log
from tests.support.long_log import stretch_tables
from tests.support.memory_world import START_MS

PATHS = StatePaths("_kafka_s3", "big")
FOLDER = f"{PATHS.root}log/"


@pytest.fixture(scope="module")
def whole() -> MemoryStore:
    """A log of 41 entries with two stretches of 20."""
    store = big_log(41, 2, until_ms=START_MS)
    follow(store)
    return store


@pytest.fixture
def store(whole: MemoryStore) -> MemoryStore:
    copy = MemoryStore(lambda: START_MS)
    for key, content in whole.objects.items():
        copy.put(key, content)
    return copy


def follow(store: ObjectStore, *, follower: LogTables | None = None, times: int = 4) -> list[str]:
    log, reported = CommitLog(store, PATHS, clock_ms=lambda: START_MS), list[str]()
    log.load()
    follower = follower or LogTables(reported.append, most_entries=20)
    for _ in range(times):
        follower.catch_up(log)
    return reported


def history(store: ObjectStore, *, after: int = -1) -> list[CommitEntry]:
    return [without_upload_ids(entry) for entry in read_history(store, PATHS, after=after)]


def entries(store: ObjectStore) -> list[CommitEntry]:
    return [without_upload_ids(entry) for _, entry in read_entries(store, PATHS)]


def gets(store: FaultyStore) -> list[str]:
    return [key for verb, key in store.calls if verb == "get"]


def test_full_stretches_become_tables_and_say_what_the_entries_say(store: MemoryStore) -> None:
    assert [(one.first, one.last) for one in known_stretches(store, PATHS).stretches] == [(0, 19), (20, 39)]
    assert sorted(key for key in store.objects if key.startswith(FOLDER)) == sorted(
        [
            f"{FOLDER}manifest.json",
            *(
                f"{FOLDER}{name}/{first:020d}-{first + 19:020d}.parquet"
                for name in ("entries", "files", "dead_letter_files")
                for first in (0, 20)
            ),
        ]
    )
    watched = FaultyStore(store, [])
    assert history(watched) == entries(store)
    assert len(gets(watched)) == 2 + 2 * 3 + 1  # manifest and what proves it the log's own, tables, the short tail


@pytest.mark.parametrize("after", [18, 19, 30, 39, 40])
def test_history_begins_anywhere(store: MemoryStore, after: int) -> None:
    assert [entry.version for entry in history(store, after=after)] == list(range(after + 1, 41))


def test_a_short_log_costs_no_request(whole: MemoryStore) -> None:
    store = FaultyStore(big_log(STRETCH_ENTRIES - 1, 0, until_ms=START_MS), [])
    log = CommitLog(store, PATHS, clock_ms=lambda: START_MS)
    log.load()
    before = len(store.calls)
    LogTables(print).catch_up(log)
    assert len(store.calls) == before


def test_a_commit_waits_for_a_few_entries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tables, "STEP_ENTRIES", 4)
    store = FaultyStore(big_log(20, 1, until_ms=START_MS), [])
    log = CommitLog(store, PATHS, clock_ms=lambda: START_MS)
    log.load()
    follower = LogTables(print, most_entries=20)
    for _ in range(4):
        follower.catch_up(log)
    assert not [key for verb, key in store.calls if verb == "put"]
    follower.catch_up(log)
    assert [key for verb, key in store.calls if verb == "put"][-1] == f"{FOLDER}manifest.json"


def test_a_stretch_ends_early_where_entries_have_many_files() -> None:
    store, reported = big_log(5, 30, until_ms=START_MS), list[str]()
    follow(store, follower=LogTables(reported.append, most_files=50))
    found = [(one.first, one.last, one.files) for one in known_stretches(store, PATHS).stretches]
    assert found == [(0, 1, 60), (2, 3, 60)]


@pytest.mark.parametrize("failing", ["entries/", "files/", "manifest.json"])
@pytest.mark.parametrize("moment", list(Moment))
def test_a_crash_anywhere_costs_only_the_making_once_more(failing: str, moment: Moment) -> None:
    store = big_log(20, 1, until_ms=START_MS)
    fault = Fault(
        Verb.PUT, raising(StorageUnavailable("gone")), moment, matches=lambda key: f"{FOLDER}{failing}" in key
    )
    faulty = FaultyStore(store, [fault])
    with pytest.raises(StorageUnavailable):
        follow(faulty)
    assert history(store) == entries(store)
    follow(store)
    assert known_stretches(store, PATHS).last == 19
    assert history(store) == entries(store)


@pytest.mark.parametrize("table", ["entries", "files", "dead_letter_files"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_stretch_that_cannot_be_used_is_read_from_its_entries_and_a_line_says_why(
    store: MemoryStore, table: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = PATHS.log_table(table, 0, last=19)
    if how == "missing":
        store.delete(key)
    else:
        store.put(key, store.get(key)[:-10])
    watched = FaultyStore(store, [])
    with caplog.at_level(logging.WARNING):
        assert history(watched) == entries(store)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Commit entries 0 to 19 are read one by one"
    ]
    assert key in caplog.text
    assert FOLDER in caplog.text
    read = [key for key in gets(watched) if "/commits/" in key]
    assert set(map(PATHS.commit, range(20))) < set(read)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 2}', b'{"format": 1, "stretches": [{}]}'])
def test_a_manifest_that_cannot_be_read_is_reported_and_left(
    store: MemoryStore, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(PATHS.log_manifest(), content)
    with caplog.at_level(logging.WARNING):
        assert history(store) == entries(store)
    assert len(caplog.records) == 1
    (reported,) = follow(store)
    assert PATHS.log_manifest() in reported
    assert store.get(PATHS.log_manifest()) == content


def test_tables_of_another_log_are_not_taken_for_this_ones(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    key = PATHS.commit(39)
    store.put(key, store.get(key).replace(b'"commit_id":"commit-39"', b'"commit_id":"another"'))
    with caplog.at_level(logging.WARNING):
        found = history(store)
    assert found[39].commit_id == "another"
    assert "another log" in caplog.text


def test_a_folder_that_was_deleted_is_made_again_by_a_sink_at_work(store: MemoryStore) -> None:
    reported = list[str]()
    follower = LogTables(reported.append, most_entries=20)
    log = CommitLog(store, PATHS, clock_ms=lambda: START_MS)
    log.load()
    follower.catch_up(log)
    for key in [key for key in store.objects if key.startswith(FOLDER)]:
        store.delete(key)
    for entry in list(big_log(60, 2, until_ms=START_MS).objects.items()):
        if entry[0] > PATHS.commit(40) and "/commits/" in entry[0]:
            store.put(*entry)
    follow(store, follower=follower, times=9)
    assert [(one.first, one.last) for one in known_stretches(store, PATHS).stretches] == [(0, 19), (20, 39), (40, 59)]
    assert reported == []


@pytest.mark.parametrize("version", [0, 10])
def test_a_missing_entry_ends_no_stretch(version: int) -> None:
    store, reported = big_log(30, 1, until_ms=START_MS), list[str]()
    log = CommitLog(store, PATHS, clock_ms=lambda: START_MS)
    log.load()
    store.delete(PATHS.commit(version))
    LogTables(reported.append, most_entries=20).catch_up(log)
    assert f"Commit entry {version} is missing" in reported[0]
    assert known_stretches(store, PATHS).last == -1


def test_the_manifest_is_small_and_plain(store: MemoryStore) -> None:
    stretches = json.loads(store.get(PATHS.log_manifest()))["stretches"]
    assert [(one["first"], one["last"], one["rows"]["entries"]) for one in stretches] == [(0, 19, 20), (20, 39, 20)]
    assert len(store.get(PATHS.log_manifest())) < 2 * 700


def test_the_long_log_of_the_measurements_is_what_the_product_makes_of_its_entries() -> None:
    bases = np.zeros(len(PARTITIONS), np.int64)
    found = list(entries_of(stretch_tables(0, 30, files=10, until_ms=START_MS, total=30, bases=bases)[0]))
    again = stretch_tables(0, 30, files=10, until_ms=START_MS, total=30, bases=np.zeros(len(PARTITIONS), np.int64))[0]
    assert all(made.equals(again[name]) for name, made in tables_of(found).items())
    assert [sums(entry) for entry in found] == [[]] * 30
    assert found[-1].progress[PARTITIONS[3]].frontier == bases[3]


class Forger:
    """Changes what lies in the folder of the tables, as its seed says: bytes, whole objects, claims of the manifest."""

    def __init__(self, store: MemoryStore, seed: int) -> None:
        self._store, self._draw = store, random.Random(seed)

    def forge(self) -> None:
        for _ in range(self._draw.randint(1, 3)):
            self._draw.choice([self._flip, self._cut, self._swap, self._copy_back, self._drop, *[self._claim] * 4])()

    def _key(self) -> str:
        return self._draw.choice(sorted(key for key in self._store.objects if key.startswith(FOLDER)))

    def _flip(self) -> None:
        content = bytearray(self._store.get(key := self._key()))
        content[self._draw.randrange(len(content))] ^= 1 << self._draw.randrange(8)
        self._store.put(key, bytes(content))

    def _cut(self) -> None:
        content = self._store.get(key := self._key())
        self._store.put(key, content[: self._draw.randrange(len(content))])

    def _swap(self) -> None:
        one, other = self._key(), self._key()
        first, second = self._store.get(one), self._store.get(other)
        self._store.put(one, second)
        self._store.put(other, first)

    def _copy_back(self) -> None:
        self._store.put(self._key(), self._store.get(self._key()))

    def _drop(self) -> None:
        if len([key for key in self._store.objects if key.startswith(FOLDER)]) > 1:
            self._store.delete(self._key())

    def _claim(self) -> None:
        """Another value for one claim of a stretch; now and then stretches go, come twice, or change places."""
        try:
            document = json.loads(self._store.get(PATHS.log_manifest()))
            stretches = document["stretches"]
            way = self._draw.randrange(5)
            if way == 0:
                stretches.reverse()
            elif way == 1:
                stretches.pop(self._draw.randrange(len(stretches)))
            elif way == 2:
                stretches.append(dict(self._draw.choice(stretches)))
            else:
                one = self._draw.choice(stretches)
                one[self._draw.choice(sorted(one))] = self._draw.choice(
                    [None, -1, 0, 7, 19, 40, 10**9, "x", [], {}, ["a", "b"], 1.5, True]
                )
        except (ObjectMissing, ValueError, KeyError, IndexError, TypeError, AttributeError):
            return  # an earlier change has left nothing to claim
        self._store.put(PATHS.log_manifest(), json.dumps(document).encode())


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in range(25, 1_025, 100))]
)
def test_no_forged_table_or_manifest_changes_what_readers_read(whole: MemoryStore, first: int) -> None:
    truth = entries(whole)
    for seed in range(first, first + (100 if first else 25)):
        store = MemoryStore(lambda: START_MS)
        for key, content in whole.objects.items():
            store.put(key, content)
        Forger(store, seed).forge()
        assert history(store) == truth, f"seed {seed}"
        after = seed % 41
        assert history(store, after=after) == truth[after + 1 :], f"seed {seed}"


@pytest.mark.parametrize("table", ["there", "missing", "far behind"])
def test_of_many_checkpoints_those_beside_the_open_end_are_listed(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "LISTED", 3)
    monkeypatch.setattr(commit_log, "NEAR", 100)
    store = big_log(1050, 0, until_ms=START_MS)
    first = 900 if table == "there" else 0
    ends = Stretch(first, first + 99, ("", ""), ("", ""), 0, {}, {})
    if table != "missing":
        others = (Stretch(0, first - 1, ("", ""), ("", ""), 0, {}, {}),) if first else ()
        store.put(PATHS.log_manifest(), Manifest((*others, ends)).to_json())
    watched = FaultyStore(store, [])
    log = CommitLog(watched, PATHS, clock_ms=lambda: START_MS)
    assert log.load().version == 1049
    assert [key for key in gets(watched) if "/checkpoints/" in key] == [PATHS.checkpoint(999)]
    assert len([key for verb, key in watched.calls if verb == "list" and "/checkpoints/" in key]) == 1 + (
        table == "there"
    )
