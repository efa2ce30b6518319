"""What does a commit of an Iceberg table cost, and how large do its metadata become? Of 10,000 commits of one file, and over an S3 server.

KAFKA_S3_BENCH_TABLE_FILES (10000) sizes it. Nothing here asserts a time.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from kafka_s3.engine.loop.followers import Follower
from kafka_s3.followers.delta.planner import Commit
from kafka_s3.followers.iceberg.manifests import read_manifests
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.delta import delta_tables
from kafka_s3.run.wiring.iceberg import iceberg_follower, iceberg_planner, iceberg_tables
from kafka_s3.store.s3 import S3Store
from tests.benchmarks.measuring import cost_of, spread
from tests.benchmarks.support import BUCKET, running_objects
from tests.support.iceberg_world import IcebergWorld, bucket_settings

if TYPE_CHECKING:
    from pyiceberg.table import Table

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
COMMITS = int(os.environ.get("KAFKA_S3_BENCH_TABLE_FILES", "10000"))
SERVED = 40


def test_ten_thousand_commits_of_one_file(tmp_path: Path) -> None:
    """The follower's work alone: state, plan and commit, with the bucket in memory and the catalog in SQLite."""
    world = IcebergWorld(tmp_path)
    world.add({"n": 0}, {"n": 1})
    world.run()
    (first,) = (file for entry in world.log().entries() for file in entry.files)
    content = world.store.get(first.key)
    table = iceberg_tables(world.settings, world.store, warn=pytest.fail)("orders")
    planner = iceberg_planner(world.settings, world.store)
    costs: list[float] = []
    for number in range(1, COMMITS):
        key = first.key.replace("0000000000", f"{2 * number:010d}")
        file = replace(first, key=key, first_offset=2 * number, last_offset=2 * number + 1)
        world.store.put(file.key, content)
        begun = time.process_time()
        state = table.state()
        assert state is not None
        plan = planner.plan(state, [file], modified_ms={file.key: world.now})
        table.commit(state, plan, Commit(state.position + 1, plan.files, (), {}, world.now))
        costs.append(time.process_time() - begun)
    made = world.table()
    manifests = read_manifests(made.io, made.current_snapshot())
    size = len(world.store.get(made.metadata_location.removeprefix("s3://bucket/")))
    costs.sort()
    print(
        f"\n{COMMITS:,} commits of one file: CPU {median(costs):.4f} s in the middle, {costs[int(len(costs) * 0.99)]:.3f} s in 99 of 100, "
        f"{costs[-1]:.3f} s the slowest; metadata of {size / 1000:,.0f} kB, {len(manifests)} manifests"
    )
    assert sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in manifests) == COMMITS
    assert size < 1_000_000


def test_the_time_of_a_commit_over_a_server(tmp_path: Path) -> None:
    """Followers of both formats over one log, each commit of one file: the requests go to an S3 server of this machine."""
    with running_objects() as objects:
        world = IcebergWorld(tmp_path, **bucket_settings(objects.endpoint_url, BUCKET), **{"delta.enable": "true"})
        world.store = world.kafka.store = S3Store(store_options(world.settings))
        sink = world.start()
        sink.followers.all = []
        followers: dict[str, Follower] = {
            "Iceberg": iceberg_follower(world.settings, world.store, clock_ms=lambda: world.now, warn=pytest.fail),
            "Delta": delta_tables(world.settings, world.store, clock_ms=lambda: world.now, warn=pytest.fail),
        }
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in followers}
        for number in range(0, 2 * SERVED, 2):
            world.add({"n": number}, {"n": number + 1})
            assert sink.poll_and_commit()
            for name, follower in followers.items():
                cost = cost_of(lambda follower=follower: follower.catch_up(sink.log))  # type: ignore[misc]
                costs[name].append((cost.wall_seconds, cost.cpu_seconds))
        print(f"\ntables of 10 to {SERVED} files, a commit of one, objects in {objects.engine}; min / median / max")
        for name, found in costs.items():
            walls, cpus = zip(*found[10:], strict=True)
            print(f"{name:10}{'wall, s':>10}{spread(walls):>24}{'CPU, s':>10}{spread(cpus):>24}")
        assert rows_of(world.table()) == 2 * SERVED


def rows_of(table: Table) -> int:
    return int(table.scan().to_arrow().num_rows)
