"""Very many sinks in one bucket: the state of one that the product's real loop made, under as many names."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_s3.engine.control.heartbeat import HeartbeatWriter, Phase
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.memory_world import World

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
