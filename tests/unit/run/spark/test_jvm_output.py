from __future__ import annotations

import logging
import os

import pytest

from kafka_s3.run.spark.session import into_log, is_worth_logging
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector\n",
        "NOTE: Picked up JDK_JAVA_OPTIONS: -XX:TieredStopAtLevel=1\n",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n",
        'Setting default log level to "WARN".\n',
        "26/11/22 09:02:45 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...\n",
        "\n",
    ],
)
def test_what_every_start_says_is_not_reported(line: str) -> None:
    assert not is_worth_logging(line)


def test_what_is_written_to_the_descriptor_is_reported_by_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with into_log() as lines:
        os.write(
            lines, b"WARNING: Using incubator modules: jdk.incubator.vector\n26/11/22 09:02:45 ERROR Executor: dead\n"
        )
    eventually(lambda: bool(caplog.records), what=lambda: "nothing is told")
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, "26/11/22 09:02:45 ERROR Executor: dead")
    ]
