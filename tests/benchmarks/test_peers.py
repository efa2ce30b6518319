"""What does a record cost sinks in Go and in Rust, and what does it cost us? The same topic, broker and S3 server, in turns.

KAFKA_S3_BENCH_RECORDS (4,000,000) and KAFKA_S3_BENCH_ROUNDS (3) size it; it needs Go and Cargo, and builds both peers the first time. After
every run all objects are read: each record has to be there. The peers promise each at least once, so records that are there twice are
counted and shown; of ours there may be none. Nothing here asserts a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.found import check_all_there, ids_of, objects_of
from tests.benchmarks.measuring import Cost
from tests.benchmarks.other_sinks import BYTES, FILE, GZIP, PARQUET, PEERS, SMALL, Job, Peer
from tests.benchmarks.paths import OURS, READ_ONLY, SINK, routes
from tests.benchmarks.sides import Request, Side
from tests.benchmarks.support import BUCKET, PARTITIONS, RECORDS, ROUNDS, new_topic
from tests.benchmarks.topics import JSON, Topic, produce_json

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

SAME = {BYTES: "bytes-to-bytes", GZIP: "json-to-json-gzip", SMALL: "json-small-files", PARQUET: "json-to-parquet"}
"""By the path of the peers the one of ours. They copy values that we look at as JSON, but for Parquet."""
WARM_UP = 400_000
_names = itertools.count()


@dataclass
class Figures:
    """What the runs of one sink on one path took, how many objects they made, and how many records were there twice."""

    costs: list[Cost] = field(default_factory=list)
    objects: int = 0
    twice: int = 0


@dataclass
class World:
    """The services and a topic."""

    broker: EmbeddedKafka
    objects: EmbeddedS3
    store: S3Store
    topic: Topic
    scratch: Path

    def run_peer(self, peer: Peer, program: Path, path: str, figures: Figures) -> None:
        """One run of a peer; every record has to be there."""
        job = Job(
            path, self.broker.bootstrap_servers, self.topic.name, f"{peer.name.split(',')[0].lower()}-{next(_names)}"
        )
        admin = AdminClient({"bootstrap.servers": job.servers})
        done = partial(is_committed, admin, job.folder, self.topic.records)
        figures.costs.append(peer.run(program, job, self.objects, self.scratch, is_done=done))
        found = list(objects_of(self.store, job.folder))
        ids, counts = np.unique(np.concatenate([ids_of(*one) for one in found]), return_counts=True)
        assert (ids == np.arange(self.topic.records)).all(), f"{peer.name}, {path}: records are missing"
        figures.objects, figures.twice = len(found), figures.twice + int((counts - 1).sum())

    def run_ours(self, side: Side, path: str, figures: Figures) -> None:
        """One run of ours: every record has to be there, and none twice."""
        (route,) = (route for route in routes() if route.name == SAME[path])
        name, each = f"ours-{next(_names)}", self.topic.records // PARTITIONS
        place = f"{self.objects.endpoint_url}/{BUCKET}"
        options = {"flush.size": str(min(500_000, each)), **route.options}
        partitions = (each,) * PARTITIONS
        warm_up = (WARM_UP // PARTITIONS,) * PARTITIONS
        servers = self.broker.bootstrap_servers
        side.run(Request(READ_ONLY, self.topic.name, warm_up, f"warm-{name}", servers, place, {}))
        figures.costs.append(side.run(Request(SINK, self.topic.name, partitions, name, servers, place, options)))
        found = list(objects_of(self.store, name))
        check_all_there(found, self.topic.records)
        figures.objects = len(found)


def is_committed(admin: AdminClient, group: str, records: int) -> bool:
    """Whether the group has committed all of the topic: both peers do once objects are written."""
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    try:
        found = answer.result(10).topic_partitions
    except Exception:  # the group is only being made
        return False
    return sum(max(tp.offset, 0) for tp in found) >= records


@pytest.fixture
def world(broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path) -> Iterator[World]:
    new_topic(broker, JSON, PARTITIONS)
    topic = produce_json(
        broker.bootstrap_servers, records=RECORDS - RECORDS % (PARTITIONS * FILE), partitions=PARTITIONS
    )
    store = S3Store(StoreOptions(BUCKET, region="us-east-1", endpoint_url=objects.endpoint_url))
    yield World(broker, objects, store, topic, tmp_path)
    store.close()


def test_sinks_in_other_languages(world: World) -> None:
    programs = {peer: peer.build() for peer in PEERS}
    found: dict[tuple[str, str], Figures] = {}
    with Side(OURS, world.scratch / "ours.log") as side:
        for path in SAME:  # a first run of ours compiles and starts workers, and does not count
            world.run_ours(side, path, Figures())
        for path in list(SAME) * ROUNDS:
            world.run_ours(side, path, found.setdefault((path, OURS), Figures()))
            for peer, program in programs.items():
                world.run_peer(peer, program, path, found.setdefault((path, peer.name), Figures()))
            print(
                f"{path}: " + ", ".join(f"{name} {one.costs[-1]}" for (at, name), one in found.items() if at == path),
                flush=True,
            )
    show(found, world.topic)


def show(found: dict[tuple[str, str], Figures], topic: Topic) -> None:
    print(
        f"\n{topic.records:,} records of {topic.value_bytes / topic.records:.0f} bytes, {PARTITIONS} partitions, {ROUNDS} rounds\n"
    )
    print(f"{'':32}{'us of CPU a record, each run':34}{'s':>7}{'objects':>9}{'twice':>7}")
    for (path, name), figures in found.items():
        each = ", ".join(f"{cost.cpu_seconds / topic.records * 1e6:.2f}" for cost in figures.costs)
        wall = median(cost.wall_seconds for cost in figures.costs)
        print(f"{path:14}{name:18}{each:34}{wall:>7.1f}{figures.objects:>9}{figures.twice:>7}")
