"""What does the schema registry know of a schema? Asked over HTTP, seldom: answers are kept.

confluent-kafka does HTTP, TLS and authentication and repeats what failed; this module resolves references, keeps answers within bounds, and
says who has to act on an error. Nothing is ever written to the registry.
"""

from __future__ import annotations

import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka.schema_registry import RegisteredSchema as ClientSchema
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

from kafka_s3.connect.registry.cache import AnswerCache, BoundedCache
from kafka_s3.connect.registry.options import PEM_MARK, RegistryOptions
from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema
from kafka_s3.model.addresses import ForbiddenAddress, check_url
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema

SHOWN_CHARACTERS: Final = 300


def connect(options: RegistryOptions) -> SchemaRegistryClient:
    """confluent-kafka's client; it sends nothing yet. Raises RegistryError where certificates or credentials cannot be used."""
    # Certificates are loaded at once, so that files made from PEM text need not outlive this.
    with tempfile.TemporaryDirectory(prefix="kafka-s3-registry-") as folder:
        try:
            return SchemaRegistryClient(_configuration(options, Path(folder)))
        except (OSError, ValueError, TypeError) as error:
            reason = options.masked(str(error))
            client = f"The client of the schema registry at {options.shown_urls}"
            raise RegistryError(f"{client} cannot be set up ({reason}): check certificates and credentials.") from None


def _configuration(options: RegistryOptions, folder: Path) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "url": ",".join(options.urls),
        "timeout": options.timeout_s,
        "max.retries": options.retries,
        "retries.wait.ms": options.backoff_ms,
    }
    if options.basic_auth:
        configuration["basic.auth.user.info"] = options.basic_auth.reveal()
    if options.bearer_token:
        configuration |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": options.bearer_token.reveal().strip(),
            "bearer.auth.logical.cluster": options.logical_cluster,
        }
        if options.identity_pool:
            configuration["bearer.auth.identity.pool.id"] = options.identity_pool
    if options.ca:
        configuration["ssl.ca.location"] = _path(options.ca, folder / "ca.pem")
    elif all(url.startswith("http://") for url in options.urls):
        configuration["ssl.ca.location"] = False  # to load authorities takes a new sink 20 ms, and nothing is encrypted
    if options.client_certificate:
        configuration["ssl.certificate.location"] = _path(options.client_certificate, folder / "certificate.pem")
        # Without any password OpenSSL would ask the terminal for that of an encrypted key.
        configuration["ssl.key.password"] = options.client_key_password.reveal() if options.client_key_password else ""
        if options.client_key:
            configuration["ssl.key.location"] = _path(options.client_key.reveal(), folder / "key.pem")
    return configuration


def _path(given: str, file: Path) -> str:
    """The path that was given, or that of a new file with the PEM text that was given."""
    if PEM_MARK not in given:
        return given
    file.write_text(given)
    return str(file)


def registry_error(error: Exception, what: str, *, options: RegistryOptions) -> RegistryError:
    """What a failed request for `what` means to whoever has to act on it; free of secrets."""
    registry = f"The schema registry at {options.shown_urls}"
    if isinstance(error, SchemaRegistryError):
        return _refusal(error, what, options=options)
    # By name, because confluent-kafka takes one of two HTTP packages and says which in a private module only.
    if any(kind.__name__ == "TransportError" for kind in type(error).__mro__):
        cause = next((link for link in _chain(error) if isinstance(link, OSError)), None)
        reason = options.masked(f"{type(error).__name__}: {cause}" if cause else type(error).__name__)
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return RegistryError(
                f"{registry} and this client do not agree on TLS ({reason}): check the certificates and authorities."
            )
        return RegistryUnavailable(
            f"{registry} did not answer the request for {what}, tried {options.retries + 1} times ({reason})."
        )
    return RegistryError(
        f"{registry} did not answer the request for {what} as a schema registry does ({type(error).__name__}): check schema.registry.url."
    )


def _refusal(error: SchemaRegistryError, what: str, *, options: RegistryOptions) -> RegistryError:
    registry, status, code = f"The schema registry at {options.shown_urls}", error.http_status_code, error.error_code
    answer = options.masked(f"HTTP {status}, error {code}: {error.error_message}")[:SHOWN_CHARACTERS]
    if status == 404 and isinstance(code, int) and 40400 < code < 40500:
        return UnknownSchema(f"{registry} has no {what} ({answer}).")
    if status == 404:
        return RegistryError(
            f"{registry} does not know how to give {what} ({answer}): check schema.registry.url and the registry's version."
        )
    if status in (401, 403):
        return RegistryError(
            f"{registry} refused access to {what} (HTTP {status}): check basic.auth.user.info or the bearer token, and what they may read."
        )
    if status >= 500 or status in (408, 429):
        return RegistryUnavailable(f"{registry} failed at the request for {what}, after all retries ({answer}).")
    return RegistryError(f"{registry} refused the request for {what} ({answer}).")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


T = TypeVar("T")

LARGEST_ID: Final = 2**31 - 1
SERIALIZED: Final = "serialized"


class RegistryClient:
    """A `SchemaRegistry` over HTTP. Safe for threads, which send one request at a time; close it when done.

    Methods raise UnknownSchema, RegistryUnavailable after all retries, or RegistryError where the registry refuses. The constructor sends
    nothing; it raises RegistryError where certificates cannot be read. `clock` gives seconds.
    """

    def __init__(self, options: RegistryOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._client = connect(options)
        self._requests = threading.RLock()
        bounds = partial(
            AnswerCache, options.cache_size, negative_ttl_s=options.negative_ttl_s, clock=clock, requests=self._requests
        )
        self._schemas: AnswerCache[RegisteredSchema] = bounds()
        self._latest: AnswerCache[tuple[int, RegisteredSchema]] = bounds()
        self._versions: AnswerCache[int] = bounds()
        self._referenced: AnswerCache[Schema] = bounds()
        # As registered, with the subjects of its references: what a look-up in a subject must send.
        self._sources: BoundedCache[Schema] = BoundedCache(4 * options.cache_size, clock=clock)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of a global id."""
        what = f"schema id {schema_id}"
        if not 0 <= schema_id <= LARGEST_ID:
            raise UnknownSchema(
                f"There can be no {what}: ids of a schema registry are positive. The record is damaged."
            )
        return self._schemas.get(
            schema_id, lambda: self._read(what, lambda form: self._client.get_schema(schema_id, fmt=form))
        )

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The schema of a GUID, written with dashes."""
        what = f"schema GUID {guid}"
        return self._schemas.get(
            guid, lambda: self._read(what, lambda form: self._client.get_schema_by_guid(guid, fmt=form))
        )

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The schema's version number in a subject, None where the subject does not have it; deleted versions count, as they do in Connect.

        A schema with references must have come from this client.
        """
        try:
            return self._versions.get((subject, schema), lambda: self._look_up(subject, schema))
        except UnknownSchema:
            return None

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """The subject's newest version and its schema, at most `latest_ttl_s` old."""
        return self._latest.get(subject, lambda: self._newest(subject), ttl_s=self.options.latest_ttl_s)

    def close(self) -> None:
        """Closes the connections."""
        self._client.__exit__(None, None, None)

    def _read(self, what: str, request: Callable[[str | None], Schema]) -> RegisteredSchema:
        source = self._ask(what, lambda: request(None))
        language = self._language(what, source)
        references = tuple(self._resolved(what, source.references or [], language=language))
        text = self._text(what, source, request=request)
        schema = RegisteredSchema(language, text, references, _properties(source))
        self._sources.put(schema, source)
        return schema

    def _text(self, what: str, source: Schema, *, request: Callable[[str | None], Schema]) -> str:
        """The schema's text; a Protobuf file's in serialized form where the registry has that, for it saves a parser of .proto files."""
        if source.schema_type == Language.PROTOBUF:
            try:
                source = self._ask(what, lambda: request(SERIALIZED))
            except (UnknownSchema, RegistryUnavailable):
                raise
            except RegistryError:
                pass  # a registry that does not know the form; the .proto file will do
        if source.schema_str is None:
            raise RegistryError(
                f"The answer of {self.options.shown_urls} holds no text of {what}: check schema.registry.url."
            )
        return str(source.schema_str)

    def _resolved(self, what: str, references: list[SchemaReference], *, language: Language) -> Iterator[Reference]:
        """All schemas that are referred to, each once, after those it needs itself; of two with one name the first counts."""
        done: set[str] = set()

        def resolve(wanted: list[SchemaReference], path: tuple[tuple[str, int], ...]) -> Iterator[Reference]:
            for reference in wanted:
                version_key = (str(reference.subject), _version_of(reference))
                if version_key in path:
                    circle = " -> ".join(f"{subject} version {version}" for subject, version in (*path, version_key))
                    raise RegistryError(
                        f"The references of {what} at {self.options.shown_urls} go in a circle: {circle}."
                    )
                if reference.name not in done:
                    target = self._version(what, reference, language=language)
                    yield from resolve(target.references or [], (*path, version_key))
                    done.add(str(reference.name))
                    yield Reference(str(reference.name), str(target.schema_str))

        return resolve(references, ())

    def _version(self, what: str, reference: SchemaReference, *, language: Language) -> Schema:
        subject, version = str(reference.subject), _version_of(reference)
        name = f"version {version} of subject {subject}, to which {what} refers as {reference.name}"

        def request(form: str | None) -> Schema:
            return self._client.get_version(subject, version, deleted=True, fmt=form).schema

        def load() -> Schema:
            source = self._ask(name, lambda: request(None))
            text = self._text(name, source, request=request)
            return Schema(text, str(language), source.references)

        return self._referenced.get((subject, version), load)

    def _newest(self, subject: str) -> tuple[int, RegisteredSchema]:
        what = f"latest version of subject {subject}"
        newest = self._ask(what, lambda: self._client.get_version(subject, "latest"))
        version = self._ask(what, lambda: _version_of(newest))

        def request(form: str | None) -> Schema:
            return newest.schema if form is None else self._client.get_version(subject, version, fmt=form).schema

        return version, self._read(what, request)

    def _look_up(self, subject: str, schema: RegisteredSchema) -> int:
        source = self._sources.get(schema)
        if source is None and schema.references:
            raise RegistryError(
                f"The version of a schema in subject {subject} cannot be looked up: it has references, and this client has not read it."
            )
        source = source or Schema(schema.text, str(schema.language), [])
        what = f"such a schema in subject {subject}"
        return self._ask(what, lambda: _version_of(self._client.lookup_schema(subject, source, deleted=True)))

    def _language(self, what: str, source: Schema) -> Language:
        try:
            return Language(str(source.schema_type))
        except ValueError:
            known = ", ".join(Language)
            raise RegistryError(
                f"The {what} at {self.options.shown_urls} is of the unknown type {source.schema_type!r}: known are {known}."
            ) from None

    def _ask(self, what: str, request: Callable[[], T]) -> T:
        with self._requests:
            self._client.clear_caches()  # they have no bounds, and do not tell the forms of a schema apart
            try:
                for url in self.options.urls:
                    check_url(url)
                return request()
            except ForbiddenAddress as error:
                raise RegistryError(
                    f"The {what} is not asked for: {self.options.masked(str(error))}. Check schema.registry.url."
                ) from None
            except Exception as error:
                # Not chained: a refused header's error would show the header.
                raise registry_error(error, what, options=self.options) from None


def _properties(source: Schema) -> tuple[tuple[str, str], ...]:
    properties = source.metadata.properties if source.metadata else None
    return tuple(sorted(properties.properties.items())) if properties else ()


def _version_of(registered: ClientSchema | SchemaReference) -> int:
    """The version that the registry gave. Raises ValueError where it gave none."""
    if registered.version is None:
        raise ValueError("The registry's answer names no version.")
    return int(registered.version)
