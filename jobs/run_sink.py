"""The sink as a job: `spark-submit jobs/run_sink.py CONFIG [--available-now] [--flush] ...`, the arguments of `kafka-s3 run`."""

import sys

from kafka_s3.cli.main import main

sys.argv.insert(1, "run")
main()
