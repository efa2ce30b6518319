"""What does the local Spark session pass to its JVM?"""

from __future__ import annotations

import pytest

from kafka_s3.run.spark.session import ARROW, COLLECTOR, COMPILER, java_options


@pytest.mark.parametrize(
    ("variable", "options", "reported"),
    [
        ("PATH", "-XX:+UseG1GC", f"{COLLECTOR} {COMPILER} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseStringDeduplication", f"{COLLECTOR} {COMPILER} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseG1GC", f"{COMPILER} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC", f"{COMPILER} {ARROW}"),
        ("_JAVA_OPTIONS", "-XX:+UseSerialGC -Xmx1g", f"{COMPILER} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-XX:-TieredCompilation", f"{COLLECTOR} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC -XX:TieredStopAtLevel=1", ARROW),
    ],
)
def test_collector_and_compilers_that_the_user_chose_stay(variable: str, options: str, reported: str) -> None:
    """Told of a second collector, a JVM does not start."""
    assert java_options({variable: options}) == reported
