"""A driver that was paused and wakes up after another took over changes nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kafka_s3.embedded.kafka import EmbeddedKafka
from kafka_s3.embedded.s3 import EmbeddedS3
from tests.integration.kafka_and_bucket import Bucket, check_exactly_once, produce, topic_records
from tests.integration.sinks import TOLERANT, config, run_dying, start_dying, written
from tests.integration.test_exactly_once import PARTITIONS, orders


def test_a_driver_that_wakes_up_late_is_fenced_and_changes_nothing(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("orders", PARTITIONS)
    # one topic-partition at a time: more is left to commit when the first driver wakes up
    settings = config(kafka, s3, bucket=bucket, topics=name, **TOLERANT, **{"flush.size": "40", "tasks.max": "1"})
    path = written(tmp_path, settings)
    produce(kafka.bootstrap_servers, name, orders(0, 600), partitions=PARTITIONS)
    with start_dying(path, "paused") as first:
        wait_until_stopped(first.pid)
        code, out, err = run_dying(path, "none")
        assert code == 0, out + err[-3000:]
        seen = Bucket(s3.endpoint_url, bucket)
        before = seen.listing()
        os.kill(first.pid, signal.SIGCONT)
        told, err = first.communicate(timeout=120)
    assert first.returncode == 1, err[-3000:]
    assert "Fenced" in told
    assert "owned by another driver" in told
    assert seen.listing() == before
    check_exactly_once(seen, topic_records(kafka.bootstrap_servers, name, partitions=PARTITIONS))


def wait_until_stopped(pid: int) -> None:
    """Returns when the process is stopped by a signal."""
    until = time.monotonic() + 120
    while "T (stopped)" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.1)
