"""Start Spark's Python workers from a process that has already imported what a task needs.

Spark ends workers that were idle for a minute and forks new ones from this process. Importing costs each of them two seconds of CPU.
`spark.python.daemon.module` names this module in local sessions.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from typing import Final

from kafka_s3.connect.records.heap import keep_memory

NEEDED: Final = (
    "kafka_s3.run.spark.reader_choice",
    "kafka_s3.run.spark.task",
    "kafka_s3.connect.registry.client",
    "kafka_s3.connect.converters.json_loops",
    "kafka_s3.connect.converters.avro_loops",
    "kafka_s3.connect.records.loops",
    "pyarrow.parquet",
    "numpy.ma",
    "pyspark.worker",
)
"""Loops are compiled when they are imported, and look for numpy's masked arrays when they are first called."""
READER: Final = "kafka_s3.kafka.reader.reader"
"""It compiles its loops when it is imported. If it cannot be imported, Spark reads (the trial of `kafka.reader=auto` logs why)."""


def load_data() -> None:
    """Load S3's models and, with the first array, what pyarrow loads then, so that no worker has to."""
    from pyarrow import array

    from kafka_s3.store.credentials import load_models

    load_models()
    array([0])


def leave_archives() -> None:
    """Take Spark's copy of pyspark in zip files off the path: the installed package is the same.

    Before each task Spark's worker drops import caches, and Python would read the directory of each archive again.
    """
    sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()


def main() -> None:
    """Serve Spark until the executor ends."""
    leave_archives()
    keep_memory()  # before Arrow starts threads, which would get an arena of their own
    gc.disable()  # imports leave no garbage, and looking for it takes a quarter of the time
    for name in NEEDED:
        importlib.import_module(name)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        importlib.import_module(READER)
    load_data()
    serve = importlib.import_module("pyspark.daemon").manager
    gc.freeze()  # what all workers share is never garbage
    gc.enable()
    serve()


if __name__ == "__main__":
    main()
