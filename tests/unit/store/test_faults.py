"""The store that fails on demand fails exactly then."""

from __future__ import annotations

import pytest

from kafka_s3.model.errors import ObjectMissing, StorageUnavailable
from kafka_s3.model.files import Upload
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import Fault, FaultyStore, Moment, failure, lost_answer


def test_a_failure_has_no_effect_and_happens_once() -> None:
    store = FaultyStore(inner := MemoryStore(), [failure("put")])

    with pytest.raises(StorageUnavailable, match="put"):
        store.put("a", b"1")
    assert inner.objects == {}
    store.put("a", b"2")
    assert inner.objects == {"a": b"2"}


def test_a_lost_answer_has_an_effect() -> None:
    store = FaultyStore(inner := MemoryStore(), [lost_answer("put_new")])

    with pytest.raises(StorageUnavailable):
        store.put_new("a", b"1")
    assert inner.objects == {"a": b"1"}


def test_the_nth_call_of_matching_key_fails() -> None:
    store = FaultyStore(inner := MemoryStore(), [failure("put", 2, matches=lambda key: key.startswith("log/"))])
    store.put("log/1", b"")
    store.put("data", b"")
    with pytest.raises(StorageUnavailable):
        store.put("log/2", b"")
    store.put("log/3", b"")

    assert sorted(inner.objects) == ["data", "log/1", "log/3"]


def test_a_fault_without_number_strikes_at_each_call() -> None:
    store = FaultyStore(MemoryStore(), [failure("get", None, error=ObjectMissing("told to"))])

    for _ in range(3):
        with pytest.raises(ObjectMissing, match="told to"):
            store.get("a")


def test_a_strike_may_change_the_world_and_let_the_call_go_on() -> None:
    inner = MemoryStore()
    rival = Fault("put_new", lambda key: inner.put(key, b"rival") and None)
    seen_after: list[bytes] = []
    after = Fault("put", lambda key: seen_after.append(inner.objects[key]), Moment.AFTER)
    store = FaultyStore(inner, [rival, after])

    with pytest.raises(Exception, match="already"):
        store.put_new("log/1", b"mine")
    store.put("b", b"1")
    assert (inner.objects["log/1"], seen_after) == (b"rival", [b"1"])


def test_calls_are_recorded_in_order() -> None:
    store = FaultyStore(MemoryStore())
    upload_id = store.create_upload("data")
    etag = store.upload_part("data", upload_id, 1, b"x")
    store.complete_upload(Upload("data", upload_id, (etag,), 1))
    list(store.list("da"))

    assert store.calls == [
        ("create_upload", "data"),
        ("upload_part", "data"),
        ("complete_upload", "data"),
        ("list", "da"),
    ]


def test_a_misspelt_verb_is_refused() -> None:
    with pytest.raises(ValueError, match="putt"):
        failure("putt")
