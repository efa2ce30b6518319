"""Does `kafka-s3 verify` find a healthy sink clean, and a damaged one damaged? Against a real broker, with transactions and deletions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from kafka_s3.cli.audit import verify
from kafka_s3.model.errors import ConfigError
from tests.support.kafka import Given, document, produce
from tests.support.surroundings import Surroundings

TOLERANT = {
    "errors.tolerance": "all",
    "behavior.on.null.values": "ignore",
    "consumer.override.isolation.level": "read_committed",
}


def in_transaction(servers: str, topic: str, numbers: range, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{commit}"})
    producer.init_transactions()
    producer.begin_transaction()
    for n in numbers:
        producer.produce(topic, document(n=n), partition=0)
    producer.flush(10)
    producer.commit_transaction() if commit else producer.abort_transaction()


def verified(path: Path, *words: str) -> tuple[int, dict[str, object]]:
    app = typer.Typer()
    app.command()(verify)
    done = CliRunner().invoke(app, [str(path), "--output", "json", *words])
    if isinstance(done.exception, ConfigError):
        raise done.exception
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


SMT = "org.apache.kafka.connect.transforms."
HEADERS = ((), (("h", b"1"),), (("other", None), ("h", b"2")))
CHAINS = {
    "as they are": {},
    "through transforms": {
        "transforms": "where,who", "transforms.where.type": f"{SMT}InsertField$Value", "transforms.where.offset.field": "offset",
        "transforms.where.timestamp.field": "at", "transforms.who.type": f"{SMT}InsertField$Value",
        "transforms.who.static.field": "who", "transforms.who.static.value": "shop", "transforms.who.predicate": "named",
        "predicates": "named", "predicates.named.type": f"{SMT}predicates.HasHeaderKey", "predicates.named.name": "h",
    },
}  # fmt: skip


@pytest.fixture(params=CHAINS)
def written(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[Path, str]:
    """A sink that has read an aborted and a committed transaction, a bad record and a null; then Kafka loses the first offsets."""
    name = topic("verified", partitions=2)
    config = here.config(name, **TOLERANT, **{"flush.size": "4"}, **CHAINS[request.param])
    produce(here.servers, name, [Given(document(n=n), partition=n % 2, headers=HEADERS[n % 3]) for n in range(10)])
    in_transaction(here.servers, name, range(100, 104), commit=False)
    in_transaction(here.servers, name, range(10, 16), commit=True)
    produce(here.servers, name, [Given(b"{oops"), Given(None), Given(document(n=16))])
    here.drain(config)
    admin = AdminClient({"bootstrap.servers": here.servers})
    (future,) = admin.delete_records([TopicPartition(name, 1, 4)]).values()
    future.result()
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    return path, name


def test_a_healthy_sink_is_clean_and_a_damaged_one_is_not(here: Surroundings, written: tuple[Path, str]) -> None:
    path, name = written
    code, report = verified(path)
    assert (code, report["findings"]) == (0, [])
    transactions, deleted = report["partitions"]  # type: ignore[misc]
    assert transactions["kafka"] == 14
    assert (transactions["written"], transactions["dead_letters"], transactions["skipped"]) == (12, 1, 1)
    assert transactions["without_record"] == 4 + 2
    assert transactions["compared"] == 12
    assert (deleted["kafka"], deleted["retention"], deleted["written"]) == (1, 4, 5)

    first, second = [key for key in here.bucket.data_keys() if "partition=0" in key][:2]
    here.bucket.client.delete_object(Bucket=here.bucket.name, Key=first)
    content = here.bucket.get(second)
    changed = content.replace(b'"n":', b'"m":', 1)
    assert changed != content
    here.bucket.client.put_object(Bucket=here.bucket.name, Key=second, Body=changed)
    code, report = verified(path)
    found = {(finding["kind"], finding["place"]) for finding in report["findings"]}  # type: ignore[attr-defined]
    assert code == 1
    assert {("missing object", first), ("wrong content", second), ("wrong ETag", second)} <= found

    code, report = verified(path, "--no-kafka", "--topic", name, "--partition", "0")
    found = {(finding["kind"], finding["place"]) for finding in report["findings"]}  # type: ignore[attr-defined]
    assert (code, found) == (1, {("missing object", first), ("wrong ETag", second)})
    assert verified(path, "--partition", "1")[0] == 0


def test_a_topic_that_the_sink_does_not_have_is_an_error_that_lists_its_topics(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("verified")
    produce(here.servers, name, [Given(document(n=n)) for n in range(3)])
    config = here.config(name, **{"flush.size": "3"})
    here.drain(config)
    path = tmp_path / "sink.json"
    path.write_text(json.dumps({**config, "topics": f"{name},soon-{name}"}))
    with pytest.raises(ConfigError, match=rf"--topic \('ordres'\).*It reads soon-{name}, {name}\."):
        verified(path, "--topic", "ordres")
    assert verified(path, "--topic", f"soon-{name}")[0] == 1  # it is configured, but neither Kafka nor the log has it
    assert verified(path, "--topic", name)[0] == 0
