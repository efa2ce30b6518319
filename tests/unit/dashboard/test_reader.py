"""All that the dashboard reads comes through one reader, which bounds it and knows when nothing comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import ObjectInfo
from kafka_s3_dashboard.reading.reader import CONNECT_S, READ_S, SILENT_S, BucketReader, bounded
from tests.support.clock import Clock


def test_an_object_that_is_too_large_is_refused_by_name() -> None:
    store = MemoryStore()
    store.put("a", b"1234")
    store.put("b", b"12345")
    reader = BucketReader(store, most_bytes=4)
    assert reader.get("a") == b"1234"
    with pytest.raises(StorageError, match="b is larger than the 4 bytes"):
        reader.get("b")
    with pytest.raises(ObjectMissing):
        reader.get("c")
    assert [info.key for info in reader.list("")] == ["a", "b"]
    assert (reader.head("a") is not None, reader.get_range("b", 1, 2)) == (True, b"23")


def test_an_object_without_a_byte_is_empty() -> None:
    class Strict(MemoryStore):
        def get_range(self, key: str, first: int, last: int) -> bytes:
            raise StorageError("GetObject failed with InvalidRange.")

    assert BucketReader(Strict()).get("a") == b""


def test_nothing_is_written_through_it() -> None:
    with pytest.raises(AttributeError, match="only reads"):
        BucketReader(MemoryStore()).put("a", b"")


def test_it_knows_how_long_a_request_has_been_waited_for() -> None:
    clock, seen = Clock(0), []

    class Silent(MemoryStore):
        def get_range(self, key: str, first: int, last: int) -> bytes:
            clock.now += 5
            seen.append(reader.waiting_s)
            return b""

        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            clock.now += 7
            seen.append(reader.waiting_s)
            yield from ()

    reader = BucketReader(Silent(), clock_s=clock)
    reader.get("a")
    assert list(reader.list("")) == []
    assert (seen, reader.waiting_s) == ([5, 7], 0)


def test_requests_give_up_before_anybody_loses_patience() -> None:
    options = bounded(StoreOptions("bucket"))
    assert (options.connect_timeout_s, options.read_timeout_s) == (CONNECT_S, READ_S)
    assert SILENT_S < 2
    assert CONNECT_S <= READ_S < 5
