"""What verify keeps of a long log outside of the memory, or in a few bytes, is what it would have kept whole."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.engine.log.fold import Segment
from kafka_s3.engine.log.incarnations import Reset
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.engine.log.spill import SegmentStore
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.followers.log_tables import LogTables
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.verify.claims import ClaimedKeys, Claims, Overlaps, claimed_twice, read_claims
from kafka_s3.store.store import ObjectInfo
from kafka_s3_testing.faults import FaultyStore
from tests.support.big_log import big_log
from tests.support.examples import examples
from tests.support.memory_world import START_MS

PATHS = StatePaths("_kafka_s3", "big")
PLACES = [TopicPartition("orders", number) for number in range(3)]


def file(key: str, first: int, last: int, role: Role = Role.VALUE) -> DataFile:
    parts = ("0" * 32,)
    return DataFile(
        key, "orders", 0, first, last, 1, 7, None, 5, "hour=01", "s", "json", Reason.SCHEMA, Upload(key, "id", parts, 7), role
    )  # fmt: skip


segments = st.builds(
    Segment,
    st.sampled_from(PLACES),
    st.integers(0, 9),
    st.just("2024-01-15T10:00:00Z"),
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(
        st.builds(file, st.text(max_size=3), st.integers(0, 9), st.integers(0, 9), st.sampled_from(Role)), max_size=3
    ).map(tuple),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
    resolved=st.sampled_from([None, OffsetSet(((1, 2),))]),
)
resets = st.builds(
    Reset, st.sampled_from(PLACES), st.just(1), st.none() | st.integers(0, 20), st.integers(0, 20), st.just(OffsetSet()),
    st.none() | st.integers(0, 20),
)  # fmt: skip


@given(steps=st.lists(segments | resets, max_size=12), held_bytes=st.integers(1, 4000))
@settings(max_examples=examples(60))
def test_segments_on_disk_are_those_that_were_added(steps: list[Segment | Reset], held_bytes: int) -> None:
    store, plain = SegmentStore(held_bytes), dict[TopicPartition, list[Segment]]()
    for step in steps:
        own = plain.setdefault(step.topic_partition, [])
        if isinstance(step, Segment):
            store.add(step)
            own.append(step)
            continue
        store.reset(step)
        back = step.recreated or (step.before is not None and step.frontier < step.before)
        plain[step.topic_partition] = [
            replace(
                one,
                superseded=True,
                read_again=(step.cut is None or step.cut >= one.until) and (one.read_again or not one.superseded),
            )
            if back and (step.recreated or one.until > step.frontier)
            else one
            for one in own
        ]
    assert {tp: list(store.of(tp)) for tp in store} == plain


keys = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), max_size=12)


@given(
    claims=keys,
    listing=st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 2), st.sampled_from("xy"))),
)
@settings(max_examples=examples(60))
def test_keys_are_distinguished_by_their_digests(
    claims: list[tuple[str, int]], listing: dict[str, tuple[int, str]]
) -> None:
    claimed, last = ClaimedKeys(), dict(claims)
    for key, version in claims:
        claimed.add(key, version)
    claimed.close()
    found = claimed.note_listing([ObjectInfo(key, size, etag, 0) for key, (size, etag) in listing.items()])
    assert [info.key for info in found] == [key for key in listing if key not in last]
    for key, version in claims:
        assert claimed.is_last_claim(key, version) == (last[key] == version)
    for key in "abcdefgh":
        assert (key in claimed) == (key in last)
        assert claimed.is_listed(key, 1, etag="x") == (key in last and listing.get(key) == (1, "x"))
        assert claimed.is_listed(key, 1, etag=None) == (key in last and listing.get(key, (0,))[0] == 1)


def test_files_of_one_directory_that_overlap_are_found_wherever_they_are() -> None:
    def found(*several: list[DataFile]) -> list[str]:
        overlaps = Overlaps(lambda file: file.topic)
        return [
            finding.place
            for number, files in enumerate(several)
            for finding in overlaps.within(Segment(PLACES[0], number, "", 0, 99, tuple(files)))
        ]

    assert found([file("a", 0, 5)], [file("b", 6, 9)]) == []
    assert found([file("a", 0, 5), file("b", 5, 9)]) == ["b"]
    assert found([file("a", 0, 9)], [file("b", 10, 12)], [file("c", 11, 12)]) == ["c"]
    assert found([file("a", 0, 50), file("b", 1, 2)], [file("c", 50, 60)]) == ["b", "c"]
    assert found([file("a", 10, 12)], [file("b", 0, 5)]) == []  # the log went back where it may not: another finding
    assert found([file("a", 0, 5)], [replace(file("b", 3, 4), encoded_partition="hour=02")]) == []


def test_claims_are_the_same_from_tables_and_from_entries() -> None:
    store = big_log(41, 2, until_ms=START_MS)
    before = read_claims(store, PATHS)
    log = CommitLog(store, PATHS, clock_ms=lambda: START_MS)
    log.load()
    follower = LogTables(print, most_entries=20)
    for _ in range(3):
        follower.catch_up(log)
    watched = FaultyStore(store, [])
    after = read_claims(watched, PATHS)
    assert facts(after) == facts(before)
    assert (
        sum("/commits/" in key for verb, key in watched.calls if verb == "get") == 2
    )  # what proves the tables, and the tail


def facts(claims: Claims) -> object:
    segments = {tp: [_without_ids(segment) for segment in claims.segments.of(tp)] for tp in claims.segments}
    findings = [*claims.findings, *claimed_twice(claims)]
    return claims.entries, claims.last_version, claims.fold.frontier, claims.begins, segments, findings


def _without_ids(segment: Segment) -> Segment:
    return replace(segment, files=tuple(replace(one, upload=replace(one.upload, id="")) for one in segment.files))
