"""Kafka topics to S3 objects on Spark, exactly once, with the objects of the Kafka Connect S3 sinks."""

__version__ = "0.1.0"
