"""Tables that have names in a catalog, and tables that Spark writes: delta-spark on the objects of an S3 server whose buckets are folders.

The sink is the real one over records in memory; Spark reads the same objects as files.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable, IdentityGenerator

from kafka_s3.followers.delta.maintain import Chores, MaintenanceStep
from kafka_s3.model.errors import TableRefused
from kafka_s3.model.files import Reason, Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.spark.launch import maintained_copies
from kafka_s3_testing.faults import Moment
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.services.run.spark.delta_spark_world import SparkWorld, numbered
from tests.support.configurations import FIELD
from tests.support.deaths import Died, strikes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODE = "delta.schema.evolution.mode"


@pytest.fixture
def world(objects: EmbeddedS3, spark: SparkSession, schema: str) -> SparkWorld:
    """Tables that Spark writes."""
    return SparkWorld(objects, spark, schema, **{"delta.writer": "spark"})


def test_a_table_has_its_name_once_it_is_there(named: SparkWorld) -> None:
    named.start()
    assert not named.session.catalog.tableExists(f"{named.schema}.orders")
    named.add(*numbered(0, 1))
    assert named.sink.poll_and_commit()
    assert named.warnings.texts == []
    assert named.read() == [{"n": n, "partition": "0"} for n in (0, 1)]
    named.add(*numbered(2, 3))
    assert named.sink.poll_and_commit()
    assert named.numbers() == [0, 1, 2, 3]


@pytest.mark.nightly
def test_what_is_registered_keeps_its_comments_and_properties_and_the_name_may_come_later(named: SparkWorld) -> None:
    named.configure(**{"delta.table.name": ""})
    named.add(*numbered(0, 1))
    named.run()
    named.sql(f"CREATE TABLE TABLE_ USING DELTA LOCATION '{named.spark.url('topics/orders')}'")
    named.sql("COMMENT ON TABLE TABLE_ IS 'All orders'")
    named.sql("ALTER TABLE TABLE_ ALTER COLUMN n COMMENT 'the number'")
    named.sql("ALTER TABLE TABLE_ SET TBLPROPERTIES ('owner.team' = 'sales')")
    named.configure(**{"delta.table.name": f"{named.schema}.orders"})
    named.add({"n": 2, "more": "x"}, {"n": 3, "more": "y"})
    named.run()
    assert named.warnings.texts == []
    assert named.numbers() == [0, 1, 2, 3]
    [detail] = named.sql("DESCRIBE DETAIL TABLE_")
    assert (detail.description, detail.properties["owner.team"]) == ("All orders", "sales")
    assert named.session.table(f"{named.schema}.orders").schema["n"].metadata == {"comment": "the number"}
    named.configure(**{"delta.writer": "spark"})
    named.start()
    assert f"{named.schema}.orders lies over the topic's own objects" in named.warnings.texts[-1]
    assert named.numbers() == [0, 1, 2, 3]


@pytest.mark.nightly
def test_tables_that_were_there_before_get_their_names_with_the_next_start(named: SparkWorld) -> None:
    named.configure(topics="orders,a.b-c", **{"delta.table.name": ""})
    named.add(*numbered(0, 1))
    named.add(*numbered(7, 8), tp=TopicPartition("a.b-c", 0))
    named.run()
    named.configure(**{"delta.table.name": f"spark_catalog.{named.schema}.${{topic}}"})
    named.start()
    assert named.warnings.texts == []
    assert named.numbers() == [0, 1]
    assert named.numbers("a_b_c") == [7, 8]


def test_a_name_that_is_taken_is_left_alone_and_the_table_follows_on(named: SparkWorld) -> None:
    named.sql("CREATE TABLE TABLE_ USING DELTA AS SELECT 100 AS other")
    named.add(*numbered(0, 1))
    named.run()
    [warning] = named.warnings.texts
    assert f"{named.schema}.orders is already registered at file:" in warning
    assert f"not at file://{named.s3.folder}/{named.bucket}/topics/orders. " in warning
    assert "set another delta.table.name" in warning
    named.add(*numbered(2, 3))
    assert named.sink.poll_and_commit()
    assert len(named.warnings.texts) == 1
    assert [row["n"] for row in named.rows()] == [0, 1, 2, 3]
    assert named.sql("SELECT * FROM TABLE_") == [(100,)]


def test_each_entry_is_appended_once_with_its_number_and_what_it_holds(world: SparkWorld) -> None:
    world.add(*numbered(0, 1, 2, 3))
    first = world.run().log.state.version
    world.add(*({"n": n, "more": "x"} for n in (4, 5)))
    assert world.sink.poll_and_commit()
    world.start()
    assert world.warnings.texts == []
    assert world.read()[3:] == [
        {"n": 3, "partition": "0", "more": None}, {"n": 4, "partition": "0", "more": "x"}, {"n": 5, "partition": "0", "more": "x"},
    ]  # fmt: skip
    assert world.history() == [
        {"kafka-s3": "orders", "entries": [first, first], "offsets": {"orders-0": [[0, 3]]}},
        {"kafka-s3": "orders", "entries": [first + 1, first + 1], "offsets": {"orders-0": [[4, 5]]}},
    ]


def test_whoever_dies_or_loses_the_places_appends_nothing_twice(world: SparkWorld) -> None:
    world.configure(**{"delta.enable": "false"})
    for n in range(3):
        world.add({"n": n})
        world.run() if n == 0 else world.sink.poll_and_commit()
        world.sink.drain(close=Reason.FLUSH_NOW)
    world.configure(**{"delta.enable": "true"})
    begun = "followers/delta-spark/"
    deaths = [
        ("put", begun, Moment.BEFORE),  # all of them are appended
    ]
    for death in deaths:
        with pytest.raises(Died):
            world.start([strikes(*death)])
    world.add(*numbered(3, 4))
    with pytest.raises(Died):
        world.run([strikes("put", "followers/delta-spark-", Moment.BEFORE)])
    world.run()
    assert world.numbers() == [0, 1, 2, 3, 4]
    for info in list(world.store.list("_kafka_s3/orders/followers/delta-spark-")):
        world.store.delete(info.key)
    world.add(*numbered(5, 6))
    world.run()
    assert world.numbers() == list(range(7))
    assert len(world.history()) == 3
    assert world.warnings.texts == []


def test_a_copy_is_compacted_and_vacuumed_by_spark_and_the_sink_goes_on(world: SparkWorld) -> None:
    for n in range(3):
        world.add({"n": n})
        world.run() if n == 0 else world.sink.poll_and_commit()
        world.sink.drain(close=Reason.FLUSH_NOW)
    chores = Chores({MaintenanceStep.OPTIMIZE, MaintenanceStep.VACUUM})
    [(topic, before)] = maintained_copies(world.settings, ["orders"], chores, dry_run=True)
    assert (topic, before) == ("orders", f"{world.schema}.orders, version 3, 3 files, {world.bytes():,} bytes")
    [(_, after)] = maintained_copies(world.settings, ["orders"], chores, dry_run=False)
    assert str(after).startswith(f"{world.schema}.orders, version 6, 1 files, ")  # VACUUM has two entries of its own
    world.add({"n": 3})
    assert world.sink.poll_and_commit()
    world.sink.drain(close=Reason.FLUSH_NOW)
    assert world.numbers() == [0, 1, 2, 3]
    assert world.warnings.texts == []
    keep_less = Chores({MaintenanceStep.VACUUM}, 1)
    [(_, refused)] = maintained_copies(world.settings, ["orders"], keep_less, dry_run=False)
    assert isinstance(refused, TableRefused)
    assert "such a low retention" in str(refused)


def test_a_table_of_another_format_is_refused_by_its_name(world: SparkWorld) -> None:
    world.sql("CREATE TABLE TABLE_ USING PARQUET AS SELECT 1 AS n")
    world.add(*numbered(0, 1))
    world.run()
    assert f"{world.schema}.orders is not a Delta table. Set another delta.table.name." in world.warnings.texts[-1]


@pytest.mark.nightly
def test_a_table_that_delta_rs_cannot_write_takes_the_whole_log_when_it_is_switched_on_later(world: SparkWorld) -> None:
    world.configure(**{"delta.enable": "false", "flush.size": "1"})
    world.add(*numbered(0, 1))
    world.run()
    world.add({"n": 2, "more": "x"})
    assert world.sink.poll_and_commit()
    made = DeltaTable.create(world.session).tableName(f"{world.schema}.orders").comment("All orders")
    made = made.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator()).addColumn(
        "n", "BIGINT", nullable=False
    )
    made = made.addColumn("more", "STRING").addColumn("a b", "STRING").addColumn("partition", "STRING")
    made = made.addColumn("twice", "BIGINT", generatedAlwaysAs="n * 2").clusterBy("n")
    made.property("delta.columnMapping.mode", "name").property("delta.enableRowTracking", "true").execute()
    world.configure(**{"delta.enable": "true"})
    world.start()
    world.add({"n": 3, "new": True})
    assert world.sink.poll_and_commit()
    assert world.warnings.texts == []
    assert len({row["id"] for row in world.read()} - {None}) == 4
    rows = [(row["n"], row["twice"], row["more"], row["partition"], row["new"]) for row in world.read()]
    assert rows == [(0, 0, None, "0", None), (1, 2, None, "0", None), (2, 4, "x", "0", None), (3, 6, None, "0", True)]
    assert [one["entries"] for one in world.history()] == [[2, 3], [5, 5]]
    [detail] = world.sql("DESCRIBE DETAIL TABLE_")
    assert (detail.description, detail.clusteringColumns) == ("All orders", ["n"])
    world.sql("ALTER TABLE TABLE_ ADD CONSTRAINT small CHECK (n < 100)")
    world.add({"n": 1000})
    assert world.sink.poll_and_commit()
    [warning] = world.warnings.texts
    assert f"{world.schema}.orders: Spark refuses: [DELTA_VIOLATE_CONSTRAINT" in warning


@pytest.mark.nightly
def test_records_keep_to_the_types_of_a_table_that_is_not_widened(world: SparkWorld) -> None:
    world.configure(**{"errors.tolerance": "all"})
    world.sql("CREATE TABLE TABLE_ (n INT, price DOUBLE, wide BIGINT) USING DELTA")
    world.add({"n": 0, "price": 1, "wide": 2**40}, {"n": 2**40, "price": 1.5})
    world.add({"n": 1, "price": 2, "wide": 7}, {"n": "two"})
    world.run()
    assert [(row["n"], row["price"], row["wide"]) for row in world.read()] == [(0, 1.0, 2**40), (1, 2.0, 7)]
    letters = [file.records for entry in world.log().entries() for file in entry.files if file.role is Role.DEAD_LETTER]
    assert letters == [2]
    world.configure(**{MODE: "none"})
    world.sql("ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    world.add({"n": 2, "more": "x"}, {"n": 3, "more": "x"})
    world.run()
    assert list(world.read()[0]) == ["n", "price", "wide"]
    world.configure(**{MODE: "addNewColumns"})
    world.add({"n": 2**40, "more": "x"}, {"n": 2**40 + 1, "more": "x"})
    world.run()
    assert [row["n"] for row in world.read()] == [0, 1, 2, 3, 2**40, 2**40 + 1]
    assert world.warnings.texts == []


def test_what_has_no_column_is_rescued_into_the_table(world: SparkWorld) -> None:
    world.configure(**{MODE: "rescue"})
    world.sql("CREATE TABLE TABLE_ (n BIGINT) USING DELTA")
    world.add({"n": 0, "more": "x"}, {"n": "one"})
    world.run()
    found = {(row["n"], row["_rescued_data"]) for row in world.read(by="_rescued_data")}
    assert found == {(0, '{"more":"x"}'), (None, '{"n":"one"}')}


def test_directories_of_any_name_and_without_a_value_are_read(world: SparkWorld) -> None:
    world.configure(**FIELD, **{"flush.size": "1"})
    values = ["a b/c=d", "null", None, "50%+", "[x]*?{é}", "back\\slash", "it's"]
    world.add(*({"n": n, "d": value} for n, value in enumerate(values)))
    world.run()
    assert world.warnings.texts == []
    assert [row["d"] for row in world.read()] == values
    assert world.sql("DESCRIBE DETAIL TABLE_")[0].partitionColumns == ["d"]


@pytest.mark.nightly
def test_a_spark_without_delta_says_what_it_lacks(tmp_path: Path) -> None:
    """In a process of its own: Delta's SQL cannot be taken out of a session."""
    program = """
from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.model.errors import TableRefused
from kafka_s3.run.spark.launch import NO_EXTENSION, SparkCatalog
from kafka_s3.run.spark.session import local_session
catalog = SparkCatalog(local_session(name="no Delta", cores="1"), "file:///nowhere")
assert catalog.lacks() == NO_EXTENSION
try:
    catalog.register(TableName(("default", "orders")), "file:///nowhere/orders")
except TableRefused as error:
    assert NO_EXTENSION in str(error), error
    print("said so")
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "said so" in ran.stdout, ran.stderr
