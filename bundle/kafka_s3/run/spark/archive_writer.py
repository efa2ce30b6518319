"""How are Spark's classes written down? A session does what sinks do, and its JVM, whose options say so, writes its classes at its end.

python -m kafka_s3.run.spark.archive_writer OPTIONS     (see `class_archive`)
"""

from __future__ import annotations

import sys
from typing import Final

from kafka_s3.run.spark.session import end_jvm, session_with

WRITTEN_S: Final = 180


def write(options: str) -> None:
    """Runs a session of this process with these options of the JVM, and waits for the JVM's end."""
    spark = session_with(options)
    rows = spark.range(10).selectExpr(
        "id", "cast(id as string) as text", "array(id) as many", "current_timestamp() as at"
    )
    rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    end_jvm(gateway, within_s=WRITTEN_S)


if __name__ == "__main__":
    write(sys.argv[1])
