"""How is a local server started, waited for, and stopped for certain?"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from kafka_s3.run.java.cache import LocalServiceError
from kafka_s3_testing.services import guard

HOST = "127.0.0.1"
SHOWN_BYTES = 4000
# Below the range from which systems take the ports of outgoing connections: a client that tries to reach a stopped server on
# such a port can be given that very port and connect to itself.
PORTS = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """Different TCP ports of this machine that nobody listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, k=len(PORTS)):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise LocalServiceError(f"No {count} free TCP ports were found between {PORTS.start} and {PORTS.stop} on {HOST}.")


def require_free(port: int) -> None:
    """Raises LocalServiceError if somebody listens on the port, who would be taken for the server about to start."""
    if not is_free(port):
        raise LocalServiceError(
            f"Port {port} of {HOST} is taken by another program: stop that one or choose another port."
        )


def is_free(port: int) -> bool:
    """Return True if no program listens on a TCP port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class ServerProcess:
    """A server in a process of its own that ends with ours. Its output goes to `log`; `grace_s` is how long it may take to stop."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        grace_s: float = guard.GRACE_SECONDS,
    ) -> None:
        self.name = name
        self._log = log
        self._grace_s = grace_s
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-IS", guard.__file__, str(grace_s), *map(str, command)],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip

    def wait_for_port(self, port: int, timeout_s: float) -> None:
        """Returns once the port takes connections.

        Raises LocalServiceError with the end of the log if the server ends or takes longer than `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self.check()
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex((HOST, port)) == 0:
                    return
            if time.monotonic() > deadline:
                raise self.failure(f"did not listen on {HOST}:{port} within {timeout_s:.0f} s")
            time.sleep(0.05)

    def check(self) -> None:
        """Raises LocalServiceError if the server has ended."""
        if (code := self._guard.poll()) is not None:
            raise self.failure(f"ended with exit code {code}")

    def failure(self, what: str) -> LocalServiceError:
        """The error to raise: what happened, and the end of the server's log."""
        return LocalServiceError(f"{self.name} {what}. The end of its log:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines of the server's output."""
        with self._log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - SHOWN_BYTES))
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        """Asks the server to end, and kills it if it does not; returns when it is gone. A second call does nothing."""
        pipe: IO[bytes] | None = self._guard.stdin
        if pipe is not None:
            pipe.close()
        try:
            self._guard.wait(self._grace_s + 5)
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, 9)
            self._guard.wait()
