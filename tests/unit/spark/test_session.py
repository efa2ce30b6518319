"""What is the local Spark session told about its JVM?"""

from __future__ import annotations

import pytest

from kafka_s3.spark.session import ARROW, COLLECTOR, java_options


@pytest.mark.parametrize(
    ("variable", "options", "told"),
    [
        ("PATH", "-XX:+UseG1GC", f"{COLLECTOR} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseStringDeduplication", f"{COLLECTOR} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseG1GC", ARROW),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC", ARROW),
        ("_JAVA_OPTIONS", "-XX:+UseSerialGC -Xmx1g", ARROW),
    ],
)
def test_a_collector_that_the_user_chose_stays(variable: str, options: str, told: str) -> None:
    """Told of a second one, a JVM does not start."""
    assert java_options({variable: options}) == told
