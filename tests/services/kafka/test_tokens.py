"""Do logins by token open a real broker to both readers: OAUTHBEARER with client credentials, and IAM access to Amazon MSK?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING

import pytest

from kafka_s3.connect.config.read import read_worker
from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.kafka.reader.reach import why_out_of_reach
from kafka_s3.kafka.reader.reader import RangeReader
from kafka_s3.model.errors import SourceError
from kafka_s3.model.offsets import OffsetRange, TopicPartition
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.clients import brokers_of, consumer_properties
from kafka_s3_testing.services.kafka import FAST_START, EmbeddedKafka
from kafka_s3_testing.services.process import HOST, free_ports
from tests.support.bucket import Bucket
from tests.support.configurations import BASE
from tests.support.kafka import Given, document, produce
from tests.support.msk_gate import MskGate
from tests.support.token_server import AUDIENCE, ISSUER, TokenServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.s3 import EmbeddedS3

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOPIC = "by-token"
REGION = "eu-central-1"


@dataclass(frozen=True)
class ByToken:
    """A broker with a listener that checks tokens of `tokens`, and one behind the door of Amazon MSK."""

    kafka: EmbeddedKafka
    tokens: TokenServer
    msk: MskGate
    by_token: str
    by_iam: str

    def worker(self, folder: Path, login: str = 'clientId="sink" clientSecret="s3cret" scope="read"') -> dict[str, str]:
        """The operator's worker file of OAUTHBEARER."""
        file = folder / "worker.properties"
        file.write_text(
            f"bootstrap.servers={self.by_token}\nconsumer.security.protocol=SASL_PLAINTEXT\nconsumer.sasl.mechanism=OAUTHBEARER\n"
            f"consumer.sasl.oauthbearer.token.endpoint.url={self.tokens.token_url}\nconsumer.sasl.jaas.config={OAUTH} required {login};\n"
        )
        return dict(read_worker(file).texts)

    def iam(self, options: str = "") -> dict[str, str]:
        """A connector's configuration as for Java's client of Amazon MSK, but for TLS."""
        client = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"software.amazon.msk.auth.iam.IAMLoginModule required {options};",
            "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }  # fmt: skip
        return {
            **CONFIG, "kafka.bootstrap.servers": self.by_iam,
            **{f"consumer.override.{name}": value for name, value in client.items()},
        }  # fmt: skip


CONFIG = {**BASE, "name": "by-token", "topics": TOPIC, "flush.size": "2", "s3.bucket.name": "bucket"}


@pytest.fixture(scope="module")
def broker() -> Iterator[ByToken]:
    token_port, plain_port, gate_port = free_ports(3)
    by_token, by_iam = f"{HOST}:{token_port}", f"{HOST}:{gate_port}"
    with TokenServer({"sink": "s3cret"}) as tokens:
        mine = "listener.name.tokens."
        settings = {
            "listeners": f"TOKENS://{by_token},MSK://{HOST}:{plain_port}", "advertised.listeners": f"TOKENS://{by_token},MSK://{by_iam}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TOKENS:SASL_PLAINTEXT,MSK:PLAINTEXT",
            f"{mine}sasl.enabled.mechanisms": "OAUTHBEARER", f"{mine}oauthbearer.sasl.jaas.config": f"{OAUTH} required;",
            f"{mine}oauthbearer.sasl.server.callback.handler.class": OAUTH.replace("LoginModule", "ValidatorCallbackHandler"),
            f"{mine}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
            f"{mine}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{mine}oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        }  # fmt: skip
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.keys_url}"
        door = MskGate({"AKIASINK": "signing"}, region=REGION, port=gate_port, broker=(HOST, plain_port))
        with EmbeddedKafka(settings=settings, java_options=(*FAST_START, allowed)) as kafka, door as msk:
            kafka.create_topic(TOPIC)
            produce(kafka.bootstrap_servers, TOPIC, [Given(document(n=n)) for n in range(4)])
            yield ByToken(kafka, tokens, msk, by_token, by_iam)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The AWS credentials and region of this process."""
    for name, value in (("ACCESS_KEY_ID", "AKIASINK"), ("SECRET_ACCESS_KEY", "signing"), ("DEFAULT_REGION", REGION)):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    return monkeypatch


def offsets_read(servers: str, settings: Settings) -> list[int]:
    """What the tasks' reader reads here."""
    ranges = [OffsetRange(TopicPartition(TOPIC, 0), 0, 4)]
    with closing(RangeReader(servers, consumer_properties(settings)).read_ranges(ranges)) as readings:
        return [offset for _, batches in readings for batch in batches for offset in batch.column("offset").to_pylist()]


def test_client_credentials_let_the_driver_and_the_tasks_in(broker: ByToken, tmp_path: Path) -> None:
    checked = validate(CONFIG, worker=broker.worker(tmp_path))
    assert checked.problems == ()
    settings = resolved(checked.usable())
    assert brokers_of(settings).topic_names() == [TOPIC]
    assert why_out_of_reach(broker.by_token, consumer_properties(settings), TopicPartition(TOPIC, 0)) is None
    assert offsets_read(broker.by_token, settings) == [0, 1, 2, 3]
    assert set(broker.tokens.asked) == {("sink", "read")}


def test_a_wrong_secret_is_refused_and_not_shown(broker: ByToken, tmp_path: Path) -> None:
    worker = broker.worker(tmp_path, 'clientId="sink" clientSecret="wr0ng"')
    worker["consumer.override.default.api.timeout.ms"] = "3000"
    with pytest.raises(SourceError) as error:
        brokers_of(resolved(validate(CONFIG, worker=worker).usable())).topic_names()
    assert "unknown client or wrong secret" in str(error.value)
    assert "wr0ng" not in str(error.value)


@pytest.mark.parametrize("reader", [pytest.param("tasks", marks=pytest.mark.nightly), "spark"])
def test_a_sink_reads_with_client_credentials(
    reader: str, broker: ByToken, s3: EmbeddedS3, bucket: str, spark: SparkSession, tmp_path: Path
) -> None:
    content = Bucket(s3.endpoint_url, bucket)
    more = {"s3.bucket.name": bucket, "store.url": s3.endpoint_url, "kafka.reader": reader}
    settings = resolved(validate({**CONFIG, **more}, worker=broker.worker(tmp_path)).usable())
    sink = sink_on_spark(settings, spark)
    sink.open()
    assert sink.poll_and_commit()
    assert [[row["n"] for row in rows] for rows in content.contents().values()] == [[0, 1], [2, 3]]
    content.close()


def test_iam_tokens_let_the_driver_and_the_tasks_into_msk(broker: ByToken, aws: pytest.MonkeyPatch) -> None:
    checked = validate(broker.iam())
    assert checked.problems == ()
    settings = resolved(checked.usable())
    assert brokers_of(settings).topic_names() == [TOPIC]
    entered = len(broker.msk.logins)
    assert why_out_of_reach(broker.by_iam, consumer_properties(settings), TopicPartition(TOPIC, 0)) is None
    assert offsets_read(broker.by_iam, settings) == [0, 1, 2, 3]
    assert set(broker.msk.logins) == {"AKIASINK"}
    assert len(broker.msk.logins) > entered
    assert broker.msk.refusals == []


@pytest.mark.nightly
def test_sparks_own_source_logs_into_msk_by_amazons_java_module(
    broker: ByToken, aws: pytest.MonkeyPatch, s3: EmbeddedS3, bucket: str, tmp_path: Path
) -> None:
    """The whole way of the keys: from Connect's to the handler that Spark's JVM loads, which signs with the keys of its surroundings."""
    store = {"s3.bucket.name": bucket, "store.url": s3.endpoint_url, "kafka.reader": "spark"}
    config = tmp_path / "sink.json"
    config.write_text(json.dumps({**broker.iam(), **store}))
    aws.setenv("AWS_REGION", REGION)  # the only variable that Java reads
    refused = len(broker.msk.refusals)
    done = run(
        [sys.executable, str(Path(__file__).with_name("msk_sink.py")), str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    content = Bucket(s3.endpoint_url, bucket)
    assert [[row["n"] for row in rows] for rows in content.contents().values()] == [[0, 1], [2, 3]]
    content.close()
    assert set(broker.msk.by_java) == {"AKIASINK"}
    assert broker.msk.refusals[refused:] == []


def test_msk_refuses_a_token_of_another_secret(broker: ByToken, aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_SECRET_ACCESS_KEY", "another")
    settings = resolved(validate({**broker.iam(), "consumer.override.default.api.timeout.ms": "3000"}).usable())
    with pytest.raises(SourceError, match="Access denied"):
        brokers_of(settings).topic_names()
    assert "wrong signature" in broker.msk.refusals


def test_credentials_that_are_missing_are_reported_before_anything_is_sent(
    broker: ByToken, aws: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        aws.delenv(name)
    aws.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = resolved(validate(broker.iam()).usable())
    with pytest.raises(SourceError, match="no AWS credentials were found"):
        brokers_of(settings)
    reason = why_out_of_reach(broker.by_iam, consumer_properties(settings), TopicPartition(TOPIC, 0))
    assert reason is not None
    assert "no AWS credentials were found" in reason
