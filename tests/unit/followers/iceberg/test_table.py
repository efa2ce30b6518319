"""What is in an Iceberg table, how does it follow its records, and what becomes of what other writers do to it? pyiceberg is the judge."""

from __future__ import annotations

import io
import re
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from kafka_s3.connect.naming.field_ids import field_id
from kafka_s3.followers.delta.planner import Commit, TablePlan
from kafka_s3.followers.iceberg.maintain import check_table, rebuild
from kafka_s3.followers.iceberg.manifests import read_manifests
from kafka_s3.followers.iceberg.table import IcebergTable, made
from kafka_s3.model.errors import TableRefused, TableUnavailable
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables, namespace_location
from kafka_s3.store.memory import MemoryStore
from tests.support.iceberg_world import IcebergWorld
from tests.support.memory_world import START_MS

HOURLY = {
    "partitioner__class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
    "timestamp__extractor": "RecordField", "timestamp__field": "at", "locale": "en-US", "timezone": "UTC",
}  # fmt: skip


def opened(world: IcebergWorld, warnings: list[str] | None = None) -> IcebergTable:
    return iceberg_tables(world.settings, world.store, warn=(warnings if warnings is not None else []).append)("orders")


def objects(world: IcebergWorld) -> list[str]:
    assert isinstance(world.store, MemoryStore)
    return sorted(key for key in world.store.objects if key.startswith("topics/orders/") and key.endswith(".parquet"))


@pytest.fixture
def world(tmp_path: Path) -> IcebergWorld:
    """A sink with two objects in its table."""
    world = IcebergWorld(tmp_path)
    world.add(*({"n": n, "text": f"t{n}", "at": {"y": n}, "tags": [n]} for n in range(4)))
    world.run()
    return world


def test_the_table_is_over_the_objects_themselves(world: IcebergWorld) -> None:
    tasks = world.table().scan().plan_files()
    assert sorted(task.file.file_path for task in tasks) == [f"s3://bucket/{key}" for key in objects(world)]
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]
    assert world.rows()[3] == {"n": 3, "text": "t3", "at": {"y": 3}, "tags": [3], "partition": "0"}


def test_partitions_are_the_values_of_the_log_and_prune(world: IcebergWorld) -> None:
    world.add({"n": 4}, {"n": 5}, tp=TopicPartition("orders", 1))
    world.run()
    assert [row["n"] for row in world.rows(row_filter="partition = '1'")] == [4, 5]
    assert len(list(world.table().scan(row_filter="partition = '1'").plan_files())) == 1


def test_statistics_prune_files(world: IcebergWorld) -> None:
    assert len(list(world.table().scan(row_filter="n > 2").plan_files())) == 1
    assert len(list(world.table().scan(row_filter="text < 't1'").plan_files())) == 1
    assert len(list(world.table().scan(row_filter="at.y = 3").plan_files())) == 1


def test_files_and_table_have_the_same_field_ids_and_a_name_mapping_besides(world: IcebergWorld) -> None:
    assert isinstance(world.store, MemoryStore)
    schema = pq.read_schema(io.BytesIO(world.store.objects[objects(world)[0]]))
    in_file = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in schema}
    assert in_file == {name: field_id(name) for name in ("n", "text", "at", "tags")}
    assert {one.name: one.field_id for one in world.table().schema().fields} == {
        **in_file,
        "partition": field_id("partition"),
    }
    assert world.table().schema().find_field("tags.element").field_id == field_id("tags.element")
    assert world.table().name_mapping() is not None


def test_objects_of_before_have_no_field_ids_and_are_read_by_name(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, iceberg__enable="false")
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.configure(iceberg__enable="true")
    world.add({"n": 2}, {"n": 3})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]
    assert len(world.table().metadata.snapshots) == 2  # the log of before in one, then the new entry


def test_a_table_that_is_gone_is_made_again_from_the_whole_log(world: IcebergWorld) -> None:
    ids = world.table().schema().field_ids
    world.catalog().drop_table("kafka.orders")
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]
    assert world.table().schema().field_ids == ids


def test_new_columns_are_added_and_types_widen_as_the_specification_allows(world: IcebergWorld) -> None:
    world.add({"n": 4, "note": "late", "at": {"y": 4, "z": 1}}, {"n": 5})
    world.run()
    assert world.rows()[4]["note"] == "late"
    assert world.rows()[4]["at"] == {"y": 4, "z": 1}
    assert world.rows()[0]["at"] == {"y": 0, "z": None}
    assert world.warnings.texts == []


def test_a_fraction_does_not_widen_a_column_of_whole_numbers(tmp_path: Path) -> None:
    """Delta's readers take whole numbers for fractions, Iceberg's do not: the record is a dead letter before its file is written."""
    world = IcebergWorld(tmp_path, errors__tolerance="all")
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": 1.5}, {"n": 2}, {"n": 3})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]
    assert world.log().load().totals.dead_letters == 1


@pytest.mark.parametrize("mode", ["rescue", "none"])
def test_other_modes_leave_the_columns_as_they_are(mode: str, tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **{"iceberg.schema.evolution.mode": mode})
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": 2, "note": "late"}, {"n": 3})
    world.run()
    row = world.rows()[2]
    assert "note" not in row
    assert row.get("_rescued_data") == ('{"note":"late"}' if mode == "rescue" else None)


def test_a_new_column_stops_the_sink_before_the_commit_where_the_mode_says_so(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **{"iceberg.schema.evolution.mode": "failOnNewColumns"})
    world.add({"n": 0}, {"n": 1})
    world.run()
    world.add({"n": 2, "note": "late"}, {"n": 3})
    with pytest.raises(Exception, match=re.escape("iceberg.schema.evolution.mode=failOnNewColumns")):
        world.run()
    assert [row["n"] for row in world.rows()] == [0, 1]


# ------------------------------------------------------------ hidden partitions


def hours(world: IcebergWorld, *numbers: int) -> None:
    world.add(*({"n": n, "at": f"2025-03-01T{n:02d}:30:00Z"} for n in numbers))


def days_of(world: IcebergWorld) -> list[tuple[int, Any]]:
    tasks = world.table().scan().plan_files()
    return sorted((task.file.spec_id, tuple(task.file.partition)) for task in tasks)


def test_directories_of_a_time_partitioner_are_partitions_by_themselves(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **HOURLY)
    hours(world, 1, 1, 2, 2)
    world.run()
    assert [partition for _, partition in days_of(world)] == [("2025", "03", "01", "01"), ("2025", "03", "01", "02")]
    assert len(world.rows(row_filter="hour = '02'")) == 2


def test_a_file_lies_in_a_hidden_partition_where_its_values_do_and_outside_where_they_do_not(tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path, **HOURLY, **{"iceberg.partition.by": "truncate(10, n)", "flush.size": "2"})
    hours(world, 1, 1)  # both 0 to 9
    world.add({"n": 9, "at": "2025-03-01T05:00:00Z"}, {"n": 11, "at": "2025-03-01T05:00:00Z"})
    world.run()
    assert days_of(world) == [(0, ()), (1, (0,))]
    assert any("several partitions" in text for text in world.warnings.texts)
    assert len(world.rows()) == 4
    assert len(list(world.table().scan(row_filter="n = 1").plan_files())) == 1


def test_days_of_a_nested_column_are_partitions_that_prune(tmp_path: Path) -> None:
    day = 86_400_000
    config = {
        "record.metadata.enable": "true",
        "iceberg.partition.by": "day(_kafka.timestamp)",
        "timestamp.extractor": "Record",
    }
    world = IcebergWorld(tmp_path, **{**HOURLY, **config})
    for number in range(3):
        world.add({"n": number}, {"n": number + 10}, timestamp=START_MS + number * day)
    world.run()
    first = START_MS // day
    assert days_of(world) == [(1, (first + number,)) for number in range(3)]
    third = datetime.fromtimestamp((first + 2) * day // 1000, UTC).isoformat()
    found = world.table().scan(row_filter=f"_kafka.timestamp >= '{third}'")
    assert [len(list(found.plan_files())), len(world.rows())] == [1, 6]
    assert world.warnings.texts == []


def test_buckets_hold_the_files_whose_records_all_have_one_value(tmp_path: Path) -> None:
    by_field = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "id",
    }
    world = IcebergWorld(tmp_path, **by_field, **{"iceberg.partition.by": "bucket(16, id)"})
    world.add(*({"n": n, "id": 100 + n // 2} for n in range(8)))
    world.run()
    assert len({partition for _, partition in days_of(world)}) > 1
    assert all(0 <= bucket < 16 for _, (bucket,) in days_of(world))
    assert [row["n"] for row in world.rows(row_filter="id = 102")] == [4, 5]
    assert len(list(world.table().scan(row_filter="id = 102").plan_files())) == 1


# ------------------------------------------------------------ other writers


def test_a_commit_that_was_planned_on_an_older_snapshot_fails(world: IcebergWorld) -> None:
    zombie, other = opened(world), opened(world)
    stale, state = zombie.state(), other.state()
    assert stale is not None
    assert state is not None
    planner = iceberg_planner(world.settings, world.store)
    plan = planner.plan(state, [], modified_ms={})
    other.commit(state, plan, Commit(state.position + 1))
    with pytest.raises(TableUnavailable, match="another writer was faster"):
        zombie.commit(stale, plan, Commit(stale.position + 1))
    requirement = AssertRefSnapshotId(ref="main", snapshot_id=1)
    with pytest.raises(CommitFailedException):
        requirement.validate(world.table().metadata)


def rewritten(world: IcebergWorld, *, lost: int = 0) -> tuple[IcebergTable, TablePlan, Commit]:
    """A commit that puts one object in the place of both that the table has; `lost` are records that it does not hold."""
    assert isinstance(world.store, MemoryStore)
    table, planner = opened(world), iceberg_planner(world.settings, world.store)
    state = table.state()
    entry = next(one for one in world.log().entries() if one.files)
    one = pa.concat_tables(pq.read_table(io.BytesIO(world.store.objects[key])) for key in objects(world)[:2])
    content = io.BytesIO()
    pq.write_table(one.slice(lost), content)
    first = entry.files[0]
    merged = replace(first, key=f"{first.key}.merged.parquet", records=4 - lost, bytes=content.tell())
    world.store.put(merged.key, content.getvalue())
    plan = planner.plan(state, [merged], modified_ms={merged.key: world.now})
    removed = [planner.layout.path(file) for file in entry.files]
    return table, plan, Commit(entry.version + 1, plan.files, removed, {"kafka-s3": "orders"}, world.now)


@pytest.mark.parametrize(("lost", "operation"), [(0, Operation.REPLACE), (1, Operation.OVERWRITE)])
def test_a_rewrite_is_one_snapshot_and_no_change_of_data_where_it_holds_the_same_records(
    lost: int, operation: Operation, world: IcebergWorld
) -> None:
    table, plan, commit = rewritten(world, lost=lost)
    table.commit(table.state(), plan, commit)
    snapshot = world.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation == operation
    said = snapshot.summary.additional_properties
    assert (said["added-data-files"], said["deleted-data-files"], said["total-records"]) == ("1", "2", str(4 - lost))
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3][lost:]
    before = snapshot.parent_snapshot_id
    assert sorted(row["n"] for row in world.table().scan(snapshot_id=before).to_arrow().to_pylist()) == [0, 1, 2, 3]


def test_a_rewrite_of_files_that_another_writer_has_rewritten_is_refused(world: IcebergWorld) -> None:
    """Its records would be in the table twice."""
    world.table().delete("n = 3")
    table, plan, commit = rewritten(world)
    state = table.state()
    with pytest.raises(TableRefused, match="lacks 1 of the 2 files"):
        table.commit(state, plan, commit)
    assert [row["n"] for row in world.rows()] == [0, 1, 2]


def test_rows_of_another_writer_stay_and_the_sink_goes_on(world: IcebergWorld) -> None:
    table = world.table()
    table.delete("n = 3")  # rewrites a file of ours, in the table's own folder
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 4, 5]
    assert len(objects(world)) == 3


def test_a_table_that_was_rolled_back_is_reported_and_put_right_by_a_rebuild(world: IcebergWorld) -> None:
    world.add({"n": 4}, {"n": 5})
    world.run()
    first = world.table().metadata.snapshots[0].snapshot_id
    world.table().manage_snapshots().rollback_to_snapshot(first).commit()
    world.add({"n": 6}, {"n": 7})
    world.run()
    assert any("rolled it back" in text for text in world.warnings.texts)
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 6, 7]
    table, planner = opened(world), iceberg_planner(world.settings, world.store)
    found = check_table(world.log(), planner, table, topic="orders")
    assert [one.kind.value for one in found.findings] == ["object not in table"]
    done = rebuild(world.log(), planner, table, topic="orders", clock_ms=lambda: world.now)
    assert (done.added, done.removed) == (1, 0)
    assert [row["n"] for row in world.rows()] == list(range(8))
    assert check_table(world.log(), planner, table, topic="orders").findings == []


def test_a_table_that_another_writer_compacted_goes_on_with_each_record_once(world: IcebergWorld) -> None:
    table = world.table()
    table.overwrite(table.scan().to_arrow())
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]
    assert world.warnings.texts == []
    found = check_table(world.log(), iceberg_planner(world.settings, world.store), opened(world), topic="orders")
    assert (found.findings, found.rewritten) == ([], 2)


def test_a_table_that_was_replaced_is_reported_and_put_right_by_a_rebuild(world: IcebergWorld) -> None:
    """As `CREATE OR REPLACE TABLE` does: the same table and properties, and an empty snapshot without a parent."""
    table, snapshot = world.table(), world.table().current_snapshot()
    assert snapshot is not None
    number, sequence = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    where = f"{table.location()}/metadata/snap-replaced.avro"
    with write_manifest_list(2, table.io.new_output(where), number, None, sequence, "deflate") as listing:
        listing.add_manifests([])
    empty = {"snapshot_id": number, "parent_snapshot_id": None, "sequence_number": sequence, "manifest_list": where}
    become(table, snapshot.model_copy(update={**empty, "summary": Summary(operation=Operation.APPEND)}))
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert any("none of its snapshots is the sink's own" in text for text in world.warnings.texts)
    assert [row["n"] for row in world.rows()] == [4, 5]
    planner = iceberg_planner(world.settings, world.store)
    rebuild(world.log(), planner, opened(world), topic="orders", clock_ms=lambda: world.now)
    assert [row["n"] for row in world.rows()] == list(range(6))


class DeleteManifest(ManifestWriterV2):
    """A manifest of delete files, which pyiceberg reads and does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_first_row_by_position(world: IcebergWorld) -> None:
    """As engines with merge-on-read do: a file that names a data file and the place of a row."""
    table, content, place = world.table(), io.BytesIO(), "s3://bucket/iceberg/kafka/orders/data/deletes.parquet"
    metadata, snapshot = table.metadata, table.current_snapshot()
    assert snapshot is not None
    path = f"s3://bucket/{objects(world)[0]}"
    pq.write_table(pa.table({"file_path": [path], "pos": pa.array([0], pa.int64())}), content)
    with table.io.new_output(place).create() as stream:
        stream.write(content.getvalue())
    number, sequence = metadata.new_snapshot_id(), metadata.next_sequence_number()
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=place, file_format=FileFormat.PARQUET, partition=Record("0"),
        record_count=1, file_size_in_bytes=content.tell(), column_sizes=None, value_counts=None, null_value_counts=None,
        nan_value_counts=None, lower_bounds=None, upper_bounds=None, key_metadata=None, split_offsets=None, equality_ids=None,
        sort_order_id=None,
    )  # fmt: skip
    entry = ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=number, sequence_number=None, file_sequence_number=None, data_file=file
    )  # fmt: skip
    output = table.io.new_output(f"{metadata.location}/metadata/deletes.avro")
    with DeleteManifest(table.spec(), table.schema(), output, number, "deflate") as writer:
        writer.add_entry(entry)
    where = f"{metadata.location}/metadata/snap-deletes.avro"
    with write_manifest_list(
        2, table.io.new_output(where), number, snapshot.snapshot_id, sequence, "deflate"
    ) as listing:
        listing.add_manifests([*read_manifests(table.io, snapshot), writer.to_manifest_file()])
    newer = snapshot.model_copy(
        update={
            "snapshot_id": number, "parent_snapshot_id": snapshot.snapshot_id, "sequence_number": sequence, "manifest_list": where,
            "timestamp_ms": metadata.last_updated_ms, "summary": Summary(operation=Operation.DELETE),
        }
    )  # fmt: skip
    become(table, newer)


def become(table: Table, snapshot: Snapshot) -> None:
    """A commit by another engine, which makes this snapshot the table's newest."""
    main = {"ref_name": "main", "type": SnapshotRefType.BRANCH, "snapshot_id": snapshot.snapshot_id}
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), made(SetSnapshotRefUpdate, **main)))


def test_rows_that_delete_files_of_another_writer_take_out_stay_out_and_a_rewrite_is_refused(
    world: IcebergWorld,
) -> None:
    """They would come back with the files that a rewrite adds; entries that only add go on."""
    delete_first_row_by_position(world)
    assert [row["n"] for row in world.rows()] == [1, 2, 3]
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert [row["n"] for row in world.rows()] == [1, 2, 3, 4, 5]
    table, plan, commit = rewritten(world)
    with pytest.raises(TableRefused, match="has delete files of another writer"):
        table.commit(table.state(), plan, commit)
    assert [row["n"] for row in world.rows()] == [1, 2, 3, 4, 5]


def test_a_rebuild_takes_files_of_others_out(world: IcebergWorld) -> None:
    world.table().delete("n = 3")
    table, planner = opened(world), iceberg_planner(world.settings, world.store)
    assert [one.kind.value for one in check_table(world.log(), planner, table, topic="orders").findings] == [
        "wrong count"
    ]
    rebuild(world.log(), planner, table, topic="orders", clock_ms=lambda: world.now)
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_table_without_the_sinks_number_is_taken_over_with_the_files_that_it_has(world: IcebergWorld) -> None:
    with world.table().transaction() as changes:
        changes.remove_properties("kafka-s3.orders.entry")
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]


def test_a_column_that_another_writer_added_under_a_number_of_its_own_is_refused_by_name(world: IcebergWorld) -> None:
    from pyiceberg.types import StringType

    with world.table().update_schema() as change:
        change.add_column("note", StringType())
    world.add({"n": 4, "note": "late"}, {"n": 5})
    world.run()
    assert any("column note has another field id" in text for text in world.warnings.texts)
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_column_that_another_writer_renamed_is_followed_by_its_number(world: IcebergWorld) -> None:
    with world.table().update_schema() as change:
        change.rename_column("text", "label")
    world.add({"n": 4, "text": "t4"}, {"n": 5, "text": "t5"})
    world.run()
    assert world.warnings.texts == []
    assert [row["label"] for row in world.rows()] == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert [row["n"] for row in world.rows(row_filter="label = 't5'")] == [5]


def test_a_catalog_that_is_not_there_holds_up_the_tables_alone(world: IcebergWorld) -> None:
    where = world.settings.text("iceberg.catalog.uri").removeprefix("sqlite:///")
    Path(where).rename(f"{where}.away")
    Path(where).mkdir()
    world.add({"n": 4}, {"n": 5})
    world.run()
    assert len(objects(world)) == 3
    assert world.warnings.texts
    Path(where).rmdir()
    Path(f"{where}.away").rename(where)
    world.now += 61_000
    world.run()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]


def test_a_commit_that_a_reader_of_the_database_keeps_out_is_tried_again(tmp_path: Path) -> None:
    """SQLite locks the database at the end of a transaction: a commit that fails there must not look as if it were done."""
    world = IcebergWorld(tmp_path, iceberg__catalog__uri=f"sqlite:///{tmp_path}/catalog.db?timeout=0.05")
    world.add({"n": 0}, {"n": 1})
    world.run()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT * FROM iceberg_tables").fetchall()
        world.add({"n": 2}, {"n": 3})
        world.run()
        assert "database is locked" in str(world.sink.followers.problems)
    assert [row["n"] for row in world.rows()] == [0, 1]
    world.start()
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3]


def test_a_namespace_that_is_made_in_hive_lies_in_the_warehouse_of_the_sink(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metastore puts it below a folder of its own, often of HDFS: the table's metadata would not be in S3."""
    thrift = ModuleType("thrift")  # the client of a metastore, which the development environment does not have
    thrift.__spec__ = ModuleSpec("thrift", None)
    monkeypatch.setitem(sys.modules, "thrift", thrift)
    assert namespace_location(world.settings, ["kafka"]) == ""
    hive = {"iceberg.catalog.type": "hive", "iceberg.catalog.uri": "thrift://metastore:9083"}
    world.configure(**hive)
    assert namespace_location(world.settings, ["kafka"]) == "s3://bucket/iceberg/kafka.db"
    world.configure(**hive, **{"iceberg.catalog.warehouse": "s3://other/w/"})
    assert opened(world).namespace_location == "s3://other/w/kafka.db"
