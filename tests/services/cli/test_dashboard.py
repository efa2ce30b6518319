from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafka_s3.cli.dashboard import PORTS, port_of
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
