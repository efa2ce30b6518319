from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3_testing.services.process import PORTS, ServerProcess, free_ports

SERVER = "import os, socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up', os.getpid(), flush=True); s.accept()[0]; s.accept()"  # noqa: E501
STARTER = """
import sys, time
from pathlib import Path
from kafka_s3_testing.services.process import ServerProcess
program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
server = ServerProcess("server", [sys.executable, "-c", program], log=Path(sys.argv[1]))
time.sleep(600)
"""


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 200
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_free_ports_differ_and_stay_clear_of_outgoing_connections() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert set(ports) <= set(PORTS)


def test_a_server_runs_until_it_is_stopped(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = ServerProcess("server", [sys.executable, "-c", SERVER, str(port)], log=tmp_path / "log")
    server.wait_for_port(port, 20)
    pid = int(server.log_tail().split()[1])
    server.check()
    server.stop()
    server.stop()
    assert not alive(pid)


def test_a_server_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('port is taken'); sys.exit(3)"]
    server = ServerProcess("The broker", command, log=tmp_path / "log")
    with pytest.raises(LocalServiceError, match=r"The broker ended with exit code 3(?s:.*)port is taken"):
        server.wait_for_port(free_ports(1)[0], 20)
    server.stop()


def test_a_server_that_never_listens_is_reported_after_the_time_allowed(tmp_path: Path) -> None:
    server = ServerProcess("The broker", [sys.executable, "-c", "import time; time.sleep(60)"], log=tmp_path / "log")
    with pytest.raises(LocalServiceError, match=r"The broker did not listen on 127\.0\.0\.1:"):
        server.wait_for_port(free_ports(1)[0], 0.3)
    server.stop()


def test_a_server_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(log)])
    assert eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    pid = int(log.read_text())
    assert alive(pid)
    starter.send_signal(signal.SIGKILL)
    starter.wait(200)
    assert eventually(lambda: not alive(pid))
