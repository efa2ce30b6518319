"""Does `kafka-s3 new` write a configuration that validates, by flags and by questions in a terminal, and nothing else?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_s3.cli.main import app
from kafka_s3.config.validate import validate
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
    app(["new", *arguments, *given], standalone_mode=False)


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
def test_what_is_missing_or_wrong_is_told_and_nothing_is_written(
    flags: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        new(str(tmp_path / "sink.json"), **flags)
    assert "canary" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_asked_what_no_flag_answers(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    given = [word for name in ("topics", "name", "kafka-bootstrap-servers") for word in (f"--{name}", FLAGS[name])]
    command = [sys.executable, "-m", "kafka_s3", "new", str(tmp_path / "sink.json"), *given]
    asked = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    answers = [
        "XML", "BYTES", "${env:KEY}", "in-clear", "${env:SECRET}", "${env:ID}", "${env:AWS}", "lake", "", "BYTES", "", "", "HOURLY", "", "",
        "", "", "", "", "BYTES - gzip", "6", "1",
    ]  # fmt: skip
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    eventually(lambda: asked.poll() is not None, what=lambda: "no end after the last answer")
    os.close(ours)
    assert asked.returncode == 0
    config = json.loads((tmp_path / "sink.json").read_text())
    assert config["input.data.format"] == "BYTES"
    assert config["kafka.api.secret"] == "${env:SECRET}"
    assert config["s3.compression.level"] == "6"
    assert validate(config).problems == ()
