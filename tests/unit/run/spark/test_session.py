"""What does the local Spark session pass to its JVM?"""

from __future__ import annotations

import pytest

from kafka_s3.run.spark.session import ARROW, COLLECTOR, COMPILER, HEAP, java_options


@pytest.mark.parametrize(
    ("variable", "options", "reported"),
    [
        ("PATH", "-XX:+UseG1GC", f"{COLLECTOR} {COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseStringDeduplication", f"{COLLECTOR} {COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xmx2g -XX:+UseG1GC", f"{COMPILER} {HEAP} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC", f"{COMPILER} {HEAP} {ARROW}"),
        ("_JAVA_OPTIONS", "-XX:+UseSerialGC -Xmx1g", f"{COMPILER} {HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-XX:-TieredCompilation", f"{COLLECTOR} {HEAP} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:+UseZGC -XX:TieredStopAtLevel=1", f"{HEAP} {ARROW}"),
        ("JDK_JAVA_OPTIONS", "-Xms1g", f"{COLLECTOR} {COMPILER} {ARROW}"),
        ("JAVA_TOOL_OPTIONS", "-XX:InitialRAMPercentage=50", f"{COLLECTOR} {COMPILER} {ARROW}"),
    ],
)
def test_collector_compilers_and_first_heap_that_the_user_chose_stay(
    variable: str, options: str, reported: str
) -> None:
    """With a second collector a JVM does not start."""
    assert java_options({variable: options}) == reported
