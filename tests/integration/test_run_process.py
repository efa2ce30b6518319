"""`kafka-s3 run` as its users start it: a process with a configuration file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kafka_s3.embedded.kafka import EmbeddedKafka
from kafka_s3.embedded.s3 import EmbeddedS3
from tests.integration.kafka_and_bucket import Bucket, check_exactly_once, produce, topic_records
from tests.integration.sinks import TOLERANT, config, written
from tests.integration.test_exactly_once import orders

Topic = Callable[..., str]


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kafka_s3", "run", *arguments, "--log-format", "json", "--cores", "2"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def log_lines(err: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


def wait_for(holds: Callable[[], bool], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.3)


def test_available_now_drains_and_logs_a_line_per_round_without_secrets(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic("orders", 2)
    produce(kafka.bootstrap_servers, name, orders(0, 200), partitions=2)
    settings = config(kafka, s3, bucket=bucket, topics=name, **TOLERANT, **{"flush.size": "30"})
    del settings["kafka.bootstrap.servers"]
    settings |= {"aws.access.key.id": "${env:CANARY_ID}", "aws.secret.access.key": "${env:CANARY_KEY}"}
    worker = tmp_path / "worker.properties"
    worker.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\n", encoding="utf-8")
    arguments = (written(tmp_path, settings), "--worker", str(worker), "--available-now", "--flush")
    with start(*arguments, CANARY_ID="canary-id-1", CANARY_KEY="canary-key-2") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-3000:]
    rounds = [line for line in log_lines(err) if line["event"] == "round"]
    assert sum(int(str(line["written"])) for line in rounds) == 196
    assert sum(int(str(line["dead_letters"])) for line in rounds) == 4
    seen = Bucket(s3.endpoint_url, bucket)
    check_exactly_once(seen, topic_records(kafka.bootstrap_servers, name, partitions=2))
    everything = (
        out + err + "".join(seen.get(key).decode("latin-1") for key in seen.listing() if key.startswith("_kafka_s3/"))
    )
    assert "canary" not in everything


def test_a_running_sink_takes_up_new_topics_and_partitions_and_stops_cleanly(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic("grow-a")
    prefix = name.rsplit("-", 2)[0]
    settings = config(kafka, s3, bucket=bucket, topics="", **TOLERANT, **{"flush.size": "10"})
    settings |= {
        "name": f"sink-{name}", "topics.regex": f"{prefix}-[ab]-{name.rsplit('-', 1)[1]}.*",
        "topics.refresh.interval.ms": "500", "poll.interval.ms": "200",
    }  # fmt: skip
    del settings["topics"]
    seen = Bucket(s3.endpoint_url, bucket)
    produce(kafka.bootstrap_servers, name, orders(0, 12))
    with start(written(tmp_path, settings)) as process:
        try:
            wait_for(lambda: any(f"/{name}/" in key for key in seen.data_keys()))
            late = name.replace("-a-", "-b-")
            kafka.create_topic(late, 1)
            produce(kafka.bootstrap_servers, late, orders(100, 12))
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            for future in admin.create_partitions([NewPartitions(name, 2)]).values():
                future.result()
            wait_for(lambda: any(f"/{late}/" in key for key in seen.data_keys()))
            time.sleep(1.0)
            produce(kafka.bootstrap_servers, name, orders(200, 30), partitions=2)
            wait_for(lambda: any("partition=1" in key for key in seen.data_keys()))
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err[-3000:]
    assert any(line["event"] == "started" for line in log_lines(err))


def test_lost_offsets_stop_the_sink_with_a_precise_text_or_become_a_gap(
    kafka: EmbeddedKafka, s3: EmbeddedS3, bucket: str, topic: Topic, tmp_path: Path
) -> None:
    name = topic("short")
    settings = config(
        kafka, s3, bucket=bucket, topics=name, **{"flush.size": "10", "consumer.override.auto.offset.reset": "earliest"}
    )
    path = written(tmp_path, settings)
    produce(kafka.bootstrap_servers, name, [json.dumps({"n": n}).encode() for n in range(15)])
    assert finished(path)[0] == 0
    produce(kafka.bootstrap_servers, name, [json.dumps({"n": n}).encode() for n in range(15, 40)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(name, 0, 13)]).values():
        future.result()
    code, err = finished(path)
    assert code == 1
    assert f"{name}-0: wanted 10, available from 13" in err
    assert "Traceback" not in err
    code, err = finished(path, "--set", "behavior.on.lost.offsets=gap", "--flush")
    assert code == 0, err[-3000:]
    seen = Bucket(s3.endpoint_url, bucket)
    (gap,) = [gap for entry in seen.entries() for gap in entry["gaps"]]
    assert (gap["topic"], gap["from"], gap["to"], gap["cause"]) == (name, 10, 12, "retention")
    numbers = sorted(row["n"] for key in seen.data_keys() for row in seen.rows(key))
    assert numbers == [*range(10), *range(13, 40)]


def finished(path: str, *more: str) -> tuple[int, str]:
    with start(path, "--available-now", *more) as process:
        _, err = process.communicate(timeout=120)
    return process.returncode, err
