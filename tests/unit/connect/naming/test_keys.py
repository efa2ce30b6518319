"""Objects are called as the original calls them (SEMANTICS A4), and their keys say what they were made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.naming.keys import BlockNames, ConnectNames, DateLayout, ObjectKey
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.offsets import TopicPartition

EVENTS = TopicPartition("events", 0)
CONNECT = ConnectNames("topics", "/", "+", 10)
START_MS = 1_705_312_800_000


@pytest.mark.parametrize(
    ("naming", "directory", "offset", "key"),
    [
        (
            ConnectNames("topics", "/", "+", 10),
            "year=2024/month=01",
            0,
            "topics/events/year=2024/month=01/events+0+0000000000.json",
        ),
        (
            ConnectNames("topics", "/", "+", 10),
            "partition=0",
            12345678901,
            "topics/events/partition=0/events+0+12345678901.json",
        ),
        (ConnectNames("topics", "/", "+", 1), "partition=0", 7, "topics/events/partition=0/events+0+7.json"),
        (ConnectNames("", "/", "+", 10), "d=", 7, "events/d=/events+0+0000000007.json"),
        (ConnectNames("  ", "/", "+", 10), "d=", 7, "events/d=/events+0+0000000007.json"),
        (ConnectNames("a/b/", "/", "+", 2), "d=x y%", 7, "a/b//events/d=x y%/events+0+07.json"),
        (ConnectNames("topics", "_", "-", 4), "d=x", 7, "topics_events_d=x_events-0-0007.json"),
    ],
)
def test_the_key_of_a_file(naming: ConnectNames, directory: str, offset: int, key: str) -> None:
    assert naming.key(EVENTS, directory, offset=offset, extension=".json") == key


def test_the_state_lies_below_the_prefix_and_sorts_by_version() -> None:
    paths = StatePaths("/_kafka_s3/", "orders")

    assert paths.root == "_kafka_s3/orders/"
    assert sorted(map(paths.commit, [10, 9, 100])) == [paths.commit(9), paths.commit(10), paths.commit(100)]
    assert paths.checkpoint(99) == "_kafka_s3/orders/checkpoints/00000000000000000099.json"
    assert paths.dead_letters(EVENTS, 7) == "_kafka_s3/orders/dead-letters/events/events+0+0000000007.jsonl.gz"


NAMES = st.text(st.sampled_from("ab0-._"), min_size=1, max_size=6)
ENCODED = st.text(st.sampled_from("ab0-._=/+ %é\n"), max_size=12)
NAMINGS = st.builds(
    ConnectNames,
    st.sampled_from(["topics", "", "  ", "a/b/", "a+0"]),
    st.sampled_from(["/", "|", "//"]),
    st.sampled_from(["+", "-", "_", "~~", "."]),
    st.integers(1, 14),
)
OFFSETS = st.one_of(st.integers(0, 10**4), st.integers(0, 2**63 - 1))


@given(
    NAMINGS,
    NAMES,
    st.integers(0, 2000),
    ENCODED,
    OFFSETS,
    st.sampled_from([".json", ".json.gz", ".snappy.parquet"]),
)
def test_reading_a_key_gives_what_it_was_made_of(
    naming: ConnectNames, topic: str, partition: int, directory: str, offset: int, extension: str
) -> None:
    tp = TopicPartition(topic, partition)
    key = naming.key(tp, directory, offset=offset, extension=extension)
    assert naming.read_own(key, [topic], extension=extension) == ObjectKey(tp, directory, offset, extension)
    assert naming.owner(key, [topic]) == tp
    assert key.startswith(naming.prefix_of(topic))


@pytest.mark.parametrize(
    "key",
    [
        "topics/orders/partition=0/orders+0+0000000000.keys.json",
        "topics/orders/partition=0/orders+0+0000000000.headers.json",
        "topics/orders/partition=0/orders+0+0000000000.json.gz",
        "topics/orders/partition=0/orders+0+000000000.json",
        "topics/orders/partition=0/orders+0+00000000000.json",
        "topics/orders/partition=0/orders+00+0000000000.json",
        "topics/orders/partition=0/other+0+0000000000.json",
        "topics/orders/orders+0+0000000000.json",
        "topics/other/partition=0/other+0+0000000000.json",
        "topics/orders/partition=0/_SUCCESS",
    ],
)
def test_other_objects_are_left_aside(key: str) -> None:
    assert CONNECT.read_own(key, ["orders"], extension=".json") is None


def test_of_two_topics_the_longer_one_that_fits_is_meant() -> None:
    naming = ConnectNames("topics", "_", "-", 3)
    key = naming.key(TopicPartition("a_a", 0), "d", offset=7, extension=".json")
    found = naming.read_own(key, ["a", "a_a"], extension=".json")
    assert found is not None
    assert found.topic_partition.topic == "a_a"


TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True)
DIRECTORIES = st.lists(st.from_regex(r"[a-z0-9=.+-]{1,8}", fullmatch=True), max_size=3).map("/".join)


@given(
    topic=TOPICS,
    directory=DIRECTORIES,
    partition=st.integers(0, 10**5),
    offset=st.integers(0, 10**12),
    extension=st.sampled_from([".json", ".json.gz", ".snappy.parquet", ".keys.avro", ".bin", ""]),
    topics_dir=st.sampled_from(["topics", "", "a/b", "topics/"]),
)
def test_every_key_that_a_sink_gives_is_known_as_its_own_and_as_no_other_topics(
    topic: str, directory: str, partition: int, offset: int, extension: str, topics_dir: str
) -> None:
    keys = ConnectNames(topics_dir, "/", "+", 10)
    key = keys.key(TopicPartition(topic, partition), directory, offset=offset, extension=extension)
    assert key.startswith(keys.prefixes([topic]))
    assert keys.owner(key, [topic]) is not None
    assert keys.owner(key, [f"{topic}x", f"x{topic}"]) is None


@pytest.mark.parametrize("layout", DateLayout)
@pytest.mark.parametrize("prefix", ["", "logs", "logs/"])
def test_the_objects_of_a_block_gzip_sink_are_known_by_its_own_layout(layout: DateLayout, prefix: str) -> None:
    keys, place = BlockNames(prefix, layout, now_ms=START_MS), TopicPartition("orders-eu", 3)
    made = [keys.key(place, "", offset=7, extension=e) for e in (".gz", ".index.json")] + [keys.pointer_key(place)]
    other = BlockNames(prefix, next(one for one in DateLayout if one is not layout), now_ms=START_MS)
    for key in made:
        assert key.startswith(keys.prefixes(["orders-eu"]))
        assert keys.owner(key, ["orders-eu", "orders"]) is not None
        assert keys.owner(key, ["orders", "eu"]) is None
    assert keys.owner(other.key(place, "", offset=7, extension=".gz"), ["orders-eu"]) is None
    assert keys.owner(f"{prefix}backup.txt", ["orders-eu"]) is None
