"""What do the benchmarks stand on? Their sizes, a broker, and a fast S3."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3, ServerProgram
from tests.support.certificates import own_certificate

QUICK = os.environ.get("KAFKA_S3_BENCH_QUICK") == "1"
RECORDS = int(os.environ.get("KAFKA_S3_BENCH_RECORDS", "640000" if QUICK else "4000000"))
ROUNDS = int(os.environ.get("KAFKA_S3_BENCH_ROUNDS", "1" if QUICK else "3"))
SLOW_SHARE = 8 if QUICK else 1
"""Spark's source and plain Spark read so small a part of the records: they take more time than all else together."""
TLS = os.environ.get("KAFKA_S3_BENCH_TLS") == "1"
"""Whether S3 is reached as AWS's is. Where it is, the body of a part is not hashed."""
PARTITIONS = 8
BUCKET = "bench"


@contextmanager
def running_broker() -> Iterator[EmbeddedKafka]:
    """A broker with a small, fixed heap."""
    with EmbeddedKafka(java_options=["-Xms512m", "-Xmx512m", "-XX:+UseSerialGC"]) as running:
        yield running


@contextmanager
def running_objects(access_log: Path | None = None) -> Iterator[EmbeddedS3]:
    """versitygw with the bucket, moto where that cannot be had; only versitygw notes its requests, and speaks TLS if that is wanted."""
    tls = own_certificate(Path(tempfile.mkdtemp(prefix="kafka-s3-certificate-"))) if TLS else None
    try:
        server = EmbeddedS3(engine=ServerProgram.VERSITYGW, access_log=access_log, tls=tls)
        server.start()
    except LocalServiceError as error:
        print(f"\nmoto serves the objects: {error}")
        server = EmbeddedS3()
        server.start()
    with server:
        os.environ.update(server.environment | ({} if tls is None else {"AWS_CA_BUNDLE": str(tls[0])}))
        server.create_bucket(BUCKET)
        yield server


def new_topic(broker: EmbeddedKafka, name: str, partitions: int) -> str:
    """Creates a topic that keeps records of any age."""
    broker.create_topic(name, partitions, config={"retention.ms": "-1"})
    return name
