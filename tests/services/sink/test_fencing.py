"""What does a driver do that was paused, and wakes up after another one has taken over?"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

PARTITIONS = 2


def test_a_driver_that_wakes_up_after_a_takeover_changes_nothing_and_ends_as_fenced(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("fenced", PARTITIONS)
    produce(here.servers, name, [Given(document(n=n), n % PARTITIONS) for n in range(250)])
    # one topic-partition in a turn: the first driver has more to commit when it wakes up
    config = here.config(name, **{"flush.size": "40", "tasks.max": "1", "heartbeat.interval.ms": "600000"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    with SinkProcess(["-m", "tests.services.sink.paused_sink", str(path)], tmp_path / "first.log") as first:
        eventually(lambda: stopped(first), what=first.output)
        entry = here.bucket.entries(config["name"])[-1]
        assert entry["kind"] == "data"
        assert here.bucket.data_keys() == []

        here.drain(config)
        after = here.bucket.listing()
        assert {file["key"] for file in entry["files"]} < set(after)
        rows = [row["n"] for content in here.bucket.contents().values() for row in content]
        assert sorted(rows) == list(range(250))

        first.signal(signal.SIGCONT)
        assert first.wait() == 1, first.output()
    assert "Fenced" in first.output()
    assert "was written by another driver" in first.output()
    assert "Traceback" not in first.output()
    assert here.bucket.listing() == after


def stopped(sink: SinkProcess) -> bool:
    """Whether the process is stopped by a signal; fails where it has ended instead."""
    assert sink.process is not None
    assert sink.process.poll() is None, sink.output()
    return "T (stopped)" in Path(f"/proc/{sink.process.pid}/status").read_text()
