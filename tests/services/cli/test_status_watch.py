"""A change of a sink's state reaches a webhook and a command, over a real bucket."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from kafka_s3.engine.control.heartbeat import Heartbeat, Phase
from kafka_s3_testing.services.s3 import EmbeddedS3
from tests.support.sink_process import SinkProcess
from tests.support.waiting import eventually

KEY = "_kafka_s3/orders/heartbeat.json"


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address, and what was posted to it; the first post is refused."""
    posted: list[dict[str, Any]] = []
    asked = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(document)
            self.send_response(503 if len(asked) == 1 else 204)
            self.end_headers()
            if len(asked) > 1:
                posted.append(document)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/secret-token", posted
    server.shutdown()
    server.server_close()


def test_a_failure_is_reported_to_a_webhook_and_to_a_command(
    s3: EmbeddedS3, bucket: str, webhook: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    url, posted = webhook
    client = boto3.client("s3", endpoint_url=s3.endpoint_url)
    beat = Heartbeat("orders", "run", "host", 7, "0.1.0", 0, 10_000, phase=Phase.FAILED, failure="RecordError: bad")
    client.put_object(Bucket=bucket, Key=KEY, Body=beat.to_json())
    client.close()
    kept = tmp_path / "kept.json"
    script = f'{sys.executable} -c \'import sys; open("{kept}", "ab").write(sys.stdin.buffer.read())\''
    words = [
        "-m",
        "kafka_s3",
        "watch",
        "--bucket",
        bucket,
        "--store-url",
        s3.endpoint_url,
        "--region",
        "us-east-1",
        "--every",
        "1",
    ]
    with SinkProcess([*words, "--webhook", url, "--command", script], tmp_path / "watch.log") as process:
        eventually(kept.exists, seconds=60, what=process.output)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.output()
    assert [one["text"] for one in posted] == ["Sink orders FAILED: RecordError: bad"]
    assert json.loads(kept.read_bytes())["status"] == "FAILED"
    assert "The webhook answered 503. Reported again later." in process.output()
    assert "secret-token" not in process.output()
