"""State tables on real Spark, by delta-spark: what the log says of each key is what the table holds.

The sink is the real one over records in memory and an S3 server. Spark reads its objects by the log.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import typer
from delta.tables import DeltaTable
from typer.testing import CliRunner

from kafka_s3.cli.state import state
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.followers.state import Advance, Changes, StateRules, StateStretch, Transaction
from kafka_s3.model.errors import TableError, TableRefused
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import make_pipeline, state_paths
from kafka_s3.run.wiring.sink import build_sink
from kafka_s3.run.wiring.state import state_merger
from kafka_s3.store.s3 import S3Store
from kafka_s3.testing.services.memory import MemoryKafka, MemoryRecord
from tests.support.deaths import Died
from tests.support.memory_world import BASE, START_MS, settings_of
from tests.support.state_world import STATE, KeyedRecord, StateModel, partition_of, random_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.connect.naming.table_names import TableName
    from kafka_s3.state import SparkStates
    from kafka_s3.testing.services.s3 import EmbeddedS3

PARTITIONS = [TopicPartition("orders", n) for n in range(3)]


class Stepwise:
    """Spark's tables, with a call around each of their steps."""

    def __init__(self, tables: SparkStates) -> None:
        self.tables = tables
        self.step: Callable[[str], None] = lambda _: None
        self.identity, self.is_empty, self.count = tables.identity, tables.is_empty, tables.count

    @contextmanager
    def read_changes(self, stretch: StateStretch, rules: StateRules) -> Iterator[Changes]:
        with self.tables.read_changes(stretch, rules) as changes:
            yield changes

    def remember_deletions(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int) -> None:
        self.tables.remember_deletions(name, changes, rules, now_ms=now_ms)
        self.step("after deletions")

    def merge(self, name: TableName, changes: Changes, rules: StateRules, *, transaction: Transaction) -> None:
        self.tables.merge(name, changes, rules, transaction=transaction)
        self.step("after merge")

    def replace(self, name: TableName, changes: Changes, rules: StateRules, *, now_ms: int, note: str) -> None:
        self.tables.replace(name, changes, rules, now_ms=now_ms, note=note)


class SparkStateWorld:
    """A sink of records in memory whose state is kept on Spark."""

    def __init__(self, s3: EmbeddedS3, bucket: str, spark: SparkSession, schema: str, **config: str) -> None:
        from kafka_s3.state import states_on_spark

        self.now, self.spark, self.schema = START_MS, spark, schema
        self.config = {
            "s3.bucket.name": bucket, "store.url": s3.endpoint_url, "s3.region": "us-east-1", "flush.size": "3", **STATE,
            "state.table": f"{schema}.${{topic}}", **config,
        }  # fmt: skip
        self.settings = settings_of(self.config)
        self.store = S3Store(store_options(self.settings))
        self.kafka = MemoryKafka(lambda: make_pipeline(self.settings), self.store)
        for tp in PARTITIONS:
            self.kafka.create(tp)
        self.tables = Stepwise(states_on_spark(self.settings, spark))
        self.merger = state_merger(self.settings, self.store, self.tables, clock_ms=lambda: self.now, warn=print)
        self.sink = build_sink(
            self.settings, self.kafka, source=self.kafka, store=self.store, clock_ms=lambda: self.now
        )
        self.sink.open()
        self.model = StateModel(by_time=self.settings.text("state.order.by") == "at")

    def take(self, *records: KeyedRecord) -> None:
        for record in records:
            self.add(partition_of(record), record.key, record.value())
            self.model.add(record, len(self.kafka.records[partition_of(record)]) - 1)
        self.sink.poll_and_commit()

    def add(self, tp: TopicPartition, key: str | None, value: bytes | None) -> None:
        offset = len(self.kafka.records[tp])
        self.kafka.add(tp, MemoryRecord(offset, START_MS, None if key is None else key.encode(), value))

    def values(self, *values: dict[str, Any]) -> None:
        """Records of the first partition, each with its `id` as the key."""
        for value in values:
            self.add(PARTITIONS[0], str(value["id"]), json.dumps(value).encode())
        self.sink.poll_and_commit()

    def log(self) -> CommitLog:
        log = CommitLog(self.store, state_paths(self.settings), clock_ms=lambda: self.now)
        log.load()
        return log

    def advance(self) -> Advance:
        return self.merger.advance("orders", self.log())

    def rebuild(self) -> Advance:
        return self.merger.rebuild("orders", self.log())

    def committed(self) -> dict[str, int]:
        frontier = self.log().state.frontier
        known = [(one, offset) for one, offset in self.model.records if offset < frontier.get(partition_of(one), 0)]
        return StateModel(self.model.by_time, known).rows()

    def read(self) -> list[dict[str, Any]]:
        rows = [row.asDict(recursive=True) for row in self.spark.table(f"{self.schema}.orders").collect()]
        return sorted(rows, key=lambda row: str(row["_key"]))

    def rows(self) -> dict[str, int]:
        found = self.read()
        assert len({row["_key"] for row in found}) == len(found)
        return {row["_key"]: row["n"] for row in found}

    def file(self, folder: Path) -> str:
        path = folder / "sink.json"
        path.write_text(json.dumps({**BASE, **self.config}))
        return str(path)


@pytest.fixture
def schema(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"s{abs(hash(request.node.name)) % 10**9}"
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


MakeWorld = Callable[..., SparkStateWorld]


@pytest.fixture
def world_of(s3: EmbeddedS3, bucket: str, spark: SparkSession, schema: str) -> MakeWorld:
    return lambda **config: SparkStateWorld(s3, bucket, spark, schema, **config)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n < 1 else pytest.mark.nightly) for n in range(20)])
def test_a_table_holds_the_newest_value_of_every_key(world_of: MakeWorld, seed: int) -> None:
    random, numbers = Random(seed), itertools.count()
    moving = seed % 2 == 0
    world = world_of(**({"state.order.by": "at"} if moving else {}))
    for _ in range(2):
        world.take(*random_records(random, count=12, numbers=numbers, partitions=3, moving=moving))
        world.tables.step = dying(random.choice(("after deletions", "after merge", "nowhere")))
        with suppress(Died, TableError):
            world.advance()
    world.take(*random_records(random, count=6, numbers=numbers, partitions=3, moving=moving))
    world.tables.step = dying("nowhere")
    world.advance()
    assert world.rows() == world.committed()


def dying(where: str) -> Callable[[str], None]:
    def step(at: str) -> None:
        if at == where:
            raise Died

    return step


def test_an_entry_is_merged_once_and_check_names_the_first_key_that_differs(
    world_of: MakeWorld, tmp_path: Path
) -> None:
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
    history = table.history().select("version", "userMetadata").collect()
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
    assert set(rows[1]) == {"id", "n", "in", "_offset", "_partition", *([found] if found else [])}
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
    columns = "_key STRING, n INT, _offset BIGINT, _partition INT"
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
