"""Do Spark, DuckDB and pyiceberg read what the sink wrote, over an S3 server? And do catalogs of other kinds hold the tables?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_s3.followers.iceberg.maintain import rebuild
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.followers import tables_of_sink
from kafka_s3.run.wiring.iceberg import iceberg_planner, iceberg_tables
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.s3 import REGION
from tests.services.followers.iceberg.spark_reader import catalog_statements
from tests.support.hive_metastore import hive_metastore
from tests.support.iceberg_world import IcebergWorld, bucket_settings
from tests.support.rest_catalog import rest_catalog

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3

ROOT = Path(__file__).parents[4]


def world_on(server: EmbeddedS3, bucket: str, folder: Path, **config: str) -> IcebergWorld:
    """A sink whose bucket is on a server."""
    world = IcebergWorld(folder, **bucket_settings(server.endpoint_url, bucket), **config)
    world.store = world.kafka.store = S3Store(store_options(world.settings))
    return world


def filled(world: IcebergWorld) -> IcebergWorld:
    """Two partitions, a column that comes later, nested values."""
    world.add(*({"n": n, "text": f"t{n}", "at": {"y": n}, "tags": [n]} for n in range(4)))
    world.run()
    world.add({"n": 4, "note": "late"}, {"n": 5}, tp=TopicPartition("orders", 1))
    world.run()
    return world


def test_pyiceberg_and_arrow_read_the_same_over_a_server(objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> None:
    world = filled(world_on(objects, own_bucket, tmp_path))
    rows = world.rows()
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4, 5]
    keys = [info.key for info in world.store.list("topics/orders/") if info.key.endswith(".parquet")]
    plain = [row["n"] for key in keys for row in pq.read_table(pa.BufferReader(world.store.get(key))).to_pylist()]
    assert sorted(plain) == [row["n"] for row in rows]


@pytest.mark.nightly
def test_spark_reads_travels_in_time_prunes_and_cannot_delete_an_object(
    objects: EmbeddedS3, own_bucket: str, tmp_path: Path
) -> None:
    world = filled(world_on(objects, own_bucket, tmp_path))
    before = [info.key for info in world.store.list("topics/orders/")]
    (orders,) = tables_of_sink(world.settings, world.store)
    command = [sys.executable, "-m", "tests.services.followers.iceberg.spark_reader", objects.endpoint_url]
    assert orders.iceberg is not None
    command += catalog_statements(orders.iceberg)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == world.rows()
    assert found["pruned"] == [4, 5]
    assert [int(entry) for entry in found["entries"]] == sorted(int(entry) for entry in found["entries"])
    assert [(partition, count) for _, partition, count in found["files"]] == [("0", 2), ("0", 2), ("1", 2)]
    assert "GC is disabled" in found["expire"]
    assert "GC is disabled" in found["orphans"]
    assert [info.key for info in world.store.list("topics/orders/")] == before


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> str:
    """moto's Glue; gives its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_the_catalog_may_be_glue(objects: EmbeddedS3, own_bucket: str, tmp_path: Path, glue: str) -> None:
    config = {"iceberg.catalog.type": "glue", "aws.endpoint.url": glue, "iceberg.table.name": "kafka.${topic}"}
    world = filled(world_on(objects, own_bucket, tmp_path, **config))
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]
    assert world.warnings.texts == []


@pytest.mark.nightly
def test_the_catalog_may_be_a_rest_server(objects: EmbeddedS3, own_bucket: str, tmp_path: Path) -> None:
    """The whole life of a table: made, added to, with a new column and a hidden partition, rolled back and rebuilt."""
    with rest_catalog(objects, f"s3://{own_bucket}/rest", tmp_path) as address:
        config = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": address, "iceberg.partition.by": "partition"}
        world = filled(world_on(objects, own_bucket, tmp_path, **config))
        assert world.warnings.texts == []
        assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]
        assert world.rows()[4]["note"] == "late"
        world.add({"n": 6}, {"n": 7})
        world.run()
        first = world.table().metadata.snapshots[0].snapshot_id
        world.table().manage_snapshots().rollback_to_snapshot(first).commit()
        table = iceberg_tables(world.settings, world.store, warn=print)("orders")
        planner = iceberg_planner(world.settings, world.store)
        done = rebuild(world.log(), planner, table, topic="orders", clock_ms=lambda: world.now)
        assert (done.added, done.removed) == (2, 0)
        assert [row["n"] for row in world.rows()] == list(range(8))
        (orders,) = tables_of_sink(world.settings, world.store)
        assert orders.iceberg is not None
        assert orders.iceberg.uri == address


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_catalog_may_be_a_hive_metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client needs thrift, which the product does not bring."""
    packages = tmp_path / "packages"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", packages, "thrift==0.22.0"], check=True)
    monkeypatch.syspath_prepend(str(packages))
    with hive_metastore(tmp_path, "bucket") as address:
        hive = {
            "iceberg.catalog.type": "hive",
            "iceberg.catalog.uri": address,
            "iceberg.catalog.hive.hive2-compatible": "true",
        }
        world = filled(IcebergWorld(tmp_path, **hive))
        assert world.warnings.texts == []
        assert [row["n"] for row in world.rows()] == [0, 1, 2, 3, 4, 5]
        assert world.rows()[4]["note"] == "late"
        assert world.table().location() == "s3://bucket/iceberg/kafka.db/orders"
        world.catalog().drop_table("kafka.orders")
        world.add({"n": 6}, {"n": 7})
        world.run()
        assert [row["n"] for row in world.rows()] == list(range(8))
