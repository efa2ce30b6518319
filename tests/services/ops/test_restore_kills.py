"""Is a restore that is killed at random moments, again and again, in the end what an undisturbed one would be?"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, committed_records, document, produce
from tests.support.sink_process import SinkProcess

RECORDS = 60_000
KILLS = 12
LONGEST_S = 6.0


@pytest.mark.nightly
def test_killed_at_random_moments_it_leaves_a_beginning_and_ends_with_each_record_once_and_in_order(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target, seed = topic("killed"), topic("killed-back"), time.time_ns()
    chance = Random(seed)
    given = [Given(document(n=n, text="x" * 200)) for n in range(RECORDS)]
    produce(kafka.bootstrap_servers, source, given)
    config = {
        **BASE, "name": "killed", "topics": source, "flush.size": str(RECORDS // 20), "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    drain_directly(config)
    path, written = tmp_path / "killed.json", [0]
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "restore", str(path), "--to-topic", target, "--yes"]
    for kill in range(KILLS):
        with SinkProcess(words, tmp_path / f"{kill}.log") as process:
            try:
                code = process.wait(chance.uniform(0, LONGEST_S))
            except subprocess.TimeoutExpired:
                process.signal(signal.SIGKILL)
                code = process.wait()
            assert code in (0, -signal.SIGKILL), (seed, process.output())
        there = [one.value for one in committed_records(kafka.bootstrap_servers, target)]
        assert there == [one.value for one in given[: len(there)]], (seed, kill, len(there))
        assert len(there) >= written[-1], (seed, kill, written)
        written.append(len(there))
    with SinkProcess(words, tmp_path / "last.log") as process:
        assert process.wait() == 0, (seed, process.output())
    assert [one.value for one in committed_records(kafka.bootstrap_servers, target)] == [one.value for one in given]
