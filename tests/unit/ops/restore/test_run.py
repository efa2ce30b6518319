"""Do records come back as they were, in order, each once, whatever format they lay in and whenever the process dies?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_s3.engine.log.entry import EntryKind, Progress
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.protocols import Message
from kafka_s3.objects.readers import ObjectUnreadable
from kafka_s3.ops.restore.files import RestoreSelection
from kafka_s3.ops.restore.plan import ORIGIN, PartitionRestore, RestorePlan, plan_of, reading_of, restore
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import FIELD, STATE, TOLERANT
from tests.support.deaths import Died
from tests.support.memory_world import ORDERS, START_MS, World
from tests.support.restoring import NOW_MS, MemoryTarget

FORMAT = "io.confluent.connect.s3.format."
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
KEYS = {"store.kafka.keys": "true", "keys.format.class": FORMAT + "json.JsonFormat", "key.converter": STRING}
HEADERS = {"store.kafka.headers": "true", "headers.format.class": FORMAT + "json.JsonFormat"}
BLOCKS = {
    "format.class": "block_gzip", "flush.size": None, "rotate.schedule.interval.ms": "1800000", "timezone": "UTC",
    "value.converter": BYTES,
}  # fmt: skip
ALL = RestoreSelection()


def record(offset: int, value: bytes | None, *, timestamp: int = START_MS) -> MemoryRecord:
    return MemoryRecord(offset, timestamp, f"key {offset}".encode(), value, (("trace", f"t{offset}".encode()),))


def written(config: dict[str, Any], records: Sequence[MemoryRecord], tp: TopicPartition = ORDERS) -> World:
    world = World(config, topics=(tp,))
    for one in records:
        world.kafka.add(tp, one)
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    return world


def numbered(count: int, **config: Any) -> World:
    return written({"flush.size": "3", **config}, [record(n, b'{"n":%d}' % n) for n in range(count)])


def planned(
    world: World,
    target: MemoryTarget,
    selection: RestoreSelection = ALL,
    *,
    by_name: bool = False,
    append: bool = False,
    to: str = "back",
) -> RestorePlan:
    return plan_of(
        world.settings, world.store, target, to_topic=to, selection=selection, by_name=by_name, append=append
    )


def restored(
    world: World, target: MemoryTarget, selection: RestoreSelection = ALL, **more: Any
) -> list[PartitionRestore]:
    plan = planned(world, target, selection, **more)
    return restore(
        plan.partitions, store=world.store, reading=reading_of(world.settings), target=target, notify=lambda _: None
    )


def values(target: MemoryTarget, topic: str = "back") -> list[bytes | None]:
    return [one.value for one in target.found(topic)]


@pytest.mark.parametrize(
    ("config", "texts"),
    [
        pytest.param({}, [b'{"n":0}', b'{"n":1}', b'{"n":2}', b'{"n":3}'], id="json"),
        pytest.param({"s3.compression.type": "gzip"}, [b'{"n":0}', b'{"n":1}', b'{"n":2}', b'{"n":3}'], id="gzip"),
        pytest.param({"value.converter": STRING}, [b'a "quoted" text', b"", "übung".encode(), b"line\nbreak"], id="text in json"),
        pytest.param({"value.converter": BYTES}, [b"\0\xff", b"", b"\n", b"x"], id="bytes in json"),
        pytest.param(
            {"value.converter": BYTES, "format.class": FORMAT + "bytearray.ByteArrayFormat"}, [b"\0\xff", b"a", b"bc", b"d"], id="bytes"
        ),
        pytest.param({"value.converter": BYTES, "format.class": FORMAT + "avro.AvroFormat"}, [b"\0\xff", b"a", b"", b"d"], id="avro"),
        pytest.param(
            {"value.converter": STRING, "format.class": FORMAT + "avro.AvroFormat", "avro.codec": "snappy"},
            [b"a", "ü".encode(), b"", b"d"], id="snappy",
        ),
        pytest.param(BLOCKS, [b"one", b"two", b"three", b"four"], id="block gzip"),
    ],
)  # fmt: skip
def test_values_come_back_byte_for_byte_in_order(config: dict[str, Any], texts: list[bytes]) -> None:
    world = written({"flush.size": "3", **config}, [record(n, text) for n, text in enumerate(texts)])
    target = MemoryTarget(world.kafka)
    (done,) = restored(world, target)
    assert values(target) == texts
    assert (done.records, done.written) == (4, 4)


def test_fields_of_parquet_come_back_as_json_and_that_is_reported() -> None:
    value = b'{"n":1,"text":"a","list":[1,2],"inner":{"x":1.5}}'
    world = written(
        {"flush.size": "3", "format.class": FORMAT + "parquet.ParquetFormat", "value.schema.inference": "true"},
        [record(0, value)],
    )
    target = MemoryTarget(world.kafka)
    assert any("parquet objects of json values" in note for note in planned(world, target).notes)
    restored(world, target)
    (found,) = values(target)
    assert json.loads(found or b"") == json.loads(value)


def test_keys_headers_and_tombstones_come_back_from_their_sidecars() -> None:
    config = {"flush.size": "3", **KEYS, **HEADERS, "behavior.on.null.values": "write"}
    world = written(config, [record(0, b'{"n":0}'), record(1, None), record(2, b'{"n":2}')])
    target = MemoryTarget(world.kafka)
    restored(world, target)
    found = {one.key: one for one in target.found("back")}
    assert found.keys() == {b"key 0", b"key 1", b"key 2"}
    assert [found[key].value for key in sorted(found)] == [b'{"n":0}', None, b'{"n":2}']  # type: ignore[type-var]
    assert {one.headers for one in found.values()} == {(("trace", f"t{n}".encode()),) for n in range(3)}


def test_the_struct_of_record_metadata_gives_key_headers_and_each_time() -> None:
    config = {"flush.size": "3", "record.metadata.enable": "true", "key.converter": STRING}
    given = [record(n, b'{"n":%d}' % n, timestamp=START_MS + n) for n in range(3)]
    world = written(config, given)
    target = MemoryTarget(world.kafka)
    restored(world, target)
    assert target.found("back") == given
    assert not any("keys" in note or "times" in note for note in planned(world, target).notes)


def test_a_time_that_all_records_of_a_file_share_is_kept_others_are_not_and_that_is_reported() -> None:
    world = numbered(3)
    target = MemoryTarget(world.kafka)
    restored(world, target)
    assert {one.timestamp for one in target.found("back")} == {START_MS}
    mixed = written({"flush.size": "3"}, [record(n, b"{}", timestamp=START_MS + n) for n in range(3)])
    target = MemoryTarget(mixed.kafka)
    assert any("1 of 1 files hold records of several times" in note for note in planned(mixed, target).notes)
    restored(mixed, target)
    assert {one.timestamp for one in target.found("back")} == {NOW_MS}


@pytest.mark.parametrize("lives", range(7))
def test_whenever_it_dies_the_next_run_goes_on_and_nothing_is_doubled(lives: int) -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka, lives)
    with pytest.raises(Died):
        restored(world, target)
    target.lives = None
    (done,) = restored(world, target)
    assert values(target) == [b'{"n":%d}' % n for n in range(7)]
    assert (done.already_there, done.written, done.records) == (lives, 7 - lives, 7)
    (again,) = restored(world, target)
    assert (again.already_there, again.written, len(values(target))) == (7, 0, 7)


def test_records_of_others_in_the_target_do_not_matter() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka, 4)
    with pytest.raises(Died):
        restored(world, target)
    target.lives = None
    with target.sending(TopicPartition("back", 0), "others") as send:
        for _ in range(2000):
            send("back", Message(None, b"stranger", (), None), partition=0)
    restored(world, target)
    assert [value for value in values(target) if value != b"stranger"] == [b'{"n":%d}' % n for n in range(7)]


def restored_once(count: int, **config: Any) -> World:
    """A sink of a topic whose records a restore has marked, at the same offsets as those that it would mark itself."""
    first = numbered(count, **config)
    target = MemoryTarget(first.kafka)
    restored(first, target)
    records = first.kafka.records[TopicPartition("back", 0)]
    return written({"flush.size": "3", **HEADERS, **config}, records)


@pytest.mark.parametrize("lives", range(7))
def test_records_that_a_restore_has_marked_before_carry_its_own_mark_alone_and_are_not_doubled(lives: int) -> None:
    world = restored_once(7)
    target = MemoryTarget(world.kafka, lives)
    with pytest.raises(Died):
        restored(world, target)
    target.lives = None
    restored(world, target)
    found = world.kafka.records[TopicPartition("back", 0)]
    marks = [[value for name, value in one.headers if name == ORIGIN] for one in found]
    assert [one.value for one in found] == [b'{"n":%d}' % n for n in range(7)]
    assert [len(own) for own in marks] == [1] * 7
    assert len({own[0].split(b"/")[0] for own in marks if own[0]}) == 1


def test_forged_marks_neither_make_a_topic_whole_nor_move_a_restore() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka, 4)
    with pytest.raises(Died):
        restored(world, target)
    target.lives = None
    forged = world.kafka.records[TopicPartition("back", 0)][-1].headers[-1][1]
    assert forged is not None
    with target.sending(TopicPartition("back", 0), "others") as send:
        for mark in (forged.replace(b"/3/0/", b"/6/0/"), forged.replace(b"/3/0/", b"/0/0/")):
            send("back", Message(None, b"stranger", ((ORIGIN, mark),), None), partition=0)
    (done,) = restored(world, target)
    assert (done.already_there, done.written, done.records) == (4, 3, 7)
    assert [value for value in values(target) if value != b"stranger"] == [b'{"n":%d}' % n for n in range(7)]


def add_strangers(target: MemoryTarget, count: int, *, partition: int = 0) -> None:
    with target.sending(TopicPartition("back", partition), "others") as send:
        for _ in range(count):
            send("back", Message(None, b"stranger", (), None), partition=partition)


def test_a_topic_that_holds_records_of_others_is_refused_unless_it_is_appended_to() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka)
    target.create_topic("back", partitions=1)
    add_strangers(target, 3)

    with pytest.raises(ConfigError) as refused:
        planned(world, target)
    [problem] = refused.value.problems
    assert (problem.key, problem.value) == ("--to-topic", "back")
    assert "back-0 has 3 records (offsets 0 to 2)" in problem.rule
    assert "--append" in problem.remedy
    assert values(target) == [b"stranger"] * 3

    assert "back-0 has 3 records (offsets 0 to 2) of others" in " ".join(planned(world, target, append=True).notes)
    (done,) = restored(world, target, append=True)
    assert values(target) == [b"stranger"] * 3 + [b'{"n":%d}' % n for n in range(7)]
    assert done.document()["other_records"] == {"count": 3, "first": 0, "last": 2}


def test_records_of_others_that_come_after_the_plan_are_refused_too() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka)
    plan = planned(world, target)
    target.create_topic("back", partitions=1)
    add_strangers(target, 1)
    with pytest.raises(ConfigError, match="--append"):
        restore(
            plan.partitions, store=world.store, reading=reading_of(world.settings), target=target, notify=lambda _: None
        )
    assert values(target) == [b"stranger"]


@pytest.mark.parametrize("lives", range(1, 7))
def test_a_restore_that_goes_on_after_a_crash_needs_no_flag_whatever_it_appended_to(lives: int) -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka, lives)
    target.create_topic("back", partitions=1)
    target.lives = None
    add_strangers(target, 2)
    target.lives = lives
    with pytest.raises(Died):
        restored(world, target, append=True)
    target.lives = None
    restored(world, target)
    assert values(target) == [b"stranger"] * 2 + [b'{"n":%d}' % n for n in range(7)]


def test_all_partitions_with_records_of_others_are_reported_together() -> None:
    places = [TopicPartition("orders", number) for number in range(7)]
    world = World({"flush.size": "1"}, topics=tuple(places))
    for tp in places:
        world.add([0], tp=tp)
    world.start()
    world.sink.poll()
    world.sink.drain()
    target = MemoryTarget(world.kafka)
    target.create_topic("back", partitions=7)
    for number in range(7):
        add_strangers(target, number, partition=number)
    with pytest.raises(ConfigError) as refused:
        planned(world, target)
    [problem] = refused.value.problems
    assert "back-1 has 1 records (offsets 0 to 0), back-2 has 2 records" in problem.rule
    assert "and 1 more partitions" in problem.rule


def test_marks_without_a_progress_that_kafka_knows_are_refused() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka)
    restored(world, target)
    target.groups.clear()
    with pytest.raises(ConfigError, match=r"Kafka knows of no progress.*Choose another topic"):
        planned(world, target)


def test_a_target_that_was_deleted_and_created_again_begins_at_the_start() -> None:
    world = numbered(7)
    target = MemoryTarget(world.kafka)
    restored(world, target)
    world.kafka.records[TopicPartition("back", 0)].clear()
    world.kafka.ids["back"] = "another"
    restored(world, target)
    assert values(target) == [b'{"n":%d}' % n for n in range(7)]


def test_a_range_of_offsets_is_exact_where_records_fill_their_offsets() -> None:
    world = numbered(9)
    target = MemoryTarget(world.kafka)
    restored(world, target, RestoreSelection(first=2, last=6))
    assert values(target) == [b'{"n":%d}' % n for n in range(2, 7)]
    with pytest.raises(ConfigError, match="Choose the same range"):
        planned(world, target)


def test_a_range_of_times_takes_objects_and_says_which_are_whole() -> None:
    world = written({"flush.size": "3"}, [record(n, b'{"n":%d}' % n, timestamp=START_MS + 1000 * n) for n in range(9)])
    target = MemoryTarget(world.kafka)
    selection = RestoreSelection(since_ms=START_MS + 4000, until_ms=START_MS + 6000)
    assert any("1 objects reach over the ends" in note for note in planned(world, target, selection).notes)
    restored(world, target, selection)
    assert values(target) == [b'{"n":%d}' % n for n in range(3, 6)]


def test_what_was_read_again_comes_back_once() -> None:
    world = numbered(6)
    log = world.log()
    log.load()
    log.append(log.new_entry(EntryKind.POSITION, progress={ORDERS: Progress(2)}))
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    target = MemoryTarget(world.kafka)
    restored(world, target)
    assert values(target) == [b'{"n":%d}' % n for n in range(6)]


def test_objects_without_a_log_are_found_by_their_names() -> None:
    world = numbered(7, **KEYS)
    for key in world.store.objects:
        if key.startswith(STATE):
            world.store.delete(key)
    target = MemoryTarget(world.kafka)
    with pytest.raises(ConfigError, match="take --by-name"):
        planned(world, target)
    (done,) = restored(world, target, by_name=True)
    assert [(one.key, one.value) for one in target.found("back")] == [
        (f"key {n}".encode(), b'{"n":%d}' % n) for n in range(7)
    ]
    assert (done.records, done.written) == (None, 7)


def test_block_gzip_files_that_overlap_by_name_give_each_record_once() -> None:
    world = written({**BLOCKS}, [record(n, b"%d" % n) for n in range(3)])
    (first,) = [key for key in world.store.objects if key.endswith("-000000000000.gz")]
    other = written({**BLOCKS}, [record(n, b"%d" % n) for n in range(2, 5)])
    (second,) = [key for key in other.store.objects if key.endswith("-000000000002.gz")]
    world.store.put(second, other.store.get(second))
    target = MemoryTarget(world.kafka)
    restored(world, target, by_name=True)
    assert (first, values(target)) == (first, [b"%d" % n for n in range(5)])


def test_an_object_that_holds_others_than_the_log_counts_stops_it() -> None:
    world = numbered(3)
    (key,) = [key for key in world.store.objects if not key.startswith(STATE)]
    world.store.put(key, b'{"n":0}\n')
    with pytest.raises(ObjectUnreadable, match="hold 1 records, 3 are counted"):
        restored(world, MemoryTarget(world.kafka))
    world.store.put(key, b'{"n":0}')
    with pytest.raises(ObjectUnreadable, match="the last record has no end"):
        restored(world, MemoryTarget(world.kafka), to="other")


@pytest.mark.parametrize("left", [20, -1])
def test_a_gzip_object_that_is_cut_off_stops_a_restore_by_names(left: int) -> None:
    world = numbered(3, **{"s3.compression.type": "gzip"})
    (key,) = [key for key in world.store.objects if not key.startswith(STATE)]
    world.store.put(key, world.store.get(key)[:left])
    with pytest.raises(ObjectUnreadable, match="the last gzip member has no end"):
        restored(world, MemoryTarget(world.kafka), by_name=True)


def test_dead_letters_overlapping_directories_and_the_sinks_own_topic_are_reported() -> None:
    world = written(
        {"flush.size": "4", **TOLERANT, **FIELD},
        [record(n, b'{"d":"%d"}' % (n % 2) if n != 2 else b"{") for n in range(5)],
    )
    notes = " ".join(planned(world, MemoryTarget(world.kafka), to="orders-back").notes)
    assert "1 dead letters of orders-0 are in no object" in notes
    assert "order holds within a directory" in notes
    own = planned(world, MemoryTarget(world.kafka), to="orders", append=True)
    assert "The sink consumes orders" in " ".join(own.notes)


def test_topics_are_not_mixed_and_partitions_have_to_be_there() -> None:
    world = World({"flush.size": "1", "topics": "orders,items"}, topics=(ORDERS, TopicPartition("items", 1)))
    for tp in (ORDERS, TopicPartition("items", 1)):
        world.add([0], tp=tp)
    world.start()
    world.sink.poll()
    world.sink.drain()
    target = MemoryTarget(world.kafka)
    with pytest.raises(ConfigError, match="has no such objects"):
        planned(world, target, RestoreSelection(frozenset({"order"})))
    with pytest.raises(ConfigError, match="would mix items, orders"):
        planned(world, target)
    restored(world, target, to="back-${topic}")
    assert (len(values(target, "back-orders")), len(target.found("back-items", 1))) == (1, 1)
    target.create_topic("small", partitions=1)
    with pytest.raises(ConfigError, match="has 1 partitions, and items-1 needs partition 1"):
        planned(world, target, RestoreSelection(topics=frozenset({"items"})), to="small")
