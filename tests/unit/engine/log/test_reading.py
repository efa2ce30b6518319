"""Are the entries of a log fetched side by side, and still given in order?"""

from __future__ import annotations

from threading import Event

import pytest

from kafka_s3.engine.log import reading
from kafka_s3.store.faults import Fault
from tests.support.memory_world import ORDERS, world_of

READ_THREADS = reading.READ_THREADS


def test_a_start_asks_for_several_entries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request is answered once another one is there."""
    monkeypatch.setattr(reading, "READ_THREADS", READ_THREADS)
    world = world_of(1)
    world.start()
    for offset in range(7):
        world.add([offset])
        world.sink.poll_and_commit()
    asked, another = list[str](), Event()

    def answered_late(key: str) -> None:
        asked.append(key)
        if len(asked) == 1:
            assert another.wait(20), "one after the other"
        another.set()

    world.start([Fault("get", answered_late, nth=None, matches=lambda key: "/commits/" in key)])
    assert world.sink.log.state.frontier == {ORDERS: 7}
