"""What do the tasks behind a sink's learn of its run, in a job of Databricks? The heartbeat's numbers, as task values."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from kafka_s3.connect.config.settings import reason_of
from kafka_s3.engine.control.heartbeat import Heartbeat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def task_values(beat: Heartbeat) -> Mapping[str, int | None]:
    """The numbers by their keys: `read`, `written` and `dead_letters` are those of this run's last hour, `lag` of its last look.

    `delay_ms` is how old 95 % of the last commit's records were at most when it was made, None without one.
    """
    return {
        "version": beat.version,
        "lag": sum(beat.lag.values()),
        "read": beat.recent.read,
        "written": beat.recent.written,
        "dead_letters": beat.recent.dead_letters,
        "delay_ms": None if beat.delay is None else beat.delay.slow_ms,
        "open_states": beat.open_states,
        "open_state_bytes": beat.open_state_bytes,
    }


def set_task_values(spark: SparkSession, beat: Heartbeat) -> None:
    """Sets `kafka_s3.<sink>.<number>` for each of them; nothing elsewhere than on Databricks. A refusal is told in the log."""
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return
    try:
        utilities = import_module("pyspark.dbutils").DBUtils(spark)
        for name, number in task_values(beat).items():
            utilities.jobs.taskValues.set(key=f"kafka_s3.{beat.sink}.{name}", value=number)
    except Exception as error:
        _log.warning("The run's numbers could not be set as task values; nothing else is wrong: %s", reason_of(error))
