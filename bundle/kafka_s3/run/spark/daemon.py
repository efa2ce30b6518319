"""From which process do Spark's Python workers come? One that has already imported what a task needs.

Spark ends workers that were idle for a minute, and forks new ones from a process of its own; importing costs each of them two seconds of
CPU, as much as half a million records. `spark.python.daemon.module` names this module where the product is installed beside Spark.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from typing import Final

from kafka_s3.connect.records.heap import keep_memory
from kafka_s3.run.spark.unneeded import forget_archives, release_code, without

NEEDED: Final = (
    "kafka_s3.run.spark.reader_choice", "kafka_s3.run.spark.task", "pyarrow.parquet", "numpy.ma", "kafka_s3.connect.converters.json_loops",
    "kafka_s3.connect.converters.avro_loops", "kafka_s3.connect.records.loops", "pyspark.worker",
)  # fmt: skip
"""Loops are compiled when they are imported, and look for numpy's masked arrays when they are first called."""
READER: Final = "kafka_s3.kafka.reader.reader"
"""It compiles its loops when it is imported. Where it cannot be (the trial of `kafka.reader=auto` logs why), Spark reads."""
REGISTRY: Final = "kafka_s3.connect.registry.client"
WORKERS_FOR: Final = "KAFKA_S3_WORKERS_FOR"
"""The variable that says what workers of a session are for that serves only sinks whose tasks read for themselves: `REGISTRY` or nothing.
Without it they may be for anything.
"""


def load_data() -> None:
    """Does what every worker would do with its first record: with its first array pyarrow loads pandas, where that is installed.

    Where no code of others runs, nobody needs it, and it takes 26 MB: then pyarrow takes it for not installed.
    """
    from pyarrow import array

    from kafka_s3.connect.config.plugins import any_is_offered
    from kafka_s3.store.credentials import load_models

    load_models()
    is_for_anything = WORKERS_FOR not in os.environ or any_is_offered()
    with contextlib.nullcontext() if is_for_anything else without("pandas"):
        array([0])


def main() -> None:
    """Serves Spark until the executor ends."""
    keep_memory()  # before Arrow has threads, whose arena would be their own
    gc.disable()  # among what is being imported there is none, and looking takes a quarter of the time
    for name in NEEDED:
        importlib.import_module(name)
    if os.environ.get(WORKERS_FOR, REGISTRY) == REGISTRY:
        importlib.import_module(REGISTRY)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        importlib.import_module(READER)
    load_data()
    serve = importlib.import_module("pyspark.daemon").manager
    forget_archives()
    release_code()
    keep_memory()  # what has been imported is in use
    gc.freeze()  # what all workers share is never garbage
    gc.enable()
    serve()


if __name__ == "__main__":
    main()
