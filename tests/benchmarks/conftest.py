"""The services that every benchmark runs on, the broker anew for each: its topics are the benchmark's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.benchmarks.support import running_broker, running_objects


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with running_broker() as running:
        yield running


@pytest.fixture(scope="module")
def objects() -> Iterator[EmbeddedS3]:
    with running_objects() as server:
        yield server
