"""Is the traffic of a real topic what `kafka-s3 simulate` samples, and a real bucket's what it counts for a Delta table?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.engine.log.log import CommitLog
from kafka_s3.model.files import counted
from kafka_s3.model.timing import now_ms
from kafka_s3.ops.forecast import delta_requests
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.run.wiring.pipeline import state_paths
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, TIME, TOLERANT
from tests.support.delta_world import TableWorld
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, document, produce
from tests.support.s3_proxy import Proxy
from tests.support.s3_servers import quick_engine


@pytest.mark.nightly
def test_a_topics_own_records_and_pace(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("sampled", partitions=2)
    given = [Given(document(n=n), partition=n % 2, timestamp_ms=1_736_935_200_000 + 500 * n) for n in range(2400)]
    given[700] = Given(b"{", partition=0, timestamp_ms=1_736_935_200_000 + 500 * 700)
    produce(kafka.bootstrap_servers, name, given)
    config = {
        **BASE, **TIME, **TOLERANT, "name": "sampled", "topics": name, "flush.size": "60", "path.format": "'m'=mm",
        "partition.duration.ms": "600000", "errors.deadletterqueue.topic.replication.factor": "1", "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "poll.interval.ms": "60000", "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    path = tmp_path / "sampled.json"
    path.write_text(json.dumps(config))
    done = CliRunner().invoke(app, ["simulate", str(path), "--output", "json"])
    assert done.exit_code == 0, done.output
    forecast = json.loads(done.stdout)
    share = 2400 / forecast["per_day"]["records"]
    settings = drain_directly(config, close=None)
    log = CommitLog(S3Store(store_options(settings)), state_paths(settings), clock_ms=now_ms)
    files = [file for entry in log.entries() for file in counted(entry.files)]
    assert forecast["per_day"]["dead_letters"] * share == pytest.approx(1)
    assert forecast["per_day"]["files"] * share == pytest.approx(len(files), rel=0.1)
    assert forecast["file_bytes"] == pytest.approx(sum(file.bytes for file in files) / len(files), rel=0.1)
    assert "Sampled 2,400 records of 2 topic-partitions." in forecast["notes"]


@pytest.mark.nightly
def test_requests_of_a_delta_table_are_those_that_its_bucket_sees() -> None:
    with EmbeddedS3(engine=quick_engine()) as s3, Proxy(s3.endpoint_url) as proxy:
        s3.create_bucket("tables")
        world = TableWorld(s3, "tables", **{"store.url": proxy.url, "tail.state.enable": "false"})
        world.add(*({"n": n} for n in range(2)))
        world.run()  # the first version reads what a new table lacks
        before = list(proxy.requests)
        for n in range(2, 14, 2):
            world.add({"n": n}, {"n": n + 1})
            assert world.sink.poll_and_commit()
        later = proxy.requests[len(before) :]
        entries = [entry for entry in world.log().entries() if entry.files]
    seen = [one for one in later if "/_delta_log" in one.key + one.query.get("prefix", "")]
    reads = sum(one.method in ("GET", "HEAD") and "list-type" not in one.query for one in seen)
    writes_reported, reads_reported = delta_requests(6, 0, 0, log_files=3.5)
    assert len(entries) == 7
    assert writes_reported == pytest.approx(len(seen) - reads, rel=0.2)
    assert reads_reported == pytest.approx(reads, rel=0.2)
