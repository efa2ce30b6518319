"""What does a platform do with a `python_wheel_task`? `python wheel_task.py PACKAGE ENTRY_POINT PARAMETERS...` where the wheel is.

It finds the entry point in the installed package and calls it with the parameters. With the variable SESSION a session of Spark is there
before, and must be there after. A task that leaves with SystemExit has failed, whatever its code.
"""

import os
import sys
from importlib.metadata import distribution

package, entry_point, *parameters = sys.argv[1:]
(found,) = (one for one in distribution(package).entry_points if one.name == entry_point)

spark = None
if "SESSION" in os.environ:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
sys.argv = [entry_point, *parameters]
try:
    found.load()()
except SystemExit as end:
    print(f"the task has left with {end.code}", file=sys.stderr)
    sys.exit(70)
if spark is not None:
    print(f"after the task: {spark.range(3).count()} rows", flush=True)
    spark.stop()
