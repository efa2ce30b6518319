"""What does each command do where no broker answers? It says so soon, whatever the clients' own patience; a slow broker is no dead one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kafka_s3.kafka.brokers import KafkaBrokers
from kafka_s3.model.errors import KafkaUnavailable
from kafka_s3.model.process import ThreadPool
from kafka_s3_testing.services.kafka import EmbeddedKafka
from kafka_s3_testing.services.process import free_ports
from tests.support.examples import NIGHTLY
from tests.support.kafka import Given, document, produce
from tests.support.repository import ROOT
from tests.support.surroundings import Surroundings

PATIENCE = {"consumer.override.default.api.timeout.ms": "600000"}
"""A request may take ten minutes: a command that waits for one is ended by the test, long before."""
COMMANDS = (  # all that ask Kafka: status, list, check, flush and `dead-letters` need the bucket alone
    "-m kafka_s3 run {config} --available-now --cores 1",
    "-m kafka_s3 doctor {config}",
    "-m kafka_s3 verify {config}",
    "-m kafka_s3 simulate {config}",
    "-m kafka_s3 explain {config} {topic}:0:1",
    "-m kafka_s3 restore {config} --to-topic {topic}-again --yes",
    "-m kafka_s3 migrate {config} --set name=fresh",
    "-m kafka_s3 position show {config}",
    "-m kafka_s3 position set {config} {topic} 0 1 --yes --force",
    "-m kafka_s3 position seek-to-time {config} 2025-01-01 --yes --force",
    "jobs/run_sink.py {config} --available-now",
)


CASES = ("a closed port", "a listener that never answers")
"""By day the second one meets a quarter of the commands."""


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a listener that accepts everybody, and does this with each connection."""
    kept: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):  # it was closed
            while True:
                connection, _ = server.accept()
                kept.append(connection)
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


def delayed(broker: str, seconds: float) -> Callable[[socket.socket], None]:
    """Passes everything on to a broker and back, its responses so much later."""

    def pass_on(source: socket.socket, target: socket.socket, pause_s: float) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(pause_s)
                target.sendall(data)

    def connect(client: socket.socket) -> None:
        host, _, port = broker.partition(":")
        upstream = socket.create_connection((host, int(port)))
        for words in ((client, upstream, 0.0), (upstream, client, seconds)):
            threading.Thread(target=pass_on, args=words, daemon=True).start()

    return connect


@pytest.fixture(params=[pytest.param(CASES[0], marks=pytest.mark.nightly), CASES[1]])
def nobody(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address at which no broker answers."""
    if request.param == CASES[0]:
        yield f"127.0.0.1:{free_ports(1)[0]}"
        return
    with listening(lambda _: None) as address:
        yield address


def test_every_command_says_soon_that_no_broker_answers(
    here: Surroundings, topic: Callable[..., str], nobody: str, tmp_path: Path
) -> None:
    name = topic("unanswered")
    produce(here.servers, name, [Given(document(n=n)) for n in range(2)])
    config = here.config(name, **{**PATIENCE, "flush.size": "1"})
    here.drain(config)
    path = tmp_path / "sink.json"
    path.write_text(json.dumps({**config, "kafka.bootstrap.servers": nobody}))

    def ended(command: str) -> tuple[str, int, str]:
        words = [sys.executable, *command.format(config=path, topic=name).split()]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
        variables |= {"PYTHONPATH": str(ROOT / "bundle"), "COLUMNS": "500"}
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=variables, timeout=240)
        return command, done.returncode, done.stdout + done.stderr

    commands = COMMANDS if os.environ.get(NIGHTLY) else COMMANDS[::4]
    with ThreadPool(4) as pool:
        results = list(pool.map(ended, commands))
    for command, code, output in results:
        assert (command, code) == (command, 1), output
        assert f"Kafka at {nobody} did not answer within 5 s: " in output, command + output
        assert "Traceback" not in output, command + output


def test_a_broker_that_is_slow_but_alive_has_as_long_as_any_request(kafka: EmbeddedKafka) -> None:
    """Each of its responses comes so late that the first answer takes longer than a dead one is waited for."""
    with listening(delayed(kafka.bootstrap_servers, 2.5)) as slow:
        assert KafkaBrokers(slow).cluster_id() == KafkaBrokers(kafka.bootstrap_servers).cluster_id()


def test_a_dead_broker_among_others_does_not_matter(kafka: EmbeddedKafka, nobody: str) -> None:
    servers = f"{nobody},{kafka.bootstrap_servers}"
    assert KafkaBrokers(servers).cluster_id() == KafkaBrokers(kafka.bootstrap_servers).cluster_id()


def test_it_reports_what_the_connection_met_with() -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(KafkaUnavailable, match=rf"Kafka at {nowhere} did not answer within 5 s: .*Connection refused"):
        KafkaBrokers(nowhere).topic_names()
