"""Validation: every rule, by the keys it reports."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_s3.connect.config.validate import CheckedConfig, resolved, validate
from kafka_s3.model.errors import ConfigError

FORMAT = "io.confluent.connect.s3.format."
PARTITIONER = "io.confluent.connect.storage.partitioner."
MINIMAL = {
    "name": "s3-sink",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "events",
    "kafka.bootstrap.servers": "localhost:9092",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": f"{FORMAT}json.JsonFormat",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "flush.size": "3",
}
TIME: dict[str, str | None] = {
    "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner",
    "partition.duration.ms": "3600000",
    "path.format": "'year'=YYYY",
    "locale": "en",
    "timezone": "UTC",
}
AVRO: dict[str, str | None] = {"value.converter": "AvroConverter", "value.converter.schemas.enable": None}
REGISTRY: dict[str, str | None] = {**AVRO, "value.converter.schema.registry.url": "http://registry:8081"}
PARQUET: dict[str, str | None] = {"format.class": f"{FORMAT}parquet.ParquetFormat"}
STRICT: dict[str, str | None] = {"compatibility.strict": "true"}


def checked(changes: Mapping[str, str | None] | None = None) -> CheckedConfig:
    merged = {**MINIMAL, **(changes or {})}
    return validate({key: text for key, text in merged.items() if text is not None})


def problem_keys(changes: Mapping[str, str | None]) -> list[str]:
    return [problem.key for problem in checked(changes).problems]


def warning_keys(changes: Mapping[str, str | None]) -> list[str]:
    return [warning.key for warning in checked(changes).warnings]


def test_the_minimal_configuration_has_neither_problems_nor_warnings() -> None:
    result = checked()
    assert (result.problems, result.warnings) == ((), ())


ACCEPTED: list[dict[str, str | None]] = [
    TIME,
    {**TIME, "timezone": "+05:30"},
    {**TIME, "timezone": "America/Los_Angeles"},
    {"partitioner.class": f"{PARTITIONER}DailyPartitioner", "locale": "en", "timezone": "UTC"},
    {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "a, b.c"},
    {"format.class": "parquet", "value.converter.schemas.enable": "true"},
    {**PARQUET, "value.schema.inference": "true"},
    {**PARQUET, "value.schema": '{"type": "struct", "fields": [{"field": "id", "type": "int64"}]}'},
    {"flush.size": None, "flush.bytes": "1000000"},
    {"flush.size": None, "flush.idle.ms": "1000"},
    {"flush.size": None, "rotate.schedule.interval.ms": "600000", "timezone": "UTC"},
    {"flush.size": None, **TIME, "rotate.interval.ms": "600000"},
    {"topics": None, "topics.regex": "events-.*"},
    {"topics": None, "topics.regex": r"(?<env>\p{Alpha}+)\.\Qev.\E[a-z&&[^x]]+(?i)-v1"},
    {"behavior.on.null.values": "IGNORE", "json.decimal.format": "numeric"},
    {"s3.wan.mode": "true", "s3.path.style.access.enabled": "FALSE"},
    {"key.converter": "io.confluent.connect.avro.AvroConverter", "key.converter.schema.registry.url": "http://r:8081"},
    {
        "connector.class": "S3SinkConnector",
        "timestamp.extractor": f"{PARTITIONER}TimeBasedPartitioner$RecordTimestampExtractor",
    },
    {"s3.sse.customer.key": base64.b64encode(bytes(32)).decode(), "s3.ssea.name": "AES256"},
    {"s3.object.tagging": "true", "s3.object.tagging.key.value.pairs": "team:data,env:prod"},
    {"consumer.override.auto.offset.reset": "latest", "consumer.override.isolation.level": "read_committed"},
    {"errors.deadletterqueue.topic.name": "dlq", "errors.tolerance": "all"},
    {"value.converter": "StringConverter", "value.converter.schemas.enable": None, "format.class": "JsonFormat"},
    {"flush.size": " 7 ", "name": " orders "},
    {"s3.bucket.name": "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake"},
    {"s3.bucket.name": "my.bucket-1"},
    {"store.url": "http://minio_1:9000/", "s3.region": "kr-central-2"},
    {"store.url": "https://[::1]:9000", "s3.region": "minio"},
    {"s3.region": "eusc-de-east-1"},
    {"s3.region": "us-gov-west-1"},
    {"kafka.bootstrap.servers": "SASL_SSL://b-1.x.amazonaws.com:9098,[::1]:9092"},
    {**TIME, "locale": "zh_CN"},
    {"format.bytearray.separator": "<end>", "file.delim": "<d>"},
]


@pytest.mark.parametrize("changes", ACCEPTED, ids=lambda changes: ",".join(changes))
def test_what_the_original_takes_is_accepted_silently(changes: dict[str, str | None]) -> None:
    result = checked(changes)
    assert (result.problems, result.warnings) == ((), ())


def test_tags_that_are_no_pairs_are_named_unless_they_come_from_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "s3.object.tagging.key.value.pairs"
    (problem,) = checked({key: "team:data,environment,:x,cost:"}).problems
    assert "'environment', ':x' are none" in problem.rule
    assert "Write a colon after the name of the tag" in problem.remedy
    monkeypatch.setenv("TAGS", "team:data,environment")
    with pytest.raises(ConfigError) as refused:
        resolved(checked({key: "${env:TAGS}"}).usable())
    assert "number 2 is none" in str(refused.value)
    assert "environment" not in str(refused.value)


REFUSED: list[tuple[dict[str, str | None], list[str]]] = [
    ({"flush.size": "many"}, ["flush.size"]),
    ({"flush.size": "2147483648"}, ["flush.size"]),
    ({"flush.size": "1_000"}, ["flush.size"]),
    ({"rotate.interval.ms": "9" * 5000}, ["rotate.interval.ms"]),
    ({"s3.wan.mode": "yes"}, ["s3.wan.mode"]),
    ({"s3.part.size": "1024"}, ["s3.part.size"]),
    ({"s3.compression.type": "snappy"}, ["s3.compression.type"]),
    ({"parquet.codec": "uncompressed"}, ["parquet.codec"]),
    ({"parquet.codec": "lzo"}, ["parquet.codec"]),
    ({"filename.offset.zero.pad.width": "0"}, ["filename.offset.zero.pad.width"]),
    ({"format.class": "com.example.OwnFormat"}, ["format.class"]),
    ({"partitioner.class": ""}, ["partitioner.class"]),
    ({"timestamp.extractor": "Recordfield"}, ["timestamp.extractor"]),
    ({"kafka.bootstrap.servers": None}, ["kafka.bootstrap.servers"]),
    ({"s3.bucket.name": " "}, ["s3.bucket.name"]),
    ({"value.converter": None, "value.converter.schemas.enable": None}, ["value.converter"]),
    ({"topics": None}, ["topics"]),
    ({"topics.regex": "e.*"}, ["topics.regex"]),
    ({"topics": None, "topics.regex": "e(*"}, ["topics.regex"]),
    ({"topics": None, "topics.regex": "(?P<env>e.*)"}, ["topics.regex"]),
    ({"errors.deadletterqueue.topic.name": "events"}, ["errors.deadletterqueue.topic.name"]),
    ({"topics": None, "topics.regex": "[a-z&&[^x]]+", "errors.deadletterqueue.topic.name": "dlq"}, ["errors.deadletterqueue.topic.name"]),
    ({"topics": None, "topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"}, ["errors.deadletterqueue.topic.name"]),
    ({**TIME, "timezone": ""}, ["timezone"]),
    ({**TIME, **STRICT, "timezone": None, "locale": None}, ["timezone", "locale"]),
    ({**TIME, "path.format": ""}, ["path.format"]),
    ({**TIME, "path.format": "/"}, ["path.format"]),
    ({**TIME, "path.format": "year=YYYY/tt"}, ["path.format"]),
    ({**TIME, **STRICT, "partition.duration.ms": None}, ["partition.duration.ms"]),
    ({**TIME, **STRICT, "path.format": None}, ["path.format"]),
    ({**TIME, "partition.duration.ms": "0"}, ["partition.duration.ms"]),
    ({"partitioner.class": "hourly", **STRICT}, ["timezone", "locale"]),
    ({"s3.bucket.name": "s3://bucket/raw"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "<my-bucket-name>"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "bucket/raw"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "ab"}, ["s3.bucket.name"]),
    ({"topics": "orders, my topic"}, ["topics"]),
    ({"topics": "orders.*"}, ["topics"]),
    ({"topics": ".."}, ["topics"]),
    ({"topics": "<topic-1>, <topic-2>"}, ["topics"]),
    ({"errors.deadletterqueue.topic.name": "dlq-${connector}"}, ["errors.deadletterqueue.topic.name"]),
    ({"store.url": "s3://minio:9000"}, ["store.url"]),
    ({"store.url": "http://minio:99999"}, ["store.url"]),
    ({"store.url": "http://"}, ["store.url"]),
    ({"store.url": "http//minio:9000"}, ["store.url"]),
    ({"store.url": "https:/minio"}, ["store.url"]),
    ({"s3.proxy.url": "socks://proxy:1080"}, ["s3.proxy.url"]),
    ({"kafka.bootstrap.servers": "broker"}, ["kafka.bootstrap.servers"]),
    ({"kafka.bootstrap.servers": "a:9092,b"}, ["kafka.bootstrap.servers"]),
    ({"kafka.bootstrap.servers": "http://a:9092"}, ["kafka.bootstrap.servers"]),
    ({"kafka.bootstrap.servers": "a:70000"}, ["kafka.bootstrap.servers"]),
    ({"s3.region": "US East"}, ["s3.region"]),
    ({"s3.region": "US_EAST_1"}, ["s3.region"]),
    ({"s3.region": ""}, ["s3.region"]),
    ({"timezone": "PST"}, ["timezone"]),
    ({"rotate.schedule.interval.ms": "600000"}, ["timezone"]),
    ({"partitioner.class": f"{PARTITIONER}FieldPartitioner"}, ["partition.field.name"]),
    ({"partition.field.name": "a,,b"}, ["partition.field.name"]),
    ({"partition.field.name": "a..b"}, ["partition.field.name"]),
    ({"timestamp.extractor": "RecordField", "timestamp.field": ""}, ["timestamp.field"]),
    ({**PARQUET, "value.converter.schemas.enable": "true", "s3.compression.type": "gzip"}, ["s3.compression.type", "format.class"]),
    (PARQUET, ["value.converter.schemas.enable"]),
    ({**PARQUET, "value.converter": "string", "value.schema.inference": "true"}, ["value.converter"]),
    ({**PARQUET, **STRICT, "value.schema.inference": "true"}, ["value.schema.inference"]),
    ({**PARQUET, "value.converter": "LongConverter", "value.converter.schemas.enable": None}, ["value.converter"]),
    (AVRO, ["value.converter.schema.registry.url"]),
    ({**AVRO, "value.converter.schema.registry.url": "registry:8081"}, ["value.converter.schema.registry.url"]),
    ({**REGISTRY, "value.converter.basic.auth.credentials.source": "USER_INFO"}, ["value.converter.basic.auth.user.info"]),
    ({**REGISTRY, "value.converter.value.subject.name.strategy": "Own"}, ["value.converter.value.subject.name.strategy"]),
    ({"store.kafka.keys": "true", "key.converter": "AvroConverter"}, ["key.converter.schema.registry.url"]),
    (
        {"store.kafka.keys": "true", "s3.compression.type": "gzip"},
        ["s3.compression.type", "keys.format.class", "store.kafka.keys"],
    ),
    (
        {
            **REGISTRY, "format.class": f"{FORMAT}avro.AvroFormat", "s3.compression.type": "gzip",
            "store.kafka.keys": "true", "store.kafka.headers": "true",
        },
        ["s3.compression.type", "format.class", "s3.compression.type", "keys.format.class", "store.kafka.keys", "s3.compression.type",
         "headers.format.class", "store.kafka.headers"],
    ),
    ({"store.kafka.headers": "true", "headers.format.class": "ByteArrayFormat"}, ["headers.format.class"]),
    ({"record.metadata.enable": "true", "value.converter": "StringConverter"}, ["record.metadata.enable"]),
    ({"record.metadata.enable": "true", **STRICT}, ["record.metadata.enable"]),
    ({"schema.compatibility.unify": "true", **STRICT}, ["schema.compatibility.unify"]),
    ({**PARQUET, "value.schema": "{"}, ["value.schema"]),
    ({**PARQUET, "value.schema": '{"type": "record"}'}, ["value.schema"]),
    ({**PARQUET, "value.schema": '{"type": "int32"}'}, ["value.schema"]),
    ({"s3.wan.mode": "true"}, ["s3.wan.mode", "s3.path.style.access.enabled"]),
    ({"s3.sse.customer.key": "c2hvcnQ="}, ["s3.sse.customer.key"]),
    ({"s3.object.tagging.key.value.pairs": "team"}, ["s3.object.tagging.key.value.pairs"]),
    ({"s3.credentials.provider.class": "static"}, ["s3.credentials.provider.class"]),
    ({"state.prefix": " "}, ["state.prefix"]),
    ({"state.prefix": "topics/"}, ["state.prefix"]),
    ({"state.prefix": "lake", "topics.dir": "lake/raw"}, ["state.prefix"]),
    ({"poll.interval.ms": "9"}, ["poll.interval.ms"]),
    ({"flush.size": None}, ["flush.size"]),
    ({"flush.size": None, "rotate.interval.ms": "600000"}, ["flush.size"]),
    ({"flush.size": None, "flush.bytes": "10", **STRICT}, ["flush.size"]),
    ({"schema.compatibility": "backward"}, ["schema.compatibility"]),
    ({"consumer.override.interceptor.classes": "x.Y"}, ["consumer.override.interceptor.classes"]),
    ({"consumer.override.isolation.level": "any"}, ["consumer.override.isolation.level"]),
    ({"consumer.override.sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required a=b;"},
     ["consumer.override.sasl.jaas.config"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "keys"), REFUSED, ids=lambda part: ",".join(part) if isinstance(part, dict) else ""
)
def test_what_cannot_work_is_refused_by_its_property_names(changes: dict[str, str | None], keys: list[str]) -> None:
    assert problem_keys(changes) == keys


NOT_YET: list[tuple[str, str]] = [
    ("parquet.codec", "lzo"),
    ("value.converter.use.latest.version", "true"),
    ("value.converter.replace.null.with.default", "false"),
]


@pytest.mark.parametrize(("key", "text"), NOT_YET)
def test_what_is_not_built_yet_is_refused_with_a_text_that_says_so(key: str, text: str) -> None:
    (problem,) = checked({key: text}).problems
    assert problem.key == key
    assert "does not support yet" in problem.rule or "does not act on yet" in problem.rule


def test_keys_that_are_not_built_yet_may_carry_their_default() -> None:
    assert problem_keys({"errors.retry.timeout": "0", "errors.retry.delay.max.ms": "60000"}) == []


def test_tombstones_name_both_keys() -> None:
    assert problem_keys({"behavior.on.null.values": "write"}) == ["behavior.on.null.values", "store.kafka.keys"]


def test_an_unknown_transform_is_refused_with_those_that_are_like_it() -> None:
    (problem,) = checked({"transforms": "route", "transforms.route.type": "com.acme.RegexpRouting"}).problems
    assert problem.key == "transforms.route.type"
    assert "RegexRouter" in problem.remedy


def test_all_problems_are_reported_at_once() -> None:
    changes = {
        "flush.size": "x",
        "timezone": "Mars/Olympus",
        "s3.part.size": "1",
        "topics": None,
        "s3.bucket.name": None,
    }
    assert set(problem_keys(changes)) == {"flush.size", "timezone", "s3.part.size", "topics", "s3.bucket.name"}


def test_a_misspelt_key_warns_and_names_the_right_one() -> None:
    (warning,) = checked({"fluhs.size": "5"}).warnings
    assert (warning.key, warning.remedy) == ("fluhs.size", "Did you mean flush.size?")


def test_a_key_of_another_spelling_is_named_as_such_and_never_corrected_to_itself() -> None:
    found = checked(
        {
            "time.interval": "HOURLY",
            "compressed_block_size": "100",
            "s3.endpoint": "http://minio:9000",
            "s3.force.path.style": "true",
        }
    )
    assert [warning.remedy for warning in found.warnings] == [
        "It is a key of the managed cloud spelling (connector.class=S3_SINK).",
        "It is a key of the Block-GZIP spelling.",
        "It is a key of the Block-GZIP spelling; here it is store.url.",
        "Did you mean s3.path.style.access.enabled?",
    ]
    assert found.unknown == found.warnings


@pytest.mark.parametrize(
    ("java", "vendor"),
    [
        ("io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector", "Lenses"),
        ("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector", "Aiven"),
        ("org.apache.camel.kafkaconnector.awss3sink.CamelAwss3sinkSinkConnector", "Camel"),
        ("com.redpanda.kafka.connect.s3.S3SinkConnector", "Redpanda"),
        ("com.cloudera.dim.kafka.connect.s3.S3SinkConnector", "Cloudera"),
        ("io.confluent.connect.s3.source.S3SourceConnector", "S3 source"),
        ("io.confluent.connect.jdbc.JdbcSinkConnector", "another product"),
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", "another product"),
    ],
)
def test_a_connector_of_another_product_is_one_problem_that_says_whose_it_is_and_what_to_change(
    java: str, vendor: str
) -> None:
    (problem,) = validate({"connector.class": java, "connect.s3.kcql": "insert into x"}).problems
    assert (problem.key, problem.value) == ("connector.class", java)
    assert vendor in problem.rule
    assert problem.remedy


def test_a_class_below_a_block_gzip_package_that_is_no_sink_is_refused_with_those_that_are() -> None:
    for java in ("com.spredfast.Anything", "com.spredfast.kafka.connect.s3.S3SinkConnector"):
        found = validate({**MINIMAL, "connector.class": java, "s3.bucket": "bucket", "local.buffer.dir": "x"}).problems
        (problem,) = (one for one in found if one.key == "connector.class")
        assert "com.spredfast.kafka.connect.s3.sink.S3SinkConnector" in problem.remedy


def test_a_misspelt_setting_of_a_converter_warns() -> None:
    (warning,) = checked({"value.converter.schema.enable": "false"}).warnings
    assert warning.remedy == "Did you mean value.converter.schemas.enable?"


def test_a_misspelt_value_names_the_right_one() -> None:
    (problem,) = checked({"timestamp.extractor": "recordfeld"}).problems
    assert problem.remedy.startswith("Did you mean RecordField? ")


@pytest.mark.parametrize(
    ("given", "rule", "remedy"),
    [
        (
            "io.debezium.transforms.HeaderToValue",
            "is a class that this sink does not have.",
            "record.metadata.enable=true adds",
        ),
        ("HeaderToValue", "is a class that this sink does not have.", "record.metadata.enable=true adds"),
        ("TimezoneConverter$Value", "is not a known class.", "The nearest that there are: TimestampConverter$Value,"),
        ("CastField$Value", "is not a known class.", "The nearest that there are: MaskField$Value,"),
        ("ExtractField$Vlaue", "is not a known class.", "Did you mean ExtractField$Value?"),
    ],
)
def test_only_a_misspelling_is_answered_with_the_name_that_is_meant(given: str, rule: str, remedy: str) -> None:
    (problem,) = checked({"transforms": "t", "transforms.t.type": given}).problems
    assert problem.rule == rule
    assert problem.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("key", "given", "near"),
    [
        ("format.class", "ParquetFormt", "Did you mean ParquetFormat?"),
        ("format.class", "io.confluent.connect.s3.format.json.JsonFormt", "Did you mean JsonFormat?"),
        ("format.class", "io.confluent.connect.s3.format.orc.OrcFormat", "The nearest that there are: JsonFormat,"),
        ("connector.class", "io.confluent.conect.s3.S3SinkConector", "Did you mean S3SinkConnector?"),
        ("connector.class", "io.confluent.kafka.connect.s3.S3SinkConnector", "Did you mean S3SinkConnector?"),
    ],
)
def test_a_misspelt_class_names_the_right_one_and_another_one_those_like_it(key: str, given: str, near: str) -> None:
    (problem,) = checked({key: given}).problems
    assert problem.rule == "is not a known class."
    assert problem.remedy.startswith(near)


def test_an_unknown_class_lists_the_nearest_five_and_not_all_that_there_are() -> None:
    (problem,) = checked({"transforms": "t", "transforms.t.type": "com.acme.InsertFeld$Value"}).problems
    names = problem.remedy.partition("there are: ")[2].partition(". ")[0].rstrip(".").split(", ")
    assert names[0] == "InsertField$Value"
    assert len(names) == 5


@pytest.mark.parametrize("key", ["s3.bucket.name", "flush.size", "path.format", "acme.unknown", "transforms.t.regex"])
def test_a_template_that_was_not_rendered_is_a_problem_of_any_key(key: str) -> None:
    found = {problem.key: problem for problem in checked({key: "x-{{ bucket }}"}).problems}
    assert "was not rendered" in found[key].rule


def test_a_shells_variable_gets_the_reference_that_is_meant() -> None:
    (problem,) = checked({"s3.region": "${AWS_REGION}"}).problems
    assert (problem.key, problem.value) == ("s3.region", "${AWS_REGION}")
    assert "${env:AWS_REGION}" in problem.remedy


def test_groups_of_a_routers_pattern_and_the_placeholders_of_templates_are_no_shells_variables() -> None:
    router = {
        "transforms": "r",
        "transforms.r.type": "RegexRouter",
        "transforms.r.regex": "(?<NAME>.*)",
        "transforms.r.replacement": "raw-${NAME}",
    }
    assert problem_keys({**router}) == []
    assert problem_keys({"object.name.template": "${topic}-${partition}-${offset}"}) == []


@pytest.mark.parametrize(
    ("location", "content", "kind"),
    [
        ("trust.jks", None, "JKS"),
        ("trust.p12", None, "PKCS12"),
        ("trust.store", b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "JKS"),
        ("trust.pem", b"\x30\x82\x04\x00\x02\x01\x03\x30\x82", "PKCS12"),
        ("trust.jks", b"-----BEGIN CERTIFICATE-----\n", ""),
        ("trust.pem", None, ""),
    ],
)
def test_a_registrys_store_is_recognised_by_its_content_or_its_name(
    tmp_path: Path, location: str, content: bytes | None, kind: str
) -> None:
    path = tmp_path / location
    if content is not None:
        path.write_bytes(content)
    key = "value.converter.schema.registry.ssl.truststore.location"
    found = checked({**REGISTRY, key: str(path), key.replace("location", "password"): "canary-of-the-store"})
    assert [(problem.key, problem.rule) for problem in found.problems] == (
        [(key, f"is a {kind} store, which only Java reads.")] if kind else []
    )
    assert found.unknown == ()
    assert "canary" not in f"{found.problems} {found.warnings}"


def test_pst_is_refused_with_the_zone_that_is_meant() -> None:
    (problem,) = checked({"timezone": "PST"}).problems
    assert problem.remedy == "Did you mean America/Los_Angeles?"


def test_client_settings_outside_of_the_list_are_refused_with_those_that_are_allowed() -> None:
    (problem,) = checked({"consumer.override.isolation.levle": "read_committed"}).problems
    assert problem.remedy.startswith("Did you mean consumer.override.isolation.level?")
    assert "max.poll.records" in problem.remedy


WARNED: list[tuple[dict[str, str | None], list[str]]] = [
    ({"rotate.interval.ms": "1000"}, ["rotate.interval.ms"]),
    ({"flush.size": "0"}, ["flush.size"]),
    ({**TIME, "timezone": None, "locale": None}, ["partitioner.class"]),
    ({"partitioner.class": "hourly"}, ["partitioner.class"]),
    ({"s3.bucket.name": "My_Bucket"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "my..bucket"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "192.168.5.4"}, ["s3.bucket.name"]),
    ({"s3.bucket.name": "192.168.5.4.eu"}, []),
    ({"store.url": "minio:9000"}, ["store.url"]),
    ({**TIME, "locale": "english"}, ["locale"]),
    ({"time.interval": "HOURLY"}, ["time.interval"]),
    ({"shutdown.timeout.ms": "5000"}, ["shutdown.timeout.ms"]),
    ({"shutdown.timeout.ms": "3000"}, []),
    ({"enable.conditional.writes": "false"}, ["enable.conditional.writes"]),
    ({"aws.access.key.id": "AKIA"}, ["aws.access.key.id"]),
    ({**TIME, "locale": "en-US"}, []),
    ({**TIME, "locale": "en-US", "path.format": "YYYY/MMMM"}, ["locale"]),
    ({"schema.compatibility": "backward", **STRICT}, ["schema.compatibility"]),
    ({"value.schema.inference": "true"}, ["value.schema.inference"]),
    ({"flush.size": None, "s3.part.size": "5242880"}, ["s3.part.size"]),
]


@pytest.mark.parametrize(("changes", "keys"), WARNED, ids=lambda part: ",".join(part) if isinstance(part, dict) else "")
def test_what_works_otherwise_than_it_reads_gives_a_warning(changes: dict[str, str | None], keys: list[str]) -> None:
    assert (problem_keys(changes), warning_keys(changes)) == ([], keys)


def test_a_role_to_assume_needs_all_its_parts() -> None:
    changes = {
        "s3.credentials.provider.class": "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider",
        "s3.credentials.provider.sts.role.arn": "arn:aws:iam::1:role/x",
    }
    prefix = "s3.credentials.provider.sts.role."
    assert problem_keys(changes) == [f"{prefix}session.name", f"{prefix}external.id"]


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "changes",
    [
        {"s3.sse.customer.key": SECRET},
        {"consumer.override.sasl.jaas.config": f'x.LoginModule required password="{SECRET}";'},
        {"consumer.override.ssl.key.pasword": SECRET},
        {"my.secret.token": SECRET},
        {"aws.secret.access.key": SECRET},
        {"value.converter.basic.auth.user.info": SECRET},
        {"s3.proxy.ulr": f"http://user:{SECRET}@proxy:3128"},
        {"s3.proxy.url": f"http://user:{SECRET}@proxy:3128"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_secret_shows_in_problems_warnings_or_settings(changes: dict[str, str | None]) -> None:
    result = checked(changes)
    shown = f"{result.problems} {result.warnings} {result.settings!r} {result.settings.masked()} {result}"
    assert SECRET not in shown


def test_the_workers_settings_are_defaults_under_the_connectors() -> None:
    raw = {key: text for key, text in MINIMAL.items() if key not in ("kafka.bootstrap.servers", "value.converter")}
    worker = {
        "kafka.bootstrap.servers": "w:1",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.pth": "x",
    }
    result = validate(raw, worker=worker)
    assert result.problems == ()
    assert result.settings.text("kafka.bootstrap.servers") == "w:1"
    assert result.settings.text("value.converter") == "string"
    assert [(w.key, w.remedy) for w in result.warnings] == [("plugin.pth", "Did you mean plugin.path?")]


STATE: dict[str, str | None] = {
    **PARQUET, "value.schema.inference": "true", "record.metadata.enable": "true", "state.enable": "true",
    "state.table": "main.state.${topic}",
}  # fmt: skip
REWRITTEN: dict[str, str | None] = {
    "transforms": "t", "transforms.t.type": "io.confluent.connect.transforms.TombstoneHandler", "transforms.t.behavior": "rewrite",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"state.table": None}, ["state.table"]),
        ({"state.table": "events"}, ["state.table"]),
        ({"state.table": "main.state", "topics": "a,b"}, ["state.table"]),
        (
            {"state.table": "main.${topic}", "delta.enable": "true", "delta.table.name": "main.${topic}"},
            ["state.table"],
        ),
        ({"record.metadata.enable": "false"}, ["record.metadata.enable"]),
        ({"format.class": f"{FORMAT}json.JsonFormat"}, ["state.enable"]),
        ({"state.key": "record key,id"}, []),
        ({"state.unavailable.value.placeholder": ""}, []),
        ({"state.unavailable.value.placeholder": "hex:00FF"}, []),
        ({"state.unavailable.value.placeholder": "hex:0g"}, ["state.unavailable.value.placeholder"]),
        ({"state.key": "a.id,b.id"}, ["state.key"]),
        ({"state.key": "record key.id"}, ["state.key"]),
        ({"state.key": "record key.id", "key.converter": "org.apache.kafka.connect.json.JsonConverter"}, []),
        ({"state.delete.on": "op=d,__deleted=true", "state.order.by": "source.lsn", "state.columns": "id,after.*"}, []),
        ({"state.delete.on": "op"}, ["state.delete.on"]),
        ({"state.delete.on": "tombstone"}, ["state.delete.on"]),
        ({"state.delete.on": "tombstone", **REWRITTEN}, []),
        ({"state.delete.on": "tombstone", "state.key": "id", **REWRITTEN}, ["state.key"]),
        ({"state.order.by": "a b"}, ["state.order.by"]),
        ({"state.enable": "false", "state.table": None, "record.metadata.enable": "false"}, []),
    ],
)
def test_a_state_table_needs_offsets_types_and_a_key_that_can_be_compared(
    changes: dict[str, str | None], keys: list[str]
) -> None:
    assert problem_keys({**STATE, **changes}) == keys


def test_the_key_of_a_state_is_not_the_bytes_of_a_registry() -> None:
    registry = {"key.converter": "AvroConverter", "key.converter.schema.registry.url": "http://registry:8081"}
    assert problem_keys({**STATE, **registry}) == ["state.key"]
    assert problem_keys({**STATE, **registry, "state.key": "id"}) == []
