"""Which keys does the managed cloud spelling have that differ from the self-managed ones? (SEMANTICS A1.5)."""

from __future__ import annotations

from typing import Final

from kafka_s3.config.option import OneOf, Option, OptionGroup, Range, Type

_TEXT, _GROUP = Type.STRING, OptionGroup.CLOUD
_FORMATS = ("AVRO", "JSON", "BYTES", "PARQUET")
_CODECS = ("", "AVRO - bzip2", "AVRO - deflate", "AVRO - snappy", "BYTES - gzip", "JSON - gzip")
_TEN_MINUTES = 600_000
LEVELS: Final = Range(1, 9)

ROWS: Final = (
    Option("kafka.auth.mode", _TEXT, "KAFKA_API_KEY", "How the brokers know the connector.", _GROUP,
           valid=OneOf(("KAFKA_API_KEY", "SERVICE_ACCOUNT")), not_yet=("SERVICE_ACCOUNT",),
           note="A service account is known inside the managed cloud only: give it an API key."),
    Option("kafka.api.key", _TEXT, None, "User of the Kafka cluster.", _GROUP, required=True, example="${secrets:kafka/api-key}"),
    Option("kafka.api.secret", Type.PASSWORD, None, "Password of the Kafka cluster.", _GROUP, required=True,
           example="${secrets:kafka/api-secret}"),
    Option("aws.access.key.id", _TEXT, None, "Static credentials.", _GROUP, required=True, example="${env:AWS_ACCESS_KEY_ID}"),
    Option("aws.secret.access.key", Type.PASSWORD, None, "Static credentials.", _GROUP, required=True,
           example="${env:AWS_SECRET_ACCESS_KEY}"),
    Option("input.data.format", _TEXT, None, "Stands for value.converter: JSON is the JSON converter with schemas.enable=false.", _GROUP,
           valid=OneOf(("AVRO", "JSON_SR", "PROTOBUF", "JSON", "BYTES")), required=True),
    Option("output.data.format", _TEXT, None, "Stands for format.class.", _GROUP, valid=OneOf(_FORMATS), required=True),
    Option("compression.codec", _TEXT, "", "Stands for s3.compression.type or avro.codec; must match output.data.format.", _GROUP,
           valid=OneOf(_CODECS)),
    Option("s3.compression.level", Type.INT, "6", "Level of gzip: 1 to 6 fast (ISA-L), 7 to 9 small (zlib).", _GROUP, valid=LEVELS),
    Option("time.interval", _TEXT, None, "Stands for TimeBasedPartitioner with buckets of a day or an hour.", _GROUP,
           valid=OneOf(("DAILY", "HOURLY")), required=True),
    Option("path.format", _TEXT, None, "Joda-Time pattern; by default `'year'=YYYY/'month'=MM/'day'=dd`, and `/'hour'=HH` if hourly.",
           _GROUP),
    Option("flush.size", Type.INT, "1000", "As self-managed, with a default.", _GROUP),
    Option("rotate.schedule.interval.ms", Type.LONG, "-1", "As self-managed; -1 is off.", _GROUP, valid=Range(_TEN_MINUTES),
           example="3600000"),
    Option("rotate.interval.ms", Type.LONG, None, "As self-managed; by default the length of time.interval.", _GROUP,
           valid=Range(_TEN_MINUTES)),
    Option("timestamp.field", _TEXT, "", "Field that holds the time; without it the Kafka record's timestamp is used.", _GROUP),
    Option("timezone", _TEXT, "UTC", "As self-managed, with a default.", _GROUP),
    Option("locale", _TEXT, "en", "As self-managed, with a default.", _GROUP),
    Option("tasks.max", Type.INT, None, "As self-managed, but required.", _GROUP, valid=Range(1, 2147483647), required=True, example="1"),
)  # fmt: skip
