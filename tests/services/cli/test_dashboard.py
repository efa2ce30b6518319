"""What does `kafka-s3 dashboard` tell its server, and where does that listen?"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping

import pytest
from typer.testing import CliRunner

from kafka_s3.cli.dashboard import PORTS, port_of
from kafka_s3.cli.main import app
from kafka_s3.model.errors import ConfigError

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """The port that would be taken first, taken."""
    first = port_of(None, HOST)
    with socket.create_server((HOST, first)):
        yield first


def test_a_taken_port_is_passed_over_unless_it_was_asked_for(taken: int) -> None:
    assert taken < port_of(None, HOST) < PORTS.stop
    with pytest.raises(ConfigError, match=rf"--port \('{taken}'\): is taken on {HOST}. Name another one"):
        port_of(taken, HOST)


def told(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Mapping[str, str]:
    """The variables of the process that would take this one's place."""
    found: list[Mapping[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda path, command, environment: found.append(environment))
    result = CliRunner().invoke(app, ["dashboard", *arguments])
    assert result.exit_code == 0, result.output
    return found[0]


def test_a_login_and_masked_fields_are_asked_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, "orders", "--bucket", "lake", "--login", "--mask-field", "email", "--mask-field", "card")
    assert (found["KAFKA_S3_BUCKET"], found["KAFKA_S3_DASHBOARD_SINK"]) == ("lake", "orders")
    assert (found["KAFKA_S3_DASHBOARD_LOGIN"], found["KAFKA_S3_DASHBOARD_MASK_FIELDS"]) == ("oidc", "email,card")


def test_without_them_those_of_the_surroundings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_S3_DASHBOARD_MASK_FIELDS", "email")
    found = told(monkeypatch, "--bucket", "lake")
    assert (found["KAFKA_S3_DASHBOARD_MASK_FIELDS"], "KAFKA_S3_DASHBOARD_LOGIN" in found) == ("email", False)
