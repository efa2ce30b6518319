"""Very many sinks in one bucket: the state of one that the product's real loop made, under as many names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kafka_s3.engine.control.catch_up import CatchUp
from kafka_s3.engine.control.heartbeat import Delay, Heartbeat, HeartbeatWriter, Limits, Phase, StateSince, Tally
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.model.files import Totals
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.memory_world import ORDERS, World

HOUR = 3_600_000

FLUSHES = 150
"""So many entries, of which the last 50 stand behind the newest checkpoint, as they do on average."""


def fleet_objects(sinks: int, *, now_ms: int) -> Iterator[tuple[str, bytes]]:
    """Keys and contents of the state of these many sinks, whose heartbeats are as old as their last entries."""
    world = World({"flush.size": "3", "tail.state.enable": "false"})
    world.now = now_ms - FLUSHES * 1000
    paths = state_paths(world.settings)
    writer = HeartbeatWriter(world.store, paths, interval_ms=3_600_000, clock_ms=lambda: world.now)
    sink = world.start(observer=writer)
    writer.doing(Phase.RUNNING, "")
    for flush in range(FLUSHES):
        world.add(range(3 * flush, 3 * flush + 3), timestamp=world.now)
        world.now += 1000
        assert sink.poll_and_commit()
    writer.beat()
    state = {key: content for key, content in world.store.objects.items() if key.startswith(paths.root)}
    for number in range(sinks):
        name = f"orders-{number:03d}"
        for key, content in state.items():
            renamed = content.replace(b'"sink":"orders"', f'"sink":"{name}"'.encode())
            yield key.replace(paths.root, f"{paths.prefix.strip('/')}/{name}/"), renamed


def wall_objects(sinks: int, *, now_ms: int) -> Iterator[tuple[str, bytes]]:
    """The state of so many sinks, in all states: a small log each, and a heartbeat that says how it is."""
    world = World({"flush.size": "3", "tail.state.enable": "false"})
    world.now = now_ms - 90_000
    paths = state_paths(world.settings)
    sink = world.start()
    world.add(range(9), timestamp=world.now - 40_000)
    assert sink.poll_and_commit()
    state = {key: content for key, content in world.store.objects.items() if key.startswith(paths.root)}
    for number in range(sinks):
        name, changes = _sink_of_wall(number, now_ms)
        for key, content in state.items():
            yield key.replace(paths.root, f"{paths.prefix.strip('/')}/{name}/"), content
        beat = Heartbeat(
            name, f"run-{number}", f"sinks-{number % 4}", 7, "0.1.0", now_ms - 86_400_000, 600_000, Phase.RUNNING, now_ms, "driver", 1,
            version=sink.log.state.version, totals=Totals(read=9, written=9), looked_ms=now_ms, lag={ORDERS: 31 * number},
            delay=Delay(2_000, 9_000 + 777 * number), hours=tuple(Tally(now_ms // HOUR * HOUR - ago * HOUR, 500 * (1 + (ago * number) % 7))
                                                                  for ago in range(24)),
            states=(StateSince(now_ms - 3_600_000 * (number + 1), "RUNNING"),),
        )  # fmt: skip
        yield StatePaths(paths.prefix, name).heartbeat(), replace(beat, **changes).to_json()


FAILURE = (
    "S3 answered 403 AccessDenied to CreateMultipartUpload of s3://lake/orders-eu-west/year=2026/month=11/day=23/hour=10/"
    "orders+3+0000881723.parquet: the role arn:aws:iam::123456789012:role/kafka-s3 has no s3:PutObject on this prefix"
)


def _sink_of_wall(number: int, now_ms: int) -> tuple[str, dict[str, Any]]:
    """The name of a sink, and what its heartbeat says."""
    hour, name = HOUR, f"orders-{number:02d}"

    def since(ms: int, state: str, why: str = "") -> tuple[StateSince, ...]:
        return StateSince(now_ms - 30 * hour, "RUNNING"), StateSince(now_ms - ms, state, why)

    scenes: dict[int, tuple[str, dict[str, Any]]] = {
        1: (
            "clicks-behind",
            {
                "catch_up": CatchUp(now_ms - 2 * hour, 48_211_904, 41_000.0, 5_200.0, now_ms + 1_347_000),
                "lag": {ORDERS: 48_300_000},
                "delay": Delay(3_000_000, 7_190_000),
                "states": since(25 * 60_000, "DEGRADED"),
                "limits": Limits(lag=1_000_000),
            },
        ),
        3: ("payments", {"phase": Phase.FAILED, "failure": FAILURE, "states": since(17 * 60_000, "FAILED", FAILURE)}),
        5: ("shipments-of-all-regions", {"beat_ms": now_ms - 5 * hour}),
        6: ("refunds", {"phase": Phase.PAUSED, "states": since(2 * hour, "PAUSED")}),
        8: ("sessions", {"open_problems": ("topic sessions-eu is not in Kafka",), "states": since(42_000, "DEGRADED")}),
        9: ("audit", {"phase": Phase.STOPPED, "states": since(9 * hour, "STOPPED")}),
        11: (
            "<b>hostile&amp;",
            {"troubled": True, "warning": "<img src=x onerror=alert(1)>", "states": since(3 * hour, "DEGRADED")},
        ),
        12: ("metrics", {"catch_up": CatchUp(now_ms - 3 * hour, 900_000, 100.0, 250.0, None)}),
        13: ("letters", {"recent": Tally(0, 1000, 900, 100), "states": since(60_000 * 61, "DEGRADED")}),
    }
    return scenes.get(number, (name, {}))
