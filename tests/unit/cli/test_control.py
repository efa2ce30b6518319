"""What does a command say of a process that cannot do what it is asked?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_s3.cli.arguments import Target
from kafka_s3.cli.control import NotAnswered, check_not_overtaken
from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import SinkFolder
from kafka_s3.run.wiring.pipeline import state_paths
from tests.support.memory_world import World

BEAT = Heartbeat("orders", "run-1", "host", 7, "0.1.0", started_ms=1, interval_ms=60_000, phase=Phase.PAUSED)


def test_a_sink_that_was_overtaken_is_not_reported_as_running() -> None:
    """Two drivers have claimed the log; the one that beats is the first, or the second."""
    world = World({"flush.size": "3"})
    world.start()
    first = world.log().load().epoch
    world.start()
    target = Target(SinkFolder("bucket", "_kafka_s3", world.store), "orders")

    def beats(epoch: int) -> None:
        beat = replace(BEAT, epoch=epoch, beat_ms=now_ms())
        world.store.put(state_paths(world.settings).heartbeat(), beat.to_json())

    beats(first)
    with pytest.raises(NotAnswered, match=r"has been overtaken, and ends as fenced .*kafka-s3 run"):
        check_not_overtaken(target)
    beats(0)  # starting: it has not claimed the log yet
    check_not_overtaken(target)
    beats(first + 1)
    check_not_overtaken(target)
