"""How do the demo and the tests get a schema registry? From this one, in our own process, which Confluent's clients take for theirs.

`SchemaStore` has its rules (schemas, ids, versions), `EmbeddedRegistry` the HTTP.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from kafka_s3.connect.schemas.registered import Language
from kafka_s3_testing.services.process import HOST, free_ports, require_free

NO_SUBJECT, NO_VERSION, NO_SCHEMA, INVALID_SCHEMA, INVALID_VERSION = 40401, 40402, 40403, 42201, 42202
LANGUAGES: Final = ("AVRO", "JSON", "PROTOBUF")
LATEST: Final = -1
CONTENT: Final = ("schema", "schemaType", "references", "metadata", "ruleSet")
NAMESPACE: Final = uuid.UUID("5b3c1c5e-6c2a-4a1e-9a64-3c0f5f0d8a11")
Body = Mapping[str, Any]
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryRefusal(Exception):
    """The registry's answer to a bad request, by its own error code, which begins with the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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

    def __exit__(self, *_: object) -> None:
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


@dataclass(slots=True)
class SubjectVersion:
    """One version of a subject; deleted ones stay for those who ask for them."""

    number: int
    schema_id: int
    deleted: bool = False


@dataclass(slots=True)
class SchemaStore:
    """Schemas by global id, and subjects with their versions. Every schema is compatible. Safe for threads."""

    _contents: dict[int, dict[str, Any]] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _subjects: dict[str, list[SubjectVersion]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def register(self, subject: str, body: Body) -> dict[str, Any]:
        """Adds a schema to a subject, once: the same schema has the same id everywhere and one version in a subject."""
        with self._lock:
            content = self._content(body)
            identity = _identity(content)
            schema_id = self._ids.setdefault(identity, len(self._ids) + 1)
            self._contents.setdefault(schema_id, content | {"guid": str(uuid.uuid5(NAMESPACE, identity))})
            versions = self._subjects.setdefault(subject, [])
            live = (version for version in versions if version.schema_id == schema_id and not version.deleted)
            version = next(live, None)
            if version is None:
                version = SubjectVersion(len(versions) + 1, schema_id)
                versions.append(version)
            return {"id": schema_id, "version": version.number, "guid": self._contents[schema_id]["guid"]}

    def look_up(self, subject: str, body: Body, *, deleted: bool) -> dict[str, Any]:
        """The version of a schema in a subject."""
        with self._lock:
            versions = self._versions(subject, deleted=deleted)
            schema_id = self._ids.get(_identity(self._content(body)))
            for version in reversed(versions):
                if version.schema_id == schema_id:
                    return self._described(subject, version)
            raise RegistryRefusal(NO_SCHEMA, "Schema not found")

    def by_id(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self._contents:
            raise RegistryRefusal(NO_SCHEMA, f"Schema {schema_id} not found")
        return dict(self._contents[schema_id])

    def by_guid(self, guid: str) -> dict[str, Any]:
        for schema_id, content in list(self._contents.items()):
            if content["guid"] == guid:
                return {**content, "id": schema_id}
        raise RegistryRefusal(NO_SCHEMA, f"Schema {guid} not found")

    def uses(self, schema_id: int) -> list[dict[str, Any]]:
        """The subjects and versions of a global id."""
        self.by_id(schema_id)
        with self._lock:
            return [
                {"subject": subject, "version": version.number}
                for subject, versions in self._subjects.items()
                for version in versions
                if version.schema_id == schema_id and not version.deleted
            ]

    def subjects(self, *, deleted: bool) -> list[str]:
        """The names of all subjects that have a version."""
        with self._lock:
            return [name for name, found in self._subjects.items() if any(deleted or not v.deleted for v in found)]

    def version_numbers(self, subject: str, *, deleted: bool) -> list[int]:
        with self._lock:
            return [version.number for version in self._versions(subject, deleted=deleted)]

    def version(self, subject: str, number: int, *, deleted: bool) -> dict[str, Any]:
        """One version of a subject, or its newest."""
        with self._lock:
            return self._described(subject, self._version(subject, number, deleted=deleted))

    def delete(self, subject: str, number: int | None) -> list[int]:
        """Marks a version, or all of a subject's, as deleted."""
        with self._lock:
            gone = self._versions(subject, deleted=False)
            if number is not None:
                gone = [self._version(subject, number, deleted=False)]
            for version in gone:
                version.deleted = True
            return [version.number for version in gone]

    def _versions(self, subject: str, *, deleted: bool) -> list[SubjectVersion]:
        found = [version for version in self._subjects.get(subject, ()) if deleted or not version.deleted]
        if not found:
            raise RegistryRefusal(NO_SUBJECT, f"Subject '{subject}' not found.")
        return found

    def _version(self, subject: str, number: int, *, deleted: bool) -> SubjectVersion:
        versions = self._versions(subject, deleted=deleted)
        if number == LATEST:
            return versions[-1]
        for version in versions:
            if version.number == number:
                return version
        raise RegistryRefusal(NO_VERSION, f"Version {number} not found.")

    def _described(self, subject: str, version: SubjectVersion) -> dict[str, Any]:
        return {
            "subject": subject,
            "version": version.number,
            "id": version.schema_id,
            **self._contents[version.schema_id],
        }

    def _content(self, body: Body) -> dict[str, Any]:
        """What makes a schema, checked; as in the original, Avro's type and empty members are left out."""
        language = body.get("schemaType") or "AVRO"
        if language not in LANGUAGES:
            raise RegistryRefusal(INVALID_SCHEMA, f"Invalid schema type {language}")
        content = {name: body[name] for name in CONTENT if body.get(name)}
        if not content.get("schema"):
            raise RegistryRefusal(INVALID_SCHEMA, "Empty schema")
        content["references"] = [self._reference(reference) for reference in body.get("references") or ()]
        _canonical(language, content["schema"])
        return {name: value for name, value in content.items() if value and (name, value) != ("schemaType", "AVRO")}

    def _reference(self, reference: Body) -> dict[str, Any]:
        subject, number = reference.get("subject", ""), reference.get("version", LATEST)
        try:
            found = self._version(subject, number, deleted=True)
        except RegistryRefusal as refusal:
            text = f'Invalid schema: no schema reference found for subject "{subject}" and version {number}'
            raise RegistryRefusal(INVALID_SCHEMA, text) from refusal
        return {"name": reference.get("name"), "subject": subject, "version": found.number}


def references(given: Sequence[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """References as (name, subject, version) in the registry's form."""
    return [{"name": name, "subject": subject, "version": version} for name, subject, version in given]


def _identity(content: Body) -> str:
    """Equal for schemas that are the same: layout and the order of members do not count."""
    language = content.get("schemaType", "AVRO")
    return json.dumps([language, _canonical(language, content["schema"]), {**content, "schema": None}], sort_keys=True)


def _canonical(language: str, text: str) -> Any:
    if language == "PROTOBUF":
        return _proto(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise RegistryRefusal(INVALID_SCHEMA, f"Invalid schema of type {language}: {error}") from error


def _proto(text: str) -> str:
    """A .proto file without its layout, or a serialized descriptor, which is kept as it is: this store cannot turn one into the other."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        if not any(word in text for word in ("message", "enum", "service")):
            raise RegistryRefusal(INVALID_SCHEMA, "Invalid schema of type PROTOBUF: it declares nothing") from None
    return " ".join(text.split())


def _parsed(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise RegistryRefusal(400, "The request's body is not a JSON object")
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
