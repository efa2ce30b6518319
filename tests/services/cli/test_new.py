"""Does `kafka-s3 new` write a configuration that validates, by flags and by questions in a terminal, and nothing else?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_s3.cli.main import app
from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import ConfigError
from tests.support.waiting import eventually

FLAGS = {
    "topics": "pageviews,clicks", "name": "cloud-quick-start", "kafka-bootstrap-servers": "broker:9092", "input-data-format": "JSON",
    "kafka-api-key": "${env:KEY}", "kafka-api-secret": "${env:SECRET}", "aws-access-key-id": "${env:AWS_ACCESS_KEY_ID}",
    "aws-secret-access-key": "${env:AWS_SECRET_ACCESS_KEY}", "s3-bucket-name": "lake", "output-data-format": "JSON",
    "time-interval": "HOURLY", "tasks-max": "1", "compression-codec": "JSON - gzip",
}  # fmt: skip


def new(*arguments: str, **flags: str) -> None:
    mine = {name.replace("_", "-"): text for name, text in flags.items()}
    given = [word for name, text in {**FLAGS, **mine}.items() if text for word in (f"--{name}", text)]
    app(["new", "--managed", *arguments, *given], standalone_mode=False)


SELF_MANAGED = {
    "topics": "orders", "name": "first", "kafka-bootstrap-servers": "localhost:9092", "value-converter": "JsonConverter",
    "s3-bucket-name": "lake", "format-class": "json",
}  # fmt: skip


def self_managed(*arguments: str, **flags: str) -> None:
    mine = {name.replace("_", "-"): text for name, text in flags.items()}
    given = [word for name, text in {**SELF_MANAGED, **mine}.items() if text for word in (f"--{name}", text)]
    app(["new", *arguments, *given], standalone_mode=False)


def test_the_first_configuration_is_a_self_managed_one_that_needs_no_login(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Credentials of AWS are found by default, a broker of one's own asks for none."""
    file = tmp_path / "sink.json"
    self_managed(str(file))
    assert json.loads(file.read_text()) == {
        "name": "first",
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "topics": "orders",
        "kafka.bootstrap.servers": "localhost:9092",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "s3.bucket.name": "lake",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "flush.size": "10000",
        "flush.idle.ms": "60000",
    }
    checked = validate(json.loads(file.read_text()))
    assert (checked.problems, checked.warnings) == ((), ())
    assert "value.converter.schemas.enable=false: each message is plain JSON" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ({"format_class": "parquet"}, {"value.schema.inference": "true", "value.converter.schemas.enable": "false"}),
        ({"value_converter_schemas_enable": "true"}, {"value.converter.schemas.enable": "true"}),
        (
            {"value_converter": "avro", "value_converter_schema_registry_url": "http://registry:8081"},
            {"value.converter": "io.confluent.connect.avro.AvroConverter"},
        ),
    ],
)
def test_what_the_first_answers_lead_to_is_asked_and_suggested(
    flags: dict[str, str], more: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "sink.json"
    self_managed(str(file), **flags)
    config = json.loads(file.read_text())
    assert config.items() >= more.items()
    assert ("value.converter.schemas.enable" in config) is ("value_converter" not in flags)
    assert validate(config).problems == ()


@pytest.mark.parametrize(("flags", "says"), [
    ({"value_converter": ""}, "value.converter .*Give --value-converter, or answer in a terminal"),
    ({"value_converter": "avro"}, "Give --value-converter-schema-registry-url"),
    ({"kafka_api_key": "${env:KEY}"}, "kafka.api.key .*is a key of the managed connector. Add --managed"),
    ({"aws_secret_access_key": "canary"}, "is a secret in clear"),
])  # fmt: skip
def test_what_a_self_managed_configuration_lacks_or_does_not_know_is_named(
    flags: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        self_managed(str(tmp_path / "sink.json"), **flags)
    assert "canary" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_asked_for_a_self_managed_configuration_first(tmp_path: Path) -> None:
    answers = [
        "orders",
        "first",
        "localhost:9092",
        "JsonConverter",
        "",
        "lake",
        "",
        "ParquetFormat",
        "",
        "",
        "",
        "",
        "",
    ]
    config = asked(tmp_path, [], answers)
    assert config["format.class"] == "io.confluent.connect.s3.format.parquet.ParquetFormat"
    assert not [key for key in config if key.startswith(("kafka.api", "aws."))]
    assert validate(config).problems == ()


def asked(folder: Path, words: list[str], answers: list[str]) -> dict[str, str]:
    """What is written after answers in a terminal."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "kafka_s3", "new", str(folder / "sink.json"), *words]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    eventually(lambda: process.poll() is not None, what=lambda: "no end after the last answer")
    os.close(ours)
    assert process.returncode == 0
    return dict(json.loads((folder / "sink.json").read_text()))


def test_flags_alone_make_a_checked_configuration(tmp_path: Path) -> None:
    file = tmp_path / "sink.json"
    new(str(file), flush_size="500")
    config = json.loads(file.read_text())
    assert list(config)[:2] == ["name", "connector.class"]
    assert config["flush.size"] == "500"
    assert "s3.compression.level" not in config
    assert validate(config).problems == ()
    with pytest.raises(ConfigError, match="--force"):
        new(str(file))
    new(str(file), "--force", "--set", "topics.dir=raw")
    assert json.loads(file.read_text())["topics.dir"] == "raw"


@pytest.mark.parametrize(("flags", "says"), [
    ({"s3_bucket_name": ""}, "s3.bucket.name .*Give --s3-bucket-name, or answer in a terminal"),
    ({"kafka_api_secret": "canary"}, "is a secret in clear.*secrets:kafka/api-secret"),
    ({"input_data_format": "AVRO"}, "--value-converter-schema-registry-url"),
    ({"time_interval": "WEEKLY"}, "must be one of: DAILY, HOURLY"),
])  # fmt: skip
def test_what_is_missing_or_wrong_is_reported_and_nothing_is_written(
    flags: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        new(str(tmp_path / "sink.json"), **flags)
    assert "canary" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_asked_what_no_flag_answers(tmp_path: Path) -> None:
    given = [word for name in ("topics", "name", "kafka-bootstrap-servers") for word in (f"--{name}", FLAGS[name])]
    answers = [
        "XML", "BYTES", "${env:KEY}", "in-clear", "${env:SECRET}", "${env:ID}", "${env:AWS}", "lake", "", "BYTES", "", "", "HOURLY", "", "",
        "", "", "", "", "BYTES - gzip", "6", "1",
    ]  # fmt: skip
    config = asked(tmp_path, ["--managed", *given], answers)
    assert config["input.data.format"] == "BYTES"
    assert config["kafka.api.secret"] == "${env:SECRET}"
    assert config["s3.compression.level"] == "6"
    assert validate(config).problems == ()
