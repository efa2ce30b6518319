"""A log of the first release is read for ever, and what is newer than this version is refused with what to install.

`first_release.zip` is a bucket as the first release left it: every kind of entry, a file that waits, a checkpoint, two closed stretches as
tables, dead letters that were replayed and settled, kept open files. Its bytes are never made anew.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from kafka_s3 import __version__
from kafka_s3.engine.log.dead_letters import LetterSelection, letters, read_ledger
from kafka_s3.engine.log.entry import EntryKind, Swap, read_entry
from kafka_s3.engine.log.fold import live_objects, read_checkpoint
from kafka_s3.engine.log.formats import NEWEST_FORMAT
from kafka_s3.engine.log.history import closed_stretches, read_history
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.reading import read_entries, read_manifest
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.errors import LogDamaged
from kafka_s3.model.files import Totals
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.store.memory import MemoryStore
from tests.support.memory_world import rows

PATHS = StatePaths("_kafka_s3", "orders")
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
KINDS = [
    "epoch",
    "position",
    "data",
    "data",
    "epoch",
    "replay",
    "epoch",
    "replay",
    "epoch",
    "position",
    "epoch",
    "data",
    "data",
]
LAST = 12


@pytest.fixture
def bucket() -> MemoryStore:
    store = MemoryStore()
    with zipfile.ZipFile(Path(__file__).with_name("first_release.zip")) as found:
        for key in found.namelist():
            store.put(key, found.read(key))
    return store


def without_checkpoint(store: MemoryStore) -> MemoryStore:
    store.delete(PATHS.checkpoint(LAST))
    return store


def test_its_entries_say_what_they_said(bucket: MemoryStore) -> None:
    entries = [entry for _, entry in read_entries(bucket, PATHS)]
    assert [str(entry.kind) for entry in entries] == KINDS
    assert [len(entry.files) for entry in entries] == [0, 0, 6, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1]
    assert [one.version for one in entries[-1].waiting] == [11, 11]
    assert entries[5].reason == "no order"
    assert entries[7].resolved == {tp: OffsetSet(((2, 2),)) for tp in (FIRST, SECOND)}


def test_its_entries_are_written_as_they_were(bucket: MemoryStore) -> None:
    for key, entry in read_entries(bucket, PATHS):
        assert entry.to_json() == bucket.get(key)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_its_state_is_what_it_was(bucket: MemoryStore, checkpoint: bool) -> None:
    log = CommitLog(bucket if checkpoint else without_checkpoint(bucket), PATHS, clock_ms=lambda: 0)
    state = log.load()
    assert (state.version, state.epoch, state.cluster_id, state.topic_ids) == (
        LAST,
        5,
        "memory",
        {"orders": "id-orders"},
    )
    assert state.frontier == {FIRST: 16, SECOND: 7}
    assert state.progress[SECOND].recorded == OffsetSet(((7, 7),))
    assert state.totals == Totals(read=30, written=24, dead_letters=4, skipped=2, files=10, bytes=222)
    assert (dict(state.replaced), state.rewritten) == ({}, False)
    assert log.last == read_entry(bucket.get(PATHS.commit(LAST)), key="last")


def test_its_tables_are_read_as_its_entries(bucket: MemoryStore) -> None:
    assert [stretch.last for stretch in read_manifest(bucket, PATHS).stretches] == [4, 9]
    assert all(tables is not None for _, tables in closed_stretches(bucket, PATHS))
    read = [(entry.kind, entry.totals, [file.key for file in entry.files]) for entry in read_history(bucket, PATHS)]
    entries = (entry for _, entry in read_entries(bucket, PATHS))
    assert read == [(entry.kind, entry.totals, [file.key for file in entry.files]) for entry in entries]


def test_the_objects_that_count_are_those_that_counted(bucket: MemoryStore) -> None:
    live = live_objects(read_history(bucket, PATHS))
    waiting = {one.file.key for one in read_entry(bucket.get(PATHS.commit(LAST)), key="last").waiting}
    found: dict[int, list[int]] = {0: [], 1: []}
    for key, one in live.items():
        if key.startswith("topics/") and key not in waiting:
            held = [number(row) for row in rows(key, bucket.get(key))]
            found[one.file.partition] += [n for n in held if one.until is None or n < one.until]
    assert {partition: sorted(held) for partition, held in found.items()} == {
        0: [0, 1, 2, 4, 5, 6, 8, *range(10, 16)],
        1: [0, 1, 2],
    }


def number(row: object) -> int:
    """What was not a JSON at first was replayed as a text."""
    return row["n"] if isinstance(row, dict) else int(str(row).removeprefix("text "))


def test_its_dead_letters_are_what_became_of_them(bucket: MemoryStore) -> None:
    found = letters(read_ledger(bucket, PATHS), bucket, selection=LetterSelection(), missing=lambda one: None)
    states = {(one.letter.partition, one.letter.offset): str(one.state) for one in found}
    assert states[0, 2] == states[1, 2] == "replayed"
    assert states[0, 7] == "resolved"


# ------------------------------------------------------------ what is newer


def as_newer(content: bytes, product: str = "9.1.0") -> bytes:
    """A later version's, with members that nobody knows today."""
    document = {**json.loads(content), "format": NEWEST_FORMAT + 1, "leases": []}
    return json.dumps(document | ({"product": product} if product else {})).encode()


@pytest.mark.parametrize("key", [PATHS.commit(LAST), PATHS.checkpoint(LAST)])
def test_an_object_of_a_later_version_is_refused_with_what_to_install(bucket: MemoryStore, key: str) -> None:
    bucket.put(key, as_newer(bucket.get(key)))
    log = CommitLog(bucket if "checkpoints" in key else without_checkpoint(bucket), PATHS, clock_ms=lambda: 0)
    with pytest.raises(LogDamaged) as refused:
        log.load()
    assert str(refused.value).endswith(
        f"{key} has format {NEWEST_FORMAT + 1}, written by kafka-s3 9.1.0; this version ({__version__}) reads up to {NEWEST_FORMAT}. "
        "Upgrade kafka-s3: install kafka-s3 9.1.0 or later."
    )


def test_a_later_object_that_does_not_name_its_version_is_refused_too(bucket: MemoryStore) -> None:
    with pytest.raises(LogDamaged, match="Upgrade kafka-s3: install the newest kafka-s3"):
        read_entry(as_newer(bucket.get(PATHS.commit(0)), product=""), key="x")


def test_tables_of_a_later_version_are_left_and_the_entries_are_read(bucket: MemoryStore) -> None:
    bucket.put(PATHS.log_manifest(), as_newer(bucket.get(PATHS.log_manifest())))
    with pytest.raises(LogDamaged, match=r"install kafka-s3 9\.1\.0 or later"):
        read_manifest(bucket, PATHS)
    assert len(list(read_history(bucket, PATHS))) == LAST + 1


def test_an_entry_that_rewrites_has_a_form_that_earlier_versions_refuse_and_its_checkpoints_too(
    bucket: MemoryStore,
) -> None:
    log = CommitLog(bucket, PATHS, clock_ms=lambda: 0)
    log.load()
    swap = Swap(FIRST, ("topics/orders/partition=0/orders+0+0000000000.json",), "", 3)
    entry = log.new_entry(EntryKind.REWRITE, swaps=(swap,), erased={FIRST: OffsetSet(((0, 2),))}, reason="erasure")
    stored = json.loads(entry.to_json())
    assert (stored["format"], stored["product"]) == (3, __version__)
    assert read_entry(entry.to_json(), key="x") == entry

    log.append(entry)
    log.append(log.new_entry(EntryKind.EPOCH))
    assert json.loads(bucket.get(PATHS.commit(log.state.version)))["format"] == 1
    log._checkpointed = -200
    log.checkpoint()
    content = bucket.get(PATHS.checkpoint(log.state.version))
    assert json.loads(content)["format"] == 3
    assert read_checkpoint(content, key="x")[0] == log.state
