"""A redirect is followed by nobody who asks an address of a configuration."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kafka_s3.cli.status import NotReported, post
from kafka_s3.followers.notifications import Webhook
from kafka_s3.model.errors import NotificationFailed


class _Redirecting(BaseHTTPRequestHandler):
    asked: list[str]

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def redirecting() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (_Redirecting,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_webhook_is_redirected(redirecting: tuple[str, list[str]]) -> None:
    url, asked = redirecting
    with pytest.raises(NotificationFailed, match="HTTP 302"):
        Webhook(url).send({"entry": 1})
    with pytest.raises(NotReported, match="302"):
        post(url, b"{}")
    assert asked == ["/hook", "/hook"]
