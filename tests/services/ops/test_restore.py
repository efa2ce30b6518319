"""Does `kafka-s3 restore` write a real sink's records back, each once and in order, though it is killed again and again?"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer
from typer.testing import CliRunner

from kafka_s3.cli.restore import restore
from kafka_s3.kafka.producing import LONGEST_S
from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.model.offsets import TopicPartition as Place
from kafka_s3.model.protocols import Message
from kafka_s3.ops.restore.plan import KafkaTarget
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE
from tests.support.direct_sink import drain_directly
from tests.support.kafka import Given, committed_records, document, produce
from tests.support.s3_proxy import First, LateAnswer, Proxy, Rule, Which
from tests.support.sink_process import SinkProcess

RECORDS = 6_000
KEPT = {
    "store.kafka.keys": "true", "keys.format.class": BASE["format.class"],
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "store.kafka.headers": "true", "headers.format.class": BASE["format.class"],
}  # fmt: skip


def test_killed_twice_it_goes_on_and_nothing_is_doubled_or_lost(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic("stored"), topic("restored")
    config = {
        **BASE, **KEPT, "name": "stored", "topics": source, "flush.size": "1000", "s3.bucket.name": bucket,
        "store.url": s3.endpoint_url, "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    old = [
        ("kafka_s3.origin", f"0123456789abcdef/{source}/0/{n // 1000 * 1000}/{n % 1000}/00000000".encode())
        for n in range(RECORDS)
    ]  # the topic was itself restored
    given = [Given(document(n=n), key=b"k%d" % n, headers=(("n", b"%d" % n), old[n])) for n in range(RECORDS)]
    produce(kafka.bootstrap_servers, source, given)
    drain_directly(config)
    path = tmp_path / "stored.json"
    with Proxy(s3.endpoint_url) as proxy:
        path.write_text(json.dumps({**config, "store.url": proxy.url}))
        words = [str(path), "--to-topic", target, "--yes", "--output", "json"]
        for number in (2, 4):
            # killed as it asks for that file's values, within a transaction; the one before is committed: the file before came late
            late = Rule(Which("GET", key=rf"\+{number * 1000 - 1000:010d}\.json"), LateAnswer(1.5 * LONGEST_S))
            proxy.add(late)
            process = SinkProcess(["-m", "kafka_s3", "restore", *words], tmp_path / f"{number}.log")
            rule = Rule(
                Which("GET", key=rf"\+{number * 1000:010d}\.json"),
                First(lambda _, at=process: at.signal(signal.SIGKILL)),
            )
            proxy.add(rule)
            with process:
                assert process.wait() == -signal.SIGKILL, process.output()
            assert rule.strikes
    app = typer.Typer()
    app.command()(restore)
    path.write_text(json.dumps(config))
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (share,) = json.loads(done.stdout)["partitions"]
    assert share["records"] == share["already_there"] + share["written"] == RECORDS
    assert 0 < share["already_there"] < RECORDS
    found = committed_records(kafka.bootstrap_servers, target)
    expected = [(one.key, one.value, one.headers[:1]) for one in given]
    assert [(one.key, one.value, one.headers) for one in found] == expected


@pytest.mark.nightly
def test_behind_another_producers_open_transaction_it_does_not_guess(
    kafka: EmbeddedKafka, topic: Callable[..., str]
) -> None:
    name = topic("busy")
    other = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "other"})
    other.init_transactions()
    other.begin_transaction()
    other.produce(name, b"not committed", partition=0)
    other.flush()
    target = KafkaTarget(kafka.bootstrap_servers, properties={"default.api.timeout.ms": "5000"})
    with (
        pytest.raises(KafkaUnavailable, match=f"transaction is open in {name}-0"),
        target.sending(Place(name, 0), "busy"),
    ):
        pytest.fail("it may send")
    other.abort_transaction()
    with target.sending(Place(name, 0), "busy") as send:
        send(name, Message(None, b"sent", (), None), partition=0)
    assert [one.value for one in committed_records(kafka.bootstrap_servers, name)] == [b"sent"]
