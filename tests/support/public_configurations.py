"""Configurations like those that people publish, which the sink takes as they stand.

Keys and values are those of public examples, reduced to what is particular of each; names are made up. The worker file is Connect's own
example: a broker, and JSON without schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_s3.connect.config.validate import CheckedConfig, validate

FORMAT, PARTITIONER = "io.confluent.connect.s3.format.", "io.confluent.connect.storage.partitioner."
SMT = "org.apache.kafka.connect.transforms."
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "kafka.bootstrap.servers": "broker:9092",
    "key.converter": JSON_CONVERTER,
    "value.converter": JSON_CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
OWN = {
    "name": "s3-sink",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "1",
    "topics": "events",
    "s3.bucket.name": "data-lake",
    "s3.region": "us-east-1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": f"{FORMAT}json.JsonFormat",
    "flush.size": "1000",
}
AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://schema-registry:8081",
    "format.class": f"{FORMAT}parquet.ParquetFormat",
}
TIME = {
    "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner", "path.format": "'year'=YYYY/'month'=MM/'day'=dd", "locale": "en-US",
    "timezone": "UTC", "partition.duration.ms": "3600000",
}  # fmt: skip
SELF_MANAGED: dict[str, tuple[Mapping[str, str], set[str]]] = {
    "an operator's YAML: hourly by a field, without a duration": (
        {**AVRO, **TIME, "partition.duration.ms": "", "timestamp.extractor": "RecordField", "timestamp.field": "updated_at",
         "rotate.interval.ms": "3600000", "locale": "en_US"},
        {"partitioner.class"},
    ),
    "an old quick start": (
        {"format.class": f"{FORMAT}avro.AvroFormat", "partitioner.class": f"{PARTITIONER}DefaultPartitioner",
         "schema.generator.class": "io.confluent.connect.storage.hive.schema.DefaultSchemaGenerator", "schema.compatibility": "NONE",
         "s3.part.size": "5242880"},
        {"schema.generator.class"},
    ),
    "minio": (
        {"store.url": "http://minio:9000", "aws.access.key.id": "minio", "aws.secret.access.key": "minio123",
         "s3.path.style.access.enabled": "true", "rotate.schedule.interval.ms": "60000", "timezone": "UTC"},
        set(),
    ),
    "minio with keys that the original does not have": (
        {"s3.endpoint": "http://minio:9000", "s3.force.path.style": "true", "store.url": "http://minio:9000"},
        {"s3.endpoint", "s3.force.path.style"},
    ),
    "hourly in Zurich with a duration that the partitioner does not read": (
        {"partitioner.class": f"{PARTITIONER}HourlyPartitioner", "partition.duration.ms": "300000", "timezone": "Europe/Zurich",
         "locale": "en", "rotate.schedule.interval.ms": "20000", "topics.dir": "refined/customer.state.v1"},
        set(),
    ),
    "change data of Debezium": (
        {**AVRO, "transforms": "unwrap,ts", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
         "transforms.unwrap.delete.tombstone.handling.mode": "rewrite", "transforms.ts.type": f"{SMT}InsertField$Value",
         "transforms.ts.timestamp.field": "ts", "topics.regex": "shop\\.public\\.(.*)", "topics": ""},
        set(),
    ),
    "fields renamed and inserted": (
        {**AVRO, "partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "country", "parquet.codec": "gzip",
         "transforms": "Rename, Static", "transforms.Rename.type": f"{SMT}ReplaceField$Value", "transforms.Rename.renames": "a:b",
         "transforms.Static.type": f"{SMT}InsertField$Value", "transforms.Static.static.field": "source",
         "transforms.Static.static.value": "shop"},
        set(),
    ),
    "tombstones handled": (
        {"transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.TombstoneHandler", "transforms.t.behavior": "ignore"},
        set(),
    ),
    "times converted": (
        {**AVRO, "transforms": "t", "transforms.t.type": f"{SMT}TimestampConverter$Value", "transforms.t.field": "at",
         "transforms.t.target.type": "string", "transforms.t.format": "yyyy-MM-dd"},
        set(),
    ),
    "a key of the consumer on the wrong level": ({"auto.offset.reset": "earliest"}, {"auto.offset.reset"}),
    "dead letters": (
        {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq-s3", "errors.log.enable": "true",
         "errors.deadletterqueue.topic.replication.factor": "1", "errors.deadletterqueue.context.headers.enable": "true"},
        set(),
    ),
    "another cloud's object storage": (
        {"store.url": "https://objectstorage.kr-central-2.kakaocloud.com", "s3.region": "kr-central-2", "aws.access.key.id": "x",
         "aws.secret.access.key": "y"},
        set(),
    ),
    "credentials of the machine": (
        {"s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain", "s3.compression.type": "gzip",
         "s3.object.tagging": "true", "behavior.on.null.values": "ignore"},
        set(),
    ),
    "rotation by interval without time": ({"rotate.interval.ms": "3600000"}, {"rotate.interval.ms"}),
    "a locale that is a country": ({"locale": "US", "timezone": "UTC", "rotate.schedule.interval.ms": "6000"}, set()),
}  # fmt: skip
CLOUD = {
    "name": "S3_SINKConnector_0", "connector.class": "S3_SINK", "kafka.auth.mode": "KAFKA_API_KEY", "kafka.api.key": "KEY",
    "kafka.api.secret": "secret", "aws.access.key.id": "AKIA", "aws.secret.access.key": "secret", "topics": "orders",
    "input.data.format": "JSON", "output.data.format": "JSON", "s3.bucket.name": "data-lake", "time.interval": "HOURLY",
    "flush.size": "1000", "tasks.max": "1",
}  # fmt: skip
FULL = {
    "s3.part.size": "5242880", "s3.wan.mode": "false", "json.decimal.format": "BASE64", "topics.dir": "topics",
    "rotate.schedule.interval.ms": "-1", "behavior.on.null.values": "ignore", "timezone": "UTC", "locale": "en",
    "subject.name.strategy": "TopicNameStrategy", "tombstone.encoded.partition": "tombstone", "schema.context.name": "default",
    "s3.schema.partition.affix.type": "NONE", "schema.compatibility": "NONE", "store.kafka.keys": "false",
    "store.kafka.headers": "false", "s3.object.tagging": "false", "max.poll.interval.ms": "300000", "max.poll.records": "500",
}  # fmt: skip
REGISTRY = {"value.converter.schema.registry.url": "https://registry:8081"}
URL = "value.converter.schema.registry.url"
ADDITIONAL = {
    "value.converter.schemas.enable": "false", "value.converter.flatten.singleton.unions": "false",
    "value.converter.ignore.default.for.nullables": "false", "value.converter.use.latest.version": "false",
    "value.converter.connect.meta.data": "true", "value.converter.auto.register.schemas": "false", "auto.restart.on.user.error": "false",
    "value.converter.use.schema.guid": "true", "value.converter.reference.subject.name.strategy": "QualifiedReferenceSubjectNameStrategy",
    "value.converter.value.schema.id.deserializer": "io.confluent.kafka.serializers.schema.id.DualSchemaIdDeserializer",
    "consumer.override.auto.offset.reset": "latest", "consumer.override.isolation.level": "read_committed",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}  # fmt: skip
PROTOBUF = [
    f"value.converter.{name}" for name in (
        "flatten.unions", "generate.struct.for.nulls", "generate.index.for.unions", "int.for.enums", "optional.for.nullables",
        "optional.for.proto2", "wrapper.for.nullables", "wrapper.for.raw.primitives", "enhanced.protobuf.schema.support")
]  # fmt: skip
LOGIN = {
    "consumer.override.security.protocol": "SASL_SSL", "consumer.override.sasl.mechanism": "PLAIN",
    "consumer.override.sasl.jaas.config":
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
}  # fmt: skip
MANAGED: dict[str, tuple[Mapping[str, str], Mapping[str, str], set[str]]] = {
    "as the command line makes it": (FULL, {}, set()),
    "keys beside the values": ({**FULL, "store.kafka.keys": "true", "output.keys.format": "BYTES", "output.headers.format": "AVRO",
                                "enhanced.avro.schema.support": "true"}, {}, set()),
    "Avro in and out": ({"input.data.format": "AVRO", "output.data.format": "AVRO"}, REGISTRY, {URL}),
    "Avro to Parquet": ({"input.data.format": "AVRO", "output.data.format": "PARQUET", "s3.part.size": "67108864"}, REGISTRY, {URL}),
    "JSON Schema": ({"input.data.format": "JSON_SR"}, REGISTRY, {URL}),
    "Protobuf": ({"input.data.format": "PROTOBUF", "output.data.format": "AVRO"}, REGISTRY, {URL}),
    "a path of their own": ({"topics.dir": "dedicated-cluster", "path.format": "YYYY/MM/dd/HH", "output.keys.format": "JSON"}, {}, set()),
    "a private endpoint": ({"store.url": "https://bucket.vpce-0123-0123.s3.us-east-2.vpce.amazonaws.com"}, {}, set()),
    "a service account": ({"kafka.auth.mode": "SERVICE_ACCOUNT", "kafka.service.account.id": "sa-123", "kafka.api.key": "",
                           "kafka.api.secret": ""}, LOGIN, {"kafka.service.account.id"}),
    "roles": ({"authentication.method": "IAM Roles", "provider.integration.id": "cspi-1", "aws.access.key.id": "",
               "aws.secret.access.key": ""}, {}, {"authentication.method", "provider.integration.id"}),
    "a transform": ({"transforms": "at", "transforms.at.type": f"{SMT}InsertField$Value", "transforms.at.timestamp.field": "ts"}, {},
                    set()),
    "envelopes, which Avro takes": ({"value.converter.schemas.enable": "true", "output.data.format": "AVRO"}, {}, set()),
    "settings of an Avro converter": ({**ADDITIONAL, "input.data.format": "AVRO"}, REGISTRY, {
        URL, "value.converter.auto.register.schemas", "auto.restart.on.user.error", "value.converter.use.schema.guid",
        "value.converter.reference.subject.name.strategy"}),
    "settings of a Protobuf converter": (
        {**dict.fromkeys(PROTOBUF, "true"), "input.data.format": "PROTOBUF", "errors.tolerance": "none"}, REGISTRY, {URL}),
    "tags, encryption and names": (
        {"s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "team:data", "s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k",
         "file.delim": "-", "filename.offset.zero.pad.width": "12", "topics": "", "topics.regex": "orders-.*"}, {}, set()),
    "a chain with a predicate": (
        {"transforms": "mask,tomb", "transforms.mask.type": f"{SMT}MaskField$Value", "transforms.mask.fields": "ssn",
         "transforms.mask.replacement": "x", "transforms.tomb.type": f"{SMT}Filter", "transforms.tomb.predicate": "dead",
         "predicates": "dead", "predicates.dead.type": f"{SMT}predicates.RecordIsTombstone"}, {}, set()),
}  # fmt: skip


def merged(base: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """A blank value takes a key of the base away."""
    return {key: text for key, text in {**base, **given}.items() if text}


def checked(
    base: Mapping[str, str], given: Mapping[str, str], worker: Mapping[str, str] | None = None
) -> CheckedConfig:
    """What validation finds in it, with the worker file and more of it."""
    return validate(merged(base, given), worker={**WORKER, **(worker or {})})
