"""`kafka-s3 run` as its users start it: a process with a configuration file."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.integration.support import BASE, Bucket, Given, SinkProcess, document, eventually, produce

if TYPE_CHECKING:
    from kafka_s3.embedded.kafka import EmbeddedKafka
    from kafka_s3.embedded.s3 import EmbeddedS3

Topic = Callable[..., str]


class Place:
    """A broker, a bucket and a folder for one test's sink."""

    def __init__(self, kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, folder: Path) -> None:
        self.kafka, self.s3, self.folder = kafka, s3, folder
        self.bucket = Bucket(s3.endpoint_url, bucket)
        self.runs = 0

    def settings(self, **more: str) -> dict[str, str]:
        ours = {"name": "sink", "s3.bucket.name": self.bucket.name, "store.url": self.s3.endpoint_url}
        return {**BASE, **ours, "kafka.bootstrap.servers": self.kafka.bootstrap_servers, **more}

    def sink(self, settings: dict[str, str], *arguments: str, **environment: str) -> SinkProcess:
        self.runs += 1
        path = self.folder / "sink.json"
        path.write_text(json.dumps({"name": settings["name"], "config": settings}), encoding="utf-8")
        command = ["-m", "kafka_s3", "run", str(path), "--log-format", "json", "--cores", "2", *arguments]
        return SinkProcess(command, self.folder / f"run-{self.runs}.log", environment)

    def send(self, topic: str, numbers: range, *, partition: int = 0) -> None:
        produce(self.kafka.bootstrap_servers, topic, [Given(document(n=n), partition) for n in numbers])

    def numbers(self) -> list[int]:
        return sorted(row["n"] for rows in self.bucket.contents().values() for row in rows)


@pytest.fixture
def place(kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, tmp_path: Path) -> Place:
    return Place(kafka, s3, bucket, tmp_path)


def events(process: SinkProcess, name: str) -> list[dict[str, int]]:
    lines = [json.loads(line) for line in process.output().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def test_available_now_drains_flushes_and_logs_a_line_per_round_without_secrets(place: Place, topic: Topic) -> None:
    name = topic("orders", 2)
    place.send(name, range(100), partition=0)
    place.send(name, range(100, 170), partition=1)
    produce(place.kafka.bootstrap_servers, name, [Given(b"broken")])
    settings = place.settings(topics=name, **{"flush.size": "30", "errors.tolerance": "all"})
    del settings["kafka.bootstrap.servers"]
    settings |= {"aws.access.key.id": "${env:CANARY_ID}", "aws.secret.access.key": "${env:CANARY_KEY}"}
    settings |= {"s3.proxy.password": "canary-3"}
    worker = place.folder / "worker.properties"
    worker.write_text(f"bootstrap.servers={place.kafka.bootstrap_servers}\n", encoding="utf-8")
    arguments = ("--worker", str(worker), "--available-now", "--flush")
    with place.sink(settings, *arguments, CANARY_ID="canary-1", CANARY_KEY="canary-2") as process:
        assert process.wait() == 0, process.output()
    rounds = events(process, "round")
    assert sum(line["written"] for line in rounds) == 170
    assert sum(line["dead_letters"] for line in rounds) == 1
    assert place.numbers() == list(range(170))
    state = [place.bucket.get(key) for key in place.bucket.listing() if key.startswith("_kafka_s3/")]
    assert b"canary" not in b"".join(state) + process.output().encode()


def test_a_running_sink_takes_up_topics_and_partitions_and_sigterm_ends_it_cleanly(place: Place, topic: Topic) -> None:
    name = topic("growing")
    settings = place.settings(**{
        "topics.regex": f"{name}(-late)?", "flush.size": "10", "topics.refresh.interval.ms": "300", "poll.interval.ms": "100",
    })  # fmt: skip
    place.send(name, range(10))
    with place.sink(settings) as process:
        eventually(lambda: place.numbers() == list(range(10)), what=process.output)
        place.kafka.create_topic(f"{name}-late", 1)
        place.send(f"{name}-late", range(10, 20))
        eventually(lambda: place.numbers() == list(range(20)), what=process.output)
        admin = AdminClient({"bootstrap.servers": place.kafka.bootstrap_servers})
        for future in admin.create_partitions([NewPartitions(name, 2)]).values():
            future.result()
        eventually(lambda: len(admin.list_topics(name).topics[name].partitions) == 2)
        place.send(name, range(20, 30), partition=1)
        eventually(lambda: place.numbers() == list(range(30)), what=process.output)
        process.signal(signal.SIGTERM)
        assert process.wait(30) == 0, process.output()
    assert any("partition=1" in key for key in place.bucket.data_keys())


def test_lost_offsets_stop_the_sink_with_a_precise_text_or_become_a_gap(place: Place, topic: Topic) -> None:
    name = topic("short")
    settings = place.settings(topics=name, **{"flush.size": "10"})
    place.send(name, range(15))
    with place.sink(settings, "--available-now") as process:
        assert process.wait() == 0, process.output()
    place.send(name, range(15, 40))
    admin = AdminClient({"bootstrap.servers": place.kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(name, 0, 13)]).values():
        future.result()
    with place.sink(settings, "--available-now") as process:
        assert process.wait() == 1
    assert f"{name}-0: wanted 10, available from 13" in process.output()
    assert "Traceback" not in process.output()
    with place.sink(settings, "--available-now", "--flush", "--set", "behavior.on.lost.offsets=gap") as process:
        assert process.wait() == 0, process.output()
    (gap,) = [gap for entry in place.bucket.entries("sink") for gap in entry["gaps"]]
    assert (gap["topic"], gap["from"], gap["to"], gap["cause"]) == (name, 10, 12, "retention")
    assert place.numbers() == [*range(10), *range(13, 40)]


def test_a_bad_record_stops_an_intolerant_sink_which_says_which_one_and_commits_nothing(
    place: Place, topic: Topic
) -> None:
    name = topic("strictly")
    place.send(name, range(12))
    produce(place.kafka.bootstrap_servers, name, [Given(b"{broken")])
    with place.sink(place.settings(topics=name, **{"flush.size": "5"}), "--available-now") as process:
        assert process.wait() == 1
    assert f"{name}-0 offset 12, stage VALUE_CONVERTER" in process.output()
    assert "errors.tolerance=all" in process.output()
    assert "Traceback" not in process.output()
    assert place.bucket.data_keys() == []
