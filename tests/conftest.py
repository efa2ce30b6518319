"""What every process of the run sees: one time zone, this Python, and never the user's own AWS account."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support.examples import examples

# Before anything starts a JVM or an AWS client: every process of the run sees the same time zone, and never the user's own AWS account.
os.environ |= {
    "TZ": "UTC",
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",  # no JVM lives long enough to compile well
    "PYSPARK_PYTHON": sys.executable,  # Spark's workers need the Python that has the product
    "AWS_ACCESS_KEY_ID": "kafka-s3-local",
    "AWS_SECRET_ACCESS_KEY": "kafka-s3-local-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
    os.environ.pop(name, None)
time.tzset()

pytest_plugins = [
    "kafka_s3_testing.plugin"
]  # as users have it from the wheel; named, for a checkout need not be installed anew

# No test fails because the machine is busy, hence no deadline.
hypothesis.settings.register_profile("kafka-s3", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("kafka-s3")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays to the end: nobody looks for garbage among it, neither now nor while tests run.

    Looks are seldom, too: they took a tenth of the unit tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """pyspark leaves the sockets to its JVM to the garbage collector, which may come in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
