"""Small files become large ones: by whom, with which contents, and what all tools say of it."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_s3.connect.naming.keys import last_of_rewritten
from kafka_s3.engine.control.commands import read_control
from kafka_s3.engine.log.committed import committed_files
from kafka_s3.engine.log.entry import CommitEntry, EntryKind
from kafka_s3.engine.log.fold import live_objects
from kafka_s3.engine.log.history import read_history
from kafka_s3.engine.log.rewrites import rewrite_requests
from kafka_s3.followers.compaction import CompactionRules, ask_for_merges
from kafka_s3.followers.log_tables import LogTables
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.files import DataFile, Reason, Role
from kafka_s3.objects.merging import MergeRefused, digest_rows, merge_objects
from kafka_s3.objects.readers import avro_rows, sliced
from kafka_s3.ops.compaction import Compaction, compaction_of, forecast_of
from kafka_s3.ops.explain.answer import Outcome
from kafka_s3.ops.explain.inquiry import explain
from kafka_s3.ops.migration import MigrationRefused, topics_to_take_over
from kafka_s3.ops.positions import write_positions
from kafka_s3.ops.restore.files import logged_files, named_files
from kafka_s3.ops.restore.plan import reading_of
from kafka_s3.ops.rewrites import NotTaken
from kafka_s3.run.wiring.followers import compactor_of
from kafka_s3.run.wiring.pipeline import object_names
from kafka_s3.testing.services.memory import MemoryRecord
from tests.support.configurations import BLOCK_GZIP
from tests.support.memory_world import ORDERS, START_MS, World, settings_of
from tests.support.verifying import audited

MINUTE_MS = 60_000
TARGET = 1 << 20
AVRO = {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}
PARQUET = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"}
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "n", "type": "int64"}, {"field": "tags", "type": "array", "items": {"type": "string"}}],
}
KINDS: dict[str, dict[str, str]] = {
    "json": {},
    "gzip": {"s3.compression.type": "gzip"},
    "bytes": {
        "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "format.bytearray.separator": "||",
    },
    "avro": {**AVRO, "avro.codec": "deflate", "value.converter.schemas.enable": "true"},
    "parquet": {**PARQUET, "value.converter.schemas.enable": "true"},
    "sidecars": {"store.kafka.keys": "true", "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
                 "key.converter": "org.apache.kafka.connect.storage.StringConverter"},
}  # fmt: skip


def filled(kind: str = "json", **config: str) -> World:
    """Four files of three records each, committed two minutes ago; no driver is at work."""
    world = World({"flush.size": "3", **KINDS[kind], **config})
    world.start()
    for offset in range(12):
        value: Any = {"n": offset}
        if "value.converter.schemas.enable" in KINDS[kind]:
            value = {"schema": SCHEMA, "payload": {"n": offset, "tags": ["a", str(offset)]}}
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, f"k{offset}".encode(), json.dumps(value).encode()))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    return world


def compaction(world: World, warnings: list[str] | None = None, wait_s: float = 0.0) -> Compaction:
    warn = [].append if warnings is None else warnings.append
    return replace(compaction_of(world.settings, world.store, clock_ms=lambda: world.now, warn=warn), wait_s=wait_s)


def compact(world: World, target: int = TARGET) -> list[CommitEntry]:
    return list(compaction(world).run(CompactionRules(target, world.now)))


def merged_key(world: World, role: Role = Role.VALUE) -> str:
    (key,) = [key for key, one in live_objects(world.entries()).items() if one.file.role is role]
    return key


@pytest.mark.parametrize("kind", KINDS)
def test_files_become_one_with_the_same_records_and_verify_finds_nothing_wrong(kind: str) -> None:
    world = filled(kind)
    (entry,) = compact(world)
    assert entry.kind is EntryKind.REWRITE
    assert all(file.reason is Reason.COMPACTION for file in entry.files)
    assert [swap.records for swap in entry.swaps] == [12] * (2 if kind == "sidecars" else 1)

    key = merged_key(world)
    assert last_of_rewritten(key) == 11
    assert object_names(world.settings).read(key, "orders") is not None
    separator = world.settings.text("format.bytearray.separator").encode()
    form = entry.files[0].format
    assert digest_rows(form, world.store.get(key), separator=separator).records == 12

    report = audited(world)
    assert [str(one) for one in report.findings] == []
    assert sum(tally.written for tally in report.tallies) == 12


def test_the_sink_goes_on_behind_a_compaction_and_deletes_the_originals() -> None:
    world = filled()
    compact(world)
    world.start()
    world.add(range(12, 15))
    world.now += 86_400_000
    assert world.sink.poll_and_commit()
    assert sorted(n for held in world.numbers().values() for n in held) == list(range(15))
    assert len(world.numbers()) == 2
    report = audited(world)
    assert [str(one) for one in report.findings] == []
    assert audited(world, kafka=False).findings == ()


def test_an_object_that_was_changed_since_is_found() -> None:
    world = filled()
    compact(world)
    key = merged_key(world)
    world.store.put(key, world.store.get(key).replace(b"7", b"8"))
    assert {str(one.kind) for one in audited(world).findings} >= {"wrong ETag", "wrong content"}


def test_a_file_that_is_not_what_the_log_claims_stays_as_it_is_and_so_do_those_beside_it() -> None:
    world, warnings = filled(), list[str]()
    damaged = "topics/orders/partition=0/orders+0+0000000003.json"
    world.store.put(damaged, b'{"n":3}\n' * 2)
    assert list(compaction(world, warnings).run(CompactionRules(TARGET, world.now))) == []
    assert damaged in warnings[0]
    assert "stay as they are" in warnings[0]
    assert world.store.uploads == {}
    assert list(rewrite_requests(world.store, world.log().paths)) == []


def test_objects_grow_to_about_the_target_size() -> None:
    world = filled()
    size = world.store.head("topics/orders/partition=0/orders+0+0000000000.json")
    assert size is not None
    compact(world, target=2 * size.size + 6)
    live = [one.file.records for one in live_objects(world.entries()).values()]
    assert live == [6, 6]
    assert compact(world, target=2 * size.size + 6) == []
    world.now += 2 * MINUTE_MS
    compact(world)
    assert world.numbers()[merged_key(world)] == list(range(12))


def test_young_files_and_other_directories_are_left_and_an_unknown_topic_is_refused() -> None:
    world = filled()
    work = compaction(world)
    for rules in (
        CompactionRules(TARGET, START_MS),
        CompactionRules(TARGET, world.now, directory="partition=7"),
    ):
        assert work.plan(rules)[1] == []
    assert len(work.plan(CompactionRules(TARGET, world.now, frozenset({"orders"}), "partition=0"))[1]) == 1
    with pytest.raises(ConfigError, match=r"oders.*Topics with objects: orders"):
        work.plan(CompactionRules(TARGET, world.now, frozenset({"oders"})))


def test_a_forecast_says_what_becomes_of_files_and_what_it_costs() -> None:
    found = forecast_of(compaction(filled("sidecars"), []).plan(CompactionRules(TARGET, START_MS + MINUTE_MS))[1])
    assert (found.before, found.after, found.objects_before, found.objects_after, found.records) == (4, 1, 8, 2, 12)
    assert (found.reads, found.writes) == (8, 10)


def test_beside_a_driver_at_work_the_objects_are_asked_for() -> None:
    world = filled()
    world.now -= MINUTE_MS + 1  # it has just committed
    with pytest.raises(NotTaken, match="has not taken a rewrite"):
        list(compaction(world).run(CompactionRules(TARGET, world.now)))
    control = read_control(world.store, world.log().paths)
    if control is not None:
        world.sink.rewrites.notice(control.rewrite)
    world.sink.rewrites.notice("another")
    assert world.sink.poll_and_commit()
    assert world.numbers()[merged_key(world)] == list(range(12))


def test_a_block_gzip_sink_is_refused_by_command_and_by_key() -> None:
    world = World(BLOCK_GZIP)
    with pytest.raises(ConfigError) as refused:
        compaction(world)
    (problem,) = refused.value.problems
    assert (problem.key, problem.value) == ("connector.class", world.settings.text("connector.class"))
    assert "block.gzip.file.interval.ms" in problem.remedy
    for key in ("compact.enable", "compact.across.partitions"):
        with pytest.raises(ConfigError) as refused:
            settings_of({**BLOCK_GZIP, key: "true"})
        (problem,) = refused.value.problems
        assert (problem.key, problem.value) == (key, "true")
        assert "Block-GZIP" in problem.rule
        assert problem.remedy.startswith("Leave it out.")


def test_too_large_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"writer\.memory\.bytes"):
        compaction(filled()).plan(CompactionRules(1 << 40, START_MS))


def test_explain_knows_the_object_the_originals_and_the_records() -> None:
    world = filled()
    (entry,) = compact(world)

    def ask(about: str) -> Any:
        return explain(world.settings, about, store=world.store, kafka=None)

    merged = ask(merged_key(world))
    assert merged.outcome is Outcome.OBJECT
    assert "made from 4 objects" in merged.text
    original = ask("topics/orders/partition=0/orders+0+0000000003.json")
    assert original.outcome is Outcome.REPLACED
    assert f"its records are in {merged_key(world)} from here on" in original.text
    record = ask("orders:0:7")
    assert record.outcome is Outcome.OBJECT
    assert f"Commit entry {entry.version}" in record.text


@pytest.mark.parametrize("kind", ["json", "sidecars"])
def test_a_restore_reads_each_record_once_by_the_log_and_by_names(kind: str) -> None:
    world = filled(kind)
    compact(world)
    by_log, _ = logged_files(read_history(world.store, world.log().paths), lambda tp: True)
    by_name = named_files(
        world.store, object_names(world.settings), ["orders"], prefix=None, bytes_extension=".bin"
    )  # the originals are still there
    for table in (by_log, by_name):
        (file,) = table.of(ORDERS)
        assert file.parts[Role.VALUE].key == merged_key(world)
        assert set(file.parts) == ({Role.VALUE, Role.KEY} if kind == "sidecars" else {Role.VALUE})


def test_read_committed_sees_an_object_once_and_a_stretch_before_the_rewrite_as_it_was_committed() -> None:
    world = filled("sidecars")
    (entry,) = compact(world)
    entries = world.entries()
    (file,) = committed_files(entries, "orders")
    assert file.values is not None
    assert file.keys is not None
    assert (file.values.key, file.keys.key) == (merged_key(world), merged_key(world, Role.KEY))
    assert len(committed_files(entries[: entry.version], "orders")) == 4
    assert committed_files(entries[entry.version :], "orders") == []


def test_the_logs_tables_count_what_was_written_once() -> None:
    world = filled()
    compact(world)
    log = world.log()
    log.load()
    tables = LogTables(pytest.fail, most_entries=log.state.version + 1)
    for _ in range(3):
        tables.catch_up(log)
    (key,) = [key for key in world.store.objects if "/log/files/" in key]
    rows = pq.read_table(io.BytesIO(world.store.get(key))).to_pylist()
    assert sum(row["records"] for row in rows if row["counted"]) == 12
    assert {row["reason"] for row in rows if not row["counted"]} == {"compaction"}
    assert live_objects(read_history(world.store, log.paths)).keys() == live_objects(world.entries()).keys()


def test_gzip_members_are_taken_over_as_they_are() -> None:
    world = filled("gzip")
    originals = [data for key, data in sorted(world.store.objects.items()) if key.startswith("topics/")]
    compact(world)
    assert world.store.get(merged_key(world)) == b"".join(originals)
    assert [json.loads(line)["n"] for line in gzip.decompress(b"".join(originals)).splitlines()] == list(range(12))


def test_avro_blocks_are_taken_over_and_other_schemas_refused() -> None:
    world = filled("avro")
    originals = [data for key, data in sorted(world.store.objects.items()) if key.startswith("topics/")]
    merged = merge_objects("avro", originals)
    assert [row["n"] for row in avro_rows(sliced(merged))] == list(range(12))
    with pytest.raises(MergeRefused, match="schemas or codecs differ"):
        merge_objects("avro", [originals[0], originals[1].replace(b"deflate", b"bzip2\x00\x00")])


def test_a_log_with_rewrites_is_not_migrated_into() -> None:
    world = filled()
    compact(world)
    with pytest.raises(MigrationRefused, match="already: this sink has taken over"):
        topics_to_take_over(world.log().load(), ["orders"])


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_where_the_schema_changes_the_files_before_and_behind_become_one_each(kind: str) -> None:
    world = World({"flush.size": "2", **KINDS[kind]})
    world.start()
    for offset in range(10):
        field = "n" if offset < 4 else "m"
        schema = {"type": "struct", "fields": [{"field": field, "type": "int64"}]}
        value = json.dumps({"schema": schema, "payload": {field: offset}}).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, value))
    assert world.sink.poll_and_commit()
    assert len({one.file.schema for one in live_objects(world.entries()).values()}) == 1, "the plan does not know"
    world.now += 2 * MINUTE_MS
    (entry,) = compact(world)
    assert [len(swap.keys) for swap in entry.swaps] == [2, 3]
    assert audited(world).findings == ()


def sortable(**config: str) -> World:
    """As `filled` in Parquet; the texts by which rows are sorted fall while offsets rise, and one has none."""
    world = World({"flush.size": "3", **KINDS["parquet"], "compact.sort.by": "who.name,n,absent", **config})
    world.start()
    name = {"type": "string", "optional": True, "field": "name"}
    fields = [{"type": "int64", "field": "n"}, {"type": "struct", "field": "who", "fields": [name]}]
    schema = {"type": "struct", "fields": fields}
    for n in range(12):
        who = {"name": None if n == 4 else f"{chr(107 - n // 2)}"}
        value = {"schema": schema, "payload": {"n": n, "who": who}}
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, b"", json.dumps(value).encode()))
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    return world


def sorted_compaction(world: World, *columns: str) -> list[CommitEntry]:
    return list(compaction(world).run(CompactionRules(TARGET, world.now, sort_by=columns)))


def numbers(world: World, file: DataFile) -> list[int]:
    return [row["n"] for row in pq.read_table(io.BytesIO(world.store.get(file.key))).to_pylist()]


def test_rows_of_parquet_are_sorted_nulls_last_and_the_log_says_that_they_have_no_order_of_offsets() -> None:
    world = sortable()
    (entry,) = sorted_compaction(world, *world.settings.names("compact.sort.by"))
    (file,) = entry.files
    assert (file.sorted_by, file.dense) == ("who.name,n", False)
    assert numbers(world, file) == [10, 11, 8, 9, 6, 7, 5, 2, 3, 0, 1, 4]
    assert audited(world).findings == ()
    log = world.log()
    log.load()
    tables = LogTables(pytest.fail, most_entries=log.state.version + 1)
    for _ in range(3):
        tables.catch_up(log)
    (read,) = live_objects(read_history(world.store, log.paths)).values()
    assert read.file.sorted_by == "who.name,n"
    (committed,) = committed_files(world.entries(), "orders")
    assert committed.first_offset is None


def test_a_lost_upload_of_sorted_rows_is_made_again_sorted() -> None:
    world = sortable()
    work = compaction(world)
    _, merges = work.plan(CompactionRules(TARGET, world.now, sort_by=("n", "who.name")))
    version, paths = world.log().load().version, world.log().paths
    made_by = compactor_of(world.settings, world.store)
    (request,) = ask_for_merges(made_by, paths, merges, version=version, by="test", skipped=lambda merge, error: None)
    world.store.abort_upload(request.files[0].key, request.files[0].upload.id)
    (file,) = made_by.remake(request, list(request.files)).files
    world.store.complete_upload(file.upload)
    assert numbers(world, file) == list(range(12))


def test_a_position_does_not_go_back_among_sorted_rows_but_to_where_their_object_begins() -> None:
    world = sortable()
    sorted_compaction(world, "who.name")
    with pytest.raises(ConfigError, match="Take 0, where it begins"):
        write_positions(world.log(), world.kafka, {ORDERS: 5})
    assert write_positions(world.log(), world.kafka, {ORDERS: 0}) is not None


def test_sorted_files_are_sorted_again_with_later_ones_and_left_where_nothing_is_sorted() -> None:
    world = sortable()
    sorted_compaction(world, "who.name")
    add_sortable = [json.loads(one.value or b"") for one in world.kafka.records[ORDERS][:3]]
    for n, value in enumerate(add_sortable, start=12):
        value["payload"]["n"] = n
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, b"", json.dumps(value).encode()))
    world.start()
    assert world.sink.poll_and_commit()
    world.now += 2 * MINUTE_MS
    assert compact(world) == []
    (entry,) = sorted_compaction(world, "n")
    assert (entry.files[0].sorted_by, entry.files[0].records) == ("n", 15)
    assert numbers(world, entry.files[0]) == list(range(15))


@pytest.mark.parametrize("config", [{}, {**PARQUET, "store.kafka.keys": "true"}])
def test_what_cannot_be_sorted_is_refused_by_name(config: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"compact\.sort\.by"):
        settings_of({"flush.size": "1", **config, "compact.sort.by": "n"})


def test_a_column_without_an_order_leaves_the_files_as_they_are() -> None:
    world, warnings = filled("parquet"), list[str]()
    assert list(compaction(world, warnings).run(CompactionRules(TARGET, world.now, sort_by=("tags",)))) == []
    assert "which has no order" in warnings[0]


def test_a_restore_sends_sorted_rows_in_the_order_of_the_offsets_that_their_metadata_have() -> None:
    world = sortable(**{"record.metadata.enable": "true"})
    (entry,) = sorted_compaction(world, "who.name")
    assert numbers(world, entry.files[0]) != list(range(12))
    table, _ = logged_files(read_history(world.store, world.log().paths), lambda tp: True)
    (file,) = table.of(ORDERS)
    found = list(reading_of(world.settings).messages(world.store, replace(file, skip=2)))
    assert [json.loads(one.value or b"")["n"] for one in found] == list(range(2, 12))
    assert [one.origin[2] for one in found if one.origin is not None] == list(range(2, 12))


def test_sorted_rows_that_have_no_room_together_become_several_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    world = sortable()
    first = world.store.get(next(key for key in world.store.objects if key.endswith(".parquet")))
    size = pq.read_metadata(io.BytesIO(first)).row_group(0).total_byte_size
    monkeypatch.setattr("kafka_s3.objects.merging.SORTED_BYTES", 2 * size + size // 2)
    (entry,) = sorted_compaction(world, "n")
    assert [(len(swap.keys), swap.records) for swap in entry.swaps] == [(2, 6), (2, 6)]
