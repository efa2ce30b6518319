"""What does a real Prometheus make of the examples? The program on PATH, or the one that KAFKA_S3_PROMETHEUS names."""

from __future__ import annotations

import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_s3_testing.services.process import HOST, ServerProcess, free_ports
from tests.support.metrics import EXAMPLES
from tests.support.waiting import eventually

START_TIMEOUT_S = 120


class Prometheus:
    """Questions to its HTTP API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises urllib's HTTPError where Prometheus refuses the question."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        """Whether it has read what it had stored, before which it answers nothing."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=30):
                return True
        except urllib.error.HTTPError:
            return False

    def samples(self, expression: str) -> list[dict[str, Any]]:
        """What a query of the dashboard finds now, for all sinks and over the last minute."""
        found = self.ask("query", query=expression.replace("$sink", ".*").replace("$__rate_interval", "1m"))
        assert found["resultType"] == "vector", expression
        return list(found["result"])

    def rules(self) -> dict[str, dict[str, Any]]:
        """The alert rules with their state, by name."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[Prometheus]:
    """One that looks at a sink's port twice a second, with the alert rules of the examples; it is skipped where none is installed."""
    program = os.environ.get("KAFKA_S3_PROMETHEUS") or shutil.which("prometheus")
    if not program:
        pytest.skip("needs Prometheus: apt-get install prometheus, or name the program in KAFKA_S3_PROMETHEUS")
    (own,) = free_ports(1)
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "scrape_configs": [{"job_name": "kafka-s3", "static_configs": [{"targets": [f"{HOST}:{port}"]}]}],
        "rule_files": [str(EXAMPLES / "alert-rules.yaml")],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        program, f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address={HOST}:{own}",
    ]  # fmt: skip
    server = ServerProcess("Prometheus", command, log=folder / "prometheus.log")
    try:
        server.wait_for_port(own, START_TIMEOUT_S)
        found = Prometheus(f"http://{HOST}:{own}")
        eventually(found.is_ready, what=server.log_tail)
        yield found
    finally:
        server.stop()
