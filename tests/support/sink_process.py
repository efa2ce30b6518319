"""How is a sink run as a process of its own?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.repository import ROOT


@dataclass
class SinkProcess:
    """A process of this Python, or another one, with the product on its path; its output goes to a file, so that no pipe fills up."""

    command: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> SinkProcess:
        """Starts it."""
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'bundle'}{os.pathsep}{ROOT}", **self.environment}
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # of the Spark in this process
            environment.pop(name, None)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [self.python, *self.command],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )
        return self

    def output(self) -> str:
        """Everything it has written so far."""
        return self.log.read_text(errors="replace")

    def wait(self, seconds: float = 240) -> int:
        """Its exit code, negative for a signal."""
        assert self.process is not None
        return self.process.wait(seconds)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Sends the signal to all processes that it has started, too, as `timeout` and service managers do."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def __enter__(self) -> SinkProcess:
        """The started process."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Nothing is left behind, whatever the test found."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
