"""What if the network, or S3, fails just here? An HTTP proxy on a real socket in front of a real S3 server, with rules for what to break.

It stands between the server and every client of the sink, those in Spark's workers too: `store.url` names it. Rules are asked in the
order in which they were added; the first that strikes decides. The `Host` header goes through as it came, so that signatures stay valid.
Every request is noted, and every strike is counted, so that a test can prove that its fault happened.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

HOST = "127.0.0.1"
UPSTREAM_TIMEOUT_S = 30
PIECE = 1 << 16
FORM = "application/x-www-form-urlencoded"
"""How services of AWS are asked that have neither paths nor a header for their operations: SNS."""


@dataclass(frozen=True)
class Request:
    """What a request asks for; `key` is decoded and without the bucket. `target` is the operation of another service that is asked."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    access_key: str
    target: str = ""


@dataclass(frozen=True)
class Which:
    """Which requests: all that is given must hold. `key` is a regular expression, searched; `having` and `lacking` are query parameters.

    A parameter is `name`, or `name=value`. `access_key` is the id that signed.
    """

    method: str = ""
    key: str = ""
    having: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    access_key: str = ""

    def matches(self, request: Request) -> bool:
        """Whether a request is one of these."""
        return (
            self.method in ("", request.method)
            and re.search(self.key, request.key) is not None
            and all(_has(request, parameter) for parameter in self.having)
            and not any(_has(request, parameter) for parameter in self.lacking)
            and self.access_key in ("", request.access_key)
        )


def _has(request: Request, parameter: str) -> bool:
    name, equals, value = parameter.partition("=")
    return name in request.query and (not equals or request.query[name] == value)


ANYTHING = Which()
CREATION = Which("POST", having=("uploads",))
PART = Which("PUT", having=("uploadId", "partNumber"))
COMPLETION = Which("POST", having=("uploadId",))
ENTRY = Which("PUT", key=r"/commits/\d+\.json$")
ENTRY_READ = Which("GET", key=r"/commits/\d+\.json$")


@dataclass(frozen=True)
class Refuse:
    """S3's error instead of an answer; the server never hears of the request."""

    status: int
    code: str
    message: str = "told to fail"


@dataclass(frozen=True)
class LateRequest:
    """The server is asked this much later."""

    seconds: float


@dataclass(frozen=True)
class LateAnswer:
    """The server does what is asked at once; its answer comes this much later."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """The connection is reset, on both sidecars, once this many bytes of the body have gone through."""

    after: int


@dataclass(frozen=True)
class LoseAnswer:
    """The server does what is asked and answers; the client's connection is cut instead."""


@dataclass(frozen=True)
class First:
    """Something else happens first; then the request goes on as if nothing were, or is refused."""

    act: Callable[[Request], None]
    then: Refuse | None = None


Action = Refuse | LateRequest | LateAnswer | Reset | LoseAnswer | First


@dataclass(eq=False)
class Rule:
    """`action` strikes at requests that are `which`: from the `nth` on (from 1), `times` times (None: without end).

    With `seconds` it ends so long after it began. With `opens` it begins at the first request that is that; `nth` then counts from there.
    """

    which: Which
    action: Action
    nth: int = 1
    times: int | None = 1
    seconds: float | None = None
    opens: Which | None = None
    strikes: list[Request] = field(default_factory=list)
    _met: int = 0
    _began: float | None = None

    def strikes_at(self, request: Request, now: float) -> bool:
        """Whether it strikes at this request; notes that it did."""
        if self._began is None and (self.opens or self.which).matches(request):
            self._began = now
        if self._began is None or not self.which.matches(request):
            return False
        if self.seconds is not None and now - self._began > self.seconds:
            return False
        self._met += 1
        if self._met < self.nth or (self.times is not None and len(self.strikes) >= self.times):
            return False
        self.strikes.append(request)
        return True


class Proxy:
    """A fault proxy in front of an S3 server; a context manager. Thread-safe."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self.upstream = (parts.hostname or HOST, parts.port or 80)
        self.requests: list[Request] = []
        self.defects: list[str] = []
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="s3 proxy")

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def add(self, rule: Rule) -> Rule:
        """From now on the rule holds."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """No rule holds any more."""
        with self._lock:
            self._rules.clear()

    def count(self, which: Which) -> int:
        """How many such requests came."""
        with self._lock:
            return sum(1 for request in self.requests if which.matches(request))

    def action_for(self, request: Request) -> Action | None:
        """Notes a request; what is to be done to it, if anything."""
        with self._lock:
            self.requests.append(request)
            struck = next((rule for rule in self._rules if rule.strikes_at(request, time.monotonic())), None)
        return struck.action if struck is not None else None

    def __enter__(self) -> Self:
        """The listening proxy."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cuts all connections; nothing of the proxy goes on."""
        self._server.shutdown()
        self._server.cut_all()
        self._server.server_close()
        self._thread.join()
        assert kind is not None or not self.defects, self.defects
        if error is not None and self.defects:
            error.add_note(f"The proxy itself failed: {self.defects}")


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for them
    request_queue_size = 64

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        self._resets: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((HOST, 0), _Handler)

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._open.discard(request)
            is_reset = request in self._resets
            self._resets.discard(request)
        if is_reset:
            request.close()  # without the polite end, which would come first
        else:
            super().shutdown_request(request)

    def reset(self, connection: socket.socket) -> None:
        """Makes the close of this connection a reset."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with self._lock:
            self._resets.add(connection)

    def cut_all(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):  # those are our trade
            self.proxy.defects.append(repr(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_any(self) -> None:
        """One request, whatever its method."""
        length = int(self.headers.get("Content-Length") or 0)
        form = self.rfile.read(length) if self.headers.get("Content-Type", "").startswith(FORM) else b""
        request = self._request(dict(parse_qsl(form.decode())))
        action = self.server.proxy.action_for(request)
        if isinstance(action, Reset):
            self._ask(self.rfile.read(min(length, action.after)))
            self._cut()
            return
        body = form or self.rfile.read(length)
        if isinstance(action, First):
            action.act(request)
            action = action.then
        if isinstance(action, Refuse):
            self._answer(action.status, [("Content-Type", "application/xml")], _error(action, request))
            return
        if isinstance(action, LateRequest):
            time.sleep(action.seconds)
        status, headers, content = self._forward(body)
        if isinstance(action, LoseAnswer):
            self._cut()
            return
        if isinstance(action, LateAnswer):
            time.sleep(action.seconds)
        self._answer(status, headers, content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any  # noqa: N815 - the names that the library looks for

    def _request(self, form: Mapping[str, str]) -> Request:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        signed = re.search(r"Credential=([^/]+)/\w+/[\w-]+/(\w+)/", self.headers.get("Authorization") or "")
        access_key, service = signed.groups() if signed else ("", "")
        target = f"{service}.{form['Action']}" if "Action" in form else self.headers.get("X-Amz-Target", "")
        return Request(self.command, bucket, unquote(key), query, access_key, target)

    def _ask(self, part: bytes) -> None:
        """Begins a request at the server that never ends: it gets a part of the body, and then a cut connection."""
        upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=UPSTREAM_TIMEOUT_S)
        self._send_head(upstream)
        upstream.send(part)
        upstream.close()

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=UPSTREAM_TIMEOUT_S)
        try:
            self._send_head(upstream)
            with contextlib.suppress(ConnectionError):  # a server may refuse, and hang up, before it has read it all
                for start in range(0, len(body), PIECE):
                    upstream.send(body[start : start + PIECE])
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def _send_head(self, upstream: http.client.HTTPConnection) -> None:
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                upstream.putheader(name, value)
        upstream.endheaders()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        reported = False
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                reported = True  # the size of the object, whose bytes do not follow
            elif name.lower() in ("content-length", "transfer-encoding", "connection"):
                continue
            self.send_header(name, value)
        if not reported and status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _cut(self) -> None:
        """Resets the client's connection: no answer, no proper end."""
        self.close_connection = True
        self.server.reset(self.connection)


def _error(refusal: Refuse, request: Request) -> bytes:
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
        f"<Resource>/{request.bucket}</Resource><RequestId>0</RequestId></Error>"
    )
    return text.encode()
