"""A bucket is taken over where its connector stopped: what its keys and objects say, and what follows from that."""

from __future__ import annotations

import datetime
import gzip
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from rich.console import Console

from kafka_s3.cli.position import offsets_given, show_plan
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.connect.naming.keys import BlockNames, ConnectNames, index_key_of, rewritten_key
from kafka_s3.engine.log.entry import EntryKind
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.block_gzip_form import Block, index_bytes
from kafka_s3.objects.readers import record_count
from kafka_s3.ops.migration import (
    FoundObject,
    MigrationRefused,
    PartitionSurvey,
    Split,
    Takeover,
    TakeoverVerdict,
    apply,
    check_decided,
    check_stopped,
    split_of,
    survey,
    takeover,
    takeover_decision,
)
from kafka_s3.run.wiring.clients import configured_topics
from kafka_s3.store.memory import MemoryStore
from tests.support.configurations import FIELD, TIME
from tests.support.memory_world import ORDERS, World, settings_of

SAME = Split("", side_by_side=False, flush_size=5)
SAME_BESIDE = Split("", side_by_side=True)
CLOCK = Split("rotate.schedule.interval.ms", side_by_side=False)
CLOCK_BESIDE = Split("rotate.schedule.interval.ms", side_by_side=True)
ARRIVAL = Split("timestamp.extractor=Wallclock", side_by_side=False, stable=False)
UNSTABLE = Split("partitioner.class=mine", side_by_side=True, stable=False)
SCHEDULE = {"rotate.schedule.interval.ms": "60000", "timezone": "UTC"}
GROUP = "connect-orders"
JSON_FORMAT = "io.confluent.connect.s3.format.json.JsonFormat"


# ------------------------------------------------------------ decisions


def evidence(
    committed: int | None, *objects: tuple[Any, ...], start: int = 0, head: int = 100, more: int = 0
) -> PartitionSurvey:
    """Objects are (first offset, records) or (first offset, records, directory)."""
    found = tuple(FoundObject(f"key-{o[0]}", o[2] if len(o) > 2 else "d", o[0], o[1]) for o in objects)
    return PartitionSurvey(ORDERS, committed, found, len(found) + more, start, head)


TABLE = [
    # a clean stop, and what may lie before the group offset
    (evidence(10, (0, 5), (5, 5)), SAME, TakeoverVerdict.EQUAL, 10),
    (evidence(10, (0, 5), (5, 5)), CLOCK, TakeoverVerdict.EQUAL, 10),
    (evidence(10, (0, 5), (5, 3)), SAME, TakeoverVerdict.OBJECTS_END_BEFORE, 10),
    (evidence(10, (0, 4, "a"), (4, 3, "b"), (5, 3, "c")), SAME_BESIDE, TakeoverVerdict.EQUAL, 10),
    (evidence(10, (5, None)), SAME, TakeoverVerdict.NOT_COUNTED, 10),
    (evidence(10, (0, 5), (5, None)), SAME, TakeoverVerdict.NOT_COUNTED, 10),
    (evidence(10), SAME, TakeoverVerdict.NO_OBJECTS, 10),
    (evidence(None), SAME, TakeoverVerdict.NOTHING, None),
    # killed between upload and commit
    (evidence(10, (5, 5), (10, 5), (15, 5)), SAME, TakeoverVerdict.OVERWRITE, 10),
    (evidence(10, (5, 5), (10, None)), SAME, TakeoverVerdict.OVERWRITE, 10),
    (evidence(10, (5, 5), (10, 3, "a"), (11, 2, "b")), SAME_BESIDE, TakeoverVerdict.OVERWRITE, 10),
    (evidence(0, (0, 5)), SAME, TakeoverVerdict.OVERWRITE, 0),
    (
        evidence(10, (5, 5), (10, 8)),
        SAME,
        TakeoverVerdict.BEHIND_OBJECTS,
        18,
    ),  # more than flush.size: it was another one
    (evidence(10, (5, 5), (10, 8), (18, 3)), CLOCK, TakeoverVerdict.BEHIND_OBJECTS, 21),
    (evidence(10, (5, 5), (10, 8, "h=1"), (18, 3, "h=2")), ARRIVAL, TakeoverVerdict.BEHIND_OBJECTS, 21),
    (evidence(10, (5, 5), (10, None)), CLOCK, TakeoverVerdict.OVERWRITE, 10),  # the only one of its directory
    (evidence(10, (5, 5), (10, 8), (18, None)), CLOCK, TakeoverVerdict.UNDECIDED, None),
    (evidence(10, (5, 5), (10, None, "h=1")), ARRIVAL, TakeoverVerdict.UNDECIDED, None),
    (
        evidence(10, (5, 5), (10, 3), (15, 3)),
        CLOCK,
        TakeoverVerdict.UNDECIDED,
        None,
    ),  # offsets have gaps: the end is not known
    (evidence(10, (4, 5), (10, 3)), CLOCK, TakeoverVerdict.OVERWRITE, 10),
    (evidence(10, (5, 5), (10, 3, "a"), (11, 2, "b")), CLOCK_BESIDE, TakeoverVerdict.OVERWRITE, 10),
    (evidence(10, (5, 5), (10, 3, "a"), (13, 2, "a")), CLOCK_BESIDE, TakeoverVerdict.UNDECIDED, None),
    (evidence(10, (10, 3, "a")), UNSTABLE, TakeoverVerdict.UNDECIDED, None),
    # an object across the group offset
    (evidence(7, (0, 5), (5, 5)), SAME, TakeoverVerdict.BEHIND_OBJECTS, 10),
    (evidence(7, (0, 5), (5, 5), (10, 5)), SAME, TakeoverVerdict.BEHIND_OBJECTS, 15),
    (evidence(7, (0, 5), (5, 5)), SAME_BESIDE, TakeoverVerdict.UNDECIDED, None),
    # no group offset
    (evidence(None, (0, 5), (5, 5)), SAME, TakeoverVerdict.BEHIND_OBJECTS, 10),
    (evidence(None, (0, 5), (5, 5)), CLOCK, TakeoverVerdict.BEHIND_OBJECTS, 10),
    (evidence(None, (0, 3, "a"), (1, 2, "b")), SAME_BESIDE, TakeoverVerdict.OVERWRITE, 0),
    (
        evidence(None, (0, 8), (6, 8)),
        SAME,
        TakeoverVerdict.UNDECIDED,
        None,
    ),  # cut at another flush.size: what is written from 0 on lies beside them
    (evidence(None, (3, None), start=3), SAME, TakeoverVerdict.OVERWRITE, 3),
    (evidence(None, (3, 2, "a"), start=4), SAME_BESIDE, TakeoverVerdict.UNDECIDED, None),
    (evidence(None, (0, 3, "a"), (1, 2, "b")), CLOCK_BESIDE, TakeoverVerdict.UNDECIDED, None),
    # what Kafka has
    (evidence(10, (5, 5), (10, 5), start=12), SAME, TakeoverVerdict.BEHIND_OBJECTS, 15),
    (evidence(10, (5, 5), (10, 5), start=20), SAME, TakeoverVerdict.LOST, 15),
    (evidence(10, (5, 5), start=12), SAME, TakeoverVerdict.LOST, 10),
    (evidence(10, (10, 3, "a"), start=12), SAME_BESIDE, TakeoverVerdict.UNDECIDED, None),
    (evidence(10, (5, 5), head=9), SAME, TakeoverVerdict.UNDECIDED, None),
    (evidence(10, (5, 5), (10, 5), head=12), CLOCK, TakeoverVerdict.UNDECIDED, None),
]


@pytest.mark.parametrize(("found", "split", "verdict", "offset"), TABLE)
def test_the_decision(found: PartitionSurvey, split: Split, verdict: TakeoverVerdict, offset: int | None) -> None:
    decision = takeover_decision(found, split)
    assert (decision.verdict, decision.offset) == (verdict, offset), decision.why
    assert decision.why.endswith(".")
    assert ("--offset orders-0=OFFSET" in decision.why) == (verdict is TakeoverVerdict.UNDECIDED)


def test_deleting_is_advised_only_where_the_records_can_be_written_again() -> None:
    assert "Delete them" in takeover_decision(evidence(10, (10, 3), (13, None)), CLOCK).why
    assert "Delete" not in takeover_decision(evidence(10, (10, 3), (13, None), start=11), CLOCK).why


@over(st.data())
def test_without_gaps_no_record_is_lost_and_none_stays_in_two_objects(data: st.DataObject) -> None:
    """One directory at a time: any cut of the records, any crash."""
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    committed = data.draw(st.sampled_from([*starts, sum(sizes)]))
    split = data.draw(st.sampled_from([SAME, CLOCK, ARRIVAL]))
    decision = takeover_decision(evidence(committed, *zip(starts, sizes, strict=True)), split)

    if split is SAME:
        assert decision.offset == committed  # what lies ahead is overwritten
    else:
        assert decision.offset == sum(sizes)


@over(st.data())
def test_side_by_side_the_offset_is_that_of_the_group_or_nobodys(data: st.DataObject) -> None:
    objects = data.draw(st.lists(st.tuples(st.integers(10, 30), st.integers(1, 5), st.sampled_from("abc")), max_size=6))
    decision = takeover_decision(
        evidence(10, *sorted(set(objects))), data.draw(st.sampled_from([SAME_BESIDE, CLOCK_BESIDE]))
    )
    assert decision.offset in (10, None)


# ------------------------------------------------------------ counts


def counted(name: str, data: bytes, form: str) -> int | None:
    store = MemoryStore()
    store.put(name, data)
    return record_count(store, name, size=len(data), form=form)


def parquet_bytes(rows: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(rows))}), out, row_group_size=3)
    return out.getvalue()


def avro_bytes(rows: int, codec: str) -> bytes:
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    fastavro.writer(out, schema, [{"n": n} for n in range(rows)], codec=codec, sync_interval=20)
    return out.getvalue()


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_every_format_says_how_many_records_an_object_holds(rows: int) -> None:
    lines = b'{"n":1}\n' * rows
    assert counted("a.json", lines, "json") == rows
    assert counted("a.json.gz", gzip.compress(lines), "json") == rows
    assert counted("a.json", lines + b'{"n":2}', "json") == rows + 1  # the last line need not have an end
    assert counted("a.parquet", parquet_bytes(rows), "parquet") == rows
    assert counted("a.avro", avro_bytes(rows, "null"), "avro") == rows
    assert counted("a.avro", avro_bytes(rows, "deflate"), "avro") == rows


@pytest.mark.parametrize("form", ["json", "parquet", "avro", "bytearray"])
@pytest.mark.parametrize("data", [b"", b"PAR1", b"Obj\x01", b"Obj\x01\x02\x06a", b"\xff\xff\xff\x7fPAR1PAR1PAR1"])
def test_what_cannot_be_counted_is_not(form: str, data: bytes) -> None:
    name = "a.json.gz" if form == "json" and data else "a"
    assert counted(name, data, form) == (0 if form == "json" and not data else None)


def test_a_footer_is_fetched_without_the_data() -> None:
    data = parquet_bytes(5000)
    asked: list[int] = []

    class FooterOnly(MemoryStore):
        def get(self, key: str) -> bytes:
            raise AssertionError("the whole object was fetched")

        def get_range(self, key: str, first: int, last: int) -> bytes:
            asked.append(last - first + 1)
            return self.objects[key][first : last + 1]

    store = FooterOnly()
    store.put("a.parquet", data)
    assert record_count(store, "a.parquet", size=len(data), form="parquet") == 5000
    assert sum(asked) < len(data) / 2 + 10_000


# ------------------------------------------------------------ how files split


@pytest.mark.parametrize(
    ("config", "clock", "side_by_side", "stable"),
    [
        ({}, "", False, True),
        (FIELD, "", True, True),
        (TIME, "", True, True),
        (TIME | {"rotate.interval.ms": "1000"}, "", True, True),
        (TIME | {"timestamp.extractor": "Wallclock"}, "timestamp.extractor=Wallclock", False, False),
        (SCHEDULE, "rotate.schedule.interval.ms", False, True),
        (TIME | SCHEDULE, "rotate.schedule.interval.ms", True, True),
        ({"flush.idle.ms": "1000"}, "flush.idle.ms, which the connector did not have", False, True),
        ({"s3.schema.partition.affix.type": "PREFIX"}, "", True, True),
        ({"behavior.on.null.values": "write", "store.kafka.keys": "true"}, "", True, True),
    ],
)
def test_what_makes_a_split_depend_on_the_clock(
    config: dict[str, str], clock: str, side_by_side: bool, stable: bool
) -> None:
    split = split_of(settings_of({"flush.size": "3", **config}))
    assert split == Split(clock, side_by_side=side_by_side, stable=stable, flush_size=3)


# ------------------------------------------------------------ in a world


def naming_key(offset: int, directory: str = "partition=0", extension: str = ".json") -> str:
    return ConnectNames("topics", "/", "+", 10).key(ORDERS, directory, offset=offset, extension=extension)


def left(*, group: int | None, objects: dict[str, Iterable[int]], records: int = 20, **config: str) -> World:
    """A world as a connector leaves it."""
    world = World({"flush.size": "5", **config})
    world.add(range(records))
    for key, numbers in objects.items():
        world.store.put(key, "".join(json.dumps({"n": n}) + "\n" for n in numbers).encode())
    if group is not None:
        world.kafka.commit_group(GROUP, {ORDERS: group})
    return world


def looked(world: World, by_hand: int | None = None) -> Takeover:
    topics = configured_topics(world.settings, world.kafka)
    found = survey(world.settings, world.kafka, store=world.store, group=GROUP, topics=topics)
    return takeover(found, {} if by_hand is None else {ORDERS: by_hand})


def gone_on(world: World) -> list[int]:
    """Takes over and drains; every number in the bucket."""
    apply(looked(world), world.log(), world.kafka)
    world.start().poll_and_commit()
    return sorted(n for numbers in world.numbers().values() for n in numbers)


def test_a_clean_stop_goes_on_at_the_group_offset() -> None:
    world = left(group=10, objects={naming_key(0): range(5), naming_key(5): range(5, 10)})
    (decision,) = looked(world).decisions

    assert (decision.verdict, decision.offset) == (TakeoverVerdict.EQUAL, 10)
    assert gone_on(world) == list(range(20))
    first, second = world.entries()[:2]
    assert (first.kind, second.kind) == (EntryKind.EPOCH, EntryKind.POSITION)
    assert (second.gaps, second.topic_ids) == ((), {"orders": "id-orders"})
    assert world.kafka.groups[GROUP] == {ORDERS: 20}


@pytest.mark.parametrize("originals", [True, False], ids=["originals still there", "originals gone"])
@pytest.mark.parametrize("group", [10, None])
def test_an_object_that_a_rewrite_made_is_counted_once_with_and_without_what_it_was_made_from(
    group: int | None, originals: bool
) -> None:
    old = {naming_key(0): range(5), naming_key(5): range(5, 10)} if originals else {}
    merged = rewritten_key(naming_key(0), ".json", last=9, width=10, rewrite="5f2c91ab")
    world = left(group=group, objects={**old, merged: range(10)})
    (decision,) = looked(world).decisions
    verdict = TakeoverVerdict.EQUAL if group else TakeoverVerdict.BEHIND_OBJECTS
    assert (decision.verdict, decision.offset, len(decision.evidence.objects)) == (verdict, 10, 1)


def test_a_crash_between_upload_and_commit_is_written_over_where_files_split_the_same_way() -> None:
    world = left(group=5, objects={naming_key(0): range(5), naming_key(5): range(5, 10), naming_key(10): range(10, 15)})
    assert looked(world).decisions[0].verdict is TakeoverVerdict.OVERWRITE
    assert gone_on(world) == list(range(20))
    assert [naming_key(at) for at in (0, 5, 10, 15)] == sorted(world.numbers())


def test_a_crash_under_a_schedule_goes_on_behind_the_objects() -> None:
    world = left(group=5, objects={naming_key(0): range(5), naming_key(5): range(5, 8)}, **SCHEDULE)
    assert looked(world).decisions[0].verdict is TakeoverVerdict.BEHIND_OBJECTS
    assert gone_on(world) == list(range(18))  # the tail waits for the schedule
    assert naming_key(8) in world.numbers()


def test_directories_side_by_side_are_written_over_though_only_some_were_uploaded() -> None:
    def at(directory: int, offset: int) -> str:
        return naming_key(offset, f"d={directory}")

    def given(n: int) -> bytes:
        fields = [{"field": "d", "type": "int32"}, {"field": "n", "type": "int32"}]
        return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"d": n % 2, "n": n}}).encode()

    config = FIELD | SCHEDULE | {"value.converter.schemas.enable": "true"}
    world = left(group=4, objects={at(0, 0): [0, 2], at(1, 1): [1, 3], at(0, 4): [4, 6, 8]}, **config)
    world.kafka.records[ORDERS] = [replace(r, value=given(r.offset)) for r in world.kafka.records[ORDERS]]

    assert gone_on(world) == list(range(19))  # nine of a flush of 5, 4 and the odd ones between
    assert world.frontier() >= 19


def test_objects_of_keys_stand_for_files_of_tombstones() -> None:
    config = {"behavior.on.null.values": "write", "store.kafka.keys": "true", "keys.format.class": JSON_FORMAT}
    keys = {naming_key(0): range(4), naming_key(0, extension=".keys.json"): range(4)}
    keys[naming_key(4, "tombstone", ".keys.json")] = [4]
    world = left(group=5, objects=keys, **config)
    (decision,) = looked(world).decisions

    assert decision.evidence.total == 2
    assert (decision.verdict, decision.offset) == (TakeoverVerdict.EQUAL, 5)


def test_nothing_is_applied_while_the_connector_runs_or_something_is_undecided() -> None:
    world = left(group=5, objects={naming_key(0): range(5), naming_key(5): range(5, 8), naming_key(9): [9]}, **SCHEDULE)
    world.kafka.members[GROUP] = ["connector-consumer-orders-0 at /10.0.0.7"]
    plan = looked(world)
    with pytest.raises(MigrationRefused, match=r"live members \(connector-consumer-orders-0 at /10\.0\.0\.7\)"):
        check_stopped(plan.survey)
    whole = r"^Not decided\. orders-0: .*Delete them.*--offset orders-0=OFFSET\. Nothing was written\.$"
    with pytest.raises(MigrationRefused, match=whole):
        check_decided(plan)
    with pytest.raises(MigrationRefused):
        apply(plan, world.log(), world.kafka)
    assert world.entries() == []

    by_hand = looked(world, by_hand=10)
    assert by_hand.decisions[0].verdict is TakeoverVerdict.GIVEN
    apply(by_hand, world.log(), world.kafka)
    assert world.frontier() == 10


@pytest.mark.parametrize("offset", [-1, 21])
def test_an_offset_by_hand_lies_in_kafka(offset: int) -> None:
    with pytest.raises(MigrationRefused, match="from 0 to 20"):
        looked(left(group=5, objects={}), by_hand=offset)


def test_nothing_found_is_reported() -> None:
    with pytest.raises(MigrationRefused, match="Check the connector's name"):
        check_decided(looked(left(group=None, objects={})))


def test_a_sink_that_has_read_records_is_not_migrated_again() -> None:
    world = left(group=5, objects={naming_key(0): range(5)})
    plan = looked(world)
    assert apply(plan, world.log(), world.kafka) is not None
    assert apply(plan, world.log(), world.kafka) is None  # still at the start
    world.start().poll_and_commit()
    with pytest.raises(MigrationRefused, match="already: this sink has taken over"):
        apply(plan, world.log(), world.kafka)


def test_the_plan_is_shown_with_numbers_and_reasons() -> None:
    world = left(group=5, objects={naming_key(0): range(5), naming_key(5): range(5, 10)})
    world.store.put(naming_key(0).replace("+0+", "+7+"), b"{}\n")
    out = Console(file=io.StringIO(), width=220)
    show_plan(out, looked(world))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "Taking over from group connect-orders" in text
    assert "objects ahead, overwritten" in text
    assert "1 objects belong to partitions that Kafka does not have" in text


def test_offsets_by_hand_name_their_partition() -> None:
    assert offsets_given(["a-b-0=42"]) == {TopicPartition("a-b", 0): 42}
    with pytest.raises(ConfigError, match="TOPIC-PARTITION=OFFSET"):
        offsets_given(["orders=42"])


# ------------------------------------------------------------ Block-GZIP


def block_settings(connector: str) -> Settings:
    config = {
        "name": "orders", "connector.class": connector, "topics": "orders", "s3.bucket": "bucket", "local.buffer.dir": "/tmp",
        "kafka.bootstrap.servers": "memory:9092", "s3.prefix": "lake",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }  # fmt: skip
    return resolved(validate(config).usable())


ORIGINAL = "com.deviantart.kafka_connect_s3.S3SinkConnector"
SUCCESSOR = "com.spredfast.kafka.connect.s3.sink.S3SinkConnector"


def block_world(
    settings: Settings, *, pointer: int | None, group: int | None, files: dict[int, int], indexed: bool
) -> World:
    world = World({"flush.size": "5"})
    world.settings = settings
    world.add(range(20))
    names = BlockNames("lake")
    for first, records in files.items():
        key = names.key_of_day(ORDERS, first, day=datetime.date(2024, 1, 15))
        world.store.put(key, gzip.compress(b"{}\n" * records))
        if indexed or first != max(files):
            world.store.put(index_key_of(key), index_bytes([Block(1, records, 1, 0, first)]))
        if first == pointer:
            world.store.put(names.pointer_key(ORDERS), index_key_of(key).encode())
    if group is not None:
        world.kafka.commit_group(GROUP, {ORDERS: group})
    return world


@pytest.mark.parametrize(
    ("connector", "pointer", "group", "indexed", "verdict", "offset"),
    [
        (ORIGINAL, 5, 3, True, TakeoverVerdict.EQUAL, 10),  # the pointer counts, whatever the group says
        (ORIGINAL, 0, 10, True, TakeoverVerdict.BEHIND_OBJECTS, 10),  # killed before the pointer was written
        (ORIGINAL, 0, 10, False, TakeoverVerdict.BEHIND_OBJECTS, 10),  # killed before the index was written
        (ORIGINAL, None, 10, True, TakeoverVerdict.BEHIND_OBJECTS, 10),
        (SUCCESSOR, 0, 10, True, TakeoverVerdict.EQUAL, 10),  # the group counts, whatever the pointer says
        (SUCCESSOR, 5, 5, True, TakeoverVerdict.BEHIND_OBJECTS, 10),
        (SUCCESSOR, 5, 12, True, TakeoverVerdict.OBJECTS_END_BEFORE, 12),
    ],
)
def test_a_block_gzip_bucket(
    connector: str, pointer: int | None, group: int, indexed: bool, verdict: TakeoverVerdict, offset: int
) -> None:
    world = block_world(block_settings(connector), pointer=pointer, group=group, files={0: 5, 5: 5}, indexed=indexed)
    (decision,) = looked(world).decisions
    assert (decision.verdict, decision.offset) == (verdict, offset), decision.why
