"""What `make matrix` runs with each Spark, copied as `test_stream.py` beside `examples/`: a stream, and a DataFrame with times."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from kafka_s3 import read_config
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.model.files import Reason
from kafka_s3.run.spark.launch import sink_on_spark
from kafka_s3.run.wiring.running import run_until_drained
from kafka_s3.spark import read_committed, register
from kafka_s3_testing.records import Record
from kafka_s3_testing.sink_run import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3_testing.services.kafka import EmbeddedKafka
    from kafka_s3_testing.services.s3 import EmbeddedS3


def test_a_stream_goes_on_behind_its_checkpoint_and_a_dead_letter_has_its_time(
    kafka_broker: EmbeddedKafka, s3_server: EmbeddedS3, s3_bucket: str, spark: SparkSession, tmp_path: Path
) -> None:
    texts = {
        **read_config("examples/s3-sink.json").texts,
        "kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "s3.bucket.name": s3_bucket, "store.url": s3_server.endpoint_url,
        "s3.region": "us-east-1", "aws.access.key.id": s3_server.environment["AWS_ACCESS_KEY_ID"],
        "aws.secret.access.key": s3_server.environment["AWS_SECRET_ACCESS_KEY"],
    }  # fmt: skip
    settings = resolved(validate(texts).usable())
    table = str(tmp_path / "table")
    for n in range(3):
        produce(kafka_broker, {"orders": [b'{"n": %d}' % n]})
        run_until_drained(sink_on_spark(settings, spark), settings, Event(), close=Reason.FLUSH_NOW)
        stream = spark.readStream.format(register(spark, texts)).options(topic="orders", maxEntriesPerTrigger=1)
        writer = stream.schema("n long").load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.format("parquet").start(table)
        query.processAllAvailable()
        query.stop()
        assert sorted(row.n for row in spark.read.parquet(table).collect()) == list(range(n + 1))
    produce(kafka_broker, {"orders": [Record(b"{broken", timestamp_ms=1_705_312_800_000)]})
    run_until_drained(sink_on_spark(settings, spark), settings, Event(), close=Reason.FLUSH_NOW)
    [letter] = (
        read_committed(spark, texts, "orders", with_dead_letters="only").selectExpr("string(timestamp)").collect()
    )
    assert letter[0] == "2024-01-15 10:00:00"
