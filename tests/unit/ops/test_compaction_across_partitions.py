"""Small files of all Kafka partitions of a topic become one object: with which contents and name, and what all tools say of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3 import __version__
from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.naming.keys import (
    LONGEST_NAME,
    ObjectKey,
    fits_in_name,
    last_of_rewritten,
    rewritten_key,
    slices_of_rewritten,
)
from kafka_s3.engine.log.committed import committed_files
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, WaitingFile, read_entry
from kafka_s3.engine.log.fold import checkpoint_json, live_objects, read_checkpoint
from kafka_s3.engine.log.history import entries_of, tables_of, without_upload_ids
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges
from kafka_s3.model.errors import CommitError, ConfigError, SinkError
from kafka_s3.model.files import Role, Slice
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.objects.readers import ObjectUnreadable
from kafka_s3.ops.compaction import Compaction, compaction_of
from kafka_s3.ops.erasure.forgetting import Forgetting, Searched
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.explain.answer import Outcome
from kafka_s3.ops.explain.inquiry import explain
from kafka_s3.ops.migration import survey
from kafka_s3.ops.positions import remake_of_move, write_positions
from kafka_s3.ops.restore.files import FileTable, RestoreSelection, logged_files, named_files
from kafka_s3.ops.restore.plan import reading_of
from kafka_s3.ops.verify.claims import SegmentSelection
from kafka_s3.run.wiring.clients import configured_topics
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import object_names
from kafka_s3.testing.services.memory import MemoryRecord
from tests.support.configurations import TIME
from tests.support.memory_world import BASE, START_MS, World, rows
from tests.support.verifying import MemoryCluster, audited

MINUTE_MS, GRACE_MS, TARGET = 60_000, 3_600_000, 1 << 20
PARTITIONS = tuple(TopicPartition("orders", number) for number in range(3))
FIRST, SECOND, THIRD = PARTITIONS
EACH = 7
"""Records of a partition, in files of three; what is left is one more."""
FORMAT = "io.confluent.connect.s3.format."
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "p", "type": "int64"},
        {"field": "n", "type": "int64"},
        {"field": "who", "type": "string"},
    ],
}
KINDS: dict[str, dict[str, str]] = {
    "json": {},
    "gzip": {"s3.compression.type": "gzip"},
    "bytes": {
        "format.class": f"{FORMAT}bytearray.ByteArrayFormat",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "format.bytearray.separator": "||",
    },
    "avro": {"format.class": f"{FORMAT}avro.AvroFormat", "value.converter.schemas.enable": "true"},
    "parquet": {"format.class": f"{FORMAT}parquet.ParquetFormat", "value.converter.schemas.enable": "true"},
    "sidecars": {"store.kafka.keys": "true", "keys.format.class": f"{FORMAT}json.JsonFormat",
                 "key.converter": "org.apache.kafka.connect.storage.StringConverter"},
}  # fmt: skip
ALL = Counter((tp.partition, n) for tp in PARTITIONS for n in range(EACH))


def add(world: World, tp: TopicPartition, numbers: range) -> None:
    for n in numbers:
        value: Any = {"p": tp.partition, "n": n, "who": f"w{n}"}
        if world.settings.flag("value.converter.schemas.enable"):
            value = {"schema": SCHEMA, "payload": value}
        record = MemoryRecord(n, START_MS, f"{tp.partition}-{n}".encode(), json.dumps(value).encode())
        world.kafka.add(tp, record)


def filled(kind: str = "json", **config: str) -> World:
    """Three files of each of three partitions in one directory; no driver is at work."""
    world = World(
        {
            **TIME, "flush.size": "3", "rewrite.grace.ms": str(GRACE_MS), "rotate.schedule.interval.ms": str(MINUTE_MS),
            **KINDS[kind], **config,
        },
        topics=PARTITIONS,
    )  # fmt: skip
    world.start()
    for tp in PARTITIONS:
        add(world, tp, range(EACH))
    for _ in range(2):
        assert world.sink.poll_and_commit()
        world.now += 2 * MINUTE_MS
    return world


def compaction(world: World) -> Compaction:
    return replace(compaction_of(world.settings, world.store, clock_ms=lambda: world.now, warn=pytest.fail), wait_s=0.0)


def compact(world: World, target: int = TARGET) -> list[CommitEntry]:
    return list(compaction(world).run(CompactionRules(target, world.now, across=True)))


def compacted(kind: str = "json", **config: str) -> World:
    world = filled(kind, **config)
    assert compact(world)
    return world


def merged_key(world: World, role: Role = Role.VALUE) -> str:
    (key,) = [key for key, one in live_objects(world.entries()).items() if one.file.role is role]
    return key


def until_originals_are_gone(world: World) -> None:
    world.start()
    for _ in range(3):
        world.now += GRACE_MS
        assert world.sink.poll_and_commit()


def places(world: World) -> Counter[tuple[int, int]]:
    """Partition and offset of each record, as the log counts them in its objects."""
    found = Counter[tuple[int, int]]()
    for one in committed_files(world.entries(), "orders"):
        file = one.facts
        held = rows(file.key, world.store.objects[file.key])
        begin = 0 if file.place is None else file.place[0]
        assert len(held) == (file.records if file.place is None else file.place[1])
        own = held[begin : begin + one.rows]
        assert {row["p"] for row in own} <= {file.partition}, file.key
        found.update((row["p"], row["n"]) for row in own)
    return found


def forget(world: World, where: str) -> tuple[Searched, CommitEntry]:
    work = Forgetting(
        world.settings, world.store, subjects_of(None, where, None), lambda: world.now, pytest.fail,
        MemoryCluster(world.kafka),
    )  # fmt: skip
    work = replace(work, wait_s=0.0)
    searched = work.search()
    (entry,) = work.run(searched)
    return searched, entry


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_all_partitions_become_one_with_the_same_records_and_verify_finds_nothing_wrong(kind: str) -> None:
    world = filled(kind)
    (entry,) = compact(world)
    roles = 2 if kind == "sidecars" else 1
    assert [swap.records for swap in entry.swaps] == [3 * EACH] * roles
    assert [len(swap.keys) for swap in entry.swaps] == [9] * roles
    for file in entry.files:
        assert file.slices == tuple(Slice(tp.partition, 0, EACH - 1, EACH) for tp in PARTITIONS)
        assert (file.topic_partition, file.records) == (FIRST, 3 * EACH)
    assert merged_key(world).startswith("topics/orders/h=10/orders+0+0000000000-0000000006_1-0-6_2-0-6.")

    report = audited(world)
    assert [str(one) for one in report.findings] == []
    assert [tally.written for tally in report.tallies] == [EACH] * 3
    until_originals_are_gone(world)
    keys = [key for key in world.store.objects if key.startswith("topics/")]
    assert len(keys) == roles
    assert audited(world).findings == ()
    assert audited(world, kafka=False).findings == ()
    if kind in ("json", "gzip", "sidecars"):
        assert places(world) == ALL


def test_without_being_asked_each_partition_has_an_object_of_its_own() -> None:
    world = filled()
    assert list(compaction(world).run(CompactionRules(TARGET, world.now)))
    assert len(live_objects(world.entries())) == 3
    assert all(not one.file.slices for one in live_objects(world.entries()).values())
    world.now += 2 * MINUTE_MS
    compact(world)
    assert places(world) == ALL
    assert merged_key(world).count("_") == 2
    world.now += 2 * MINUTE_MS
    assert list(compaction(world).run(CompactionRules(TARGET, world.now))) == [], "it has several partitions"


def test_what_comes_later_is_put_behind_an_earlier_compaction() -> None:
    world = compacted()
    world.start()
    for tp in PARTITIONS[:2]:
        add(world, tp, range(EACH, EACH + 3))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    (entry,) = compact(world)
    (file,) = entry.files
    assert [(one.partition, one.first_offset, one.last_offset) for one in file.slices] == [
        (0, 0, 6), (1, 0, 6), (2, 0, 6), (0, 7, 9), (1, 7, 9),
    ]  # fmt: skip
    until_originals_are_gone(world)
    assert places(world) == ALL + Counter((tp.partition, n) for tp in PARTITIONS[:2] for n in range(7, 10))
    assert [str(one) for one in audited(world).findings] == []
    assert len([key for key in world.store.objects if key.startswith("topics/")]) == 1


def test_entries_checkpoints_and_tables_say_it_in_a_form_that_earlier_versions_refuse() -> None:
    world = filled()
    (entry,) = compact(world)
    stored = json.loads(entry.to_json())
    assert (stored["format"], stored["product"]) == (4, __version__)
    assert read_entry(entry.to_json(), key="e") == entry
    assert list(entries_of(tables_of([entry]))) == [without_upload_ids(entry)]
    log = world.log()
    log.load()
    assert log.last is not None
    content = checkpoint_json(log.state, log.last)
    assert json.loads(content)["format"] == 4
    assert read_checkpoint(content, key="c")[0] == log.state
    waits = log.new_entry(EntryKind.EPOCH, waiting=(WaitingFile(entry.version, entry.files[0]),))
    assert json.loads(waits.to_json())["format"] == 4
    assert read_entry(waits.to_json(), key="e") == waits
    plain = filled()
    (entry,) = compaction(plain).run(CompactionRules(TARGET, plain.now))
    assert json.loads(entry.to_json())["format"] == 3, "nothing new is said"


@pytest.mark.parametrize("back", range(EACH + 1))
@pytest.mark.parametrize("tp", PARTITIONS)
def test_a_position_that_is_set_back_reads_the_records_of_its_own_partition_again_and_no_others(
    tp: TopicPartition, back: int
) -> None:
    world = compacted()
    write_positions(world.log(), world.kafka, {tp: back})
    until_originals_are_gone(world)
    assert places(world) == ALL
    assert [str(one) for one in audited(world).findings] == []
    left = {key for key in world.store.objects if key.startswith("topics/") and last_of_rewritten(key) is None}
    others = {key for key in left if f"orders+{tp.partition}+" not in key}
    assert others == set(), "originals of the other partitions are deleted"
    world.now += 2 * MINUTE_MS
    compact(world)
    assert places(world) == ALL, "an object of which a part counts elsewhere is left alone"


def test_an_upload_that_is_gone_is_made_again_and_a_move_of_one_partition_does_not_give_it_up() -> None:
    world = filled()
    (entry,) = compact(world)
    (file,) = entry.files
    remake = remake_of_move({FIRST: 0}, world.kafka)
    with pytest.raises(CommitError, match="A run makes them again"):
        remake(entry, [file])
    assert remake_of_move({tp: 0 for tp in PARTITIONS}, world.kafka)(entry, [file]).files == ()
    compactor = compactor_of(world.settings, world.store)
    (made,) = compactor.remake(entry, [file]).files
    assert (made.bytes, made.slices, made.upload.parts) == (file.bytes, file.slices, file.upload.parts)


@pytest.mark.parametrize("kind", ["json", "gzip", "avro", "parquet", "sidecars"])
def test_somebodys_records_leave_each_slice_and_the_offsets_of_the_others_stay_known(kind: str) -> None:
    world = compacted(kind)
    searched, entry = forget(world, "who = w3")
    assert (searched.found.records, searched.found.objects) == (3, 2 if kind == "sidecars" else 1)
    assert entry.erased == {tp: OffsetSet.of([3]) for tp in PARTITIONS}
    assert entry.erasure is not None
    assert entry.erasure.records == dict.fromkeys(PARTITIONS, 1)
    for file in entry.files:
        assert file.slices == tuple(Slice(tp.partition, 0, EACH - 1, EACH - 1) for tp in PARTITIONS)
    assert "-0000000006n6_1-0-6n6_2-0-6n6." in merged_key(world)
    until_originals_are_gone(world)
    report = audited(world)
    assert [str(one) for one in report.findings] == []
    assert [tally.erased for tally in report.tallies] == [1] * 3
    for one in committed_files(world.entries(), "orders"):
        assert (one.first_offset, one.erased) == (0, OffsetSet.of([3]))
    write_positions(world.log(), world.kafka, {SECOND: 2})
    until_originals_are_gone(world)
    assert audited(world).findings == ()
    if kind in ("json", "gzip", "sidecars"):
        assert places(world) == Counter({place: 1 for place in ALL if place[1] != 3})


def test_all_records_of_a_partition_may_go_and_those_that_were_read_again_are_not_taken_over() -> None:
    world = compacted()
    write_positions(world.log(), world.kafka, {SECOND: 0})
    searched, entry = forget(world, "p = 0")
    assert searched.found.records == EACH
    (file,) = entry.files
    assert [one.records for one in file.slices] == [0, 0, EACH]
    until_originals_are_gone(world)
    assert places(world) == Counter({place: 1 for place in ALL if place[0] != 0})
    assert [str(one) for one in audited(world).findings] == []
    forget(world, "p = 2")
    until_originals_are_gone(world)
    assert places(world) == Counter({place: 1 for place in ALL if place[0] == 1})
    assert [str(one) for one in audited(world).findings] == []


def test_explain_knows_the_slice_of_a_record_and_the_offsets_of_all_partitions() -> None:
    world = filled()
    (entry,) = compact(world)

    def ask(about: str) -> Any:
        return explain(world.settings, about, store=world.store, kafka=None)

    for tp in PARTITIONS:
        found = ask(f"orders:{tp.partition}:4")
        assert found.outcome is Outcome.OBJECT
        assert f"Commit entry {entry.version}" in found.text
        assert "It is in one of these" not in found.text, "the log alone says so"
        (document,) = found.document()["entries"][-1]["objects"]
        assert (document["key"], document["partition"], document["records"]) == (
            merged_key(world),
            tp.partition,
            EACH,
        )
    merged = ask(merged_key(world))
    assert "offsets 0 to 6 of orders-0, offsets 0 to 6 of orders-1, offsets 0 to 6 of orders-2" in merged.text
    assert "made from 9 objects" in merged.text
    (document,) = merged.document()["entries"][-1]["objects"]
    assert [one["partition"] for one in document["slices"]] == [0, 1, 2]
    assert ask("topics/orders/h=10/orders+1+0000000003.json").outcome is Outcome.REPLACED
    write_positions(world.log(), world.kafka, {SECOND: 0})
    assert "Some of its records were read again" in ask(merged_key(world)).text


def restored(world: World, table: FileTable) -> Counter[tuple[int, int]]:
    """What would be sent, by the partition that it would be sent to; in each in the order of offsets."""
    found = Counter[tuple[int, int]]()
    for tp in table.topic_partitions():
        numbers = list[int]()
        for file in table.of(tp):
            for message in reading_of(world.settings).messages(world.store, file):
                assert message.value is not None
                value = json.loads(message.value)
                assert value["p"] == tp.partition
                numbers.append(value["n"])
        assert numbers == sorted(numbers)
        found.update((tp.partition, n) for n in numbers)
    return found


@pytest.mark.parametrize("kind", ["json", "gzip", "avro", "parquet", "sidecars"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_restore_sends_each_record_to_its_partition_by_the_log_and_by_names(kind: str, gone: bool) -> None:
    world = compacted(kind)
    if gone:
        until_originals_are_gone(world)
    layout = object_names(world.settings)
    by_log, _ = logged_files(world.entries(), lambda tp: True)
    by_name = named_files(world.store, layout, ["orders"], prefix=None, bytes_extension=".bin")
    assert restored(world, by_log) == restored(world, by_name) == ALL
    forget(world, "who = w3")
    until_originals_are_gone(world)
    left = Counter({place: 1 for place in ALL if place[1] != 3})
    by_log, _ = logged_files(world.entries(), lambda tp: True)
    by_name = named_files(world.store, layout, ["orders"], prefix=None, bytes_extension=".bin")
    assert restored(world, by_log) == restored(world, by_name) == left
    only, _ = logged_files(world.entries(), lambda tp: tp == SECOND)
    assert only.topic_partitions() == [SECOND]


def test_a_restore_of_some_offsets_takes_them_out_of_the_slice_of_their_partition() -> None:
    world = compacted()
    write_positions(world.log(), world.kafka, {SECOND: 6})
    table, _ = logged_files(world.entries(), lambda tp: True)
    selection = RestoreSelection(partition=1, first=2, last=9)
    (file,) = table.of(SECOND)
    cut, whole = selection.cut(file)
    assert cut is not None
    assert (cut.wanted, whole) == (4, False)
    messages = reading_of(world.settings).messages(world.store, cut)
    found = [(json.loads(one.value or b"")["n"], one.origin) for one in messages]
    assert found == [(n, ("orders", 1, n)) for n in range(2, 6)]


def test_a_survey_of_the_bucket_reads_where_each_partition_ends_from_names() -> None:
    world = compacted()
    until_originals_are_gone(world)
    topics = configured_topics(world.settings, world.kafka)
    found = survey(world.settings, world.kafka, store=world.store, group="connect-orders", topics=topics)
    assert {one.topic_partition: (one.until, one.total) for one in found.evidence} == dict.fromkeys(
        PARTITIONS, (EACH, 1)
    )


def test_an_object_is_checked_once_whichever_partition_is_asked_for() -> None:
    world = compacted()
    until_originals_are_gone(world)
    assert sum(tally.objects for tally in audited(world).tallies) == 1
    key = merged_key(world)
    world.store.put(key, world.store.get(key).replace(b'"n":6', b'"n":7'))
    for tp in PARTITIONS:
        report = audited(world, selection=SegmentSelection(partition=tp.partition))
        assert [str(one.kind) for one in report.findings if one.place == key] != []
        assert sum(tally.objects for tally in report.tallies) == 1


def test_a_name_that_would_be_too_long_ends_the_object() -> None:
    partitions = tuple(TopicPartition("orders", number) for number in range(60))
    world = World({**TIME, "flush.size": "3", "rewrite.grace.ms": str(GRACE_MS)}, topics=partitions)
    world.start()
    for tp in partitions:
        add(world, tp, range(6))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    (entry,) = compact(world)
    assert 1 < len(entry.files) < 6
    assert all(len(file.key.rpartition("/")[2]) <= LONGEST_NAME for file in entry.files)
    until_originals_are_gone(world)
    assert sum(len(file.slices) for file in entry.files) == 60
    assert sum(places(world).values()) == 360
    assert [str(one) for one in audited(world).findings] == []
    forget(world, "who = w3")
    for one in live_objects(world.entries()).values():
        assert len(one.file.key.rpartition("/")[2]) <= LONGEST_NAME


SLICES = st.lists(
    st.tuples(st.integers(0, 99_999), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=9
)  # fmt: skip


@given(SLICES, st.sampled_from(["+", "-", "_", "."]))
def test_a_name_says_all_slices_and_reads_back(drawn: list[tuple[int, int, int, int]], delimiter: str) -> None:
    slices = tuple(Slice(p, first, first + room, min(room + 1, count)) for p, first, room, count in drawn)
    first = slices[0]
    names = object_names(replace_delimiter(delimiter))
    plain = f"topics/orders/h=10/orders{delimiter}{first.partition}{delimiter}{first.first_offset:010}.json.gz"
    key = rewritten_key(plain, ".json.gz", last=first.last_offset, width=10, rewrite="5f2c91ab", slices=slices)
    named = names.read(key, "orders")
    assert named == ObjectKey(TopicPartition("orders", first.partition), "h=10", first.first_offset, ".json.gz")
    assert last_of_rewritten(key) == first.last_offset
    assert [one.records for one in slices_of_rewritten(key, named)] in ([one.records for one in slices], unsaid(slices))
    assert [replace(one, records=0) for one in slices_of_rewritten(key, named)] == [
        replace(one, records=0) for one in slices
    ]
    if fits_in_name(plain, slices):
        assert [one.records for one in slices_of_rewritten(key, named)] == [one.records for one in slices]
        assert len(key.rpartition("/")[2]) <= LONGEST_NAME
    again = rewritten_key(key, ".json.gz", last=first.last_offset, width=10, rewrite="00000000", slices=slices)
    assert again == key.replace("5f2c91ab", "00000000")


def unsaid(slices: tuple[Slice, ...]) -> list[int]:
    return [one.records if one.records == one.last_offset - one.first_offset + 1 else -1 for one in slices]


def replace_delimiter(delimiter: str) -> Any:
    return World({**TIME, "flush.size": "3", "file.delim": delimiter}).settings


def test_a_name_without_numbers_of_records_is_no_source_of_a_restore() -> None:
    world = filled()
    key = "topics/orders/h=10/orders+0+0000000000-0000000006n_1-0-6n.5f2c91ab.json"
    world.store.put(key, b'{"n":1}\n')
    with pytest.raises(ObjectUnreadable, match=r"its name does not say how many of each\. Restore by the log"):
        named_files(world.store, object_names(world.settings), ["orders"], prefix=None, bytes_extension=".bin")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "partitioner.class=DefaultPartitioner gives each Kafka partition its own"),
        (
            {**TIME, "format.class": f"{FORMAT}parquet.ParquetFormat", "value.converter.schemas.enable": "true",
             "compact.sort.by": "n"},
            "needs to know which rows are of which partition, and compact.sort.by mixes them",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_key_value_and_way_out(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate({**BASE, "flush.size": "3", **config, "compact.across.partitions": "true"}).usable()
    (problem,) = refused.value.problems
    assert problem.key == "compact.across.partitions"
    assert problem.value == "true"
    assert why in problem.rule
    assert problem.remedy


def test_a_request_is_refused_where_the_position_of_any_of_its_partitions_was_set() -> None:
    world = filled()
    work = compaction(world)
    version, merges = work.plan(CompactionRules(TARGET, world.now, across=True))
    (merge,) = merges
    assert (merge.files, merge.records, version) == (9, 21, world.entries()[-1].version)
    world.start()
    world.add([], tp=THIRD)

    def refused(merge: Any, error: SinkError) -> None:
        pytest.fail(str(error))

    (request,) = ask_for_merges(
        compactor_of(world.settings, world.store), world.log().paths, merges, version=version, by="x", skipped=refused
    )
    write_positions(world.log(), world.kafka, {THIRD: 5})
    until_originals_are_gone(world)
    assert [entry for entry in world.entries() if entry.kind is EntryKind.REWRITE] == []
    assert world.store.uploads == {}
    assert request.swaps[0].topic_partitions == PARTITIONS
