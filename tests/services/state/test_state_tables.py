"""State tables on real Spark, by delta-spark: what the log says of each key is what the table holds.

The sink is the real one over records in memory and an S3 server. Spark reads its objects by the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import typer
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType
from typer.testing import CliRunner

from kafka_s3.cli.state import state
from kafka_s3.connect.naming.table_names import TableName
from kafka_s3.followers.state import Changes, StateStretch, Transaction
from kafka_s3.model.errors import TableRefused
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.spark import frames
from kafka_s3.run.spark.state_tables import TableFormat, open_state_table
from kafka_s3.spark import WantedRecords, records_of_entries
from kafka_s3.state import DELETIONS, HELD_BYTES, SparkStates, _Held, _Kept, deletions_of
from tests.services.state.spark_state_world import PARTITIONS, SparkStateWorld, dying, run_at_random
from tests.support.deaths import Died
from tests.support.state_world import KeyedRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3


@pytest.fixture
def schema(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"s{abs(hash(request.node.name)) % 10**9}"
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


MakeWorld = Callable[..., SparkStateWorld]


@pytest.fixture
def world_of(s3: EmbeddedS3, bucket: str, spark: SparkSession, schema: str) -> MakeWorld:
    return lambda **config: SparkStateWorld(s3.endpoint_url, bucket, spark, schema, **config)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_a_table_holds_the_newest_value_of_every_key(world_of: MakeWorld, seed: int) -> None:
    world = run_at_random(world_of, seed)
    assert world.rows() == world.committed()


def test_an_entry_is_merged_once_and_check_names_the_first_key_that_differs(
    world_of: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_s3.spark.LOCAL_RECORDS", 2)  # so that Spark's tasks read more
    world = world_of(**{"flush.size": "1"})
    app = typer.Typer()
    app.add_typer(state, name="state")

    def run(command: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["state", command, world.file(tmp_path)])
        return done.exit_code, " ".join(done.output.split())

    world.take(*(KeyedRecord(key, 0, n, None, False) for n, key in enumerate("abc")))
    entry = world.log().state.version
    assert run("run") == (0, f"orders: rebuilt with 3 keys; complete through entry {entry}")
    world.take(KeyedRecord("b", 0, 7, None, False), KeyedRecord("c", 0, 8, None, True))
    code, text = run("run")
    assert (code, world.rows()) == (0, {"a": 0, "b": 7}), text
    table = DeltaTable.forName(world.spark, f"{world.schema}.orders")
    history = table.history().select("version", "userMetadata", "operationMetrics").collect()
    assert int(history[0]["operationMetrics"]["numTargetDeletionVectorsAdded"]) == 1, "only changed rows are written"
    assert run("run")[0] == 0
    assert table.history().count() == len(history), "nothing new is no version"
    assert json.loads(history[0]["userMetadata"])["topic"] == "orders"
    entry = world.log().state.version
    assert run("check") == (0, f"orders: the table holds what the log says through entry {entry}, 2 keys.")
    table.update("_key = 'b'", {"n": "70"})
    code, text = run("check")
    assert code == 1
    assert 'orders: key {"_key":"b"} differs: the table has {' in text
    assert run("rebuild")[0] == 0
    assert world.rows() == {"a": 0, "b": 7}
    assert run("check")[0] == 0


@pytest.fixture
def another_zone(spark: SparkSession) -> Iterator[None]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.usefixtures("another_zone")
def test_few_records_are_read_by_the_driver_and_are_the_same(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(**{"flush.size": "2"})
    values = ({"id": n, "price": n / 4, "in": {"lines": [{"sku": "x", "n": n}]}, "ok": n > 2} for n in range(4))
    world.values(*values)
    wanted = WantedRecords("orders", 0, world.log().state.version)
    location = world.tables.tables.location
    here, local = records_of_entries(world.spark, location, wanted)
    monkeypatch.setattr("kafka_s3.spark.LOCAL_RECORDS", 3)
    by_tasks, few = records_of_entries(world.spark, location, wanted)
    assert (local, few) == (True, False)
    assert here.schema == by_tasks.schema
    assert here.orderBy("id").collect() == by_tasks.orderBy("id").collect()
    assert here.count() == 4
    for number in (8, 9, 10):
        world.add(PARTITIONS[0], None, json.dumps({"id": number}).encode())
    world.add(PARTITIONS[0], "1", None)
    world.sink.poll_and_commit()
    stretch = StateStretch("orders", 0, world.log().state.version)
    found = []
    for most in (10, 0):
        monkeypatch.setattr("kafka_s3.spark.LOCAL_RECORDS", most)
        with world.tables.read_changes(stretch, world.merger.rules) as changes:
            found.append(changes)
    assert found == [Changes(stretch, 4, 1, 3, "partition 0 offset 6")] * 2


@pytest.mark.nightly
def test_a_second_driver_with_an_older_view_changes_nothing(world_of: MakeWorld) -> None:
    world = world_of(**{"flush.size": "1"})
    world.take(KeyedRecord("a", 0, 1, None, False))
    world.advance()
    note = world.merger.notes.read("orders")
    assert note is not None
    world.take(KeyedRecord("a", 0, 2, None, False))
    world.advance()
    world.take(KeyedRecord("a", 0, 3, None, True))
    world.advance()
    world.merger.notes.put("orders", note)
    world.advance()
    assert world.rows() == {}


@pytest.mark.nightly
def test_deletions_are_looked_up_again_where_another_driver_has_merged(
    world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(**{"flush.size": "1"})

    def merge(*records: KeyedRecord) -> list[str]:
        """Merges them; gives the tables that were looked into."""
        world.take(*records)
        looked: list[str] = []
        tables = world.tables.tables
        monkeypatch.setattr(
            type(tables), "_table", lambda self, name: looked.append(name.parts[-1]) or table(self, name)
        )
        world.advance()
        return [one for one in looked if one.endswith(DELETIONS)]

    table = SparkStates._table
    fill = [KeyedRecord(f"fill{n}", 1, n, None, False) for n in range(3)]  # offsets of partition 1 are greater
    merge(KeyedRecord("a", 0, 0, None, False), *fill)
    for number in range(2):
        merge(KeyedRecord("b", 0, 1 + number, None, False))
    merge(KeyedRecord("a", 1, 3, None, True))
    assert merge(KeyedRecord("a", 0, 4, None, False)) == []
    assert set(world.rows()) == {"b", "fill0", "fill1", "fill2"}
    assert merge(KeyedRecord("c", 2, 5, None, False)) != [], "its offset is smaller than those before"
    assert merge(KeyedRecord("a", 2, 6, None, False)) == []
    assert world.rows() == world.committed()
    world.use(1)
    merge(KeyedRecord("b", 1, 7, None, True))
    world.use(0)
    assert merge(KeyedRecord("b", 0, 8, None, False)) != []
    monkeypatch.setattr("kafka_s3.followers.state.NOTE_EVERY", 2)
    merge(KeyedRecord("c", 1, 9, None, True))
    merge(KeyedRecord("fill1", 1, 10, None, True))
    gone = world.spark.table(f"{world.schema}.orders{DELETIONS}").select("_key").distinct().collect()
    assert {row[0] for row in gone} == {"a", "b", "c", "fill1"}
    assert world.rows() == world.committed()
    assert set(world.rows()) == {"fill0", "fill2"}


@pytest.mark.nightly
def test_what_another_driver_merged_before_it_died_is_among_the_rows_that_are_noted(world_of: MakeWorld) -> None:
    world = world_of(**{"flush.size": "1"})
    for number in range(2):
        world.take(KeyedRecord(f"key{number}", 0, number, None, False))
        world.advance()
    world.take(KeyedRecord("last", 0, 2, None, False))
    other = replace(world.merger, _own={}, _counted_ms={})
    world.tables.step = dying("after merge")
    with pytest.raises(Died):
        other.advance("orders", world.log())
    world.tables.step = dying("nowhere")
    world.advance()
    note = world.merger.notes.read("orders")
    assert note is not None
    assert note.rows == len(world.rows()) == 3


@pytest.mark.nightly
def test_fields_called_like_columns_of_the_state_are_left_out(world_of: MakeWorld) -> None:
    world = world_of(**{"flush.size": "1", "state.key": "id", "state.delete.on": ""})
    world.values({"id": 1, "n": 1, "_OFFSET": 5, "_deleted": True})
    world.advance()
    (row,) = world.spark.table(f"{world.schema}.orders").collect()
    assert row.asDict() == {"id": 1, "n": 1, "_offset": 0, "_kafka_partition": 0}


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["addNewColumns", "failOnNewColumns", "rescue", "none"])
def test_new_columns_go_by_the_mode(world_of: MakeWorld, mode: str) -> None:
    world = world_of(
        **{"flush.size": "1", "state.key": "id", "state.delete.on": "", "state.schema.evolution.mode": mode}
    )
    world.values({"id": 1, "n": 1, "in": {"a": 1}})
    world.advance()
    world.values({"id": 1, "n": 2, "more": "x", "in": {"a": 2}}, {"id": 2, "n": 3})
    if mode == "failOnNewColumns":
        with pytest.raises(
            TableRefused, match=r"cannot take new column more string .state.schema.evolution.mode=failOnNewColumns"
        ):
            world.advance()
        return
    world.advance()
    rows = {
        row["id"]: row
        for row in (one.asDict(recursive=True) for one in world.spark.table(f"{world.schema}.orders").collect())
    }
    assert (rows[1]["n"], rows[1]["in"], rows[2]["in"]) == (2, {"a": 2}, None)
    found = {"addNewColumns": "more", "rescue": "_rescued_data"}.get(mode)
    assert set(rows[1]) == {"id", "n", "in", "_offset", "_kafka_partition", *([found] if found else [])}
    if found:
        assert (rows[1][found], rows[2][found]) == ("x" if found == "more" else '{"more":"x"}', None)


@pytest.mark.nightly
def test_debezium_changes_are_rows_by_their_key_and_their_place_in_the_source(world_of: MakeWorld) -> None:
    rules = {"state.key": "record key.id", "key.converter": "org.apache.kafka.connect.json.JsonConverter"}
    more = {
        "key.converter.schemas.enable": "false",
        "state.delete.on": "op=d",
        "state.order.by": "source.lsn",
        "state.columns": "after.*",
    }
    world = world_of(**{"flush.size": "1", **rules, **more})

    def change(op: str, lsn: int, after: dict[str, Any] | None, *, key: int, partition: int = 0) -> None:
        value = {"op": op, "source": {"lsn": lsn}, "after": after}
        world.add(TopicPartition("orders", partition), json.dumps({"id": key}), json.dumps(value).encode())

    change("c", 1, {"id": 1, "status": "new"}, key=1)
    change("c", 2, {"id": 2, "status": "new"}, key=2)
    world.sink.poll_and_commit()
    world.advance()
    change("d", 9, None, key=2)
    change("u", 8, {"id": 1, "status": "paid"}, key=1, partition=1)
    change("u", 3, {"id": 1, "status": "late"}, key=1)
    change("u", 4, {"id": 2, "status": "late"}, key=2, partition=2)
    world.sink.poll_and_commit()
    world.advance()
    rows = world.spark.table(f"{world.schema}.orders").select("id", "status", "_order").collect()
    assert [tuple(row) for row in rows] == [("1", "paid", 8)]


@pytest.mark.nightly
def test_a_table_of_ones_own_widens_its_types_and_is_merged_on_read_by_deletion_vectors(world_of: MakeWorld) -> None:
    world = world_of(**{"flush.size": "1"})
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.enableTypeWidening' = 'true'"
    columns = "_key STRING, n INT, _offset BIGINT, _kafka_partition INT"
    world.spark.sql(
        f"CREATE TABLE {world.schema}.orders ({columns}) USING delta CLUSTER BY (_key) TBLPROPERTIES ({properties})"
    )
    world.take(*(KeyedRecord(key, 0, n, None, False) for n, key in enumerate("abcd")))
    world.advance()
    assert dict(world.spark.table(f"{world.schema}.orders").dtypes)["n"] == "bigint"
    world.take(KeyedRecord("b", 0, 2**40, None, False), KeyedRecord("c", 0, 8, None, True))
    world.advance()
    assert world.rows() == {"a": 0, "b": 2**40, "d": 3}
    [merge] = DeltaTable.forName(world.spark, f"{world.schema}.orders").history(1).collect()
    assert merge["operation"] == "MERGE"
    assert int(merge["operationMetrics"]["numTargetDeletionVectorsAdded"]) > 0
    note = world.merger.notes.read("orders")
    assert note is not None
    assert note.rows == 3


def test_a_deletion_is_noted_once_though_its_key_has_become_wider(spark: SparkSession, schema: str) -> None:
    spark.sql(f"CREATE TABLE {schema}.gone (id INT, _offset BIGINT) USING delta")
    table = open_state_table(spark, TableName((schema, "gone")), TableFormat.DELTA)
    assert table is not None
    rows = spark.createDataFrame([(7, 1)], "id bigint, _offset bigint")
    for _ in range(2):
        table.add(rows, Transaction("kafka-s3-state-orders-1", 5, ""))
    assert [tuple(row) for row in spark.table(f"{schema}.gone").collect()] == [(7, 1)]


def test_rows_that_the_driver_holds_are_partitions_that_a_task_can_be_sent(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "A_PARTITION", 1 << 20)
    texts = ["x" * 100_000] * 40 + ["y"] * 20_000  # all that is large comes together
    frame = frames.frame_of(spark, pa.table({"text": texts}), StructType().add("text", "string"))
    sizes = frame.groupBy(F.spark_partition_id()).agg(
        F.count("*").alias("rows"), F.sum(F.length("text")).alias("bytes")
    )
    found = sizes.collect()
    assert max(one["bytes"] for one in found) <= 1 << 20
    assert (sum(one["rows"] for one in found), sum(one["bytes"] for one in found)) == (20_040, 4_020_000)
    nothing = pa.table({"text": pa.array([], "string")})
    assert frames.frame_of(spark, nothing, frame.schema).count() == 0
    few = pa.concat_tables([nothing, nothing, pa.table({"text": ["z"]})])
    assert [row[0] for row in frames.few_rows(spark, few, frame.schema).collect()] == ["z"]


def test_deletions_are_held_in_so_many_bytes_and_in_one_piece_however_many_merges_and_tables_there_are() -> None:
    empty = pa.schema({"_key": pa.string(), "_offset": pa.int64()}).empty_table()
    changes = Changes(StateStretch("orders", 0, 0), 2, 1)
    rows = pa.table({"_key": ["a" * 1000, "b"], "_offset": [0, 1], "_deleted": [True, False], "n": [0, 1]})
    nobody: Any = None
    states = SparkStates(nobody, nobody)
    states._kept[changes] = _Kept(nobody, {}, rows)
    for topic in ("orders", "shipments"):
        states._held[deletions_of(TableName((topic,)))] = _Held(0, empty, empty, StructType())
    held, refused = 0, set[str]()
    while len(refused) < 2:
        for topic in ("orders", "shipments"):
            taken = states.hold_deletions(TableName((topic,)), changes)
            held += taken
            refused |= set() if taken else {topic}
    assert HELD_BYTES * 0.9 < held * 1000 <= HELD_BYTES
    for one in states._held.values():
        assert {some["_key"].num_chunks for some in (one.rows, one.waiting)} == {1}
