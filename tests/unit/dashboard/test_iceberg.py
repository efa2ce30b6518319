"""What the dashboard reads of an Iceberg table's metadata: snapshots, schemas, partitions; of a file that is none, it says so."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kafka_s3.followers.progress import read_positions
from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.run.wiring.iceberg import iceberg_position_key
from kafka_s3.store.memory import MemoryStore
from kafka_s3_dashboard.reading.iceberg import IcebergMetadata, metadata_of, read_metadata
from tests.support.iceberg_world import IcebergWorld


@pytest.fixture
def world(tmp_path: Path) -> IcebergWorld:
    """A table of two snapshots and two schemas, partitioned by what its values allow."""
    found = IcebergWorld(tmp_path, **{"iceberg.partition.by": "partition"})
    found.add(*({"n": n} for n in range(4)))
    found.run()
    found.add({"n": 4, "note": "late"}, {"n": 5})
    found.run()
    return found


def noted(world: IcebergWorld) -> str:
    return read_positions(world.store, iceberg_position_key(world.settings)).metadata["orders"]


def read(world: IcebergWorld) -> IcebergMetadata:
    return read_metadata(world.store, "bucket", noted(world), "orders")


def test_the_sink_notes_where_the_newest_metadata_lies(world: IcebergWorld) -> None:
    assert noted(world) == world.table().metadata_location
    world.run()
    assert noted(world) == world.table().metadata_location


def test_snapshots_schemas_and_totals_are_the_tables(world: IcebergWorld) -> None:
    found, table = read(world), world.table()
    entries = [entry.version for entry in world.log().entries() if entry.files]
    assert [(one.version, one.last) for one in found.snapshots] == list(zip([1, 2], entries, strict=True))
    assert [(one.operation, one.added, one.rows) for one in found.snapshots] == [("append", 2, 4), ("append", 1, 2)]
    assert (found.files, found.rows) == (3, 6)
    assert [len(one.types) for one in found.schemas] == [2, 3]
    assert dict(found.schemas[-1].types)["note"] == "string"
    assert found.partitions == ("partition",)
    assert found.name == table.location()


def test_snapshots_of_other_sinks_name_no_entry(world: IcebergWorld) -> None:
    found = read_metadata(world.store, "bucket", noted(world), "another")
    assert [(one.first, one.last) for one in found.snapshots] == [(-1, -1), (-1, -1)]


def test_compressed_metadata_is_read(world: IcebergWorld) -> None:
    key = noted(world).partition("bucket/")[2]
    content = world.store.get(key)
    assert metadata_of(gzip.compress(content), "orders").snapshots == metadata_of(content, "orders").snapshots


def test_what_cannot_be_read_says_why(world: IcebergWorld) -> None:
    location = noted(world)
    with pytest.raises(StorageError, match="lies in another bucket, bucket"):
        read_metadata(world.store, "elsewhere", location, "orders")
    world.store.put(location.partition("bucket/")[2], b"[]")
    with pytest.raises(StorageError, match="cannot be read"):
        read(world)
    with pytest.raises(ObjectMissing):
        read_metadata(MemoryStore(lambda: 0), "bucket", location, "orders")
