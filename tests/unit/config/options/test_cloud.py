"""The managed cloud spelling."""

from __future__ import annotations

import pytest

from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import CheckedConfig, resolved, validate
from kafka_s3.model.secret import Secret

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
    ({"output__data__format": "PARQUET"}, ["input.data.format"]),
    ({"format__class": "json"}, ["format.class"]),
    ({"tasks__max": None}, ["tasks.max"]),
    ({"kafka__auth__mode": "SERVICE_ACCOUNT"}, ["kafka.auth.mode"]),
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


def test_references_are_translated_once_they_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERVAL", "DAILY")
    monkeypatch.setenv("API_SECRET", "resolved-secret")
    found = resolved(settings(time__interval="${env:INTERVAL}", kafka__api__secret="${env:API_SECRET}"))
    assert found.number("partition.duration.ms") == 86400000
    login = found.secret("consumer.override.sasl.jaas.config")
    assert login is not None
    assert 'password="resolved-secret"' in login.reveal()
    assert "resolved-secret" not in repr(found)
