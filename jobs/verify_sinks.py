"""Proves that every record is there once: `verify_sinks.py CONFIG|FOLDER ...`, the arguments of `kafka-s3 verify`."""

from kafka_s3.cli.job import verify_sinks

verify_sinks()
