"""Compacts the Delta tables of sinks: `maintain_tables.py CONFIG|FOLDER ...`, the arguments of `kafka-s3 delta maintain`."""

from kafka_s3.cli.job import maintain_tables

maintain_tables()
