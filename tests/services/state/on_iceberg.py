"""Keeps states in Iceberg's tables, on a Spark that knows no Delta, in a process of its own: jars go in at its start alone. Prints JSON.

python -m tests.services.state.on_iceberg S3_URL BUCKET WAREHOUSE SEED...
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafka_s3.model.errors import TableRefused
from kafka_s3.run.java.jars import spark_jars
from kafka_s3.run.java.java import find_java
from kafka_s3.state import OpenStateTables, states_on_spark
from tests.services.followers.iceberg.spark_reader import JARS
from tests.services.state.spark_state_world import SparkStateWorld, fill_at_random, run_at_random
from tests.support.state_world import KeyedRecord

CATALOG = "spark.sql.catalog.lake"
FORMAT = {"state.table.format": "iceberg"}


def session(warehouse: Path) -> SparkSession:
    """A catalog of Iceberg's, in a folder."""
    builder = SparkSession.builder.master("local[2]").appName("iceberg states").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(map(str, spark_jars(JARS[:1])))).config("spark.log.level", "ERROR")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config(CATALOG, "org.apache.iceberg.spark.SparkCatalog").config(f"{CATALOG}.type", "hadoop")
    return builder.config(f"{CATALOG}.warehouse", str(warehouse)).getOrCreate()


class Worlds:
    """Each sink in a bucket's folder and a namespace of its own."""

    def __init__(self, url: str, bucket: str, spark: SparkSession) -> None:
        self.make = partial(SparkStateWorld, url, bucket, spark)
        self.spark, self.number = spark, 0

    def __call__(self, **config: str) -> SparkStateWorld:
        self.number += 1
        name = f"s{self.number}"
        self.spark.sql(f"CREATE NAMESPACE lake.{name}")
        own = {"state.prefix": f"_{name}", "topics.dir": name}
        return self.make(f"lake.{name}", **own, **FORMAT, **config)


def compared(world: SparkStateWorld) -> str:
    """What `kafka-s3 state check` says."""
    states = states_on_spark(world.settings, world.spark)
    return OpenStateTables(world.merger, states, world.log(), world.store).compare("orders").text()


def merges(worlds: Worlds) -> dict[str, Any]:
    """What a table and its snapshots are after merges, one of which comes a second time."""
    world = worlds(**{"flush.size": "1"})
    world.take(*(KeyedRecord(key, 0, n, None, False) for n, key in enumerate("abc")))
    world.advance()
    note = world.merger.notes.read("orders")
    assert note is not None
    world.take(
        KeyedRecord("b", 0, 7, None, False), KeyedRecord("c", 0, 8, None, True), KeyedRecord("d", 0, 9, None, False)
    )
    world.advance()
    table, spark = f"{world.schema}.orders", world.spark
    snapshots = spark.table(f"{table}.snapshots").count()
    world.merger.notes.put("orders", note)
    world.advance()
    again = spark.table(f"{table}.snapshots").count() - snapshots
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    found = {"rows": world.rows(), "again": again, "deletes": spark.table(f"{table}.all_delete_files").count()}
    found |= {
        "entry": properties["kafka-s3.state.entry"],
        "version": str(world.log().state.version),
        "same": compared(world),
    }
    spark.sql(f"UPDATE {table} SET n = 70 WHERE _key = 'b'")
    found["differs"] = compared(world)
    world.rebuild()
    found["rebuilt"] = compared(world)
    return found


def evolved(worlds: Worlds, mode: str) -> list[dict[str, Any]] | str:
    """A table whose records get columns, and members of a struct."""
    world = worlds(**{"flush.size": "1", "state.key": "id", "state.delete.on": "", "state.schema.evolution.mode": mode})
    world.values({"id": 1, "n": 1, "in": {"a": 1}})
    world.advance()
    world.values(
        {"id": 1, "n": 2, "more": "x", **({} if mode == "rescue" else {"in": {"a": 2, "b": "y"}})}, {"id": 2, "n": 3}
    )
    try:
        world.advance()
    except TableRefused as error:
        return str(error)
    rows = world.spark.table(f"{world.schema}.orders").orderBy("id").collect()
    return [row.asDict(recursive=True) for row in rows]


def main(url: str, bucket: str, warehouse: str, *seeds: str) -> None:
    """Runs all of it."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = session(Path(warehouse))
    worlds = Worlds(url, bucket, spark)
    found: dict[str, Any] = {"wrong": []}
    for seed in map(int, seeds):
        world = run_at_random(worlds, seed)
        if world.rows() != world.committed():
            found["wrong"].append((seed, world.rows(), world.committed()))
    for seed in map(int, seeds[: len(seeds) // 2]):
        world, expected = fill_at_random(worlds, seed)
        rows = {row["_key"]: (row["n"], row["text"]) for row in world.read()}
        if rows != expected or "the table holds what the log says" not in compared(world):
            found["wrong"].append((seed, rows, expected))
    found["merges"] = merges(worlds)
    found["modes"] = {mode: evolved(worlds, mode) for mode in ("addNewColumns", "failOnNewColumns", "rescue", "none")}
    print(json.dumps(found, default=str))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
