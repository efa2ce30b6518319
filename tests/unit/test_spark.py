"""What does the source read of a log? Without a JVM: Spark's workers call nothing else than these methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kafka_s3.engine.log.fold import live_objects
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges, plan_merges
from kafka_s3.model.errors import ConfigError, LogDamaged, TableRefused
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.batches import OtherFields
from kafka_s3.objects.readers import ObjectUnreadable
from kafka_s3.ops.erasure.forgetting import Forgetting
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.restore.plan import reading_of
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.spark import (
    LETTER,
    METADATA,
    CommittedStream,
    KafkaS3,
    Rows,
    SinkLocation,
    WantedRecords,
    _read_here,
    location_of,
)
from kafka_s3_testing.faults import FaultyStore
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import BLOCK_GZIP, TIME
from tests.support.memory_world import ORDERS, START_MS, World, world_of
from tests.support.verifying import MemoryCluster, audited

PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.schema.inference": "true"}
STRING = "org.apache.kafka.connect.storage.StringConverter"
GRACE_MS = 3_600_000
Offset = dict[str, Any]


def source_of(world: World, **options: Any) -> KafkaS3:
    class Source(KafkaS3):
        given = SinkLocation("bucket", world.store, state_paths(world.settings), reading_of(world.settings))

    return Source({"topic": "orders", **{name: str(value) for name, value in options.items()}})


def columns(**types: pa.DataType) -> StructType:
    return from_arrow_schema(pa.schema(list(types.items())))


def read(world: World, *, schema: StructType | None = None, **options: Any) -> pa.Table:
    source = source_of(world, **options)
    schema = schema or source.schema()
    reader = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in schema.names})


def numbers(world: World, **options: Any) -> list[int]:
    return read(world, **options).column("n").to_pylist()


def take(world: World, *values: int) -> int:
    """Produces and commits; gives the last entry."""
    world.add(values)
    world.sink.poll()
    world.sink.drain(close=None)
    return world.log().load().version


def begun(size: int = 2, **config: str) -> World:
    world = world_of(size, **config)
    world.start()
    return world


# ------------------------------------------------------------ odd documents


def deep(levels: int, begin: str, end: str) -> str:
    return begin * levels + "1" + end * levels


DEEP_OBJECT, DEEP_LIST = deep(299, '{"a":', "}"), deep(299, "[", "]")


def test_half_surrogates_and_deep_documents_are_read_by_all_readers() -> None:
    world = begun(4)
    texts = [
        r'{"n":"\ud800","\uDFFF":"\ud83d\ude00"}',
        r'{"n":"\\ud800 \udfff\ud800"}',
        f'{{"n":{DEEP_OBJECT}}}',
        f'{{"n":{DEEP_LIST}}}',
    ]
    for offset, text in enumerate(texts):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, text.encode()))
    world.sink.poll()
    world.sink.drain()

    table = read(world)
    assert table.column("n").to_pylist() == ["?", r"\ud800 ??", DEEP_OBJECT, DEEP_LIST]
    assert table.column("?").to_pylist() == ["\U0001f600", None, None, None]
    assert [str(one) for one in audited(world).findings] == []
    world.now += 120_000
    subjects = subjects_of(None, "n = nobody", None)
    found = Forgetting(world.settings, world.store, subjects, lambda: world.now, pytest.fail).search().found
    assert (found.read, found.problems) == (1, [])


@pytest.mark.parametrize("text", [DEEP_OBJECT, DEEP_LIST])
def test_columns_of_a_deep_document_are_text_below_what_arrow_can_send(text: str) -> None:
    world = begun(1)
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, f'{{"n":{text}}}'.encode()))
    world.sink.poll()
    world.sink.drain()
    (batch,) = read(world).to_batches()
    with pa.ipc.new_stream(pa.BufferOutputStream(), batch.schema) as writer:
        writer.write_batch(batch)


def test_document_nested_deeper_than_readers_take_becomes_a_dead_letter() -> None:
    world = begun(1, **{"errors.tolerance": "all"})
    brackets = "[" * 1000
    for offset, text in enumerate([f'{{"n":{deep(300, "[", "]")}}}', f'{{"n":"{brackets}"}}']):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, text.encode()))
    world.sink.poll()
    world.sink.drain()
    assert read(world).column("n").to_pylist() == [brackets]
    assert sum(entry.totals.dead_letters for entry in world.entries()) == 1


# ------------------------------------------------------------ stretches of entries


def test_a_stretch_of_entries_is_read_from_its_first_to_its_last() -> None:
    world = begun()
    first = take(world, 0, 1)
    world.now += 60_000
    second = take(world, 2, 3, 4, 5)
    assert numbers(world) == [0, 1, 2, 3, 4, 5]
    assert numbers(world, untilEntry=first) == [0, 1]
    assert numbers(world, sinceEntry=first + 1) == [2, 3, 4, 5]
    assert numbers(world, asOf="2024-01-15T10:00:30Z") == [0, 1]
    nothing_new = read(world, sinceEntry=second + 1)
    assert (nothing_new.column_names, len(nothing_new)) == (["n", "partition"], 0)


def test_records_that_unpack_to_more_than_the_driver_may_hold_are_left_to_tasks() -> None:
    world = begun()
    last = take(world, 0, 1, 2, 3)
    location = SinkLocation("bucket", world.store, state_paths(world.settings), reading_of(world.settings))
    rows = Rows(location, WantedRecords("orders", 0, last), columns(n=pa.int64()), OtherFields.REFUSED)
    files = [one for part in rows.parts(location.log(), 0, last) for one in part.files]
    batches = _read_here(rows, files, most=1 << 20)
    assert batches is not None
    assert pa.Table.from_batches(batches).column("n").to_pylist() == [0, 1, 2, 3]
    assert _read_here(rows, files, most=sum(batch.nbytes for batch in batches) - 1) is None


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"untilEntry": 99}, r"until_entry .'99'.: is not an entry that can be read: the log has entries 0 to \d+"),
        ({"sinceEntry": 99}, "since_entry .'99'.: is not an entry"),
        ({"asOf": "2020-01-01"}, "as_of .'2020-01-01T00:00:00.*: is before entry 0"),
        ({"asOf": "yesterday"}, "asOf .'yesterday'.: is not a time"),
        ({"asOf": "2024-01-15", "untilEntry": 1}, "both say where to end"),
        ({"topic": "others"}, r"topic .'others'.: is not a topic of this sink's log. It has orders"),
        ({"deadLetters": "some"}, "deadLetters .'some'.: is not known"),
        ({"untilEntry": "-1"}, "untilEntry .'-1'.: must be a whole number from 0 on"),
        ({"withKeys": "maybe"}, "withKeys .'maybe'.: must be true or false"),
        ({"until": "1"}, r"until .'1'.: is not an option of this source. Known: config, path"),
    ],
)
def test_what_a_log_does_not_have_is_said(wishes: dict[str, Any], message: str) -> None:
    world = begun()
    take(world, 0, 1)
    with pytest.raises(ConfigError, match=message):
        read(world, **wishes)


def test_without_a_sink_the_source_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match=r"config.*must be given, or the location of the sink's state"):
        KafkaS3({"topic": "orders"})
    with pytest.raises(ConfigError, match=r"does not name a sink's state. Write s3://bucket/_kafka_s3/sink"):
        location_of("s3://bucket")


def test_records_that_a_transform_sends_elsewhere_are_those_of_their_topic() -> None:
    router = {"transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.ExtractTopic$Value"}
    world = begun(2, **router, **{"transforms.t.field": "to"})
    for offset, to in enumerate("abab"):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b'{"n":%d,"to":"%s"}' % (offset, to.encode())))
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    found = read(world, withMetadata="true").to_pylist()
    assert sorted((row["n"], row["_topic"], row["_object"].split("/")[1]) for row in found) == [
        (0, "orders", "a"), (1, "orders", "b"), (2, "orders", "a"), (3, "orders", "b"),
    ]  # fmt: skip


def test_an_object_that_no_entry_names_is_not_read() -> None:
    world = begun()
    take(world, 0, 1)
    world.store.put("topics/orders/partition=0/orders+0+0000000002.json", b'{"n":99}\n')
    assert numbers(world) == [0, 1]


def test_an_entry_whose_objects_are_not_all_visible_is_left_out() -> None:
    world = begun()
    take(world, 0, 1)
    last = take(world, 2, 3)
    entry = world.entries()[-1]
    paths = state_paths(world.settings)
    world.store.delete(paths.published(entry.epoch))  # as if the driver had died before it noted them
    assert numbers(world) == [0, 1]
    with pytest.raises(
        ConfigError, match=rf"until_entry .'{last}'.*The objects of entry {last} are not all visible yet"
    ):
        read(world, untilEntry=last)


def test_missing_entries_are_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.engine.log.log.CHECKPOINT_EVERY", 1)
    world = begun()
    first = take(world, 0, 1)
    second = take(world, 2, 3)
    paths = state_paths(world.settings)
    world.store.delete(paths.commit(first))  # a checkpoint has it, but for its objects
    with pytest.raises(LogDamaged, match=rf"Commit entry {paths.commit(first)} is missing.*begin with entry {second}"):
        read(world)
    assert numbers(world, sinceEntry=second) == [2, 3]


def test_an_object_that_was_written_over_is_refused() -> None:
    world = begun()
    take(world, 0, 1)
    [key] = world.objects()
    world.store.put(key, b'{"n":0}\n {} \n')
    assert len(read(world)) == 2
    world.store.put(key, b'{"n": 0}      \n')
    with pytest.raises(
        ObjectUnreadable, match=r"holds 1 records, and entry \d of the log counts 2. It was written over since"
    ):
        read(world)


def compacted() -> tuple[World, int]:
    """Two entries of two objects each, merged to one; and the last entry with records."""
    world = begun(2, **{"rewrite.grace.ms": str(GRACE_MS)})
    take(world, 0, 1, 2, 3)
    last = take(world, 4, 5, 6, 7)
    log, entries = world.log(), world.entries()
    merges = plan_merges(live_objects(entries).values(), CompactionRules(1 << 20, until_ms=world.now + 1))
    compactor = compactor_of(world.settings, world.store)
    assert list(
        ask_for_merges(
            compactor, log.paths, merges, version=entries[-1].version, by="test", skipped=lambda merge, error: None
        )
    )
    look_for_requests(world, 60_000)
    return world, last


def look_for_requests(world: World, after_ms: int) -> None:
    world.now += after_ms
    world.sink.rewrites.notice(str(world.now))
    world.sink.poll_and_commit()


def without_originals(world: World) -> None:
    before = len(world.objects())
    for _ in range(6):
        look_for_requests(world, GRACE_MS // 2)
    assert len(world.objects()) < before


def test_stream_with_a_limit_of_entries_reads_whole_what_was_merged() -> None:
    world, _ = compacted()
    take(world, 8, 9)
    for gone in (False, True):
        stream = stream_of(world, maxEntriesPerTrigger=1)
        offsets = [stream.initialOffset()]
        while (end := stream.latestOffset(offsets[-1])) != offsets[-1]:
            offsets.append(end)
        batches = [batch(stream, *pair) for pair in pairwise(offsets)]
        assert sorted(n for some in batches for n in some) == list(range(10))
        assert sorted(max(batches, key=len)) == list(range(8))
        assert len([some for some in batches if some]) == 2
        if not gone:
            without_originals(world)


def test_records_of_rewritten_objects_are_read_once_before_and_after_the_originals_are_gone() -> None:
    world, last = compacted()
    early = stream_of(world)
    start = {"entry": last, "commit": world.entries()[last].commit_id}
    assert batch(early, start, early.latestOffset()) == [], "a rewrite commits no records"
    assert any(entry.swaps for entry in world.entries())
    for _ in range(2):
        assert sorted(numbers(world)) == list(range(8))
        assert sorted(numbers(world, untilEntry=last)) == list(range(8))
        stream = stream_of(world)
        assert sorted(batch(stream, stream.initialOffset(), stream.latestOffset())) == list(range(8))
        if len(world.objects()) > 1:
            assert sorted(numbers(world, sinceEntry=last)) == [4, 5, 6, 7], "the originals are there"
            without_originals(world)
    with pytest.raises(LogDamaged, match=rf"of entry {last} is deleted: entry \d merged it with objects of entries"):
        numbers(world, sinceEntry=last)


@pytest.mark.parametrize("form", [{}, PARQUET])
def test_of_an_object_of_several_partitions_each_row_has_its_own_partition_offset_and_key(form: dict[str, str]) -> None:
    config = {**TIME, **form, "flush.size": "2", "rewrite.grace.ms": str(GRACE_MS), "store.kafka.keys": "true",
              "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat", "key.converter": STRING}  # fmt: skip
    partitions = [TopicPartition("orders", number) for number in range(3)]
    world = World(config, topics=partitions)
    world.start()
    for tp in partitions:
        for n in range(4):
            value = json.dumps({"n": 10 * tp.partition + n}).encode()
            world.kafka.add(tp, MemoryRecord(n, START_MS, f"k{tp.partition}-{n}".encode(), value))
    world.sink.poll()
    world.sink.drain(close=None)
    entries = world.entries()
    rules = CompactionRules(1 << 20, until_ms=world.now + 1, across=True)
    compactor, merges = compactor_of(world.settings, world.store), plan_merges(live_objects(entries).values(), rules)
    for _ in ask_for_merges(
        compactor, world.log().paths, merges, version=entries[-1].version, by="test", skipped=lambda merge, error: None
    ):
        pass
    for _ in range(3):
        look_for_requests(world, GRACE_MS)
    assert len([key for key in world.store.objects if key.startswith("topics/")]) == 2, "values and keys"

    def seen() -> list[tuple[int, int, bytes | None, int]]:
        found = read(world, withMetadata="true", withKeys="true").to_pylist()
        assert all(row["n"] == 10 * row["_partition"] + row["_offset"] for row in found)
        assert len({(row["_object"], row["_row"]) for row in found}) == len(found)
        return sorted((row["_partition"], row["_offset"], row["_key"], row["_last_offset"]) for row in found)

    every = [(p, n, f"k{p}-{n}".encode(), 3) for p in range(3) for n in range(4)]
    assert seen() == every
    write_positions(world.log(), world.kafka, {partitions[1]: 2})
    assert seen() == [one for one in every if one[:2] not in ((1, 2), (1, 3))]
    world.start()
    look_for_requests(world, GRACE_MS)
    assert [one[:3] for one in seen()] == [one[:3] for one in every]


def erased(*numbers: int) -> World:
    """Two objects of four records each, without those of these numbers."""
    world = begun(4, **{"rewrite.grace.ms": str(GRACE_MS)})
    take(world, *range(8))
    world.now += 120_000
    for n in numbers:
        subjects = subjects_of(None, f"n = {n}", None)
        work = Forgetting(
            world.settings, world.store, subjects, lambda: world.now, pytest.fail, MemoryCluster(world.kafka)
        )
        work.end_open_files()
        assert list(replace(work, wait_s=0.0).run(work.search()))
    return world


def test_records_beside_erased_ones_keep_their_offsets() -> None:
    world = erased(0, 2, 5)
    rows = [(row["n"], row["_offset"]) for row in read(world, withMetadata="true").to_pylist()]
    assert sorted(rows) == [(1, 1), (3, 3), (4, 4), (6, 6), (7, 7)]
    stream = source_of(world).streamReader(columns(n=pa.int32(), _offset=pa.int64()))
    assert sorted(batch(stream, stream.initialOffset(), stream.latestOffset())) == [1, 3, 4, 6, 7]


# ------------------------------------------------------------ columns


def test_metadata_says_where_a_record_was_in_kafka_in_the_bucket_and_in_the_log() -> None:
    world = begun()
    entry = take(world, 0, 1, 2, 4)
    found = read(world, withMetadata="true").to_pylist()
    assert found[3] == {
        "n": 4, "partition": "0", "_topic": "orders", "_partition": 0, "_offset": None, "_first_offset": 2, "_last_offset": 4, "_row": 1,
        "_entry": entry, "_object": "topics/orders/partition=0/orders+0+0000000002.json",
    }  # fmt: skip
    assert [row["_offset"] for row in found] == [0, 1, None, None]


def test_with_metadata_in_the_records_each_offset_is_known() -> None:
    world = begun(**{"record.metadata.enable": "true"})
    take(world, 0, 2)
    found = read(world, schema=columns(_offset=pa.int64(), _kafka=pa.struct([("offset", pa.int64())])))
    assert found.column("_offset").to_pylist() == [0, 2]


def test_offsets_and_metadata_are_known_where_no_record_has_a_key_and_whatever_columns_are_wanted() -> None:
    world = begun(**{"record.metadata.enable": "true"})
    take(world, 0, 2)
    found = read(world, withMetadata="true")
    assert found.column("_offset").to_pylist() == [0, 2]
    assert [(one["offset"], one["key"]) for one in found.column("_kafka").to_pylist()] == [(0, None), (2, None)]
    assert read(world, schema=columns(_offset=pa.int64())).to_pylist() == [{"_offset": 0}, {"_offset": 2}]
    part_of_it = columns(_offset=pa.int64(), _kafka=pa.struct([("partition", pa.int64())]))
    assert read(world, schema=part_of_it).to_pylist() == [
        {"_offset": None, "_kafka": {"partition": 0}}, {"_offset": None, "_kafka": {"partition": 0}},
    ]  # fmt: skip


def test_what_is_null_in_some_json_has_the_type_that_it_has_in_others() -> None:
    world = begun(2)
    rows = [
        {"a": None, "s": None, "l": [], "o": {}, "none": None},
        {"a": None, "s": {"x": None, "y": None}, "l": [None], "o": {}, "none": None},
        {"a": 5, "s": {"x": {"z": 1}}, "l": [{"k": "v"}], "o": {"p": True}, "none": None},
        {"a": None, "s": None, "l": None, "o": None, "none": None},
    ]
    for offset, row in enumerate(rows):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps(row).encode()))
    world.sink.poll()
    world.sink.drain(close=None)
    found = read(world)
    assert found.schema == pa.schema([
        ("a", pa.int64()), ("s", pa.struct([("x", pa.struct([("z", pa.int64())])), ("y", pa.string())])),
        ("l", pa.list_(pa.struct([("k", pa.string())]))), ("o", pa.struct([("p", pa.bool_())])), ("none", pa.string()),
        ("partition", pa.string()),
    ])  # fmt: skip
    assert [row["a"] for row in found.to_pylist()] == [None, None, 5, None]
    assert [row["s"] for row in found.to_pylist()] == [None, {"x": None, "y": None}, {"x": {"z": 1}, "y": None}, None]
    assert [row["l"] for row in found.to_pylist()] == [[], [None], [{"k": "v"}], None]
    assert [row["o"] for row in found.to_pylist()] == [{"p": None}, {"p": None}, {"p": True}, None]


def test_metadata_alone_can_be_asked_for() -> None:
    world = begun()
    take(world, 0, 1, 2, 3)
    assert read(world, schema=columns(_row=pa.int32(), _partition=pa.int64())).to_pylist() == [
        {"_row": row, "_partition": 0} for row in (0, 1, 0, 1)
    ]


@pytest.mark.parametrize("more", [{}, {**PARQUET}])
def test_a_directory_fills_a_column_that_records_do_not_have(more: Mapping[str, str]) -> None:
    field = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "n",
    }
    world = begun(1, **field, **more)
    take(world, 7, 8)
    assert read(world).to_pylist() == [{"n": 7}, {"n": 8}], "the record's own value, of its own type"
    world = begun(2, **more)
    take(world, 7, 8)
    assert read(world, schema=columns(n=pa.int32(), partition=pa.int32())).to_pylist() == [
        {"n": 7, "partition": 0}, {"n": 8, "partition": 0},
    ]  # fmt: skip


def test_a_topic_without_objects_has_no_columns_of_its_own() -> None:
    world = begun(10)
    take(world, 0)
    with pytest.raises(TableRefused, match="Topic orders has no object of values up to entry"):
        read(world)
    assert len(read(world, schema=columns(n=pa.int32()))) == 0


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({"block.gzip.dialect": "original", "value.converter": STRING}, False),
        ({}, False),
        ({"block.gzip.value.delimiter": "<v>", "block.gzip.key.delimiter": "<k>"}, True),
        ({"block.gzip.format": "binary"}, False),
        ({"block.gzip.format": "binary", "block.gzip.include.keys": "true"}, True),
    ],
    ids=["lines", "texts", "texts with keys", "bytes", "bytes with keys"],
)
def test_records_of_block_gzip_come_from_all_blocks_with_the_keys_that_are_in_them(
    more: Mapping[str, str], keys: bool
) -> None:
    world = World({**BLOCK_GZIP, "block.gzip.block.size": "10", **more})
    world.start()
    for offset in (0, 1, 2, 4):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, b"k%d" % offset, b"value %d" % offset))
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    found = read(world, withKeys="true", withMetadata="true").to_pylist()
    assert [(row["value"], row["_key"], row["_row"]) for row in found] == [
        (b"value %d" % offset, b"k%d" % offset if keys else None, row) for row, offset in enumerate((0, 1, 2, 4))
    ]
    assert {*found[0]} == {"value", "_key", *METADATA.names}
    assert read(world, schema=columns(value=pa.string())).column("value").to_pylist()[3] == "value 4"


# ------------------------------------------------------------ dead letters


def test_dead_letters_come_beside_the_records_or_alone() -> None:
    world = begun(**{"errors.tolerance": "all"})
    world.add([0])
    world.kafka.add(ORDERS, MemoryRecord(1, START_MS, b"k", b"{broken", (("h", b"v"),)))
    take(world, 2)
    beside = read(world, deadLetters="with", withMetadata="true").to_pylist()
    assert [(row["n"], row["_offset"], (row["_dead_letter"] or {}).get("stage")) for row in beside] == [
        (0, None, None), (2, None, None), (None, 1, "VALUE_CONVERTER"),
    ]  # fmt: skip
    [letter] = read(world, deadLetters="only").to_pylist()
    assert list(letter) == LETTER.names
    assert (letter["value"], letter["key"], letter["headers"]) == (b"{broken", b"k", [{"key": "h", "value": b"v"}])
    assert (letter["timestamp"], letter["state"]) == (datetime(2024, 1, 15, 10, tzinfo=UTC), "open")


def test_a_stream_has_each_dead_letter_once() -> None:
    world = begun(1, **{"errors.tolerance": "all"})
    source = source_of(world, deadLetters="only", startingEntry="earliest")
    stream = source.streamReader(source.schema())
    found, start = list[list[int]](), stream.initialOffset()
    for offset in range(0, 4, 2):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, b"{broken"))
        take(world, offset + 1)
        end = stream.latestOffset()
        parts = stream.partitions(start, end)
        found.append([one for part in parts for some in stream.read(part) for one in some.column("offset").to_pylist()])
        start = end
    assert found == [[0], [2]]


# ------------------------------------------------------------ streams


def stream_of(world: World, **options: Any) -> CommittedStream:
    return source_of(world, **options).streamReader(columns(n=pa.int32()))


def batch(stream: CommittedStream, start: Offset, end: Offset) -> list[int]:
    parts = stream.partitions(start, end)
    return [n for part in parts for some in stream.read(part) for n in some.column("n").to_pylist()]


def test_a_stream_reads_each_entry_once() -> None:
    world = begun()
    take(world, 0, 1)
    stream = stream_of(world)
    start, end = stream.initialOffset(), stream.latestOffset()
    assert start == {"entry": -1, "commit": ""}
    assert batch(stream, start, end) == [0, 1]
    take(world, 2, 3)
    later = stream.latestOffset()
    assert batch(stream, end, later) == [2, 3]
    assert batch(stream, later, later) == []


def test_a_stream_takes_so_many_entries_at_a_time_also_where_it_goes_on_from_a_checkpoint() -> None:
    world = begun()
    for n in range(0, 8, 2):
        take(world, n, n + 1)
    stream = stream_of(world, maxEntriesPerTrigger=1)
    offsets = [stream.initialOffset()]
    found = []
    while (end := stream.latestOffset()) != offsets[-1]:
        found.append(batch(stream, offsets[-1], end))
        offsets.append(end)
    assert [some for some in found if some] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    again = stream_of(world, maxEntriesPerTrigger=1)
    again.partitions(offsets[2], offsets[2])  # what Spark does behind a checkpoint
    assert again.latestOffset() == offsets[3]


def test_a_spark_that_says_how_far_a_stream_has_come_is_believed() -> None:
    """As 4.2 does, also behind a checkpoint, of which its reader hears nothing else."""
    world = begun()
    for n in range(0, 6, 2):
        take(world, n, n + 1)
    offsets = [stream_of(world).initialOffset()]
    for _ in range(8):
        offsets.append(stream_of(world, maxEntriesPerTrigger=1).latestOffset(offsets[-1]))
    found = [batch(stream_of(world), start, end) for start, end in pairwise(offsets)]
    assert [some for some in found if some] == [[0, 1], [2, 3], [4, 5]]


def test_a_stream_that_begins_now_begins_once_where_spark_says_how_far_it_has_come() -> None:
    world = begun()
    take(world, 0, 1)
    stream = stream_of(world, startingEntry="now")
    start = stream.initialOffset()
    assert stream.latestOffset(start) == start, "the first batch is empty"
    take(world, 2, 3)
    assert batch(stream, start, stream.latestOffset(start)) == [2, 3]
    again = stream_of(world, startingEntry="now")
    assert batch(again, start, again.latestOffset(start)) == [2, 3], "behind a checkpoint there is no other now"


def test_a_stream_that_ends_with_what_is_there_takes_so_many_entries_at_a_time_up_to_it() -> None:
    world = begun()
    for n in range(0, 4, 2):
        take(world, n, n + 1)
    stream = stream_of(world, maxEntriesPerTrigger=1)
    stream.prepareForTriggerAvailableNow()
    take(world, 4, 5)
    offsets = [stream.initialOffset()]
    while (end := stream.latestOffset(offsets[-1])) != offsets[-1]:
        offsets.append(end)
    found = [batch(stream, start, end) for start, end in pairwise(offsets)]
    assert [some for some in found if some] == [[0, 1], [2, 3]]


def test_a_spark_that_does_not_say_where_a_stream_stands_never_makes_it_go_back() -> None:
    world = begun()
    for n in range(0, 6, 2):
        take(world, n, n + 1)
    stands_at, again = stream_of(world).latestOffset(), stream_of(world, maxEntriesPerTrigger=1)
    with pytest.raises(ConfigError, match=r"maxEntriesPerTrigger .'1'.: needs a Spark that says"):
        again.partitions(stands_at, again.latestOffset())


def test_a_stream_begins_at_an_entry_a_time_or_now() -> None:
    world = begun()
    first = take(world, 0, 1)
    world.now += 60_000
    take(world, 2, 3)
    begins = {
        "startingEntry": first + 1, "startingTime": "2024-01-15T10:00:30Z",
    }  # fmt: skip
    for option, value in begins.items():
        stream = stream_of(world, **{option: value})
        assert batch(stream, stream.initialOffset(), stream.latestOffset()) == [2, 3]
    now = stream_of(world, startingEntry="now")
    start = now.latestOffset()
    assert now.initialOffset() == start, "the first batch is empty, so that a death before its commit loses nothing"
    take(world, 4, 5)
    assert batch(now, start, now.latestOffset()) == [4, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingEntry": 99}, "startingEntry .'99'.: is not an entry that a stream can begin with"),
        ({"startingEntry": "first"}, "startingEntry .'first'.: must be a whole number"),
        ({"startingTime": "2999-01-01"}, "is still to come"),
        ({"startingTime": "2024-01-01", "startingEntry": "now"}, "both say where to begin"),
        ({"untilEntry": 1}, "is for a batch: a stream has no end"),
        ({"maxEntriesPerTrigger": 0}, "must be a whole number from 1 on"),
    ],
)
def test_a_stream_that_cannot_begin_so_says_why(options: Mapping[str, Any], message: str) -> None:
    world = begun()
    take(world, 0, 1)
    with pytest.raises(ConfigError, match=message):
        stream_of(world, **options).initialOffset()


def test_a_checkpoint_of_another_log_is_refused() -> None:
    world, other = begun(), begun()
    for one in (world, other):
        take(one, 0, 1)
    offset = stream_of(other).latestOffset()
    with pytest.raises(LogDamaged, match="the sink's log was deleted and started again"):
        stream_of(world).partitions({"entry": -1, "commit": ""}, offset)


def test_a_stream_that_has_all_asks_for_the_next_entry_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3.spark.LOOK_AGAIN_S", 0)
    world = begun()
    take(world, 0, 1)
    world.store = FaultyStore(world.store, [])  # type: ignore[assignment]
    stream = stream_of(world)
    end = stream.latestOffset()
    stream.partitions(end, end)
    world.store.calls.clear()  # type: ignore[attr-defined]
    assert stream.latestOffset() == end
    assert [name for name, _ in world.store.calls] == ["head"]  # type: ignore[attr-defined]
