"""How does Joda-Time read zones, patterns and instants? The time arithmetic that object names depend on (SEMANTICS A4.2, A4.3, A5)."""

from kafka_s3.connect.joda.instants import parse_instant, parse_timestamp
from kafka_s3.connect.joda.pattern import Pattern, check_pattern
from kafka_s3.connect.joda.zones import to_local, zone

__all__ = [
    "Pattern",
    "check_pattern",
    "parse_instant",
    "parse_timestamp",
    "to_local",
    "zone",
]
