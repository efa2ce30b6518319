"""Run a task as the platform does: `python python_task.py FILE|PACKAGE:ENTRY_POINT PARAMETERS...` where the wheel is installed.

It executes the file as the main module of a process that is there already, or calls the entry point, with the parameters in sys.argv.
With the variable SESSION a
session of Spark is there before, and must be there after. A task that leaves with SystemExit has failed, whatever its code.
The platform's utilities are there, and say what is set as a task value.
"""

import os
import runpy
import sys
from importlib.metadata import distribution
from types import ModuleType, SimpleNamespace


def _report(key: str, value: object) -> None:
    print(f"task value {key} = {value}", flush=True)


utilities = ModuleType("pyspark.dbutils")
utilities.DBUtils = lambda spark: SimpleNamespace(jobs=SimpleNamespace(taskValues=SimpleNamespace(set=_report)))
sys.modules["pyspark.dbutils"] = utilities

file, *parameters = sys.argv[1:]

spark = None
if "SESSION" in os.environ:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
sys.argv = [file, *parameters]
sys.path.remove(sys.path[0])  # neither this file's folder nor that of the task is promised
try:
    if file.endswith(".py"):
        runpy.run_path(file, run_name="__main__")
    else:
        package, _, name = file.partition(":")
        [entry_point] = [one for one in distribution(package).entry_points if one.name == name]
        entry_point.load()()
except SystemExit as end:
    print(f"the task has left with {end.code}", file=sys.stderr)
    sys.exit(70)
if spark is not None:
    print(f"after the task: {spark.range(3).count()} rows", flush=True)
    spark.stop()
