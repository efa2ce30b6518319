"""Is the traffic of a real topic what `kafka-s3 simulate` samples?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.local.kafka import EmbeddedKafka
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce


@pytest.mark.nightly
def test_a_topics_own_records_and_pace(kafka: EmbeddedKafka, topic: Callable[..., str], tmp_path: Path) -> None:
    name = topic("sampled", partitions=2)
    given = [Given(document(n=n), partition=n % 2, timestamp_ms=1_736_935_200_000 + 500 * n) for n in range(202)]
    produce(kafka.bootstrap_servers, name, given)
    config = {
        **BASE, "name": "sampled", "topics": name, "flush.size": "60", "s3.bucket.name": "none", "poll.interval.ms": "60000",
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    path = tmp_path / "sampled.json"
    path.write_text(json.dumps(config))
    done = CliRunner().invoke(app, ["simulate", str(path), "--hours", "0.25", "--output", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["records"], found["files"], found["written"]) == (1800, 30, 1800)  # one a second on each partition
    assert "Sampled 202 records of 2 topic-partitions." in found["notes"]
