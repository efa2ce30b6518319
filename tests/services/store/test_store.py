"""Every store keeps the same contract: one suite, run over all of them."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.model.errors import ObjectMissing, PreconditionFailed, UploadMissing
from kafka_s3.model.files import Upload
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import Credentials, Provider
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import Body, ObjectStore, etag_of
from kafka_s3_testing.faults import FaultyStore
from kafka_s3_testing.services.s3 import ACCESS_KEY, REGION, SECRET_KEY

GATEWAY_KEYS = Credentials(Provider.STATIC, ACCESS_KEY, Secret(SECRET_KEY))
UNLIKE_S3 = ("key_order", "a//b", "other_content")
"""Where versitygw keeps objects as files (no `p/a` beside `p/a/1`), and takes any completion of a key that an earlier one made."""
PART = 5 * 1024 * 1024  # S3's least size of a part that is not the last


@pytest.fixture(params=["memory", "faulty without a plan", "s3", "versitygw"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    if request.param == "versitygw":
        if any(name in request.node.name for name in UNLIKE_S3):
            pytest.skip("versitygw is unlike S3 here")
        server, name = request.getfixturevalue("versitygw"), f"bucket-{uuid.uuid4().hex}"
        server.create_bucket(name)
        open_store = request.getfixturevalue("open_store")
        return open_store(name, server.endpoint_url, region=REGION, credentials=GATEWAY_KEYS)
    if request.param == "s3":
        open_store = request.getfixturevalue("open_store")
        return open_store(request.getfixturevalue("bucket"), request.getfixturevalue("moto_url"))
    return MemoryStore() if request.param == "memory" else FaultyStore(MemoryStore())


def uploaded(store: ObjectStore, key: str, *parts: Body) -> Upload:
    upload_id = store.create_upload(key)
    etags = [store.upload_part(key, upload_id, number, part) for number, part in enumerate(parts, start=1)]
    return Upload(key, upload_id, tuple(etags), sum(map(len, parts)))


def test_what_was_put_is_read_back(store: ObjectStore) -> None:
    etag = store.put("a/b", b"body")

    assert store.get("a/b") == b"body"
    assert etag == hashlib.md5(b"body").hexdigest()


@pytest.mark.parametrize("parts", [[b"begin", b"", b"x" * (3 << 20), b"end"], [b""], []])
def test_what_was_put_as_a_stream_is_read_back(store: ObjectStore, content, parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert store.put("a/b", content(parts)) == hashlib.md5(whole).hexdigest()
    assert store.get("a/b") == whole


def test_a_part_may_be_a_stream(store: ObjectStore, content) -> None:
    pieces = [b"begin", b"", bytes(range(256)) * (9 << 10), b"x" * PART, b"end"]
    upload = uploaded(store, "a", content(pieces), content([b"", b"last"]))
    store.complete_upload(upload)

    assert upload.parts[0] == hashlib.md5(b"".join(pieces)).hexdigest()
    assert store.get("a") == b"".join([*pieces, b"last"])


def test_put_overwrites(store: ObjectStore) -> None:
    store.put("a", b"old")
    store.put("a", b"new")

    assert store.get("a") == b"new"


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing, match="no/such/key"):
        store.get("no/such/key")


def test_head_shows_size_etag_and_time(store: ObjectStore) -> None:
    before = time.time() - 2
    etag = store.put("a", b"12345")
    info = store.head("a")

    assert info is not None
    assert (info.key, info.size, info.etag) == ("a", 5, etag)
    assert before <= info.modified_ms / 1000 <= time.time() + 2


def test_head_of_nothing_is_none(store: ObjectStore) -> None:
    assert store.head("nothing") is None


def test_put_new_writes_once(store: ObjectStore) -> None:
    assert store.put_new("log/1", b"first") == hashlib.md5(b"first").hexdigest()
    with pytest.raises(PreconditionFailed, match="log/1"):
        store.put_new("log/1", b"second")

    assert store.get("log/1") == b"first"


def test_of_sixteen_racers_exactly_one_wins(store: ObjectStore) -> None:
    start, winners, losers = threading.Barrier(16), [], []

    def race(number: int) -> None:
        start.wait()
        try:
            store.put_new("log/7", str(number).encode())
            winners.append(number)
        except PreconditionFailed:
            losers.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(winners) == 1
    assert len(losers) == 15
    assert store.get("log/7") == str(winners[0]).encode()


def test_lists_in_key_order_below_the_prefix(store: ObjectStore) -> None:
    for key in ("p/b", "p/a", "p/a/1", "q", "p"):
        store.put(key, b"x")

    assert [info.key for info in store.list("p/")] == ["p/a", "p/a/1", "p/b"]
    assert [info.size for info in store.list("p/")] == [1, 1, 1]
    assert list(store.list("nothing/")) == []


def test_names_are_those_directly_below_a_folder(store: ObjectStore) -> None:
    for key in ("p/b/1", "p/b/2", "p/a", "p/a-b/1", "p/😀/1", "q/1"):
        store.put(key, b"x")

    assert list(store.names("p/")) == ["a", "a-b/", "b/", "😀/"]
    assert list(store.names("nothing/")) == []


def test_lists_from_after_a_key(store: ObjectStore) -> None:
    for number in range(5):
        store.put(f"log/{number:020d}.json", b"{}")

    keys = [info.key for info in store.list("log/", start_after=f"log/{2:020d}.json")]
    assert keys == [f"log/{3:020d}.json", f"log/{4:020d}.json"]


@pytest.mark.parametrize("key", ["a b+c/d%2Fe", "year=2026/x&y=1", "ü/日本", "dots..and~tilde", "a//b"])
def test_keys_keep_their_characters(store: ObjectStore, key: str) -> None:
    store.put(key, b"1")

    assert store.get(key) == b"1"
    assert [info.key for info in store.list("")] == [key]


def test_deleting_twice_is_no_error(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.delete("a")
    store.delete("a")

    assert store.head("a") is None


def test_an_upload_is_invisible_until_completed(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")

    assert store.head("data") is None
    assert list(store.list("")) == []
    assert store.upload_exists("data", upload.id)

    store.complete_upload(upload)
    assert store.get("data") == b"body"
    assert not store.upload_exists("data", upload.id)


def test_parts_are_joined_in_order_and_the_etag_is_predicted(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"a" * PART, b"b" * PART, b"tail")
    store.complete_upload(upload)

    info = store.head("data")
    assert info is not None
    assert (info.size, info.etag) == (upload.size, etag_of(upload.parts))
    assert info.etag.endswith("-3")
    assert store.get("data")[PART - 1 : PART + 1] == b"ab"


def test_an_upload_of_one_empty_part_makes_an_empty_object(store: ObjectStore) -> None:
    store.complete_upload(uploaded(store, "data", b""))

    assert store.get("data") == b""


def test_a_part_sent_again_replaces_the_first(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"wrong")
    etag = store.upload_part("data", upload.id, 1, b"right")
    store.complete_upload(replace(upload, parts=(etag,)))

    assert store.get("data") == b"right"


def test_completing_twice_is_no_error(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")
    store.complete_upload(upload)
    store.complete_upload(upload)

    assert store.get("data") == b"body"


def test_completing_an_aborted_upload_says_so(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")
    store.abort_upload("data", upload.id)

    with pytest.raises(UploadMissing, match="data"):
        store.complete_upload(upload)
    assert store.head("data") is None


def test_an_object_of_other_content_does_not_pass_for_the_completed_one(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")
    store.abort_upload("data", upload.id)
    store.complete_upload(uploaded(store, "data", b"BODY"))

    with pytest.raises(UploadMissing):
        store.complete_upload(upload)


def test_completing_overwrites_an_object(store: ObjectStore) -> None:
    store.put("data", b"old")
    store.complete_upload(uploaded(store, "data", b"new"))

    assert store.get("data") == b"new"


def test_completing_with_parts_that_were_not_sent_is_refused(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")

    with pytest.raises(UploadMissing):  # what is to be completed is not there: another driver sent other parts into it
        store.complete_upload(replace(upload, parts=("0" * 32,)))
    assert store.head("data") is None


def test_two_uploads_of_one_key_are_apart(store: ObjectStore) -> None:
    first, second = uploaded(store, "data", b"first"), uploaded(store, "data", b"second")
    store.abort_upload("data", first.id)
    store.complete_upload(second)

    assert store.get("data") == b"second"


def test_aborting_twice_is_no_error(store: ObjectStore) -> None:
    upload = uploaded(store, "data", b"body")
    store.abort_upload("data", upload.id)
    store.abort_upload("data", upload.id)

    assert not store.upload_exists("data", upload.id)


def test_an_upload_that_never_was_does_not_exist(store: ObjectStore) -> None:
    assert not store.upload_exists("data", "never-begun")


def test_tagging_nothing_is_an_error(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing, match="nothing"):
        store.tag("nothing", {"a": "b"})


def test_tagging_leaves_the_object_as_it_is(store: ObjectStore) -> None:
    store.complete_upload(uploaded(store, "data", b"body"))
    store.tag("data", {"startOffset": "0", "endOffset": "9", "recordCount": "10"})

    assert store.get("data") == b"body"


def test_a_store_serves_many_threads(store: ObjectStore) -> None:
    def write(number: int) -> None:
        store.complete_upload(uploaded(store, f"t/{number}", str(number).encode()))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {info.key for info in store.list("t/")} == {f"t/{number}" for number in range(12)}


def test_the_etag_of_parts_matches_one_computed_by_hand() -> None:
    halves = [hashlib.md5(b"a"), hashlib.md5(b"b")]

    assert etag_of([half.hexdigest() for half in halves]) == (
        hashlib.md5(halves[0].digest() + halves[1].digest()).hexdigest() + "-2"
    )


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.binary()), st.text(max_size=2)
)
def test_the_memory_store_lists_in_the_order_of_utf8_bytes(objects: dict[str, bytes], prefix: str) -> None:
    if not prefix.isascii():
        prefix = ""
    store = MemoryStore(clock_ms=lambda: 5)
    for key, data in objects.items():
        store.put(key, data)

    wanted = sorted((key for key in objects if key.startswith(prefix)), key=str.encode)
    assert [info.key for info in store.list(prefix)] == wanted
    for position, key in enumerate(wanted):
        assert [info.key for info in store.list(prefix, start_after=key)] == wanted[position + 1 :]


def test_the_memory_store_takes_its_clock_and_shows_its_inside() -> None:
    store = MemoryStore(clock_ms=lambda: 1_700_000_000_000)
    upload = uploaded(store, "data", b"ab", b"c")

    assert store.uploads[upload.id].parts == {1: b"ab", 2: b"c"}
    store.complete_upload(upload)
    store.tag("data", {"k": "v"})

    assert (store.uploads, store.objects, store.tags) == ({}, {"data": b"abc"}, {"data": {"k": "v"}})
    info = store.head("data")
    assert info is not None
    assert info.modified_ms == 1_700_000_000_000


def test_the_memory_store_refuses_parts_for_an_aborted_upload_or_another_key() -> None:
    store = MemoryStore()
    upload_id = store.create_upload("data")
    with pytest.raises(UploadMissing, match="other"):
        store.upload_part("other", upload_id, 1, b"")
    store.abort_upload("data", upload_id)
    with pytest.raises(UploadMissing, match="data"):
        store.upload_part("data", upload_id, 1, b"")


def test_overwriting_an_object_drops_its_tags() -> None:
    store = MemoryStore()
    store.put("data", b"1")
    store.tag("data", {"k": "v"})
    store.put("data", b"2")

    assert store.tags == {}
