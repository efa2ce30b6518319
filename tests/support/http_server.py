"""A stand-in for a service that is asked over HTTP: what a function answers, as JSON, on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request; `path` has the query behind it."""

    method: str
    path: str
    headers: Message
    body: bytes

    @property
    def authorization(self) -> str:
        """Who it says it is."""
        return str(self.headers.get("Authorization", ""))


class HttpServer:
    """Answers GET and POST by a function of the request: a status, and a document or its text. It may be asked by several at once."""

    def __init__(self, answer: Callable[[Asked], tuple[int, Any]], *, content_type: str = "application/json") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, document = answer(Asked(self.command, self.path, self.headers, body))
                content = (document if isinstance(document, str) else json.dumps(document)).encode()
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begins to answer."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Ends."""
        self._server.shutdown()
        self._server.server_close()
