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
from kafka_s3.ops.forecast import table_requests
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
    done = CliRunner().invoke(app, ["simulate", str(path), "--hours", str(1 / 3), "--output", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    settings = drain_directly(config, close=None)
    log = CommitLog(S3Store(store_options(settings)), state_paths(settings), clock_ms=now_ms)
    files = [file for entry in log.entries() for file in counted(entry.files)]
    assert (found["records"], found["dead_letters"]) == (2400, 1)
    assert (found["files"], found["written"]) == (len(files), sum(file.records for file in files))
    assert sum(file.bytes for file in files) == pytest.approx(found["bytes"], rel=0.2)
    assert "Sampled 2,400 records of 2 topic-partitions." in found["notes"]


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
    first = table_requests(entries[:1])
    writes_reported, reads_reported = (all_ - one for all_, one in zip(table_requests(entries), first, strict=True))
    beside = (
        len(entries) - 1
    )  # the note of how far it has come, and an object's footer, which are not in the table's log
    assert len(entries) == 7
    assert writes_reported - beside == pytest.approx(len(seen) - reads, rel=0.2)
    assert reads_reported - beside == pytest.approx(reads, rel=0.2)
