"""Why does a Spark of the tests start fast? Its JVM maps Spark's classes from an archive, rather than read and check 13,000 of them again.

python -m tests.support.class_archive     (`make test` calls it once for an environment)

A short session costs two thirds of the CPU with it. A JVM to which the archive does not apply, because its Java or its jars are others,
goes on without it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
WRITTEN_S: Final = 120


def use() -> None:
    """Has the Sparks that this process and its children start take the archive, if there is one."""
    if ARCHIVE.exists():
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"


def make() -> None:
    """Lets a session do what tests do, and its JVM write down the classes that it has loaded."""
    from kafka_s3.spark.session import local_session

    written = ARCHIVE.with_suffix(".new")
    written.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={written} -Xlog:disable"
    spark = local_session(name="class archive", cores="2")
    rows = spark.range(10).selectExpr(
        "id", "cast(id as string) as text", "array(id) as many", "current_timestamp() as at"
    )
    rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.proc.stdin.close()  # which ends the JVM; it writes the archive then
    gateway.proc.wait(WRITTEN_S)
    written.rename(ARCHIVE)


if __name__ == "__main__":
    make()
