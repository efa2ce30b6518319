"""Does a secret of the configuration show anywhere: in logs, error texts, the bucket, Spark's settings, or a text form?"""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

from kafka_s3.cli.logs import LogFormat, LogObserver, _Lines
from kafka_s3.config.validate import validate
from kafka_s3.errors import StorageUnavailable
from kafka_s3.model import TopicPartition
from kafka_s3.sink import Sink
from kafka_s3.spark.source import SparkSource
from kafka_s3.tasks import Assignment, Delivery
from tests.integration.support import STATE, Given, document, produce
from tests.surroundings import Surroundings

AWS, JAAS, PROXY = "canary-aws-5d1f", "canary-jaas-83bc", "canary-proxy-e07a"
CANARIES = (AWS, JAAS, PROXY)
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Everything that is logged at INFO and above, by the product and by the libraries below it."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(_Lines(LogFormat.JSON))
    loggers = (logging.getLogger(), logging.getLogger("kafka_s3"))
    before = [(logger, logger.level) for logger in loggers]
    for logger, _ in before:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    yield text
    for logger, level in before:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture
def config(here: Surroundings, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A configuration with three secrets: one by reference, two in clear. The S3 server is its own proxy."""
    monkeypatch.setenv("CANARY_AWS", AWS)
    name = topic("secrets")
    produce(here.servers, name, [*(Given(document(n=n)) for n in range(7)), Given(b"{broken")])
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return here.config(name, **{
        "flush.size": "3", "errors.tolerance": "all", "s3.part.retries": "1",
        "aws.access.key.id": "AKIAEXAMPLE", "aws.secret.access.key": "${env:CANARY_AWS}",
        "consumer.override.sasl.jaas.config": f'{module} required username="user" password="{JAAS}";',
        "s3.proxy.url": here.s3.endpoint_url, "s3.proxy.user": "user", "s3.proxy.password": PROXY,
    })  # fmt: skip


def assert_hidden(text: str) -> None:
    assert [canary for canary in CANARIES if canary in text] == []


def test_a_run_that_succeeds_shows_no_secret_in_log_bucket_or_spark(
    here: Surroundings, config: dict[str, str], said: io.StringIO
) -> None:
    sink = here.drain(config, observer=LogObserver())
    assert [len(rows) for rows in here.bucket.contents().values()] == [3, 3, 1]
    assert '"event": "round"' in said.getvalue()
    assert_hidden(said.getvalue())
    state = [key for key in here.bucket.listing() if key.startswith(STATE)]
    assert len(state) > 3
    for key in state:
        assert_hidden(key + here.bucket.get(key).decode("latin-1"))
    spark = here.spark
    assert_hidden(str(spark.sparkContext.getConf().getAll()))
    assert_hidden(str(dict(spark.conf.getAll)))
    assert_hidden(repr(sink.store) + repr(sink.behaviour) + repr(sink.source))


def test_a_configuration_shows_no_secret_in_its_text_forms(config: dict[str, str]) -> None:
    for settings in (validate(config).usable(), validate(config).usable().resolved()):
        assert_hidden(repr(settings) + str(settings) + str(settings.masked()))
        assert "****" in repr(settings)
    resolved = settings.secret("aws.secret.access.key")
    assert resolved is not None
    assert resolved.reveal() == AWS  # the canary is really in there


@pytest.mark.parametrize("wrong", [{"store.url": CLOSED}, {"s3.proxy.url": CLOSED}], ids=["endpoint", "proxy"])
def test_a_driver_that_cannot_reach_the_bucket_shows_no_secret(
    wrong: dict[str, str], here: Surroundings, config: dict[str, str], said: io.StringIO
) -> None:
    if "store.url" in wrong:
        config = {key: value for key, value in config.items() if not key.startswith("s3.proxy.")}
    with pytest.raises(StorageUnavailable) as failed:
        here.sink({**config, **wrong}).open()
    assert_hidden("".join(traceback.format_exception(failed.value)) + said.getvalue())


def test_a_task_that_cannot_reach_the_bucket_shows_no_secret(
    here: Surroundings, config: dict[str, str], said: io.StringIO
) -> None:
    sink = here.sink(config, observer=LogObserver())
    sink.source = blind(here, config)
    sink.open()
    assert sink.cycle() is False
    assert '"event": "trying again"' in said.getvalue()
    assert_hidden(said.getvalue())
    assert here.bucket.data_keys() == []
    assert_hidden(texts_of(sink, config))


def blind(here: Surroundings, config: dict[str, str]) -> SparkSource:
    """The engine with a proxy that is not there: only the tasks meet it."""
    settings = validate({**config, "s3.proxy.url": CLOSED}).usable().resolved()
    return SparkSource(here.spark, settings, bootstrap_servers=here.servers, kafka={})


def texts_of(sink: Sink, config: dict[str, str]) -> str:
    """The whole stack of a task's failure."""
    place = TopicPartition(config["topics"], 0)
    with pytest.raises(StorageUnavailable) as failed:
        sink.source.read([Assignment(place, 0, 3, (Delivery(0, 3),))])
    return "".join(traceback.format_exception(failed.value))
