"""A partitioner of the user's own, found by its entry point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kafka_s3.connect.config.validate import validate
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.run.wiring.pipeline import make_pipeline
from tests.support.entry_points import install

MODULE = """
import numpy as np
from kafka_s3.engine.task.partitioning.partitioners import Encoded

class EvenOdd:
    uses_time = False

    def __init__(self, settings):
        self.name = settings.text("topics.dir")

    def encode(self, topic_partition, run, times):
        return Encoded((run.offsets % 2).astype(np.int32), [f"{self.name}=even", f"{self.name}=odd"])
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "even_odd = even_odd_partitioner:EvenOdd"
    install(
        tmp_path, monkeypatch, module="even_odd_partitioner", source=MODULE, group="kafka_s3.partitioners", entry=entry
    )


CONFIG = {
    "name": "own", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t", "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage", "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    "kafka.bootstrap.servers": "k:9092", "partitioner.class": "even_odd",
}  # fmt: skip


@pytest.mark.usefixtures("installed")
def test_a_registered_partitioner_is_named_in_partitioner_class() -> None:
    import pyarrow as pa

    pipeline = make_pipeline(validate(CONFIG).usable())
    run = Run(np.arange(4), np.zeros(4, np.int64), JsonText(pa.array([b"{}"] * 4, pa.binary()), None), None)
    encoded = pipeline.partitioner.encode(TopicPartition("t", 0), run, np.zeros(4, np.int64))
    assert [encoded.names[code] for code in encoded.codes] == ["topics=even", "topics=odd"] * 2


def test_an_unknown_partitioner_is_refused_with_the_known_names() -> None:
    problems = validate(CONFIG).problems
    assert [problem.key for problem in problems] == ["partitioner.class"]
    assert "field, header" in problems[0].remedy
