"""Which keys does the managed cloud spelling have that differ from the self-managed ones? (SEMANTICS A1.5)."""

from __future__ import annotations

from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.options.converters import Strategy
from kafka_s3.connect.config.options.forms import BrokerList
from kafka_s3.connect.config.valid_values import OneOf, Range

_TEXT, _GROUP = Type.STRING, OptionGroup.CLOUD
_IDLE, _NOT_YET = OptionStatus.INFORMATIONAL, OptionStatus.NOT_YET
_FORMATS = ("AVRO", "JSON", "BYTES", "PARQUET")
_INPUTS = ("AVRO", "JSON_SR", "PROTOBUF", "JSON", "BYTES", "STRING")
SERVICE_ACCOUNT: Final = "SERVICE_ACCOUNT"
ACCESS_KEYS: Final = "Access Keys"
IAM_ROLES: Final = "IAM Roles"
_PLATFORM = "It is known inside the managed cloud only."
_CODECS = ("", "AVRO - bzip2", "AVRO - deflate", "AVRO - snappy", "BYTES - gzip", "JSON - gzip")
_TEN_MINUTES = 600_000
LEVELS: Final = Range(1, 9)

ROWS: Final = (
    Option("kafka.auth.mode", _TEXT, "KAFKA_API_KEY", "How the brokers know the connector.", _GROUP,
           valid=OneOf(("KAFKA_API_KEY", SERVICE_ACCOUNT))),
    Option("kafka.service.account.id", _TEXT, None, "The service account.", _GROUP, status=_IDLE,
           note=f"{_PLATFORM} Its login is an API key in kafka.api.key and kafka.api.secret, or that of the worker file."),
    Option("kafka.api.key", _TEXT, None, "User of the Kafka cluster, unless the worker file has the login.", _GROUP, required=True,
           example="${secrets:kafka/api-key}"),
    Option("kafka.api.secret", Type.PASSWORD, None, "Password of the Kafka cluster.", _GROUP, required=True,
           example="${secrets:kafka/api-secret}"),
    Option("kafka.endpoint", _TEXT, None, "Stands for kafka.bootstrap.servers.", _GROUP, valid=BrokerList()),
    Option("authentication.method", _TEXT, ACCESS_KEYS, "Static credentials, or those of the machine: the managed cloud's roles are not "
           "known outside of it.", _GROUP, valid=OneOf((ACCESS_KEYS, IAM_ROLES))),
    Option("provider.integration.id", _TEXT, None, "The managed cloud's integration.", _GROUP, status=_IDLE, note=_PLATFORM),
    Option("aws.access.key.id", _TEXT, None, "Static credentials.", _GROUP, required=True, example="${env:AWS_ACCESS_KEY_ID}"),
    Option("aws.secret.access.key", Type.PASSWORD, None, "Static credentials.", _GROUP, required=True,
           example="${env:AWS_SECRET_ACCESS_KEY}"),
    Option("input.data.format", _TEXT, None, "Stands for value.converter: JSON is the JSON converter, without envelopes unless "
           "value.converter.schemas.enable=true.", _GROUP,
           valid=OneOf(_INPUTS), required=True),
    Option("input.key.format", _TEXT, "STRING", "Stands for key.converter, likewise; with the values' schema registry.", _GROUP,
           valid=OneOf(_INPUTS)),
    Option("output.data.format", _TEXT, None, "Stands for format.class.", _GROUP, valid=OneOf(_FORMATS), required=True),
    Option("output.keys.format", _TEXT, "AVRO", "Stands for keys.format.class.", _GROUP, valid=OneOf(_FORMATS)),
    Option("output.headers.format", _TEXT, "AVRO", "Stands for headers.format.class.", _GROUP, valid=OneOf(_FORMATS)),
    Option("compression.codec", _TEXT, "", "Stands for s3.compression.type or avro.codec; must match output.data.format.", _GROUP,
           valid=OneOf(_CODECS)),
    Option("s3.compression.level", Type.INT, "6", "Level of gzip: 1 to 6 fast (ISA-L), 7 to 9 small (zlib).", _GROUP, valid=LEVELS),
    Option("time.interval", _TEXT, None, "Stands for TimeBasedPartitioner with buckets of a day or an hour; not required "
           "with another partitioner.class.", _GROUP, valid=OneOf(("DAILY", "HOURLY")), required=True),
    Option("path.format", _TEXT, None, "Joda-Time pattern; by default `'year'=YYYY/'month'=MM/'day'=dd`, and `/'hour'=HH` if hourly.",
           _GROUP),
    Option("flush.size", Type.INT, "1000", "As self-managed, with a default.", _GROUP),
    Option("rotate.schedule.interval.ms", Type.LONG, "-1", "As self-managed; -1 is off.", _GROUP, valid=Range(_TEN_MINUTES),
           example="3600000"),
    Option("rotate.interval.ms", Type.LONG, None, "As self-managed; by default the length of time.interval.", _GROUP,
           valid=Range(_TEN_MINUTES)),
    Option("timestamp.field", _TEXT, "", "Field that holds the time; without it the Kafka record's timestamp is used.", _GROUP),
    Option("timezone", _TEXT, "UTC", "As self-managed, with a default; PST and the like stand for the zones they mean.", _GROUP),
    Option("locale", _TEXT, "en", "As self-managed, with a default.", _GROUP),
    Option("tasks.max", Type.INT, None, "As self-managed, but required.", _GROUP, valid=Range(1, 2147483647), required=True, example="1"),
    Option("subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of values' and keys' schemas.", _GROUP, valid=Strategy()),
    Option("value.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of values' schemas.", _GROUP, valid=Strategy()),
    Option("key.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of keys' schemas.", _GROUP, valid=Strategy()),
    Option("max.poll.records", Type.INT, "500", "Stands for consumer.override.max.poll.records.", _GROUP, valid=Range(1, 2147483647)),
    Option("max.poll.interval.ms", Type.INT, "300000", "Stands for consumer.override.max.poll.interval.ms.", _GROUP,
           valid=Range(1, 2147483647)),
    Option("schema.context.name", _TEXT, "default", "Context of the schema registry.", _GROUP, status=_NOT_YET,
           note="Write the context into the address: value.converter.schema.registry.url=https://host/contexts/.NAME."),
    Option("csfle.enabled", Type.BOOLEAN, "false", "Decrypt fields that clients have encrypted.", _GROUP, status=_NOT_YET,
           note="Encrypted fields cannot be decrypted here."),
    Option("csfle.onFailure", _TEXT, "FAIL", "What happens to a record with a field that cannot be decrypted.", _GROUP, status=_IDLE,
           note="It goes with csfle.enabled."),
    Option("sr.service.account.id", _TEXT, "", "The service account that knows the keys of encrypted fields.", _GROUP, status=_IDLE,
           note=_PLATFORM),
    Option("auto.restart.on.user.error", Type.BOOLEAN, "true", "Start again after an error.", _GROUP, status=_IDLE,
           note="Whoever starts the sink starts it again."),
    Option("cloud.environment", _TEXT, "", "The platform's own.", _GROUP, status=_IDLE, note=_PLATFORM),
    Option("cloud.provider", _TEXT, "", "The platform's own.", _GROUP, status=_IDLE, note=_PLATFORM),
    Option("kafka.region", _TEXT, "", "The platform's own.", _GROUP, status=_IDLE, note=_PLATFORM),
)  # fmt: skip
