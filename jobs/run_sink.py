"""The sink as a script, for `spark-submit` and `spark_python_task`: `run_sink.py CONFIG ...`, the arguments of `kafka-s3 run`."""

from kafka_s3.cli.job import run_sink

run_sink()
