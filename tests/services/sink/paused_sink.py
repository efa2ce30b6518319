"""`kafka-s3 run CONFIG` that stops itself (SIGSTOP) when its first data entry is in the log and nothing of it is visible yet."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from kafka_s3.cli.main import main
from kafka_s3.run.spark import launch
from kafka_s3.run.wiring.bucket import store_options
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.faults import Fault, FaultyStore, Moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_s3.connect.config.settings import Settings
    from kafka_s3.engine.loop.sink import Sink
    from kafka_s3.model.protocols import Observer

FIRST_DATA_ENTRY = 3
"""A new sink's first entries: its epoch, its first positions, then data."""
launched = launch.sink_on_spark


def pausing(
    settings: Settings,
    spark: SparkSession,
    *,
    observer: Observer | None,
    store: S3Store | None,
    states: launch.MakeStates | None,
) -> Sink:
    """The real sink, with a store that stops the process."""

    def pause(key: str) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    fault = Fault("put_new", pause, Moment.AFTER, FIRST_DATA_ENTRY, lambda key: "/commits/" in key)
    faulty = FaultyStore(store or S3Store(store_options(settings)), [fault])
    return launched(settings, spark, observer=observer, store=faulty, states=states)


if __name__ == "__main__":
    launch.sink_on_spark = pausing  # type: ignore[assignment]
    sys.argv = ["kafka-s3", "run", sys.argv[1], "--available-now", "--flush", "--log-format", "json", "--cores", "2"]
    main()
