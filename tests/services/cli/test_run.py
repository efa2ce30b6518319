"""What does `kafka-s3 run` do before it begins, and after it was asked to stop?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.engine.loop.runner import run_continuously, waiting
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.configurations import BASE, PARTITIONER
from tests.support.kafka import Given, document, produce
from tests.support.sink_process import SinkProcess
from tests.support.surroundings import Surroundings
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:9"


def test_a_wrong_configuration_is_reported_whole_and_nothing_is_read(tmp_path: Path) -> None:
    config = {
        **BASE, "name": "wrong", "topics": "any", "topics.regex": "any.*", "kafka.bootstrap.servers": NOWHERE,
        "store.url": f"http://{NOWHERE}", "s3.bucket.name": "any", "flush.size": "many", "s3.part.size": "1",
        "partitioner.class": PARTITIONER + "DailyPartitioner", "timezone": "PST",
    }  # fmt: skip
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--available-now", "--log-format", "json"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 2, process.output()
    (line,) = map(json.loads, process.output().splitlines())
    assert (line["event"], line["error"]) == ("failed", "ConfigError")
    for key in ("topics.regex", "flush.size", "s3.part.size", "timezone"):
        assert f"  {key} (" in line["reason"]


@pytest.mark.parametrize(
    ("program", "places", "steps", "reason"),
    [
        (["-m", "kafka_s3", "run"], {"s3.bucket.name": "nowhere"}, ["the bucket s3://nowhere"], "s3.bucket.name"),
        (["-m", "kafka_s3", "run"], {}, ["the bucket s3://", f"Kafka at {NOWHERE}"], "kafka.bootstrap.servers"),
        (["jobs/run_sink.py"], {}, ["the bucket s3://", f"Kafka at {NOWHERE}"], "kafka.bootstrap.servers"),
    ],
    ids=["bucket", "brokers", "brokers, of the job"],
)
def test_what_does_not_answer_ends_the_start_before_spark(
    s3: EmbeddedS3,
    bucket: str,
    tmp_path: Path,
    program: list[str],
    places: dict[str, str],
    steps: list[str],
    reason: str,
) -> None:
    """Each step is reported before it is done; what was asked last is what failed."""
    config = {
        **BASE, "name": "early", "topics": "any", "flush.size": "1", "kafka.bootstrap.servers": NOWHERE,
        "store.url": s3.endpoint_url, "s3.bucket.name": bucket, "consumer.override.default.api.timeout.ms": "2000", **places,
    }  # fmt: skip
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = [*program, str(path), "--log-format", "json"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 1, process.output()
    lines = [json.loads(line) for line in process.output().splitlines()]
    reported = [line["event"] for line in lines if line["level"] == "info"]
    assert len(reported) == len(steps)
    assert all(line.startswith(f"connecting to {step}") for line, step in zip(reported, steps, strict=True))
    assert (lines[-1]["event"], lines[-1]["level"]) == ("failed", "critical")
    assert reason in lines[-1]["reason"]


@pytest.mark.nightly  # a Spark of its own
def test_every_line_of_a_run_is_json_also_those_of_spark_and_of_what_ends_it(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("broken")
    produce(here.servers, name, [Given(document(n=1)), Given(b"{broken")])
    config = here.config(name, **{"flush.size": "1", "no.such.key": "x"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--available-now", "--log-format", "json", "--cores", "1"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 1, process.output()
    lines = [json.loads(line) for line in process.output().splitlines()]
    assert sum("no.such.key" in line["event"] for line in lines) == 1
    about = {"error": "RecordError", "topic": name, "partition": 0, "offset": 1, "stage": "VALUE_CONVERTER"}
    assert about.items() <= lines[-1].items()


def test_a_run_with_nothing_to_do_ends_without_a_word_of_spark(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its session stops while Spark still starts the first worker."""
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(here.config(topic("nothing"), **{"flush.size": "1"})))
    words = ["-m", "kafka_s3", "run", str(path), "--available-now", "--log-format", "json", "--cores", "1"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 0, process.output()
    lines = [json.loads(line) for line in process.output().splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    assert lines[-1]["event"] == "stopped"


def test_a_misspelt_topic_is_no_success_and_everybody_says_so(
    here: Surroundings, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The run ends with a code of its own, after it has read what is there; then `status` and `check` are asked."""
    name = topic("misspelt")
    produce(here.servers, name, [Given(document(n=n)) for n in range(3)])
    config = here.config(f"{name},{name.replace('misspelt', 'mispelt')}", **{"flush.size": "3"})
    path = tmp_path / "sink.json"
    path.write_text(json.dumps(config))
    words = ["-m", "kafka_s3", "run", str(path), "--available-now", "--flush", "--cores", "1"]
    with SinkProcess(words, tmp_path / "run.log") as process:
        assert process.wait(240) == 4, process.output()
    missing = f"is not in Kafka, or may not be described; names like it: {name}"
    assert missing in process.output().splitlines()[-1]
    assert len(here.bucket.data_keys()) == 1
    for command, code in (("status", 0), ("check", 1)):
        reported = CliRunner().invoke(app, [command, str(path)])
        assert (reported.exit_code, missing in reported.stdout, "FAILED" in reported.stdout) == (code, True, True)


def test_a_sink_that_was_asked_to_stop_leaves_its_open_tail_to_the_next_run(
    here: Surroundings, topic: Callable[..., str]
) -> None:
    name = topic("stopped")
    config = here.config(name, **{"flush.size": "5", "poll.interval.ms": "100"})
    produce(here.servers, name, [Given(document(n=n)) for n in range(7)])
    stop = Event()
    sink = here.sink(config)
    thread = Thread(target=lambda: run_continuously(sink, poll_ms=100, backoff_ms=500, wait=waiting(stop)))
    thread.start()
    eventually(lambda: len(here.bucket.data_keys()) == 1)
    stop.set()
    thread.join(240)
    assert not thread.is_alive()

    produce(here.servers, name, [Given(document(n=n)) for n in range(7, 11)])
    here.drain(config, close=None)
    assert here.bucket.contents() == {
        f"topics/{name}/partition=0/{name}+0+0000000000.json": [{"n": n} for n in range(5)],
        f"topics/{name}/partition=0/{name}+0+0000000005.json": [{"n": n} for n in range(5, 10)],
    }
