"""How does Joda-Time read zones, patterns and instants? The time arithmetic that object names depend on (SEMANTICS A4.2, A4.3, A5)."""

from kafka_s3.naming.joda.buckets import BucketNames, bucket_start
from kafka_s3.naming.joda.instants import parse_instant, parse_timestamp
from kafka_s3.naming.joda.pattern import Pattern, check_pattern
from kafka_s3.naming.joda.zones import offsets_ms, to_local, zone

__all__ = [
    "BucketNames",
    "Pattern",
    "bucket_start",
    "check_pattern",
    "offsets_ms",
    "parse_instant",
    "parse_timestamp",
    "to_local",
    "zone",
]
