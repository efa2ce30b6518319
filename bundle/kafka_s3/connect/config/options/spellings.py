"""Which keys do the managed cloud and the Block-GZIP spelling have that differ from the self-managed ones? (SEMANTICS A1.5, B1).

`BLOCK_GZIP_OURS` are the keys that only a Block-GZIP sink has in the product's own vocabulary. `connect.config.dialects` says which key
becomes which.
"""

from __future__ import annotations

import codecs
from typing import Final

from kafka_s3.connect.config.option import (
    InvalidValue,
    KnownClass,
    OneOf,
    Option,
    OptionGroup,
    OptionStatus,
    Range,
    Type,
    Value,
    accepts,
    broker_list,
)
from kafka_s3.connect.config.options.converters import strategy_name

_CLOUD = OptionGroup.CLOUD
_GZIP = OptionGroup.BLOCK_GZIP
_LONG, _TEXT, _FLAG = Type.LONG, Type.STRING, Type.BOOLEAN
_IDLE = OptionStatus.INFORMATIONAL


_NOT_YET = OptionStatus.NOT_YET
_FORMATS = ("AVRO", "JSON", "BYTES", "PARQUET")
_INPUTS = ("AVRO", "JSON_SR", "PROTOBUF", "JSON", "BYTES", "STRING")
SERVICE_ACCOUNT: Final = "SERVICE_ACCOUNT"
ACCESS_KEYS: Final = "Access Keys"
IAM_ROLES: Final = "IAM Roles"
_PLATFORM = "It is known inside the managed cloud only."
_CODECS = ("", "AVRO - bzip2", "AVRO - deflate", "AVRO - snappy", "BYTES - gzip", "JSON - gzip")
_TEN_MINUTES = 600_000
LEVELS: Final = Range(1, 9)

CLOUD_ROWS: Final = (
    Option("kafka.auth.mode", _TEXT, "KAFKA_API_KEY", "How the brokers know the connector.", _CLOUD,
           valid=OneOf(("KAFKA_API_KEY", SERVICE_ACCOUNT))),
    Option("kafka.service.account.id", _TEXT, None, "The service account.", _CLOUD, status=_IDLE,
           note=f"{_PLATFORM} Its login is an API key in kafka.api.key and kafka.api.secret, or that of the worker file."),
    Option("kafka.api.key", _TEXT, None, "User of the Kafka cluster, unless the worker file has the login.", _CLOUD, required=True,
           example="${secrets:kafka/api-key}"),
    Option("kafka.api.secret", Type.PASSWORD, None, "Password of the Kafka cluster.", _CLOUD, required=True,
           example="${secrets:kafka/api-secret}"),
    Option("kafka.endpoint", _TEXT, None, "Stands for kafka.bootstrap.servers.", _CLOUD, valid=broker_list),
    Option("authentication.method", _TEXT, ACCESS_KEYS, "Static credentials, or those of the machine: the managed cloud's roles are not "
           "known outside of it.", _CLOUD, valid=OneOf((ACCESS_KEYS, IAM_ROLES))),
    Option("provider.integration.id", _TEXT, None, "The managed cloud's integration.", _CLOUD, status=_IDLE, note=_PLATFORM),
    Option("aws.access.key.id", _TEXT, None, "Static credentials.", _CLOUD, required=True, example="${env:AWS_ACCESS_KEY_ID}"),
    Option("aws.secret.access.key", Type.PASSWORD, None, "Static credentials.", _CLOUD, required=True,
           example="${env:AWS_SECRET_ACCESS_KEY}"),
    Option("input.data.format", _TEXT, None, "Stands for value.converter: JSON is the JSON converter, without envelopes unless "
           "value.converter.schemas.enable=true.", _CLOUD,
           valid=OneOf(_INPUTS), required=True),
    Option("input.key.format", _TEXT, "STRING", "Stands for key.converter, likewise; with the values' schema registry. By default BYTES "
           "where output.keys.format=BYTES.", _CLOUD,
           valid=OneOf(_INPUTS)),
    Option("output.data.format", _TEXT, None, "Stands for format.class.", _CLOUD, valid=OneOf(_FORMATS), required=True),
    Option("output.keys.format", _TEXT, "AVRO", "Stands for keys.format.class.", _CLOUD, valid=OneOf(_FORMATS)),
    Option("output.headers.format", _TEXT, "AVRO", "Stands for headers.format.class.", _CLOUD, valid=OneOf(_FORMATS)),
    Option("compression.codec", _TEXT, "", "Stands for s3.compression.type or avro.codec; must match output.data.format.", _CLOUD,
           valid=OneOf(_CODECS)),
    Option("s3.compression.level", Type.INT, "6", "Level of gzip: 1 to 6 fast (ISA-L), 7 to 9 small (zlib).", _CLOUD, valid=LEVELS),
    Option("time.interval", _TEXT, None, "Stands for TimeBasedPartitioner with buckets of a day or an hour; not required "
           "with another partitioner.class.", _CLOUD, valid=OneOf(("DAILY", "HOURLY")), required=True),
    Option("path.format", _TEXT, None, "Joda-Time pattern; by default `'year'=YYYY/'month'=MM/'day'=dd`, and `/'hour'=HH` if hourly.",
           _CLOUD),
    Option("flush.size", Type.INT, "1000", "As self-managed, with a default.", _CLOUD),
    Option("rotate.schedule.interval.ms", Type.LONG, "-1", "As self-managed; -1 is off.", _CLOUD, valid=Range(_TEN_MINUTES),
           example="3600000"),
    Option("rotate.interval.ms", Type.LONG, None, "As self-managed; by default the length of time.interval.", _CLOUD,
           valid=Range(_TEN_MINUTES)),
    Option("timestamp.field", _TEXT, "", "Field that holds the time; without it the Kafka record's timestamp is used.", _CLOUD),
    Option("timezone", _TEXT, "UTC", "As self-managed, with a default; PST and the like stand for the zones they mean.", _CLOUD),
    Option("locale", _TEXT, "en", "As self-managed, with a default.", _CLOUD),
    Option("tasks.max", Type.INT, None, "As self-managed, but required.", _CLOUD, valid=Range(1, 2147483647), required=True, example="1"),
    Option("subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of values' and keys' schemas.", _CLOUD, valid=strategy_name),
    Option("value.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of values' schemas.", _CLOUD, valid=strategy_name),
    Option("key.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subjects of keys' schemas.", _CLOUD, valid=strategy_name),
    Option("max.poll.records", Type.INT, "500", "Stands for consumer.override.max.poll.records.", _CLOUD, valid=Range(1, 2147483647)),
    Option("max.poll.interval.ms", Type.INT, "300000", "Stands for consumer.override.max.poll.interval.ms.", _CLOUD,
           valid=Range(1, 2147483647)),
    Option("schema.context.name", _TEXT, "default", "Context of the schema registry.", _CLOUD, status=_NOT_YET,
           note="Write the context into the address: value.converter.schema.registry.url=https://host/contexts/.NAME."),
    Option("csfle.enabled", Type.BOOLEAN, "false", "Decrypt fields that clients have encrypted.", _CLOUD, status=_NOT_YET,
           note="Encrypted fields cannot be decrypted here."),
    Option("csfle.onFailure", _TEXT, "FAIL", "What happens to a record with a field that cannot be decrypted.", _CLOUD, status=_IDLE,
           note="It goes with csfle.enabled."),
    Option("sr.service.account.id", _TEXT, "", "The service account that knows the keys of encrypted fields.", _CLOUD, status=_IDLE,
           note=_PLATFORM),
    Option("auto.restart.on.user.error", Type.BOOLEAN, "true", "Start again after an error.", _CLOUD, status=_IDLE,
           note="Whoever starts the sink starts it again."),
    Option("cloud.environment", _TEXT, "", "The platform's own.", _CLOUD, status=_IDLE, note=_PLATFORM),
    Option("cloud.provider", _TEXT, "", "The platform's own.", _CLOUD, status=_IDLE, note=_PLATFORM),
    Option("kafka.region", _TEXT, "", "The platform's own.", _CLOUD, status=_IDLE, note=_PLATFORM),
)  # fmt: skip


_SINKS = "com.spredfast.kafka.connect.s3."
BLOCK_SIZE: Final = "67108864"
BLOCK_GZIP_FORMATS: Final = {
    "text": "text",
    "binary": "binary",
    f"{_SINKS}TrailingDelimiterFormat": "text",
    f"{_SINKS}ByteLengthFormat": "binary",
}
LAYOUTS: Final = {"grouped_by_date": "by_date", "grouped_by_topic": "by_topic"}
_METRICS = "The product's own measurements replace it."


@accepts("a character set, for example UTF-8, UTF-16BE, ISO-8859-1")
def charset(value: Value) -> Value:
    """The name of a character set, as Java writes them."""
    try:
        codecs.lookup(str(value))
        "".encode(str(value))  # codecs that are no character sets are found, too, and refuse this
    except (LookupError, ValueError):
        raise InvalidValue("is not a known character set.", "Write UTF-8, UTF-16BE, UTF-16LE or ISO-8859-1.") from None
    return value


BLOCK_GZIP_ROWS: Final = (
    Option("s3.bucket", _TEXT, None, "The bucket.", _GZIP, required=True, example="lake"),
    Option("local.buffer.dir", _TEXT, None, "Directory of the original's local files. Required in this spelling, and not used.", _GZIP,
           required=True, example="/var/tmp/kafka-connect-s3",
           status=_IDLE, note="Files are buffered in memory, and in Spark's own local directories."),
    Option("s3.prefix", _TEXT, "", "First part of every object's key; `/` is added if missing.", _GZIP),
    Option("s3.endpoint", _TEXT, None, "Address of another endpoint.", _GZIP),
    Option("s3.path_style", _FLAG, "false", "Name the bucket in the path instead of the host name.", _GZIP),
    Option("s3.region", _TEXT, None, "The bucket's region.", _GZIP),
    Option("compressed_block_size", _LONG, BLOCK_SIZE, "Bytes of one block before compression.", _GZIP, valid=Range(1)),
    Option("format", Type.CLASS, "text", "Successor: how records are written.", _GZIP, valid=KnownClass(BLOCK_GZIP_FORMATS)),
    Option("format.value.delimiter", _TEXT, "\n", "Successor, text: written after every value, taken exactly as given.", _GZIP,
           trimmed=False),
    Option("format.value.encoding", _TEXT, "UTF-8", "Successor, text: character set of that delimiter; values are not re-encoded.",
           _GZIP, valid=charset),
    Option("format.key.delimiter", _TEXT, None, "Successor, text: written after every key, taken exactly as given. Keys are written "
           "only if it is set.", _GZIP, trimmed=False),
    Option("format.key.encoding", _TEXT, "UTF-8", "Successor, text: character set of that delimiter.", _GZIP, valid=charset),
    Option("format.include.keys", _FLAG, "false", "Successor, binary: write keys in front of values.", _GZIP),
    Option("compressed_file_size", _LONG, "-1", "Later fork: upload a file when it has more encoded bytes than this; -1 is off.", _GZIP,
           valid=Range(-1)),
    Option("flush.interval.ms", _LONG, "-1", "Later fork: upload a file before a record whose timestamp is this much after that of the "
           "file's first; -1 is off.", _GZIP, valid=Range(-1)),
    Option("flush.grace.period.ms", _LONG, None, "Later fork: how much longer than that a quiet partition's file waits for the wall "
           "clock; by default half of the interval.", _GZIP, valid=Range(0)),
    Option("layout", _TEXT, "grouped_by_date", "Later fork: what the first directory of an object's key is.", _GZIP,
           valid=OneOf(tuple(LAYOUTS))),
    Option("metrics.reporter", _TEXT, None, "Successor: class that takes measurements.", _GZIP, status=_IDLE, note=_METRICS),
    Option("metrics.reporter.*", _TEXT, None, "Successor: its settings.", _GZIP, status=_IDLE, note=_METRICS),
    Option("metrics.tags", _TEXT, None, "Successor: tags of the measurements.", _GZIP, status=_IDLE, note=_METRICS),
)  # fmt: skip

BLOCK_GZIP_OURS: Final = (
    Option("block.gzip.dialect", _TEXT, "successor", "Whose records are written: the original's are lines of text, and a null value "
           "fails; the successor's are what block.gzip.format says.", _GZIP, valid=OneOf(("original", "successor"))),
    Option("block.gzip.prefix", _TEXT, "", "First part of every object's key; `/` is added if missing.", _GZIP),
    Option("block.gzip.layout", _TEXT, "by_date", "What the first directory of an object's key is: the day of the upload, or the topic.",
           _GZIP, valid=OneOf(("by_date", "by_topic"))),
    Option("block.gzip.zone", _TEXT, "UTC", "Whose day that is: of UTC, or of the process's own time zone.", _GZIP,
           valid=OneOf(("UTC", "local"))),
    Option("block.gzip.block.size", _LONG, BLOCK_SIZE, "Bytes of one block before compression; in the original dialect UTF-16 units.",
           _GZIP, valid=Range(1)),
    Option("block.gzip.format", Type.CLASS, "text", "How the successor writes records: with delimiters, or behind their lengths.",
           _GZIP, valid=KnownClass(BLOCK_GZIP_FORMATS)),
    Option("block.gzip.value.delimiter", _TEXT, "\n", "With text: written after every value, taken exactly as given.", _GZIP,
           trimmed=False),
    Option("block.gzip.value.encoding", _TEXT, "UTF-8", "Character set of that delimiter; values are not re-encoded.", _GZIP,
           valid=charset),
    Option("block.gzip.key.delimiter", _TEXT, None, "With text: written after every key, taken exactly as given. Keys are written only "
           "if it is set.", _GZIP, trimmed=False),
    Option("block.gzip.key.encoding", _TEXT, "UTF-8", "Character set of that delimiter.", _GZIP, valid=charset),
    Option("block.gzip.include.keys", _FLAG, "false", "With binary: write keys in front of values.", _GZIP),
    Option("block.gzip.file.interval.ms", _LONG, "-1", "Close a file before a record whose timestamp is this much after that of the "
           "file's first; -1 is off.", _GZIP, valid=Range(-1)),
    Option("block.gzip.file.grace.ms", _LONG, "-1", "How much longer than that a quiet partition's file waits for the wall clock; -1 is "
           "half of the interval.", _GZIP, valid=Range(-1)),
)  # fmt: skip
