"""How do the demo and the tests get a schema registry? From this one, in our own process, which Confluent's clients take for theirs."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from kafka_s3.connect.schemas.registered import Language
from kafka_s3.testing.services.process import HOST, free_ports, require_free
from kafka_s3.testing.services.registry_store import (
    INVALID_VERSION,
    LANGUAGES,
    LATEST,
    RegistryRefusal,
    SchemaStore,
    references,
)

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
NOT_FOUND: Final = RegistryRefusal(404, "HTTP 404 Not Found")
UNAUTHORIZED: Final = RegistryRefusal(401, "Unauthorized")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files of the server: its certificate and key; and the authority of clients, who then must show a certificate."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


class EmbeddedRegistry:
    """A Confluent-compatible schema registry on this machine; a context manager. Its schemas stay while the object lives.

    It speaks the REST API as far as clients, serializers and converters need it. Unlike the original it finds every schema compatible, and
    gives a Protobuf schema in the form in which it was registered. `basic_auth` is `user:password`. `requests` lists what was asked, as
    `METHOD path?query`. Raises LocalServiceError where the port is taken.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        basic_auth: str | None = None,
        bearer_token: str | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self.port = port or free_ports(1)[0]
        self.requests: list[str] = []
        self.store = SchemaStore()
        self._tls = tls
        self._accepted = _authorizations(basic_auth, bearer_token)
        self._planned: deque[tuple[int, Mapping[str, Any]]] = deque()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The value of `schema.registry.url`."""
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    def register(
        self,
        subject: str,
        text: str,
        language: Language = Language.AVRO,
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Registers a schema without HTTP and gives its id; references are (name, subject, version)."""
        return int(self.store.register(subject, _body(text, language, references))["id"])

    def plan(self, status: int, body: Mapping[str, Any] | None = None, *, times: int = 1) -> None:
        """Answers the next `times` requests so, whatever they ask."""
        self._planned.extend([(status, body or {"error_code": status, "message": "planned"})] * times)

    def start(self) -> None:
        """Starts the server; does nothing where it runs."""
        if self._server is None:
            require_free(self.port)
            server = _Server((HOST, self.port), _handler(self))
            if self._tls:
                server.socket = _context(self._tls).wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            threading.Thread(target=server.serve_forever, args=(0.05,), name="schema-registry", daemon=True).start()
            self._server = server

    def stop(self) -> None:
        """Stops the server, which keeps its schemas; does nothing where it does not run."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        """The started server."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the server."""
        self.stop()

    def answer(self, method: str, target: str, *, authorization: str, content: bytes) -> tuple[int, Any]:
        """HTTP status and JSON of a request."""
        self.requests.append(f"{method} {target}")
        if self._planned:
            return self._planned.popleft()
        try:
            if self._accepted and authorization not in self._accepted:
                raise UNAUTHORIZED
            return 200, _route(self.store, method, target, body=_parsed(content))
        except RegistryRefusal as refusal:
            return int(str(refusal.code)[:3]), {"error_code": refusal.code, "message": refusal.message}


def _parsed(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise RegistryRefusal(400, "The request's body is no JSON object")
    return body


def _route(store: SchemaStore, method: str, target: str, *, body: Mapping[str, Any]) -> Any:
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    deleted = query.get("deleted", "").lower() == "true"
    route = (method, *[unquote(segment) for segment in parts.path.strip("/").split("/")])
    match route:
        case ("POST", "subjects", subject, "versions"):
            return store.register(subject, body)
        case ("POST", "subjects", subject):
            return store.look_up(subject, body, deleted=deleted)
        case ("DELETE", "subjects", subject):
            return store.delete(subject, None)
        case ("DELETE", "subjects", subject, "versions", version):
            return store.delete(subject, _number(version))[0]
        case ("GET", "subjects"):
            return store.subjects(deleted=deleted)
        case ("GET", "subjects", subject, "versions"):
            return store.version_numbers(subject, deleted=deleted)
        case ("GET", "subjects", subject, "versions", version):
            return store.version(subject, _number(version), deleted=deleted)
        case ("GET", "schemas", *rest):
            return _schemas(store, rest)
        case ("GET", "config"):
            return {"compatibilityLevel": "NONE"}
        case ("GET", "config", subject):
            raise RegistryRefusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        case _:
            raise NOT_FOUND


def _schemas(store: SchemaStore, rest: Sequence[str]) -> Any:
    match rest:
        case ["types"]:
            return list(LANGUAGES)
        case ["guids", guid]:
            return store.by_guid(guid)
        case ["ids", number]:
            return store.by_id(_id(number))
        case ["ids", number, "versions"]:
            return store.uses(_id(number))
        case ["ids", number, "subjects"]:
            return list(dict.fromkeys(use["subject"] for use in store.uses(_id(number))))
        case _:
            raise NOT_FOUND


def _id(text: str) -> int:
    if not text.isdecimal():
        raise NOT_FOUND
    return int(text)


def _number(text: str) -> int:
    if text in ("latest", "-1"):
        return LATEST
    if not text.isdecimal() or int(text) < 1:
        raise RegistryRefusal(INVALID_VERSION, f"The specified version '{text}' is not a valid version id.")
    return int(text)


def _body(text: str, language: Language, given: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
    return {"schema": text, "schemaType": str(language), "references": references(given)}


def _authorizations(basic_auth: str | None, bearer_token: str | None) -> list[str]:
    accepted = []
    if basic_auth is not None:
        accepted.append(f"Basic {base64.b64encode(basic_auth.encode()).decode()}")
    if bearer_token is not None:
        accepted.append(f"Bearer {bearer_token}")
    return accepted


def _context(tls: ServerTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    if tls.client_authority:
        context.load_verify_locations(tls.client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that goes away or fails the TLS handshake is no news here."""


def _handler(registry: EmbeddedRegistry) -> type[BaseHTTPRequestHandler]:
    # HTTP/1.0, one request per connection: nothing goes on answering after a stop.
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: the requests are listed in the registry."""

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization") or ""
            status, answer = registry.answer(self.command, self.path, authorization=authorization, content=content)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    for method in ("GET", "POST", "DELETE", "PUT"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
