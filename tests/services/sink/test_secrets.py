"""Does a secret of the configuration show anywhere: in logs, error texts, the bucket, Spark's settings, or a text form?"""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.connect.config.option import Type, sensitive
from kafka_s3.connect.config.options.table import BLOCK_GZIP_OPTIONS, CLOUD_OPTIONS, OPTIONS
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.loop.runner import run_available_now, waiting
from kafka_s3.engine.loop.sink import Sink
from kafka_s3.model.errors import StorageUnavailable
from kafka_s3.model.files import Reason
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, Delivery, TaskFailure
from kafka_s3.model.timing import now_ms
from kafka_s3.run.logs import LogFormat, LogObserver, _Lines
from kafka_s3.run.spark.launch import SparkEngine, sink_on_spark
from kafka_s3.run.spark.source import SparkSource
from kafka_s3.run.wiring.pipeline import task_plan
from kafka_s3.run.wiring.running import open_session
from tests.support.configurations import BASE, STATE
from tests.support.kafka import Given, document, produce
from tests.support.surroundings import Surroundings

AWS, JAAS, PROXY = "canary-aws-5d1f", "canary-jaas-83bc", "canary-proxy-e07a"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
FURTHER = {
    "s3.credentials.provider.sts.role.external.id": "canary-role-10aa",
    "consumer.override.ssl.key.password": "canary-key-20bb",
    "consumer.override.ssl.truststore.password": "canary-trust-30cc",
    "consumer.override.ssl.keystore.password": "canary-store-40dd",
    "producer.override.sasl.jaas.config": f'{MODULE} required username="user" password="canary-dlq-50ee";',
    "value.converter.basic.auth.user.info": "user:canary-info-60ff",
    "value.converter.bearer.auth.token": "canary-token-70ab",
    "value.converter.schema.registry.url": "https://user:canary-url-80ac@registry.example.com",
    "value.converter.some.pasword": "canary-misspelt-90ad",
}
"""Secrets of what this sink does not use, and of a key that is misspelt: they are read, checked, warned of and carried along."""
CANARIES = (AWS, JAAS, PROXY, "canary-")
SECRET_KEYS = sorted({
    row.key.replace("*", "anything") for row in (*OPTIONS, *CLOUD_OPTIONS, *BLOCK_GZIP_OPTIONS)
    if row.type is Type.PASSWORD or sensitive(row.key, row.type)
})  # fmt: skip
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def shown() -> Iterator[io.StringIO]:
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
    return here.config(name, **{
        "flush.size": "3", "errors.tolerance": "all", "s3.part.retries": "1",
        "aws.access.key.id": "AKIAEXAMPLE", "aws.secret.access.key": "${env:CANARY_AWS}",
        "consumer.override.sasl.jaas.config": f'{MODULE} required username="user" password="{JAAS}";',
        "s3.proxy.url": here.s3.endpoint_url, "s3.proxy.user": "user", "s3.proxy.password": PROXY,
        **FURTHER,
    })  # fmt: skip


def assert_hidden(text: str) -> None:
    assert [canary for canary in CANARIES if canary in text] == []


def test_a_run_that_succeeds_shows_no_secret_in_log_bucket_or_spark(
    here: Surroundings, config: dict[str, str], shown: io.StringIO
) -> None:
    sink = run_with_heartbeat(here, config)
    assert [len(rows) for rows in here.bucket.contents().values()] == [3, 3, 1]
    assert '"event": "round"' in shown.getvalue()
    assert_hidden(shown.getvalue())
    state = [key for key in here.bucket.listing() if key.startswith(STATE)]
    assert {key.split("/")[2] for key in state} >= {"commits", "dead-letters", "heartbeat.json"}
    for key in here.bucket.listing():
        assert_hidden(key + here.bucket.get(key).decode("latin-1"))
    assert_hidden(str(here.spark.sparkContext.getConf().getAll()) + str(dict(here.spark.conf.getAll)))
    assert_hidden(repr(sink.store) + repr(sink.behaviour) + repr(sink.source))


def test_spark_shows_no_secret_of_the_read_in_plans_or_events(here: Surroundings, config: dict[str, str]) -> None:
    source = SparkSource(here.spark, task_plan(resolved(validate(config).usable())), bootstrap_servers=here.servers, kafka={
        "sasl.jaas.config": f'{MODULE} required username="user" password="{JAAS}";', "ssl.key.password": "canary-key-20bb",
    })  # fmt: skip
    frame = source.frame([Assignment(TopicPartition(config["topics"], 0), 0, 3, (Delivery(0, 3),))])
    assert frame.count() == 3
    jvm = here.spark._jsparkSession
    assert_hidden(frame._jdf.queryExecution().toString())
    executions = jvm.sharedState().statusStore().executionsList()  # what the UI and the event log are made of
    plans = [executions.apply(at).physicalPlanDescription() for at in range(executions.size())]
    assert plans
    assert_hidden("".join(plans))


COMMANDS = [
    ("validate",), ("validate", "--effective"), ("doctor",), ("doctor", "--output", "json"), ("list",), ("list", "--output", "json"),
    ("status",),
    ("status", "--output", "json"), ("verify",), ("verify", "--output", "json"), ("migrate",), ("sweep", "--dry-run"), ("position", "show"),
    ("dead-letters", "list"), ("dead-letters", "export"), ("dead-letters", "show"), ("create",), ("pause",), ("resume",),
    ("delta", "check"), ("seek",),
]  # fmt: skip


def test_no_command_shows_a_secret(
    here: Surroundings, config: dict[str, str], shown: io.StringIO, tmp_path: Path
) -> None:
    here.drain(config)
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    codes: dict[tuple[str, ...], int] = {}
    for command in COMMANDS:
        words = 1 if len(command) == 1 or command[1].startswith("--") else 2
        place = [config["topics"], "0", "7"] if command[-1] in ("show",) and command[0] == "dead-letters" else []
        result = CliRunner().invoke(app, [*command[:words], str(path), *place, *command[words:]])
        trace = "".join(traceback.format_exception(result.exception)) if result.exception else ""
        assert_hidden(result.output + result.stderr + trace)
        assert result.output or trace
        codes[command] = result.exit_code
    assert_hidden(shown.getvalue())
    looked = {
        command: code
        for command, code in codes.items()
        if command[0] not in ("create", "seek", "delta", "doctor", "migrate")
    }
    assert set(looked.values()) == {0}, codes


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_configuration_with_any_secret_key_is_checked_without_showing_it(key: str, tmp_path: Path) -> None:
    """Whether the value fits or not, whatever becomes a secret in the table is tried here."""
    base = {
        "name": "canaries",
        "topics": "t",
        "flush.size": "3",
        "kafka.bootstrap.servers": "k:9092",
        "s3.bucket.name": "bucket",
    }
    path = tmp_path / "sink.json"
    path.write_text(json.dumps({**BASE, **base, key: "canary-any-0123", f"{key}x": "canary-near-4567"}))
    for command in (["validate", str(path), "--effective"], ["create", str(path)]):
        if command[0] == "create" and validate(json.loads(path.read_text())).problems == ():
            continue  # it would go on to the bucket
        result = CliRunner().invoke(app, command)
        assert result.output or result.exception
        trace = "".join(traceback.format_exception(result.exception)) if result.exception else ""
        assert_hidden(result.output + result.stderr + trace)


def test_a_configuration_shows_no_secret_in_its_text_forms(config: dict[str, str]) -> None:
    for settings in (validate(config).usable(), resolved(validate(config).usable())):
        assert_hidden(repr(settings) + str(settings) + str(settings.masked()))
        assert "****" in repr(settings)
    plain = settings.secret("aws.secret.access.key")
    assert plain is not None
    assert plain.reveal() == AWS  # the canary is really in there


@pytest.mark.parametrize("wrong", [{"store.url": CLOSED}, {"s3.proxy.url": CLOSED}], ids=["endpoint", "proxy"])
def test_a_driver_that_cannot_reach_the_bucket_shows_no_secret(
    wrong: dict[str, str], here: Surroundings, config: dict[str, str], shown: io.StringIO
) -> None:
    if "store.url" in wrong:
        config = {key: value for key, value in config.items() if not key.startswith("s3.proxy.")}
    with pytest.raises(StorageUnavailable) as failed:
        here.sink({**config, **wrong}).open()
    assert_hidden("".join(traceback.format_exception(failed.value)) + shown.getvalue())


def test_a_task_that_cannot_reach_the_bucket_shows_no_secret(
    here: Surroundings, config: dict[str, str], shown: io.StringIO
) -> None:
    sink = here.sink(config, observer=LogObserver())
    sink.source = blind(here, config)
    sink.open()
    assert sink.poll_and_commit() is False
    assert '"event": "trying again"' in shown.getvalue()
    assert_hidden(shown.getvalue())
    assert here.bucket.data_keys() == []
    assert_hidden(texts_of(sink, config))


def blind(here: Surroundings, config: dict[str, str]) -> SparkEngine:
    """The engine with a proxy that is not there: only the tasks meet it."""
    settings = resolved(validate({**config, "s3.proxy.url": CLOSED}).usable())
    by_spark = SparkSource(here.spark, task_plan(settings), bootstrap_servers=here.servers, kafka={}).run_job
    return SparkEngine(here.spark, lambda _: by_spark, lambda *_: None)


def texts_of(sink: Sink, config: dict[str, str]) -> str:
    """The whole stack of a task's failure."""
    place = TopicPartition(config["topics"], 0)
    (failed,) = sink.source.read([Assignment(place, 0, 3, (Delivery(0, 3),))])
    assert isinstance(failed, TaskFailure)
    assert isinstance(failed.error, StorageUnavailable)
    return "".join(traceback.format_exception(failed.error))


def run_with_heartbeat(here: Surroundings, config: dict[str, str]) -> Sink:
    """Works off what is there as `kafka-s3 run` does, on the Spark of this process."""
    settings = resolved(validate(config).usable())
    with open_session(settings, observer=LogObserver(), clock_ms=now_ms) as sink_session:
        sink = sink_on_spark(settings, here.spark, observer=sink_session.observer)
        run_available_now(sink, backoff_ms=500, wait=waiting(Event()), close=Reason.FLUSH_NOW)
    return sink
