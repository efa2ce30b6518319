"""From which process do Spark's Python workers come? One that has already imported what a task needs.

Spark ends workers that were idle for a minute, and forks new ones from a process of its own; importing costs each of them two seconds of
CPU, as much as half a million records. `spark.python.daemon.module` names this module where the product is installed beside Spark.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from typing import Final

NEEDED: Final = (
    "kafka_s3.run.spark.task", "kafka_s3.connect.registry.client", "pyarrow.parquet", "kafka_s3.connect.converters.json_loops",
    "kafka_s3.connect.converters.avro_loops", "kafka_s3.connect.records.loops",
)  # fmt: skip
"""Loops are compiled when they are imported."""
READER: Final = "kafka_s3.kafka.reader.reader"
"""It compiles its loops when it is imported. Where it cannot be (the trial of `kafka.reader=auto` logs why), Spark reads."""


def load_data() -> None:
    """Does what every worker would do with its first record: with its first array pyarrow loads pandas, where that is installed."""
    from pyarrow import array

    from kafka_s3.store.credentials import load_models

    load_models()
    array([0])


def main() -> None:
    """Serves Spark until the executor ends."""
    gc.disable()  # among what is being imported there is none, and looking takes a quarter of the time
    for name in NEEDED:
        importlib.import_module(name)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        importlib.import_module(READER)
    load_data()
    gc.freeze()  # what all workers share is never garbage
    gc.enable()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
