"""Fails where a sink is not well: `check_sinks.py CONFIG|FOLDER ...`, the arguments of `kafka-s3 check`."""

from kafka_s3.cli.job import check_sinks

check_sinks()
