"""Aborts what crashed tasks left: `sweep_sinks.py CONFIG|FOLDER ...`, the arguments of `kafka-s3 sweep`."""

from kafka_s3.cli.job import sweep_sinks

sweep_sinks()
