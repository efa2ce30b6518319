"""Does `kafka-s3 validate` ask the schema registry for what only it knows, and never wait for it?"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.main import app
from kafka_s3.connect.config.validate import validate
from kafka_s3.ops.doctor.registry import compare_registered_fields
from kafka_s3_testing.services.process import free_ports
from kafka_s3_testing.services.registry import EmbeddedRegistry
from tests.support.memory_world import BASE

AVRO = "io.confluent.connect.avro.AvroConverter"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": name, "type": "long"} for name in ("n", "Partition")]}
PLAIN = {**ORDER, "fields": ORDER["fields"][:1]}


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        server.register("orders-value", json.dumps(ORDER))
        server.register("payments-value", json.dumps(PLAIN))
        yield server


def config(url: str, **more: str) -> dict[str, str]:
    own = {
        "topics": "orders,payments,unregistered", "flush.size": "10", "value.converter": AVRO, "value.converter.schemas.enable": None,
        "value.converter.schema.registry.url": url, **more,
    }  # fmt: skip
    return {key: value for key, value in {**BASE, **own}.items() if value is not None}


def validated(tmp_path: Path, raw: dict[str, str], *words: str) -> dict[str, Any]:
    """The command's JSON; the configuration is valid."""
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(raw))
    done = CliRunner().invoke(app, ["validate", str(path), "--output", "json", *words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_field_that_only_the_registry_knows_is_reported_where_a_directory_hides_it(
    registry: EmbeddedRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_s3.cli.configuration.LIMIT_S", 60.0)  # how quick this machine is proves nothing
    found = validated(tmp_path, config(registry.url))
    assert [(one["key"], one["value"]) for one in found["warnings"]] == [("topics", "orders")]
    assert "has the field Partition, and objects lie in directories partition=" in found["warnings"][0]["rule"]
    assert found["not_checked"] == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ["--offline"]),
        ({"partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name": "n"}, []),
        ({"topics": None, "topics.regex": "orders.*"}, []),
        ({"transforms": "drop", "transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
          "transforms.drop.exclude": "Partition"}, []),
    ],
    ids=["told not to", "directories of fields", "topics by pattern", "changed by transforms"],
)  # fmt: skip
def test_it_asks_nothing_where_there_is_nothing_to_compare(
    more: dict[str, str], words: list[str], registry: EmbeddedRegistry, tmp_path: Path
) -> None:
    found = validated(tmp_path, config(registry.url, **more), *words)
    assert (found["warnings"], found["not_checked"], registry.requests) == ([], "", [])


def test_what_cannot_be_asked_is_a_note_that_names_doctor_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "${env:REGISTRY_LOGIN}"}
    raw = config(
        f"http://localhost:{free_ports(1)[0]}", **{f"value.converter.{key}": value for key, value in login.items()}
    )
    monkeypatch.setattr("kafka_s3.cli.configuration.LIMIT_S", 60.0)
    monkeypatch.setenv("REGISTRY_LOGIN", "user:s3cr3t")
    for reason in ("did not answer", "REGISTRY_LOGIN"):
        found = validated(tmp_path, raw)
        assert (found["valid"], found["warnings"]) == (True, [])
        assert reason in found["not_checked"]
        assert "kafka-s3 doctor" in found["not_checked"]
        assert "s3cr3t" not in json.dumps(found)
        monkeypatch.delenv("REGISTRY_LOGIN", raising=False)


def test_a_registry_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("localhost", 0)) as silent:
        settings = validate(config(f"http://localhost:{silent.getsockname()[1]}")).usable()
        assert "did not answer" in compare_registered_fields(settings, limit_s=0.1).unanswered
