"""Stores to test: S3 is moto behind real HTTP; the relay in front of it records requests, fails some and loses some answers."""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest

from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import Credentials, Provider
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3_testing.services import moto_server
from kafka_s3_testing.services.s3 import EmbeddedS3, ServerProgram
from tests.support.certificates import own_certificate

KEYS = Credentials(Provider.STATIC, "AKIATEST", Secret("wJalr/very+secret"))


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ENDPOINT_URL", "ROLE_ARN"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = moto_server.server("127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()


@pytest.fixture(scope="session")
def versitygw() -> Iterator[EmbeddedS3]:
    """An S3 server that checks signatures."""
    with EmbeddedS3(engine=ServerProgram.VERSITYGW) as server:
        yield server


@pytest.fixture
def bucket(moto_url: str) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    client = boto3.client(
        "s3", endpoint_url=moto_url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket=name)
    client.close()
    return name


@dataclass
class Content:
    """Content that is read while it is sent; `passes` counts from how many beginnings."""

    parts: list[bytes]
    fails_at: int = 0
    passes: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def pieces(self) -> Iterator[bytes]:
        self.passes += 1
        for part in self.parts:
            if self.passes == self.fails_at:
                raise OSError(5, "Input/output error")
            yield part


@pytest.fixture
def content() -> Callable[..., Content]:
    """Makes content that is streamed."""
    return Content


@dataclass
class Seen:
    """One request as it came over the wire."""

    method: str
    path: str
    headers: http.client.HTTPMessage
    body: bytes


@dataclass
class Relay:
    """Passes requests on to moto, but for the scripted ones, which are used up in order."""

    target: str
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    script: deque[Callable[[Handler, Seen], None]] = field(default_factory=deque)

    def answer(self, status: int, code: str = "", *, message: str = "told to", times: int = 1, **headers: str) -> None:
        """The next requests are answered like this, with S3's XML if there is a code."""
        xml = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode() if code else b""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.script.extend([lambda handler, seen: handler.reply(status, xml, names)] * times)

    def lose_answer(self) -> None:
        """The next request takes effect, then the connection is cut."""

        def lose(handler: Handler, seen: Seen) -> None:
            handler.forward(seen)
            handler.close_connection = True

        self.script.append(lose)

    def cut(self) -> None:
        """The next request is cut off without effect."""
        self.script.append(lambda handler, seen: setattr(handler, "close_connection", True))

    def let_pass(self) -> None:
        """The next request is passed on."""
        self.script.append(lambda handler, seen: handler.reply(*handler.forward(seen)))

    def run(self, action: Callable[[], object]) -> None:
        """Before the next request is passed on, the world changes."""

        def act(handler: Handler, seen: Seen) -> None:
            action()
            handler.reply(*handler.forward(seen))

        self.script.append(act)


class Handler(BaseHTTPRequestHandler):
    """Serves one relay."""

    protocol_version = "HTTP/1.1"
    relay: Relay

    def handle_any(self) -> None:
        seen = Seen(
            self.command, self.path, self.headers, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        )
        self.relay.seen.append(seen)
        if self.relay.script:
            self.relay.script.popleft()(self, seen)
        else:
            self.reply(*self.forward(seen))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815

    def forward(self, seen: Seen) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(self.relay.target.removeprefix("http://"))
        headers = {name: value for name, value in seen.headers.items() if name.lower() != "expect"}
        connection.request(seen.method, seen.path, body=seen.body, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        dropped = ("content-length", "transfer-encoding", "connection", "server", "date")
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in dropped}
        if seen.method == "HEAD":
            kept["Content-Length"] = answer.getheader("Content-Length") or "0"
        return answer.status, body, kept

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def relay(moto_url: str) -> Iterator[Relay]:
    made = Relay(moto_url)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("RelayHandler", (Handler,), {"relay": made}))
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tls(relay, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The relay behind TLS: its URL, and the file of the authority that vouches for it."""
    authority, secret = own_certificate(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("TlsHandler", (Handler,), {"relay": relay}))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, secret)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", authority
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_store() -> Iterator[Callable[..., S3Store]]:
    """Makes stores with static keys (unless other ones are given) and closes them."""
    opened: list[S3Store] = []

    def open_one(
        bucket: str, url: str | None, *, sleep: Callable[[float], None] = lambda _: None, **changes
    ) -> S3Store:
        options = StoreOptions(**{"bucket": bucket, "endpoint_url": url, "credentials": KEYS} | changes)
        opened.append(S3Store(options, sleep=sleep, jitter=lambda: 1.0))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def s3(open_store: Callable[..., S3Store], bucket: str, relay: Relay) -> S3Store:
    """An S3 store behind the relay, that does not sleep."""
    return open_store(bucket, relay.url)
