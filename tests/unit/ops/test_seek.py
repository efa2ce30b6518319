"""Names, indexes, and reading records by their offset."""

from __future__ import annotations

import datetime
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kafka_s3.cli.seek import seek, show
from kafka_s3.connect.naming.keys import (
    INDEX_EXTENSION,
    BlockNames,
    DateLayout,
    ObjectKey,
    ObjectNames,
    index_key_of,
    read_block_key,
)
from kafka_s3.connect.records.values import Plain
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip import BlockGzipFile
from kafka_s3.objects.block_gzip_form import (
    BlockGzip,
    BlockIndex,
    Delimited,
    Framing,
    IndexDamaged,
    Lines,
    Prefixed,
    block_of,
    parse_index,
    resume_offset,
)
from kafka_s3.ops.seek import Located, SeekError, locate, records_from, split_records
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.store import ObjectInfo
from tests.support.memory_world import ORDERS, World

EVENTS = TopicPartition("system-test", 0)
DAY = datetime.date(2016, 2, 24)
NAMES = BlockNames("systest")


class Watched:
    """A bucket that notes which ranges were asked for."""

    def __init__(self) -> None:
        self.bucket = MemoryStore()
        self.ranges: list[str] = []

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self.bucket.list(prefix, start_after=start_after)

    def get(self, key: str) -> bytes:
        return self.bucket.get(key)

    def get_range(self, key: str, first: int, last: int) -> bytes:
        self.ranges.append(f"bytes={first}-{last}")
        return self.bucket.get(key)[first : last + 1]


def record(offset: int) -> bytes:
    return f"record {offset:04d} xxxxxxxxxxxxxxxxxxxx".encode()


def put_file(
    store: Watched,
    start: int,
    until: int,
    *,
    names: BlockNames = NAMES,
    day: datetime.date = DAY,
    framing: Framing = Lines(),  # noqa: B008
    mark: bytes = b"",
) -> str:
    """Three records per block; returns the data object's key."""
    encoder = BlockGzipFile(None, variant=BlockGzip(framing, 3 * (33 + len(mark))))
    values = [record(offset) + mark for offset in range(start, until)]
    encoder.append_keyed(Plain(pa.array(values, pa.binary())), [b"key"] * len(values))
    encoder.finish()
    key = names.key_of_day(EVENTS, start, day=day)
    store.bucket.put(key, encoder.take())
    store.bucket.put(index_key_of(key), encoder.index(start))
    return key


def read(store: Watched, offset: int, count: int | None = 1, framing: Framing = Lines()) -> list[tuple[int, bytes]]:  # noqa: B008
    return list(records_from(store, "systest", topic_partition=EVENTS, offset=offset, framing=framing, count=count))


def find(store: Watched, offset: int, prefix: str = "systest") -> Located:
    return locate(store, prefix, topic_partition=EVENTS, offset=offset)


@pytest.fixture
def store() -> Watched:
    found = Watched()
    put_file(found, 500, 512)
    return found


# names


def test_names_are_those_of_the_original() -> None:
    assert NAMES.key_of_day(EVENTS, 0, day=DAY) == "systest/2016-02-24/system-test-00000-000000000000.gz"
    assert (
        NAMES.key_of_day(EVENTS, 100, day=DAY, extension=INDEX_EXTENSION)
        == "systest/2016-02-24/system-test-00000-000000000100.index.json"
    )
    assert NAMES.pointer_key(EVENTS) == "systest/last_chunk_index.system-test-00000.txt"
    assert BlockNames("").key_of_day(EVENTS, 0, day=DAY) == "2016-02-24/system-test-00000-000000000000.gz"
    assert BlockNames("a/").pointer_key(EVENTS) == "a/last_chunk_index.system-test-00000.txt"


def test_the_later_forks_names_begin_with_the_topic() -> None:
    names = BlockNames("p", DateLayout.BY_TOPIC)
    assert names.key_of_day(EVENTS, 7, day=DAY) == "p/system-test/2016-02-24/00000-000000000007.gz"
    assert names.pointer_key(EVENTS) == "p/system-test/last_chunk_index.00000.txt"


def test_wider_numbers_are_not_cut() -> None:
    wide = TopicPartition("t", 123456)
    key = BlockNames().key_of_day(wide, 1234567890123, day=DAY)
    assert key == "2016-02-24/t-123456-1234567890123.gz"
    assert read_block_key(key, "") == ObjectKey(wide, DAY.isoformat(), 1234567890123, ".gz")


@given(
    topic=st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    partition=st.integers(0, 10**6),
    offset=st.integers(0, 10**14),
    day=st.dates(datetime.date(1970, 1, 1)),
    prefix=st.sampled_from(["", "p", "p/", "a/b-00001-000000000001.gz/", "2020-01-01"]),
    layout=st.sampled_from(list(DateLayout)),
)
def test_every_data_key_says_what_it_was_made_of(
    topic: str, partition: int, offset: int, day: datetime.date, prefix: str, layout: DateLayout
) -> None:
    key = BlockNames(prefix, layout).key_of_day(TopicPartition(topic, partition), offset, day=day)
    assert read_block_key(key, prefix) == ObjectKey(TopicPartition(topic, partition), day.isoformat(), offset, ".gz")


@pytest.mark.parametrize(
    "key",
    [
        "systest/2016-02-24/system-test-00000-000000000000.index.json",
        "systest/last_chunk_index.system-test-00000.txt",
        "systest/2016-13-24/system-test-00000-000000000000.gz",
        "systest/2016-02-24/system-test-0-0.gz",
        "systest/2016-02-24/system-test-00000-0000000000000.gz",
        "systest/2016-02-24/deeper/system-test-00000-000000000000.gz",
        "other/2016-02-24/system-test-00000-000000000000.gz",
    ],
)
def test_other_keys_are_no_data_keys(key: str) -> None:
    assert read_block_key(key, "systest") is None


def test_the_day_of_an_upload_is_that_of_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    late = 1456354800000  # 2016-02-24T23:00:00Z
    utc: ObjectNames = NAMES
    assert (
        utc.at_time(late).key(EVENTS, "", offset=5, extension=".gz")
        == "systest/2016-02-24/system-test-00000-000000000005.gz"
    )
    east = replace(NAMES, zone=datetime.timezone(datetime.timedelta(hours=2))).at_time(late)
    key = east.key(EVENTS, "", offset=5, extension=".gz")
    assert key == "systest/2016-02-25/system-test-00000-000000000005.gz"
    assert east.pointer(EVENTS, key) == (
        "systest/last_chunk_index.system-test-00000.txt",
        b"systest/2016-02-25/system-test-00000-000000000005.index.json",
    )
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        local = replace(NAMES, zone=None).at_time(late).key(EVENTS, "", offset=5, extension=".gz")
    time.tzset()
    assert local == key


# indexes


def test_an_index_gives_blocks_by_offset_and_where_to_resume(store: Watched) -> None:
    index = find(store, 500).index
    assert resume_offset(index) == 512
    block = block_of(index, 505)
    assert block is not None
    assert (block.first_record_offset, block.num_records) == (503, 3)
    assert (block_of(index, 499), block_of(index, 512)) == (None, None)


GOOD = {"byte_length_uncompressed": 9, "num_records": 3, "byte_length": 29, "byte_offset": 0, "first_record_offset": 10}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", 'no list "chunks"'),
        (b'{"chunks": []}', 'no list "chunks"'),
        (b'{"chunks": [7]}', "block 0 has no whole number byte_length_uncompressed"),
        (json.dumps({"chunks": [{**GOOD, "num_records": True}]}).encode(), "block 0 has no whole number num_records"),
        (json.dumps({"chunks": [{**GOOD, "byte_length": -1}]}).encode(), "block 0 has no whole number byte_length"),
        (json.dumps({"chunks": [{**GOOD, "byte_offset": 1}]}).encode(), "first block begins at byte 1"),
        (json.dumps({"chunks": [GOOD, GOOD]}).encode(), "block 1 does not begin at the byte"),
        (json.dumps({"chunks": [GOOD, {**GOOD, "byte_offset": 29}]}).encode(), "block 1 begins before offset 13"),
        (json.dumps({"chunks": [{**GOOD, "spans": [[10, 2]]}]}).encode(), "the spans of block 0 are not its 3 records"),
        (
            json.dumps({"chunks": [{**GOOD, "spans": [[10, 2], [11, 1]]}]}).encode(),
            "the spans of block 0 do not ascend",
        ),
        (json.dumps({"chunks": [{**GOOD, "spans": [10, 3]}]}).encode(), "block 0 has spans that are not pairs"),
        (json.dumps({"chunks": [{**GOOD, "spans": [[10, "3"]]}]}).encode(), "block 0 has spans that are not pairs"),
    ],
)
def test_a_damaged_index_says_what_is_wrong_with_it(content: bytes, why: str) -> None:
    with pytest.raises(IndexDamaged, match=r"The index p/x\.index\.json is damaged") as caught:
        parse_index(content, "p/x.index.json")
    assert why in str(caught.value)


def test_members_of_an_index_may_come_in_any_order_and_with_others() -> None:
    chunk = dict(reversed([*GOOD.items(), ("more", "x")]))
    assert isinstance(parse_index(json.dumps({"chunks": [chunk]}).encode(), "x"), BlockIndex)


# seeking


@pytest.mark.parametrize("strict", ["false", "true"])
def test_the_record_of_an_offset_is_found_on_a_topic_with_gaps(strict: str) -> None:
    """Under strict the index is the original's, which takes record 102 for 12."""
    world = World({
        "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector", "s3.bucket": "bucket", "local.buffer.dir": "x",
        "compressed_block_size": "64", "format.class": None, "s3.bucket.name": None, "compatibility.strict": strict,
    })  # fmt: skip
    world.add([*range(10), *range(100, 110)])
    sink = world.start()
    sink.poll()
    sink.drain(close=Reason.FLUSH_NOW)
    wanted = 12 if strict == "true" else 102
    found = records_from(world.store, "", topic_partition=ORDERS, offset=wanted, framing=Delimited(), count=2)
    assert [(offset, json.loads(record)["n"]) for offset, record in found] == [(wanted, 102), (wanted + 1, 103)]
    if strict == "false":
        with pytest.raises(SeekError, match="in a gap within"):
            locate(world.store, "", topic_partition=ORDERS, offset=50)


def test_one_record_costs_one_range_request_for_its_block(store: Watched) -> None:
    place = find(store, 505)
    assert (place.number, place.block.first_record_offset) == (1, 503)
    assert read(store, 505) == [(505, record(505))]
    assert store.ranges == [f"bytes={place.block.byte_offset}-{place.block.byte_offset + place.block.byte_length - 1}"]


def test_blocks_behind_the_last_wanted_record_are_not_fetched(store: Watched) -> None:
    assert read(store, 505, 2) == [(505, record(505)), (506, record(506))]
    assert len(store.ranges) == 2


def test_reading_goes_on_through_blocks_and_files_and_days(store: Watched) -> None:
    put_file(store, 512, 515, day=datetime.date(2016, 2, 25))
    put_file(store, 100, 500, day=datetime.date(2016, 2, 23))
    assert read(store, 498, None) == [(offset, record(offset)) for offset in range(498, 515)]


def test_reading_goes_on_past_a_gap_between_files(store: Watched) -> None:
    put_file(store, 600, 602)
    assert [offset for offset, _ in read(store, 511, None)] == [511, 600, 601]


def test_files_of_other_topics_and_partitions_are_not_looked_at(store: Watched) -> None:
    other = BlockNames("systest").key_of_day(TopicPartition("system-test", 1), 505, day=DAY)
    store.bucket.put(other, b"never read")
    store.bucket.put("systest/2016-02-24/more-system-test-00000-000000000505.gz", b"never read")
    assert read(store, 505) == [(505, record(505))]


def test_the_layout_by_topic_is_found_as_well() -> None:
    found = Watched()
    put_file(found, 0, 9, names=BlockNames("systest", DateLayout.BY_TOPIC))
    assert read(found, 4) == [(4, record(4))]


def test_of_two_uploads_of_the_same_start_the_newer_is_read_and_the_longer_where_it_must(store: Watched) -> None:
    put_file(store, 500, 503, day=datetime.date(2016, 2, 25), mark=b" again")
    assert read(store, 501) == [(501, record(501) + b" again")]
    assert read(store, 508) == [(508, record(508))]
    assert [offset for offset, _ in read(store, 500, None)] == list(range(500, 512))


def test_overlapping_files_give_no_record_twice(store: Watched) -> None:
    put_file(store, 507, 520)
    assert [offset for offset, _ in read(store, 500, None)] == list(range(500, 520))


@pytest.mark.parametrize(
    "framing", [Delimited(), Delimited(b"||"), Delimited(b"\n", b"\t"), Prefixed(), Prefixed(include_keys=True)]
)
def test_every_framing_is_read_as_it_is_written(framing: Framing) -> None:
    found = Watched()
    put_file(found, 0, 9, framing=framing)
    front = b"key\t" if framing == Delimited(b"\n", b"\t") else b""
    assert read(found, 2, 4, framing) == [(offset, front + record(offset)) for offset in range(2, 6)]


def test_an_empty_first_block_is_never_fetched() -> None:
    found = Watched()
    encoder = BlockGzipFile(None, variant=BlockGzip(Lines(), 1))
    encoder.append(Plain(pa.array(["large", "b"])))
    encoder.finish()
    key = NAMES.key_of_day(EVENTS, 0, day=DAY)
    found.bucket.put(key, encoder.take())
    found.bucket.put(index_key_of(key), encoder.index(0))
    assert read(found, 0, None) == [(0, b"large"), (1, b"b")]
    assert found.ranges[0].startswith("bytes=20-")


def test_what_cannot_be_found_is_reported(store: Watched) -> None:
    put_file(store, 600, 603)
    for offset, words in [
        (499, "Offset 499 of system-test-0 lies before the first file, which begins at 500"),
        (
            512,
            "lies in a gap: systest/2016-02-24/system-test-00000-000000000500.gz ends before it, and the next file begins at 600",
        ),
        (603, "lies after the end of the last file, systest/2016-02-24/system-test-00000-000000000600.gz"),
    ]:
        with pytest.raises(SeekError) as caught:
            read(store, offset)
        assert words in str(caught.value)
    with pytest.raises(SeekError, match="no Block-GZIP files of topic system-test, partition 0 below 'elsewhere'"):
        find(store, 500, "elsewhere")


def test_a_missing_index_is_named(store: Watched) -> None:
    store.bucket.delete("systest/2016-02-24/system-test-00000-000000000500.index.json")
    with pytest.raises(SeekError, match=r"system-test-00000-000000000500\.index\.json is missing"):
        read(store, 505)


def test_a_missing_index_stops_the_reading_instead_of_leaving_a_file_out(store: Watched) -> None:
    store.bucket.delete(index_key_of(put_file(store, 512, 520)))
    put_file(store, 520, 522)
    with pytest.raises(SeekError, match=r"system-test-00000-000000000512\.index\.json is missing"):
        read(store, 510, None)


def test_an_older_file_without_index_matters_only_to_its_own_records(store: Watched) -> None:
    store.bucket.delete(index_key_of(put_file(store, 490, 500)))
    assert [offset for offset, _ in read(store, 500, None)] == list(range(500, 512))


def test_data_that_do_not_match_their_index_are_refused(store: Watched) -> None:
    key = "systest/2016-02-24/system-test-00000-000000000500.gz"
    whole = store.bucket.get(key)
    for damaged, words in [
        (whole[:-1], "bytes were found instead of"),
        (b"x" + whole, "is not a gzip member"),
        (whole[:-9] + b"\0\0\0\0" + whole[-5:], "data and index do not match"),
    ]:
        store.bucket.put(key, damaged)
        with pytest.raises(SeekError) as caught:
            read(store, 511)
        assert words in str(caught.value)


def test_another_format_than_the_sinks_is_noticed(store: Watched) -> None:
    for framing, words in [
        (Delimited(b"c"), "does not end with the delimiter b'c'"),
        (Delimited(b"x"), "does not end"),
        (Prefixed(), "ends within a record"),
        (Delimited(b""), "cannot be separated"),
    ]:
        with pytest.raises(SeekError) as caught:
            read(store, 505, framing=framing)
        assert words in str(caught.value)
    put_file(store, 0, 3, framing=Delimited(), mark=b"\nsecond line")
    with pytest.raises(SeekError, match="holds 6 records in this format, but 3 by its index"):
        read(store, 1)


def test_a_block_without_records_has_none() -> None:
    for framing in (Lines(), Delimited(), Prefixed()):
        assert split_records(framing, b"") == []


# the command


def test_the_command_prints_records_and_says_what_it_fetched(
    store: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    out = io.BytesIO()
    show(store, "systest", topic_partition=EVENTS, offset=510, count=3, framing=Lines(), out=out)
    assert out.getvalue() == record(510) + b"\n" + record(511) + b"\n"
    shown = capsys.readouterr().err
    assert "system-test-00000-000000000500.gz: block 4 of 4, offsets 509 to 511" in shown
    assert "bytes fetched" in shown
    assert "the files end after 2 of 3 records" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://bucket/prefix", "t", "0", "5"], "is not an S3 address"),
        (["s3://bucket/p", "t", "0", "5", "--format", "binary", "--delimiter", ","], "goes with --format text"),
        (["s3://bucket/p", "t", "0", "5", "--include-keys"], "goes with --format binary"),
    ],
)
def test_the_command_refuses_what_does_not_go_together(arguments: list[str], words: str) -> None:
    app = typer.Typer()
    app.command()(seek)
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, ConfigError)
    assert words in str(done.exception)
