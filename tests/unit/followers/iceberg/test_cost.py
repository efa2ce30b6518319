"""What does a commit of an Iceberg table cost? Its requests are those that `simulate` counts, and its metadata stay small for good."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestFile

from kafka_s3.followers.iceberg import table as table_module
from kafka_s3.followers.iceberg.maintain import tidy
from kafka_s3.followers.iceberg.manifests import FULL, smallest
from kafka_s3.followers.iceberg.table import SNAPSHOTS
from kafka_s3.ops.forecast import iceberg_requests
from kafka_s3.run.wiring.iceberg import iceberg_tables
from kafka_s3.store.memory import MemoryStore
from kafka_s3_testing.faults import FaultyStore
from tests.support.iceberg_world import IcebergWorld

READING, WRITING = {"get", "get_range", "head"}, {"put", "put_new", "list"}
DAY_MS = 86_400_000
FEW = 15
METADATA_FILES = 21


def filled(folder: Path, commits: int) -> tuple[IcebergWorld, FaultyStore]:
    """A table of so many commits of one file, and the store that saw the requests."""
    world = IcebergWorld(folder)
    sink = world.start()
    for n in range(0, 2 * commits, 2):
        world.add({"n": n}, {"n": n + 1})
        assert sink.poll_and_commit()
    assert isinstance(sink.store, FaultyStore)
    return world, sink.store


@pytest.mark.parametrize("snapshots", [FEW, pytest.param(SNAPSHOTS, marks=pytest.mark.nightly)])
def test_metadata_stays_small_and_no_expiry_deletes_an_object(
    snapshots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "SNAPSHOTS", snapshots)
    commits = snapshots + 11
    world, store = filled(tmp_path, commits)
    _check_requests(world, store)
    table = world.table()
    assert len(table.metadata.snapshots) == snapshots
    assert len(table.current_snapshot().manifests(table.io)) <= 20  # type: ignore[union-attr]
    assert table.properties["gc.enabled"] == "false"
    assert len(world.rows()) == 2 * commits
    assert isinstance(world.store, MemoryStore)
    assert len(world.store.get(table.metadata_location.removeprefix("s3://bucket/"))) < 200_000
    assert sum(key.endswith(".metadata.json") for key in world.store.objects) == METADATA_FILES
    _check_maintenance(world)
    assert len(world.rows()) == 2 * commits


def _check_requests(world: IcebergWorld, store: FaultyStore) -> None:
    seen = Counter[str]()
    for verb, key in store.calls:
        if key.startswith("iceberg/") or "/followers/iceberg" in key or verb == "get_range":
            seen["reads" if verb in READING else "writes" if verb in WRITING else "free"] += 1
    entries = [entry for entry in world.log().entries() if entry.files]
    writes, reads = iceberg_requests(len(entries), sum(len(entry.files) for entry in entries), len(entries))
    assert seen["writes"] == pytest.approx(writes, rel=0.1)
    assert seen["reads"] == pytest.approx(reads, rel=0.1)


def _check_maintenance(world: IcebergWorld) -> None:
    """What no snapshot names is deleted, and no object."""
    store = world.store
    assert isinstance(store, MemoryStore)
    before = {key for key in store.objects if key.startswith("topics/")}
    held = iceberg_tables(world.settings, store, warn=print)("orders")
    later = world.now + 2 * DAY_MS
    looked = tidy(held, lambda _: store, topic="orders", now_ms=later, dry_run=True)
    done = tidy(held, lambda _: store, topic="orders", now_ms=later, dry_run=False)
    assert looked is not None
    assert done is not None
    assert looked.unused == done.unused
    assert done.deleted >= 10
    assert all(key.startswith("iceberg/kafka/orders/metadata/") for key in done.unused)
    assert {key for key in store.objects if key.startswith("topics/")} == before


@pytest.mark.parametrize("sizes", [[1] * 10, [FULL - 1] * 10, [10] * 9 + [FULL - 1], [150, 20, 199, 30, 150, 150]])
def test_a_merge_takes_the_smallest_manifests_and_a_bounded_number_of_files(sizes: list[int]) -> None:
    manifests = [ManifestFile.from_args(added_files_count=size, existing_files_count=0) for size in sizes]
    taken = [one.added_files_count for one in smallest(manifests)]
    assert taken == sorted(sizes)[: len(taken)]
    assert len(taken) >= 2
    assert sum(taken) <= 2 * FULL
