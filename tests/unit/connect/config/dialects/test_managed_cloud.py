"""The managed cloud spelling."""

from __future__ import annotations

import pytest

from kafka_s3.connect.config.settings import Settings
from kafka_s3.connect.config.validate import CheckedConfig, resolved, validate
from kafka_s3.model.text import Secret

CLOUD = {
    "name": "my sink",
    "connector.class": "S3_SINK",
    "kafka.api.key": "key",
    "kafka.api.secret": 'se"cret',
    "aws.access.key.id": "x",
    "aws.secret.access.key": "x",
    "s3.bucket.name": "bucket",
    "tasks.max": "1",
    "topics": "events",
    "input.data.format": "JSON",
    "output.data.format": "JSON",
    "time.interval": "HOURLY",
    "kafka.bootstrap.servers": "broker:9092",
}


def checked(**changes: str | None) -> CheckedConfig:
    merged = {**CLOUD, **{key.replace("__", "."): text for key, text in changes.items()}}
    return validate({key: text for key, text in merged.items() if text is not None})


def settings(**changes: str | None) -> Settings:
    return checked(**changes).usable()


def test_the_defaults_are_those_of_the_managed_cloud() -> None:
    found = settings()
    assert (found.text("format.class"), found.text("value.converter")) == ("json", "json")
    assert found.flag("value.converter.schemas.enable") is False
    assert (found.text("partitioner.class"), found.number("partition.duration.ms")) == ("time", 3600000)
    assert found.text("path.format") == "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
    assert (found.number("rotate.interval.ms"), found.number("flush.size")) == (3600000, 1000)
    assert (found.text("timezone"), found.text("locale"), found.text("timestamp.extractor")) == ("UTC", "en", "Record")
    assert (found.text("s3.compression.type"), found.number("s3.compression.level")) == ("none", 6)


def test_a_daily_interval_has_days_in_its_path() -> None:
    found = settings(time__interval="DAILY")
    assert (found.number("partition.duration.ms"), found.number("rotate.interval.ms")) == (86400000, 86400000)
    assert found.text("path.format") == "'year'=YYYY/'month'=MM/'day'=dd"


def test_a_timestamp_field_changes_the_extractor() -> None:
    found = settings(timestamp__field="ts")
    assert (found.text("timestamp.extractor"), found.text("timestamp.field")) == ("RecordField", "ts")


def test_the_codec_means_gzip_of_whole_objects() -> None:
    found = settings(compression__codec="JSON - gzip", s3__compression__level="9")
    assert (found.text("s3.compression.type"), found.number("s3.compression.level")) == ("gzip", 9)


def test_the_api_key_becomes_the_clients_login() -> None:
    client = settings().prefixed("consumer.override.")
    assert (client["security.protocol"], client["sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    login = client["sasl.jaas.config"]
    assert isinstance(login, Secret)
    assert login.reveal().endswith('PlainLoginModule required username="key" password="se\\"cret";')


def test_own_client_settings_win_over_the_api_keys() -> None:
    client = (
        validate({**CLOUD, "consumer.override.security.protocol": "PLAINTEXT"}).usable().prefixed("consumer.override.")
    )
    assert client["security.protocol"] == "PLAINTEXT"


def test_dead_letters_get_a_topic_of_their_own() -> None:
    found = settings()
    assert (found.text("errors.tolerance"), found.text("errors.deadletterqueue.topic.name")) == ("all", "dlq-my-sink")


REFUSED: list[tuple[dict[str, str | None], list[str]]] = [
    ({"rotate__interval__ms": "599999"}, ["rotate.interval.ms"]),
    ({"rotate__schedule__interval__ms": "1000"}, ["rotate.schedule.interval.ms"]),
    ({"output__data__format": "XML"}, ["output.data.format"]),
    ({"time__interval": None}, ["time.interval"]),
    ({"time__interval": "WEEKLY"}, ["time.interval"]),
    ({"kafka__api__secret": None}, ["kafka.api.secret"]),
    ({"aws__access__key__id": None}, ["aws.access.key.id"]),
    ({"compression__codec": "AVRO - snappy"}, ["compression.codec"]),
    ({"compression__codec": "gzip"}, ["compression.codec"]),
    ({"s3__compression__level": "0"}, ["s3.compression.level"]),
    ({"input__data__format": "AVRO"}, ["value.converter.schema.registry.url"]),
    ({"input__data__format": "JSON_SR"}, ["value.converter.schema.registry.url"]),
    ({"output__data__format": "PARQUET"}, ["value.converter.schemas.enable"]),
    ({"output__data__format": "BYTES"}, ["output.data.format"]),
    ({"output__data__format": "AVRO"}, ["output.data.format"]),
    ({"input__data__format": "STRING", "output__data__format": "BYTES"}, ["output.data.format"]),
    *(
        (
            {"input__data__format": given, "output__data__format": "BYTES"},
            ["output.data.format", "value.converter.schema.registry.url"],
        )
        for given in ("AVRO", "JSON_SR", "PROTOBUF")
    ),
    ({"input__data__format": "STRING", "output__data__format": "PARQUET"}, ["input.data.format"]),
    ({"input__key__format": "AVRO", "store__kafka__keys": "true"}, ["key.converter.schema.registry.url"]),
    ({"output__headers__format": "BYTES", "store__kafka__headers": "true"}, ["output.headers.format"]),
    (
        {"input__key__format": "STRING", "output__keys__format": "BYTES", "store__kafka__keys": "true"},
        ["output.keys.format"],
    ),
    (
        {"output__keys__format": "BYTES", "store__kafka__keys": "true", "partitioner__class": "key"},
        ["output.keys.format"],
    ),
    (
        {"input__key__format": "JSON", "output__keys__format": "BYTES", "store__kafka__keys": "true"},
        ["output.keys.format"],
    ),
    ({"output__keys__format": "XML"}, ["output.keys.format"]),
    ({"subject__name__strategy": "Own"}, ["subject.name.strategy"]),
    ({"schema__context__name": "staging"}, ["schema.context.name"]),
    ({"csfle__enabled": "true"}, ["csfle.enabled"]),
    ({"partitioner__class": "com.example.Own"}, ["partitioner.class"]),
    ({"authentication__method": "Roles"}, ["authentication.method"]),
    ({"kafka__api__key": "<my-kafka-api-key>"}, ["kafka.api.key"]),
    ({"s3__bucket__name": "<my-bucket-name>"}, ["s3.bucket.name"]),
    ({"max__poll__records": "0"}, ["max.poll.records"]),
    ({"kafka__endpoint": "pkc-1", "kafka__bootstrap__servers": None}, ["kafka.endpoint"]),
    ({"format__class": "json"}, ["format.class"]),
    ({"tasks__max": None}, ["tasks.max"]),
    (
        {"kafka__auth__mode": "SERVICE_ACCOUNT", "kafka__api__key": None, "kafka__api__secret": None},
        ["kafka.api.key", "kafka.api.secret"],
    ),
    ({"kafka__bootstrap__servers": None}, ["kafka.bootstrap.servers"]),
    ({"timezone": "Mars/Olympus"}, ["timezone"]),
]


@pytest.mark.parametrize(
    ("changes", "keys"), REFUSED, ids=lambda part: ",".join(part) if isinstance(part, dict) else ""
)
def test_a_problem_names_the_cloud_key(changes: dict[str, str | None], keys: list[str]) -> None:
    assert [problem.key for problem in checked(**changes).problems] == keys


def test_a_schedule_of_minus_one_is_off() -> None:
    assert settings(rotate__schedule__interval__ms="-1").number("rotate.schedule.interval.ms") == -1


def test_a_daylight_abbreviation_stands_for_the_zone_it_means_with_a_warning() -> None:
    found = checked(timezone="PST")
    assert found.usable().text("timezone") == "America/Los_Angeles"
    assert [(w.key, w.value, w.remedy) for w in found.warnings] == [("timezone", "PST", "Write America/Los_Angeles.")]
    for given in ("EST", "WET", "UTC"):
        assert checked(timezone=given).warnings == ()


def test_the_dead_letter_topic_of_the_managed_connector_carries_the_connectors_name() -> None:
    changes = {"errors__deadletterqueue__topic__name": "dlq-${connector}"}
    assert settings(**changes).text("errors.deadletterqueue.topic.name") == "dlq-my-sink"


def test_keys_and_headers_have_formats_of_their_own() -> None:
    found = settings(
        input__key__format="JSON", output__keys__format="JSON", output__headers__format="JSON",
        store__kafka__keys="true", store__kafka__headers="true",
    )  # fmt: skip
    assert (found.text("key.converter"), found.flag("key.converter.schemas.enable")) == ("json", False)
    assert (found.text("keys.format.class"), found.text("headers.format.class")) == ("json", "json")


@pytest.mark.parametrize(
    "changes",
    [
        {"input__key__format": "BYTES", "store__kafka__keys": "true"},
        {"store__kafka__keys": "true"},
        {"input__key__format": "STRING", "store__kafka__keys": "false"},
    ],
)
def test_keys_of_bytes_are_stored_as_bytes_and_keys_that_are_not_stored_may_be_anything(
    changes: dict[str, str],
) -> None:
    assert settings(output__keys__format="BYTES", **changes).text("keys.format.class") == "bytearray"


def test_a_key_that_is_stored_as_bytes_is_read_as_bytes_where_nobody_says_otherwise() -> None:
    assert settings(output__keys__format="BYTES", store__kafka__keys="true").text("key.converter") == "bytes"
    assert settings(output__keys__format="JSON", store__kafka__keys="true").text("key.converter") == "string"


def test_strings_are_taken_as_they_are() -> None:
    assert settings(input__data__format="STRING").text("value.converter") == "string"


def test_a_partitioner_without_time_needs_no_interval() -> None:
    found = settings(partitioner__class="FieldPartitioner", partition__field__name="region", time__interval=None)
    assert (found.text("partitioner.class"), found.number("rotate.interval.ms")) == ("field", -1)
    reported = checked(partitioner__class="DefaultPartitioner")
    assert [warning.key for warning in reported.warnings] == ["time.interval"]


def test_transforms_act() -> None:
    from kafka_s3.connect.config.transforms import configured_steps

    found = settings(
        transforms="at", transforms__at__type="org.apache.kafka.connect.transforms.InsertField$Value",
        transforms__at__timestamp__field="ts",
    )  # fmt: skip
    assert len(configured_steps(found).steps) == 1


def test_the_roles_of_the_managed_cloud_become_the_credentials_of_the_machine() -> None:
    changes = {"aws__access__key__id": None, "aws__secret__access__key": None, "authentication__method": "IAM Roles"}
    found = checked(**changes, provider__integration__id="cspi-1")
    assert found.usable().text("s3.credentials.provider.class") == "default"
    assert [warning.key for warning in found.warnings] == ["provider.integration.id", "authentication.method"]


WORKER = {
    "consumer.override.security.protocol": "SASL_SSL",
    "consumer.override.sasl.mechanism": "PLAIN",
    "consumer.override.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    ),
    "value.converter.schema.registry.url": "https://registry:8081",
    "value.converter.basic.auth.credentials.source": "USER_INFO",
    "value.converter.basic.auth.user.info": "user:hunter2",
}


def with_worker(**changes: str | None) -> CheckedConfig:
    merged = {**CLOUD, **{key.replace("__", "."): text for key, text in changes.items()}}
    return validate({key: text for key, text in merged.items() if text is not None}, worker=WORKER)


def test_a_service_account_has_the_workers_login() -> None:
    found = with_worker(
        kafka__auth__mode="SERVICE_ACCOUNT", kafka__service__account__id="sa-1", kafka__api__key=None,
        kafka__api__secret=None,
    )  # fmt: skip
    login = found.usable().secret("consumer.override.sasl.jaas.config")
    assert login is not None
    assert 'username="u"' in login.reveal()
    assert [warning.key for warning in found.warnings] == ["kafka.service.account.id"]


def test_the_platforms_registry_is_the_workers_for_values_and_keys_with_a_warning() -> None:
    found = with_worker(input__data__format="AVRO", input__key__format="AVRO", store__kafka__keys="true")
    assert [warning.key for warning in found.warnings] == ["value.converter.schema.registry.url"]
    for side in ("value", "key"):
        assert found.usable().names(f"{side}.converter.schema.registry.url") == ("https://registry:8081",)
        assert found.settings.secret(f"{side}.converter.basic.auth.user.info") == Secret("user:hunter2")
    assert "hunter2" not in f"{found}"


def test_without_a_worker_a_missing_registry_is_a_problem_that_says_how_to_give_it() -> None:
    (problem,) = checked(input__data__format="AVRO").problems
    assert "--set value.converter.schema.registry.url=" in problem.remedy
    assert "--worker" in problem.remedy


def test_the_platforms_endpoint_names_the_brokers() -> None:
    found = settings(kafka__bootstrap__servers=None, kafka__endpoint="SASL_SSL://pkc-1.aws.confluent.cloud:9092")
    assert found.text("kafka.bootstrap.servers") == "pkc-1.aws.confluent.cloud:9092"


def test_what_the_platform_alone_knows_is_reported_to_have_no_effect() -> None:
    found = checked(cloud__provider="aws", sr__service__account__id="sa-1", schema__context__name="default")
    assert [warning.key for warning in found.warnings] == ["sr.service.account.id", "cloud.provider"]
    assert (found.problems, found.unknown) == ((), ())


def test_poll_settings_go_to_the_client() -> None:
    client = settings(max__poll__records="100", max__poll__interval__ms="600000").prefixed("consumer.override.")
    assert (client["max.poll.records"], client["max.poll.interval.ms"]) == ("100", "600000")


def test_one_strategy_of_subjects_is_that_of_values_and_keys() -> None:
    url = {"value.converter.schema.registry.url": "https://registry:8081"}
    changes = {"subject__name__strategy": "RecordNameStrategy", "key__subject__name__strategy": "TopicNameStrategy"}
    found = settings(input__data__format="AVRO", input__key__format="AVRO", **changes, **url)
    assert found.text("value.converter.value.subject.name.strategy") == "RecordNameStrategy"
    assert found.text("key.converter.key.subject.name.strategy") == "TopicNameStrategy"


def test_references_are_translated_once_they_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERVAL", "DAILY")
    monkeypatch.setenv("API_SECRET", "resolved-secret")
    found = resolved(settings(time__interval="${env:INTERVAL}", kafka__api__secret="${env:API_SECRET}"))
    assert found.number("partition.duration.ms") == 86400000
    login = found.secret("consumer.override.sasl.jaas.config")
    assert login is not None
    assert 'password="resolved-secret"' in login.reveal()
    assert "resolved-secret" not in repr(found)
