"""What does `kafka-s3 run` do before it begins, and after it was told to stop?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from kafka_s3.driver.runner import run_continuously, waiting
from tests.support.configurations import BASE, PARTITIONER
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:9"


def test_a_wrong_configuration_is_reported_whole_and_nothing_is_read(tmp_path: Path) -> None:
    config = {
        **BASE, "name": "wrong", "topics": "any", "topics.regex": "any.*", "kafka.bootstrap.servers": NOWHERE,
        "store.url": f"http://{NOWHERE}", "s3.bucket.name": "any", "flush.size": "many", "s3.part.size": "1",
        "partitioner.class": PARTITIONER + "DailyPartitioner", "timezone": "PST",
    }  # fmt: skip
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--available-now", "--log-format", "json"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 2, process.output()
    for key in ("topics.regex", "flush.size", "s3.part.size", "timezone"):
        assert f"  {key} (" in process.output()
    assert "Traceback" not in process.output()
    assert '"event"' not in process.output()


def test_a_sink_that_was_told_to_stop_leaves_its_open_tail_to_the_next_run(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("stopped")
    config = here.config(name, **{"flush.size": "5", "poll.interval.ms": "100"})
    produce(here.servers, name, [Given(document(n=n)) for n in range(7)])
    stop = Event()
    sink = here.sink(config)
    thread = Thread(target=lambda: run_continuously(sink, poll_ms=100, backoff_ms=500, wait=waiting(stop)))
    thread.start()
    eventually(lambda: len(here.bucket.data_keys()) == 1)
    stop.set()
    thread.join(240)
    assert not thread.is_alive()

    produce(here.servers, name, [Given(document(n=n)) for n in range(7, 11)])
    here.drain(config, close=None)
    assert here.bucket.contents() == {
        f"topics/{name}/partition=0/{name}+0+0000000000.json": [{"n": n} for n in range(5)],
        f"topics/{name}/partition=0/{name}+0+0000000005.json": [{"n": n} for n in range(5, 10)],
    }
