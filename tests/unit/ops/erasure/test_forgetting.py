"""Somebody's records leave every object, and do not come back: whatever the format, and whoever reads them again."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from kafka_s3.engine.control.commands import ControlChannel
from kafka_s3.engine.control.heartbeat import HeartbeatWriter
from kafka_s3.engine.log.committed import committed_files
from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState, letters, read_ledger
from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.engine.log.fold import LogState, checkpoint_json, live_objects, read_checkpoint
from kafka_s3.engine.log.history import entries_of, read_history, tables_of, without_upload_ids
from kafka_s3.engine.log.rewrites import rewrite_requests
from kafka_s3.engine.loop.runner import run_continuously
from kafka_s3.engine.open_files.states import OpenFileStates
from kafka_s3.followers.compaction import CompactionRules
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import OffsetSet, TopicPartition
from kafka_s3.ops.compaction import compaction_of
from kafka_s3.ops.erasure.forgetting import Forgetting, NotReady, Searched
from kafka_s3.ops.erasure.reach import unreached
from kafka_s3.ops.erasure.search import Found
from kafka_s3.ops.erasure.subjects import subjects_of
from kafka_s3.ops.explain.answer import Outcome
from kafka_s3.ops.explain.inquiry import explain
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.replay import make_replay, open_letters
from kafka_s3.ops.restore.files import logged_files
from kafka_s3.ops.rewrites import NotTaken
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3_testing.faults import Fault, Moment
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import BLOCK_GZIP, TOLERANT
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.verifying import MemoryCluster, audited

GRACE_MS = 3_600_000
OTHER = TopicPartition("orders", 1)
MINUTE_MS = 60_000
KEYS = {
    "store.kafka.keys": "true",
    "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
}
AVRO = {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}
PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
SCHEMAS = {"value.converter.schemas.enable": "true"}
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "n", "type": "int64"}, {"field": "who", "type": "string"}],
}
KINDS: dict[str, dict[str, str]] = {
    "json": {},
    "gzip": {"s3.compression.type": "gzip"},
    "avro": {**AVRO, "avro.codec": "deflate", **SCHEMAS},
    "snappy": {**AVRO, "avro.codec": "snappy", **SCHEMAS},
    "parquet": {**PARQUET, **SCHEMAS},
    "keys": KEYS,
}
WHO = ["anna", "berta", "carla", "anna", "dora", "emil", "anna", "anna", "anna", "fritz", "gerda", "hans"]
"""Of offsets 6 to 8, a file, all are Anna's."""
ANNAS = [0, 3, 6, 7, 8]
OTHERS = [n for n, who in enumerate(WHO) if who != "anna"]


def filled(kind: str = "json", **config: str) -> World:
    """Four files of three records each; no driver is at work."""
    world = World({"flush.size": "3", "rewrite.grace.ms": str(GRACE_MS), **KINDS[kind], **config})
    world.start()
    for offset, who in enumerate(WHO):
        add(world, offset, who)
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    return world


def add(world: World, offset: int, who: str, value: bytes | None = None) -> None:
    document: Any = {"n": offset, "who": who}
    if world.settings.flag("value.converter.schemas.enable"):
        document = {"schema": SCHEMA, "payload": document}
    text = json.dumps(document).encode() if value is None else value
    world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, who.encode(), text))


def forgetting(world: World, where: str | None = "who = anna", key: str | None = None, **more: Any) -> Forgetting:
    work = Forgetting(
        world.settings, world.store, subjects_of(key, where, None), lambda: world.now, pytest.fail,
        MemoryCluster(world.kafka), **more,
    )  # fmt: skip
    return replace(work, wait_s=0.0)


def forget(world: World, where: str | None = "who = anna", key: str | None = None) -> tuple[Searched, CommitEntry]:
    work = forgetting(world, where, key)
    work.end_open_files()
    searched = work.search()
    (entry,) = work.run(searched)
    return searched, entry


def numbers(world: World) -> list[int]:
    """The numbers in the objects that count, by their own reader."""
    found: list[int] = []
    for one in live_objects(world.entries()).values():
        if one.file.role is Role.VALUE:
            found += [row["n"] for row in rows_of(world, one.file.key, one.file.format)]
    return sorted(found)


def rows_of(world: World, key: str, form: str) -> list[Any]:
    from kafka_s3.objects.erasing import read_rows

    return [row for row, _ in read_rows(form, world.store.get(key), separator=b"\n")]


def until_originals_are_gone(world: World) -> None:
    world.start()
    for _ in range(3):
        world.now += GRACE_MS
        assert world.sink.poll_and_commit()


def assert_nothing_is_left_of(world: World, text: str) -> None:
    for key, content in world.store.objects.items():
        plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        assert text.encode() not in plain, key


@pytest.mark.parametrize("kind", KINDS)
def test_somebodys_records_leave_the_objects_and_all_others_stay(kind: str) -> None:
    world = filled(kind)
    if kind == "keys":
        searched, entry = forget(world, None, "anna")
    else:
        searched, entry = forget(world)

    assert (searched.found.records, searched.found.letters) == (5, 0)
    assert (entry.kind, entry.reason) == (EntryKind.REWRITE, "erasure")
    assert entry.erased == {ORDERS: OffsetSet.of(ANNAS)}
    assert entry.erasure is not None
    assert entry.erasure.records == {ORDERS: 5}
    assert numbers(world) == OTHERS
    assert {file.reason for file in entry.files} == {Reason.ERASURE}
    assert [swap.by for swap in entry.swaps if not swap.by] == [""] * (2 if kind == "keys" else 1)

    report = audited(world)
    assert [str(one) for one in report.findings] == []
    assert [(tally.written, tally.erased) for tally in report.tallies] == [(12, 5)]

    until_originals_are_gone(world)
    assert numbers(world) == OTHERS
    assert audited(world).findings == ()
    assert audited(world, kafka=False).findings == ()
    if kind in ("json", "gzip", "keys"):
        assert_nothing_is_left_of(world, "anna")


def test_files_without_matches_are_not_touched_and_what_is_asked_for_is_in_no_entry() -> None:
    world = filled()
    _, entry = forget(world, "who = gerda")
    (swap,) = entry.swaps
    assert swap.keys == ("topics/orders/partition=0/orders+0+0000000009.json",)
    assert swap.dropped == OffsetSet.of([1])
    assert len(entry.files) == 1
    assert b"gerda" not in entry.to_json()
    assert entry.erasure is not None
    assert len(entry.erasure.subjects[0]) == 64
    assert forgetting(world, "who = gerda").search().found.records == 0


def test_an_entry_comes_back_from_its_text_a_checkpoint_and_the_tables() -> None:
    world = filled()
    _, entry = forget(world)
    assert read_entry(entry.to_json(), key="e") == entry
    assert list(entries_of(tables_of([entry]))) == [without_upload_ids(entry)]
    log = world.log()
    log.load()
    assert log.last is not None
    assert log.state.erased == {ORDERS: OffsetSet.of(ANNAS)}
    assert read_checkpoint(checkpoint_json(log.state, log.last), key="c")[0] == log.state


def test_who_reads_the_offsets_again_leaves_them_out_and_counts_them_as_skipped() -> None:
    world = filled()
    forget(world)
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    until_originals_are_gone(world)
    assert sorted(n for n in numbers(world) if n in ANNAS) == []
    entry = next(entry for entry in reversed(world.entries()) if entry.kind is EntryKind.DATA)
    assert entry.skipped[ORDERS] + sum(
        one.skipped.get(ORDERS, 0) for one in world.entries() if one.version < entry.version
    ) == len(ANNAS)
    report = audited(world)
    assert [str(one) for one in report.findings] == []


@pytest.mark.parametrize("back", range(12))
def test_a_position_that_is_set_back_into_an_erased_file_reads_each_other_record_once(back: int) -> None:
    world = filled()
    forget(world)
    write_positions(world.log(), world.kafka, {ORDERS: back})
    world.start()
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    counted = [
        n
        for one in committed_files(world.entries(), "orders")
        if one.values is not None
        for n in [row["n"] for row in rows_of(world, one.values.key, "json")][: one.rows]
    ]
    assert sorted(counted) == OTHERS
    by_log, _ = logged_files(read_history(world.store, world.log().paths), lambda tp: True)
    restored = [
        n
        for file in by_log.of(ORDERS)
        for n in [row["n"] for row in rows_of(world, file.parts[Role.VALUE].key, "json")][: file.wanted]
    ]
    assert sorted(restored) == OTHERS
    assert [str(one) for one in audited(world).findings] == []


def test_a_topic_that_was_recreated_has_other_records_at_these_offsets() -> None:
    world = filled()
    forget(world)
    state = world.log().load()
    entry = replace(world.entries()[-1], version=state.version + 1, swaps=(), erased={}, erasure=None, files=())
    assert state.after(replace(entry, topic_ids={"orders": "another"})).erased == {}
    assert state.after(entry).erased == state.erased
    assert LogState().erased == {}


def test_records_whose_offsets_the_objects_do_not_say_are_looked_for_in_kafka() -> None:
    world = World({"flush.size": "3", "rewrite.grace.ms": str(GRACE_MS), "behavior.on.null.values": "ignore"})
    world.start()
    for offset, who in ((0, "anna"), (1, ""), (2, "berta"), (3, "anna")):
        if who:
            add(world, offset, who)
        else:
            world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, None))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    searched, entry = forget(world)
    assert searched.unsure == {}
    assert entry.erased == {ORDERS: OffsetSet.of([0, 3])}

    world.kafka.trim(ORDERS, start=1)
    assert forgetting(world, "who = berta").search().unsure == {}


def test_where_kafka_is_not_asked_the_report_says_which_offsets_are_not_known() -> None:
    world = World({"flush.size": "2", "behavior.on.null.values": "ignore"})
    world.start()
    for offset, who in ((0, "anna"), (2, "berta")):
        add(world, offset, who)
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    work = replace(forgetting(world), kafka=None)
    searched = work.search()
    assert searched.unsure == {ORDERS: 1}
    texts = [place.text for place in unreached(world.settings, searched, topics=["orders"], now_ms=world.now)]
    assert any("1 records of orders-0 leave their objects, but their offsets" in text for text in texts)


def broken() -> World:
    """Offsets 2 and 3 are not JSON objects with a number, and Anna's is one of them."""
    world = World({"flush.size": "2", "rewrite.grace.ms": str(GRACE_MS), **TOLERANT, **KEYS})
    world.start()
    for offset, who in enumerate(("anna", "berta", "anna", "carla", "dora", "emil")):
        add(world, offset, who, b"no json of " + who.encode() if offset in (2, 3) else None)
    world.sink.poll()
    world.sink.drain(close=Reason.FLUSH_NOW)
    world.now += 2 * MINUTE_MS
    return world


def test_dead_letters_keep_their_place_and_lose_their_content() -> None:
    world = broken()
    searched, entry = forget(world, None, "anna")
    assert (searched.found.records, searched.found.letters) == (1, 1)
    assert entry.erased == {ORDERS: OffsetSet.of([0, 2])}
    assert entry.erasure is not None
    assert entry.erasure.letters == {ORDERS: 1}

    ledger = read_ledger(world.store, world.log().paths)
    found = list(letters(ledger, world.store, selection=LetterSelection(), missing=pytest.fail))
    assert [(one.letter.offset, one.state) for one in found] == [(2, LetterState.ERASED), (3, LetterState.OPEN)]
    assert (found[0].letter.key, found[0].letter.value, found[0].letter.message) == (None, None, "erased")
    assert found[1].letter.value == b"no json of carla"
    assert [str(one) for one in audited(world).findings] == []
    until_originals_are_gone(world)
    assert [str(one) for one in audited(world).findings] == []
    assert_nothing_is_left_of(world, "anna")
    assert explain(world.settings, "orders:0:2", store=world.store, kafka=None).outcome is Outcome.ERASED


def test_an_erased_dead_letter_is_not_replayed() -> None:
    world = broken()
    forget(world, None, "anna")
    ledger = read_ledger(world.store, world.log().paths)
    left = open_letters(ledger, world.store, selection=LetterSelection(), missing=pytest.fail)
    assert [letter.offset for letter in left] == [3]
    fixed = World({"flush.size": "2", **KEYS, "value.converter": "org.apache.kafka.connect.storage.StringConverter"})
    _, entry = make_replay(fixed.settings, world.store, clock_ms=lambda: world.now).run(LetterSelection())
    assert entry is not None
    assert entry.resolved == {ORDERS: OffsetSet.of([3])}


def test_a_replayed_record_leaves_its_object_and_the_letter_that_it_was() -> None:
    world = broken()
    fixed = World({"flush.size": "2", **KEYS, "value.converter": "org.apache.kafka.connect.storage.StringConverter"})
    make_replay(fixed.settings, world.store, clock_ms=lambda: world.now).run(LetterSelection())
    world.now += 2 * MINUTE_MS
    searched, entry = forget(world, None, "anna")
    assert (searched.found.records, searched.found.letters) == (2, 1)
    assert entry.erased == {ORDERS: OffsetSet.of([0, 2])}
    until_originals_are_gone(world)
    assert_nothing_is_left_of(world, "anna")


def test_explain_says_that_a_record_was_erased_and_what_became_of_the_object() -> None:
    world = filled()
    _, entry = forget(world)

    def ask(about: str) -> Any:
        return explain(world.settings, about, store=world.store, kafka=None)

    gone = ask("orders:0:3")
    assert gone.outcome is Outcome.ERASED
    assert f"Commit entry {entry.version}" in gone.text
    assert ask("orders:0:4").outcome is Outcome.OBJECT
    whole = ask("topics/orders/partition=0/orders+0+0000000006.json")
    assert "nothing takes its place" in whole.text
    part = ask("topics/orders/partition=0/orders+0+0000000003.json")
    assert "but for those that were erased" in part.text


def test_an_erased_file_is_compacted_and_a_compacted_one_erased() -> None:
    world = filled()
    forget(world, "who = berta")
    work = compaction_of(world.settings, world.store, clock_ms=lambda: world.now, warn=pytest.fail)
    list(work.run(CompactionRules(1 << 20, world.now + 1)))
    _, entry = forget(world)
    assert entry.erased == {ORDERS: OffsetSet.of(ANNAS)}
    assert numbers(world) == [n for n in OTHERS if n != 1]
    assert [str(one) for one in audited(world).findings] == []


def test_a_lost_upload_is_made_again_without_what_was_erased() -> None:
    world = filled("gzip")
    work = forgetting(world)

    def lose(key: str) -> None:
        for upload_id, upload in world.store.uploads.items():
            world.store.abort_upload(upload.key, upload_id)

    world.now -= 2 * MINUTE_MS  # a driver has just committed, so that it is asked
    with pytest.raises(NotTaken):
        list(work.run(work.search()))
    world.now += 2 * MINUTE_MS
    last = len(world.entries())
    world.start([Fault("put_new", lose, Moment.AFTER, matches=lambda key: key.endswith(f"{last + 1:020d}.json"))])
    assert world.sink.poll_and_commit()
    assert world.store.uploads == {}
    assert list(rewrite_requests(world.store, world.log().paths)) == []
    assert numbers(world) == OTHERS
    assert [str(one) for one in audited(world).findings] == []


def test_footers_exclude_files_of_parquet_and_keys_are_read_alone() -> None:
    found = forgetting(filled("parquet"), "n = 4").search().found
    assert (found.excluded, found.read, found.records) == (3, 1, 1)
    assert forgetting(filled("parquet"), "n = 4.0").search().found.records == 1
    assert forgetting(filled("parquet"), "who = zoe").search().found.excluded == 4


def test_open_files_are_to_be_written_before_anything_is_searched() -> None:
    world = filled()
    world.start()
    add(world, 12, "anna")
    assert world.sink.poll_and_commit()
    world.sink.drain()
    with pytest.raises(NotReady, match="--available-now --flush"):
        forgetting(world).end_open_files()


def test_open_files_that_a_sink_at_work_cannot_flush_are_named() -> None:
    world, halted = World({"flush.size": "9"}, topics=(ORDERS, OTHER)), threading.Event()
    world.start()
    for tp in (ORDERS, OTHER):
        world.kafka.add(tp, MemoryRecord(0, START_MS, b"anna", b'{"n": 0, "who": "anna"}'))
    assert world.sink.poll_and_commit()
    world.sink.drain()
    world.kafka.leaderless.add(OTHER)
    paths = world.log().paths
    writer = HeartbeatWriter(world.store, paths, interval_ms=3_000, clock_ms=lambda: world.now)
    channel = ControlChannel(world.store, paths, heartbeat_writer=writer, clock_ms=lambda: world.now)

    def wait(ms: int) -> bool:
        world.now += ms
        writer.beat()
        return halted.wait(0.01)

    sink = build_sink(
        world.settings, world.kafka, source=world.kafka, store=world.store, clock_ms=lambda: world.now, observer=writer
    )
    writer.beat()
    loop = threading.Thread(
        target=lambda: run_continuously(sink, poll_ms=1_000, backoff_ms=500, wait=wait, channel=channel)
    )
    loop.start()
    try:
        work = replace(forgetting(world), wait_s=60.0)
        unflushed = work.end_open_files()
        searched = work.search()
    finally:
        halted.set()
        loop.join()
    assert unflushed == (str(OTHER),)
    assert searched.found.records == 1
    places = unreached(world.settings, searched, topics=["orders"], now_ms=world.now, unflushed=unflushed)
    assert "Records of orders-1 that the sink holds in open files" in places[0].text


def test_open_states_that_no_hint_names_are_out_of_reach() -> None:
    world = filled()
    states = OpenFileStates(world.store, world.log().paths)
    world.start()
    add(world, 12, "anna")
    assert world.sink.poll_and_commit()
    world.sink.drain()
    states.write_hint([])
    assert len(states.keys()) == 1
    work = forgetting(world)
    assert work.end_open_files() == ()
    searched = work.search()
    assert searched.orphans == 1
    (place, *_) = unreached(world.settings, searched, topics=["orders"], now_ms=world.now)
    assert place.text.startswith("1 states of open files that no driver continues")
    assert place.commands == ("kafka-s3 sweep orders",)


def test_dead_letters_replayed_between_search_and_request_refuse_it() -> None:
    world = broken()
    work = forgetting(world, None, "anna")
    searched = work.search()
    fixed = World({"flush.size": "2", **KEYS, "value.converter": "org.apache.kafka.connect.storage.StringConverter"})
    make_replay(fixed.settings, world.store, clock_ms=lambda: world.now).run(LetterSelection())
    world.now += 2 * MINUTE_MS
    with pytest.raises(NotTaken, match="replayed dead letters of orders-0 that are to be erased"):
        list(replace(work, warn=lambda text: None).run(searched))
    assert world.store.uploads == {}
    with pytest.raises(NotReady, match="has replayed dead letters since the search"):
        work.check_replays(searched)
    world.now += 2 * MINUTE_MS
    forget(world, None, "anna")
    until_originals_are_gone(world)
    assert_nothing_is_left_of(world, "anna")


def test_file_whose_rewritten_name_is_too_long_is_named_and_the_others_are_erased() -> None:
    fields = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "of",
    }
    world = World({"flush.size": "2", **fields})
    world.start()
    for offset, of in enumerate(("a", "a", "b" * 970, "b" * 970)):
        value = {"who": "anna" if offset % 2 else "berta", "of": of}
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, json.dumps(value).encode()))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    warnings: list[str] = []
    work = replace(forgetting(world), warn=warnings.append)
    (entry,) = work.run(work.search())
    assert entry.erased == {ORDERS: OffsetSet.of([1])}
    (warning,) = warnings
    assert "stays as it is, with 1 records to erase" in warning


def test_directories_that_are_called_by_a_subject_are_out_of_reach() -> None:
    fields = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "who",
    }
    world = World({"flush.size": "1", **fields})
    world.start()
    for offset, who in enumerate(("anna", "berta")):
        add(world, offset, who)
    assert world.sink.poll_and_commit()
    searched = forgetting(world).search()
    assert searched.named == 1
    texts = [place.text for place in unreached(world.settings, searched, topics=["orders"], now_ms=world.now)]
    assert any("The names of 1 directories" in text for text in texts)
    assert forgetting(world, "n = 0").search().named == 0


def test_what_cannot_be_searched_is_named_and_the_rest_is_erased() -> None:
    world = filled()
    damaged = "topics/orders/partition=0/orders+0+0000000003.json"
    content = world.store.get(damaged)
    world.store.put(damaged, content[:-2])
    searched, _ = forget(world)
    assert [key for key, _ in searched.found.problems] == [damaged]
    assert searched.found.records == 4


def test_objects_that_count_no_more_and_other_places_are_named_with_commands() -> None:
    world = filled()
    write_positions(world.log(), world.kafka, {ORDERS: 0})
    world.start()
    world.settings = World({"flush.size": "4", "rewrite.grace.ms": str(GRACE_MS)}).settings
    world.start()
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    searched = forgetting(world).search()
    assert len(searched.lasting) == 3
    places = unreached(world.settings, searched, topics=["orders"], now_ms=world.now)
    commands = [command for place in places for command in place.commands]
    assert sum(command.startswith("aws s3 rm s3://bucket/topics/orders/") for command in commands) == 3
    assert any(command.startswith("kafka-delete-records --bootstrap-server memory:9092") for command in commands)
    assert any("list-object-versions" in command and "dead-letters" in command for command in commands)


def test_keys_that_were_never_written_and_copies_of_spark_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"store\.kafka\.keys"):
        forgetting(filled(), None, "anna")
    copies = {"delta.enable": "true", "delta.writer": "spark", "delta.table.name": "main.raw.orders"}
    with pytest.raises(ConfigError, match=r"delta\.writer.*keeps copies of the records"):
        forgetting(World({"flush.size": "3", **KINDS["parquet"], **copies}))
    blocks = World(BLOCK_GZIP)
    with pytest.raises(ConfigError) as refused:
        forgetting(blocks, None, "anna")
    (problem,) = refused.value.problems
    assert (problem.key, problem.value) == ("connector.class", blocks.settings.text("connector.class"))
    assert "writes Block-GZIP" in problem.rule
    assert "kafka-s3 seek" in problem.remedy


@pytest.mark.parametrize(
    ("format_", "where"), [("delta", "Delta's own logs"), ("iceberg", "Metadata of Iceberg tables")]
)
def test_bounds_that_a_table_keeps_of_replaced_files_are_named_unless_they_are_deleted_too(
    format_: str, where: str
) -> None:
    catalog = {"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:///x.db"} if format_ == "iceberg" else {}
    world = World({"flush.size": "3", **KINDS["parquet"], f"{format_}.enable": "true", **catalog})
    places = unreached(world.settings, Searched(0, Found()), topics=["orders"], now_ms=world.now)
    (place,) = [one for one in places if one.text.startswith(where)]
    assert "This command with --purge deletes" in place.text
    purged = unreached(world.settings, Searched(0, Found()), topics=["orders"], now_ms=world.now, purged=True)
    assert place not in purged


def test_raw_bytes_and_headers_leave_with_the_keys_of_their_records() -> None:
    raw = {
        "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "format.bytearray.separator": "||", **KEYS,
        "store.kafka.headers": "true", "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    }  # fmt: skip
    world = World({"flush.size": "3", "rewrite.grace.ms": str(GRACE_MS), **raw})
    world.start()
    for offset, who in enumerate(WHO):
        headers = (("by", who.encode()), ("n", str(offset).encode()))
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, who.encode(), f"{offset} of {who}".encode(), headers))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    searched, entry = forget(world, None, "anna")
    assert (searched.found.records, searched.found.objects) == (5, 9)
    assert entry.erased == {ORDERS: OffsetSet.of(ANNAS)}
    assert [str(one) for one in audited(world).findings] == []
    until_originals_are_gone(world)
    assert_nothing_is_left_of(world, "anna")
    live = sorted(live_objects(world.entries()).values(), key=lambda one: one.file.first_offset)
    counts = {role: sum(one.file.records for one in live if one.file.role is role) for role in Role}
    assert counts[Role.VALUE] == counts[Role.KEY] == counts[Role.HEADER] == len(OTHERS)
    values = b"".join(world.store.objects[one.file.key] for one in live if one.file.role is Role.VALUE)
    assert values == b"".join(f"{n} of {WHO[n]}||".encode() for n in OTHERS)


def test_a_misspelt_topic_is_refused_before_anybody_takes_no_records_for_an_answer() -> None:
    world = filled()
    work = forgetting(world, topics=frozenset({"oders"}))
    with pytest.raises(ConfigError, match=r"oders.*Topics with objects: orders"):
        work.search()


def test_state_tables_are_copies_and_named_with_the_command_that_makes_them_again() -> None:
    config = {"state.enable": "true", "state.table": "main.now.orders", "record.metadata.enable": "true"}
    settings = settings_of({"flush.size": "3", **KINDS["parquet"], **config, "value.schema.inference": "false"})
    places = unreached(settings, Searched(0, Found()), topics=["orders"], now_ms=0, purged=True)
    (place,) = [one for one in places if "main.now.orders" in one.text]
    assert place.commands == ("kafka-s3 state rebuild orders",)
