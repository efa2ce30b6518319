"""Which Java class names do configurations carry, and what are they called here?

Names are resolved by value, never by loading: a configuration cannot make the product run foreign code, except for plugins, which
installed packages offer (`connect.config.plugins`). A transform's name is `<kind>.<part>`, or the kind alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

PARTITIONER_GROUP: Final = "kafka_s3.partitioners"
FORMAT_GROUP: Final = "kafka_s3.formats"
NOTIFICATION_GROUP: Final = "kafka_s3.notifications"
OWN_NOTIFIERS: Final = ("webhook", "sns", "sqs")
BLOCK_GZIP_FORMAT: Final = "block_gzip"
SELF_MANAGED: Final = "io.confluent.connect.s3.S3SinkConnector"
MANAGED_CLOUD: Final = "S3_SINK"
BLOCK_GZIP_PACKAGES: Final = ("com.deviantart.", "com.spredfast.")

_CONNECT = "org.apache.kafka.connect."
_STORAGE = "io.confluent.connect.storage.partitioner."
_TIME = _STORAGE + "TimeBasedPartitioner$"
_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect."
_APICURIO = "io.apicurio.registry.utils.converter."
_SDK_1 = "com.amazonaws.auth."
_SDK_2 = "software.amazon.awssdk.auth.credentials."

CONNECTORS: Final[Mapping[str, str]] = {
    SELF_MANAGED: SELF_MANAGED,
    "S3Sink": SELF_MANAGED,  # Connect takes a connector's simple name also without its suffix
    MANAGED_CLOUD: MANAGED_CLOUD,
}

FORMATS: Final[Mapping[str, str]] = {
    "io.confluent.connect.s3.format.json.JsonFormat": "json",
    "io.confluent.connect.s3.format.parquet.ParquetFormat": "parquet",
    "io.confluent.connect.s3.format.avro.AvroFormat": "avro",
    "io.confluent.connect.s3.format.bytearray.ByteArrayFormat": "bytearray",
}

STORAGES: Final[Mapping[str, str]] = {"io.confluent.connect.s3.storage.S3Storage": "s3"}

PARTITIONERS: Final[Mapping[str, str]] = {
    _STORAGE + "DefaultPartitioner": "default",
    _STORAGE + "FieldPartitioner": "field",
    _STORAGE + "TimeBasedPartitioner": "time",
    _STORAGE + "DailyPartitioner": "daily",
    _STORAGE + "HourlyPartitioner": "hourly",
    "com.canelmas.kafka.connect.FieldAndTimeBasedPartitioner": "field_and_time",
    "header": "header",  # of ours, as is the next one
    "key": "key",
}
TIME_PARTITIONERS: Final = frozenset({"time", "daily", "hourly", "field_and_time"})
PATTERN_PARTITIONERS: Final = frozenset({"time", "field_and_time"})
"""Time partitioners whose directories the configuration names."""
FIELD_PARTITIONERS: Final = frozenset({"field", "field_and_time"})
VALUE_PARTITIONERS: Final = frozenset({"field", "header", "key"})
"""Partitioners whose directories are values of records alone."""

EXTRACTORS: Final[Mapping[str, str]] = {
    "Wallclock": "Wallclock",
    "Record": "Record",
    "RecordField": "RecordField",
    _TIME + "WallclockTimestampExtractor": "Wallclock",
    _TIME + "RecordTimestampExtractor": "Record",
    _TIME + "RecordFieldTimestampExtractor": "RecordField",
}

CONVERTERS: Final[Mapping[str, str]] = {
    _CONNECT + "json.JsonConverter": "json",
    _CONNECT + "storage.StringConverter": "string",
    _CONNECT + "converters.ByteArrayConverter": "bytes",
    "com.spredfast.kafka.connect.s3.AlreadyBytesConverter": "bytes",
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.json.JsonSchemaConverter": "json_schema",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
    _GLUE + "AWSKafkaAvroConverter": "glue_avro",
    _GLUE + "jsonschema.JsonSchemaConverter": "glue_json_schema",
    _GLUE + "protobuf.ProtobufSchemaConverter": "glue_protobuf",
    _APICURIO + "AvroConverter": "apicurio_avro",
    _CONNECT + "converters.ShortConverter": "short",
    _CONNECT + "converters.IntegerConverter": "integer",
    _CONNECT + "converters.LongConverter": "long",
    _CONNECT + "converters.FloatConverter": "float",
    _CONNECT + "converters.DoubleConverter": "double",
    _CONNECT + "converters.BooleanConverter": "boolean",
}
_STORE = "Store the bytes with org.apache.kafka.connect.converters.ByteArrayConverter."
OTHER_CONVERTERS: Final[Mapping[str, str]] = {
    _APICURIO
    + "ExtJsonConverter": "Its schemas are of a kind of their own (KCONNECT). Write with Apicurio's AvroConverter, or with Confluent's "
    "JsonSchemaConverter through /apis/ccompat/v7.",
    _APICURIO
    + "SerdeBasedConverter": "It runs Java classes. Apicurio's AvroConverter reads Avro, Confluent's converters the rest through "
    "/apis/ccompat/v7.",
    "com.amazonaws.services.crossregion.schemaregistry.kafkaconnect.AWSGlueCrossRegionSchemaReplicationConverter": "It copies schemas from "
    "registry to registry. Read with the converter of AWS Glue for the schemas' language.",
    "com.blueapron.connect.protobuf.ProtobufConverter": f"It reads messages by a Java class. {_STORE}",
    "io.debezium.converters.ByteArrayConverter": _STORE,
    "io.debezium.converters.BinaryDataConverter": _STORE,
    "io.debezium.converters.CloudEventsConverter": "Read its JSON with org.apache.kafka.connect.json.JsonConverter.",
}
"""Converters of others that this sink does not have, and what to do instead."""
HEADER_CONVERTERS: Final[Mapping[str, str]] = {_CONNECT + "storage.SimpleHeaderConverter": "simple", **CONVERTERS}

_REGISTRY = (
    "schema.registry.url", "basic.auth.credentials.source", "basic.auth.user.info", "schema.registry.basic.auth.user.info",
    "bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id",
    *(f"schema.registry.ssl.{name}" for name in (
        "truststore.type", "truststore.location", "truststore.password", "truststore.certificates", "keystore.type", "keystore.location",
        "keystore.password", "keystore.certificate.chain", "keystore.key", "key.password")),
    "use.latest.version", "latest.compatibility.strict", "schemas.cache.config", "auto.register.schemas",
    "key.subject.name.strategy", "value.subject.name.strategy", "scrub.invalid.names", "schemas.enable", "reference.subject.name.strategy",
    "use.schema.guid", "key.schema.id.deserializer", "value.schema.id.deserializer",
)  # fmt: skip
_AVRO = ("enhanced.avro.schema.support", "connect.meta.data", "schemas.cache.config", "schemas.enable")
_OF_GLUE = (
    "region", "endpoint", "proxyUrl", "cacheSize", "timeToLiveMillis", "secondaryDeserializer", "registry.name", "schemaName",
    "schemaNameGenerationClass", "schemaAutoRegistrationEnabled", "dataFormat", "avroRecordType", "compression", "compatibility",
    "description", "tags", "metadata", "userAgentApp", "protobufMessageType", "jacksonSerializationFeatures",
    "jacksonDeserializationFeatures", "registerJavaTimeModule", "objectMapperFactory",
)  # fmt: skip
_OF_APICURIO = tuple(
    f"apicurio.{name}" for name in (
        "registry.url", "registry.id-handler", "registry.as-confluent", "registry.use-id", "use-id", "registry.headers.enabled",
        "registry.avro.encoding", "auth.username", "auth.password", "auth.client.id", "auth.client.secret", "auth.client.scope",
        "auth.service.token.endpoint", "registry.auth.username", "registry.auth.password", "registry.auth.client.id",
        "registry.auth.client.secret", "registry.auth.client.scope", "registry.auth.service.token.endpoint", "registry.auto-register",
        "registry.auto-register.if-exists", "registry.find-latest", "registry.artifact-resolver-strategy", "registry.artifact.group-id",
        "registry.artifact.artifact-id", "registry.artifact.version", "registry.check-period-ms", "registry.retry-count",
        "registry.retry-backoff-ms", "registry.avro-datum-provider")
)  # fmt: skip
CONVERTER_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "json": ("schemas.enable", "schemas.cache.size", "decimal.format", "replace.null.with.default"),
    "string": ("encoding", "schemas.enable"),  # many configurations switch schemas off for every converter they use
    "bytes": ("schemas.enable",),
    "avro": (*_REGISTRY, "enhanced.avro.schema.support", "connect.meta.data", "flatten.singleton.unions", "ignore.default.for.nullables",
             "allow.optional.map.keys"),
    "json_schema": (*_REGISTRY, "decimal.format", "json.fail.invalid.schema", "use.optional.for.nonrequired",
                    "object.additional.properties", "ignore.default.for.nullables"),
    "protobuf": (*_REGISTRY, "optional.for.nullables", "optional.for.proto2", "wrapper.for.nullables", "wrapper.for.raw.primitives",
                 "generate.index.for.unions", "generate.struct.for.nulls", "int.for.enums", "flatten.unions",
                 "enhanced.protobuf.schema.support"),
    "glue_avro": (*_OF_GLUE, *_AVRO),
    "glue_json_schema": (*_OF_GLUE, *_AVRO, "decimal.format"),
    "glue_protobuf": (*_OF_GLUE, *_AVRO),
    "apicurio_avro": (*_OF_APICURIO, *_AVRO),
}  # fmt: skip
CONFLUENT_CONVERTERS: Final = frozenset({"avro", "json_schema", "protobuf"})
"""Those that ask Confluent's registry, or one that speaks like it."""
GLUE_CONVERTERS: Final = frozenset({"glue_avro", "glue_json_schema", "glue_protobuf"})
REGISTRY_CONVERTERS: Final = CONFLUENT_CONVERTERS | GLUE_CONVERTERS | {"apicurio_avro"}
FIELDLESS: Final = frozenset({"string", "bytes", "short", "integer", "long", "float", "double", "boolean"})
"""Converters of values without fields."""

CREDENTIALS: Final[Mapping[str, str]] = {
    _SDK_1 + "DefaultAWSCredentialsProviderChain": "default",
    _SDK_1 + "EnvironmentVariableCredentialsProvider": "environment",
    _SDK_1 + "profile.ProfileCredentialsProvider": "profile",
    _SDK_1 + "InstanceProfileCredentialsProvider": "instance",
    _SDK_1 + "ContainerCredentialsProvider": "container",
    # container or instance, whichever there is: of ours only the default chain asks both
    _SDK_1 + "EC2ContainerCredentialsProviderWrapper": "default",
    _SDK_1 + "WebIdentityTokenCredentialsProvider": "web_identity",
    _SDK_1 + "AWSStaticCredentialsProvider": "static",
    _SDK_1 + "BasicAWSCredentials": "static",
    _SDK_1 + "AnonymousAWSCredentials": "anonymous",
    _SDK_2 + "DefaultCredentialsProvider": "default",
    _SDK_2 + "EnvironmentVariableCredentialsProvider": "environment",
    _SDK_2 + "ProfileCredentialsProvider": "profile",
    _SDK_2 + "InstanceProfileCredentialsProvider": "instance",
    _SDK_2 + "ContainerCredentialsProvider": "container",
    _SDK_2 + "WebIdentityTokenFileCredentialsProvider": "web_identity",
    _SDK_2 + "StaticCredentialsProvider": "static",
    _SDK_2 + "AwsBasicCredentials": "static",
    _SDK_2 + "AnonymousCredentialsProvider": "anonymous",
    "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider": "assume_role",
    "service_credential": "service_credential",  # of ours: a service credential of Unity Catalog has no class in Java
}


def registered_partitioners() -> tuple[str, ...]:
    """The partitioners that installed packages offer."""
    return offered(PARTITIONER_GROUP, tuple(sys.path))


def registered_formats() -> tuple[str, ...]:
    """The formats without a Java name: Block-GZIP, and those that installed packages offer."""
    return (BLOCK_GZIP_FORMAT, *offered(FORMAT_GROUP, tuple(sys.path)))


@cache
def offered(group: str, _path: tuple[str, ...]) -> tuple[str, ...]:
    """The names that installed packages offer: kept per import path, for to ask all packages takes longer than all else of a validation."""
    return tuple(sorted(entry_points(group=group).names))


def known_notifiers() -> tuple[str, ...]:
    """The names that notification.class takes: ours, and those of entry points."""
    return (*OWN_NOTIFIERS, *offered(NOTIFICATION_GROUP, tuple(sys.path)))


TRANSFORM_GROUP: Final = "kafka_s3.transforms"
_KAFKA: Final = "org.apache.kafka.connect.transforms."
_CONFLUENT: Final = "io.confluent.connect.transforms."
_OF_PARTS: Final = {
    "Cast": "cast", "ExtractField": "extract_field", "Flatten": "flatten", "HeaderFrom": "header_from", "HoistField": "hoist_field",
    "InsertField": "insert_field", "MaskField": "mask_field", "ReplaceField": "replace_field", "SetSchemaMetadata": "schema_metadata",
    "TimestampConverter": "timestamp_converter",
}  # fmt: skip

TRANSFORMS: Final[Mapping[str, str]] = {
    **{
        f"{_KAFKA}{java}${part.title()}": f"{kind}.{part}"
        for java, kind in _OF_PARTS.items()
        for part in ("key", "value")
    },
    _KAFKA + "DropHeaders": "drop_headers",
    _KAFKA + "Filter": "filter",
    _KAFKA + "InsertHeader": "insert_header",
    _KAFKA + "RegexRouter": "regex_router",
    _KAFKA + "TimestampRouter": "timestamp_router",
    _KAFKA + "ValueToKey": "value_to_key",
    _CONFLUENT + "Drop$Key": "drop.key",
    _CONFLUENT + "Drop$Value": "drop.value",
    _CONFLUENT + "ExtractTopic$Key": "extract_topic.key",
    _CONFLUENT + "ExtractTopic$Value": "extract_topic.value",
    _CONFLUENT + "ExtractTopic$Header": "extract_topic.header",
    _CONFLUENT + "MessageTimestampRouter": "message_timestamp_router",
    _CONFLUENT + "TombstoneHandler": "tombstone_handler",
    "io.debezium.transforms.ExtractNewRecordState": "new_record_state",
}
_OWN_TRANSFORM: Final = "a transform of your own (docs/own-transforms.md)"
OTHER_TRANSFORMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (f"{_CONFLUENT}Filter$Key", f"{_CONFLUENT}Filter$Value"),
        f"It filters by JSONPath. Use {_KAFKA}Filter with a predicate, or a transform of your own.",
    ),
    "io.confluent.connect.cloud.transforms.TopicRegexRouter": f"Use {_KAFKA}RegexRouter with regex and replacement.",
    "io.debezium.transforms.ByLogicalTableRouter": f"Use {_KAFKA}RegexRouter with regex and replacement.",
    "io.debezium.transforms.HeaderToValue": f"record.metadata.enable=true adds all headers to the value; or use {_OWN_TRANSFORM}.",
    "io.debezium.transforms.outbox.EventRouter": f"Use {_KAFKA}ExtractField$Value and {_CONFLUENT}ExtractTopic$Value.",
}
"""Transforms of others that this sink does not have, and what to do instead."""
OWN_CONVERTER: Final = f"read bytes (ByteArrayConverter), and make values of them in {_OWN_TRANSFORM}."
OWN_EXTRACTOR: Final = f"put the time into a field in {_OWN_TRANSFORM}, and read it with RecordField."
OWN_PREDICATE: Final = f"decide in {_OWN_TRANSFORM}, which may leave a record as it is, or drop it."
"""What to do instead of a Java class of one's own, of a kind that no package adds here."""

PREDICATES: Final[Mapping[str, str]] = {
    _KAFKA + "predicates.HasHeaderKey": "has_header_key",
    _KAFKA + "predicates.RecordIsTombstone": "record_is_tombstone",
    _KAFKA + "predicates.TopicNameMatches": "topic_name_matches",
}
JAVA_NAMES: Final = {name: java for java, name in TRANSFORMS.items()}
ROUTERS: Final = frozenset({"regex_router", "timestamp_router", "extract_topic", "message_timestamp_router"})
"""Kinds that always change the topic; Debezium's does with `route.by.field`, an own one may."""


def registered_transforms() -> tuple[str, ...]:
    """The transforms that installed packages offer."""
    return offered(TRANSFORM_GROUP, tuple(sys.path))
