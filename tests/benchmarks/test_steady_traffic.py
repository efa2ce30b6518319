"""Is each record of steady traffic read once, at the cost of a backlog's, and is a file there soon after the schedule's mark?

An hour of rotation is compressed. First into a hundred seconds, by the defaults (`tail.check.interval.ms` of 60 s, and
`tail.read.records` of 500,000, which come first at this rate): a task has the records that it has in a true hour. Then into a minute with a
look every 10 s, so that a task has fewer, and its fixed cost a larger share. KAFKA_S3_BENCH_RATE (20,000) is the records a second. Nothing
here asserts a time.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.commands import CommandRequest, ask_pause, ask_resume
from kafka_s3.model.timing import now_ms
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.steady_traffic import RunningSink, Sample, Traffic, configuration
from tests.benchmarks.support import new_topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
RATE = int(os.environ.get("KAFKA_S3_BENCH_RATE", "20000"))
BACKLOG = 1_000_000
PARTITIONS = 2
FILES = 2


@pytest.mark.parametrize(("check_ms", "hour_ms"), [(60_000, 100_000), (10_000, 60_000)])
def test_steady_traffic_under_a_compressed_hour(
    check_ms: int, hour_ms: int, broker: EmbeddedKafka, objects: EmbeddedS3, tmp_path: Path
) -> None:
    topic, servers = new_topic(broker, f"steady-{check_ms}", PARTITIONS), broker.bootstrap_servers
    rules = {"rotate.schedule.interval.ms": str(hour_ms), "tail.check.interval.ms": str(check_ms)}
    traffic = Traffic(servers, topic, rate=RATE, partitions=PARTITIONS)
    with RunningSink(objects, configuration(servers, objects, topic, **rules), tmp_path) as sink:
        for records in (BACKLOG, BACKLOG):  # the first one warms the workers; fewer would wait for a check
            with paused(sink):
                traffic.send(records)
                traffic.flush()
                cpu = sink.cpu_seconds()
            sink.has_read(traffic.sent)
        backlog = (sink.cpu_seconds() - cpu) / BACKLOG
        with traffic:
            time.sleep(2)
            cpu, read, began, samples = sink.cpu_seconds(), sink.total("read"), time.monotonic(), list[Sample]()
            while time.monotonic() - began < FILES * hour_ms / 1000 + 10:
                time.sleep(2)
                samples.append(sink.sample(began))
            steady = (sink.cpu_seconds() - cpu) / (sink.total("read") - read)
        sink.has_read(traffic.sent)
        rounds, written = sink.rounds(), sink.total("written")
    tail = traffic.sent - written
    sizes = [sample.workers_mb for sample in samples]
    print(
        f"\nSteady traffic, {RATE:,} records/s, a file each {hour_ms // 1000} s, tail.check.interval.ms={check_ms:,}: "
        f"{sink.total('read'):,} read for "
        f"{written:,} written and {tail:,} still open: {sink.total('read') / (written + tail):.3f} a record.\n"
        f"  CPU a record: {steady * 1e6:.2f} us, of a backlog {backlog * 1e6:.2f} us: ratio {steady / backlog:.2f}\n"
        f"  from the mark to visible objects, s: {', '.join(f'{late:.1f}' for late in lateness(rounds, hour_ms))}\n"
        f"  memory of the Python workers, MB: {min(sizes):.0f} to {max(sizes):.0f}, at the end {sizes[-1]:.0f}\n"
        f"  open files kept {rounds[-1]['open_states']:,} times, {rounds[-1]['open_state_bytes'] / 2**20:.1f} MB in all"
    )
    assert sink.total("read") == traffic.sent


@contextmanager
def paused(sink: RunningSink) -> Iterator[None]:
    """A sink that does not read for a while."""
    settings = resolved(validate(sink.config).usable())
    store = S3Store(store_options(settings))
    try:
        ask_pause(store, state_paths(settings), request())
        time.sleep(5)
        yield
        ask_resume(store, state_paths(settings), request())
    finally:
        store.close()


def request() -> CommandRequest:
    return CommandRequest(uuid.uuid4().hex, now_ms(), "benchmark")


def lateness(rounds: list[dict[str, Any]], hour_ms: int) -> list[float]:
    """Seconds from the schedule's mark to the round whose objects are visible, of each round that closed files by the steady schedule."""
    times = [datetime.fromisoformat(line["at"]).timestamp() for line in rounds if line["files"]]
    return [at % (hour_ms / 1000) for at in times[-FILES:]]
