"""What becomes of the table when Spark compacts it, deletes and updates rows, rolls it back and replaces it? The sink goes on each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from kafka_s3.followers.iceberg.maintain import check_table, rebuild
from kafka_s3.run.wiring.followers import tables_of_sink
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables
from tests.services.followers.iceberg.spark_reader import catalog_statements
from tests.services.followers.iceberg.test_readers import ROOT, filled, world_on
from tests.support.iceberg_world import IcebergWorld
from tests.support.rest_catalog import rest_catalog

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
TABLE = "iceberg.kafka.orders"


class Spark:
    """Another writer, with Iceberg's own runtime."""

    def __init__(self, orders: IO[str], answers: IO[str]) -> None:
        self._orders, self._answers = orders, answers

    def __call__(self, statement: str) -> list[dict[str, Any]]:
        print(statement, file=self._orders, flush=True)
        found = json.loads(self._answers.readline())
        assert "failed" not in found, found
        return list(found["rows"])

    def numbers(self) -> list[int]:
        self(f"REFRESH TABLE {TABLE}")
        return [row["n"] for row in self(f"SELECT n FROM {TABLE} ORDER BY n")]


def sent(world: IcebergWorld, *numbers: int) -> list[str]:
    """The sink writes more; gives what it warned of."""
    world.add(*({"n": n} for n in numbers))
    world.run()
    return world.warnings.texts


def test_the_sink_lives_with_what_spark_does_to_its_table(objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> None:
    with rest_catalog(
        objects, f"s3://{own_bucket}/rest", tmp_path
    ) as address:  # SQLite is locked while another process reads it
        config = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": address}
        _lived(filled(world_on(objects, own_bucket, tmp_path, **config)), objects, tmp_path)


def _lived(world: IcebergWorld, objects: EmbeddedS3, tmp_path: Path) -> None:
    (orders,) = tables_of_sink(world.settings, world.store)
    command = [sys.executable, "-m", "tests.services.followers.iceberg.spark_shell", objects.endpoint_url]
    assert orders.iceberg is not None
    command += catalog_statements(orders.iceberg)
    with (
        (tmp_path / "spark.log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (tmp_path / "spark.log").read_text()[-3000:]
        spark = Spark(process.stdin, process.stdout)
        _compacted(world, spark)
        _deleted_and_updated(world, spark)
        _rolled_back(world, spark)
        _replaced(world, spark)
        process.stdin.close()


def _compacted(world: IcebergWorld, spark: Spark) -> None:
    done = spark(
        "CALL iceberg.system.rewrite_data_files(table => 'kafka.orders', options => map('rewrite-all', 'true'))"
    )
    assert done[0]["rewritten_data_files_count"] == 3
    assert not (warned := sent(world, 6, 7)), warned[0]
    assert [row["n"] for row in world.rows()] == list(range(8))
    assert spark.numbers() == list(range(8))
    found = check_table(world.log(), iceberg_planner(world.settings, world.store), opened(world), topic="orders")
    assert (found.findings, found.rewritten) == ([], 3)


def opened(world: IcebergWorld) -> Any:
    return iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")


def _deleted_and_updated(world: IcebergWorld, spark: Spark) -> None:
    """Merge-on-read: delete files beside the data."""
    spark(
        f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
    )
    spark(f"DELETE FROM {TABLE} WHERE n = 1")
    spark(f"UPDATE {TABLE} SET text = 'changed' WHERE n = 0")
    assert not (warned := sent(world, 8, 9)), warned[0]
    assert spark.numbers() == [0, *range(2, 10)]
    rows = world.rows()
    assert [row["n"] for row in rows] == [0, *range(2, 10)]
    assert rows[0]["text"] == "changed"


def _rolled_back(world: IcebergWorld, spark: Spark) -> None:
    first = spark(f"SELECT snapshot_id FROM {TABLE}.snapshots ORDER BY committed_at")[0]["snapshot_id"]
    spark(f"CALL iceberg.system.rollback_to_snapshot('kafka.orders', {first})")
    assert any("rolled it back" in text for text in sent(world, 10, 11))
    assert spark.numbers() == [0, 1, 2, 3, 10, 11]
    _rebuilt(world, spark, 12)


def _replaced(world: IcebergWorld, spark: Spark) -> None:
    spark(f"CREATE OR REPLACE TABLE {TABLE} USING iceberg AS SELECT * FROM {TABLE} WHERE n < 2")
    warned = sent(world, 12, 13)
    assert spark.numbers() == [0, 1, 12, 13] or any("iceberg rebuild" in text for text in warned), warned
    _rebuilt(world, spark, 14)


def _rebuilt(world: IcebergWorld, spark: Spark, count: int) -> None:
    rebuild(
        world.log(), iceberg_planner(world.settings, world.store), iceberg_tables(world.settings, world.store, warn=print)("orders"),
        topic="orders", clock_ms=lambda: world.now,
    )  # fmt: skip
    assert spark.numbers() == list(range(count))
    assert [row["n"] for row in world.rows()] == list(range(count))
