"""What does an Apicurio registry know of a schema? Asked over its own REST interface, as Apicurio's converters do.

::

    <url>/ids/globalIds/<id>, <url>/ids/contentIds/<id>      the schema's text
    .../references                                           what it refers to: group, artifact, version, name
    <url>/groups/<g>/artifacts/<a>/versions/<v>[/content]    a text that is referred to; /content from version 3 on

`<url>` ends in `/apis/registry/v2` or `/apis/registry/v3`. Requests are plain GETs with a login, repeated where nobody answered. Apicurio's
Confluent-compatible interface is asked by `connect.registry.client`.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from kafka_s3.connect.registry.cache import AnswerCache
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema
from kafka_s3.model.addresses import careful_opener
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.model.timing import Backoff

LARGEST_ANSWER: Final = 64 << 20
LONGEST_PAUSE_MS: Final = 20_000
EARLY_S: Final = 30.0
"""A token is renewed so long before it ends."""
SHOWN_CHARACTERS: Final = 300


class Http:
    """GET requests to a registry. `basic_auth` of the options goes with each, or gets a token first where they have a `token_url`."""

    def __init__(self, options: RegistryOptions, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._opener = careful_opener()
        self._token: tuple[str, float] | None = None

    def get(self, url: str, what: str) -> bytes:
        """The answer to a request for `what`. Raises UnknownSchema, RegistryUnavailable after all retries, RegistryError."""
        return self._retry(what, lambda: self._send(urllib.request.Request(url, headers=self._login())))

    def _login(self) -> dict[str, str]:
        if self._options.basic_auth is None:
            return {}
        if not self._options.token_url:
            return {"Authorization": _basic(self._options.basic_auth.reveal())}
        if self._token is None or self._token[1] <= time.monotonic():
            self._token = self._new_token(self._options.token_url)
        return {"Authorization": f"Bearer {self._token[0]}"}

    def _new_token(self, url: str) -> tuple[str, float]:
        assert self._options.basic_auth is not None
        form = {"grant_type": "client_credentials"} | ({"scope": self._options.scope} if self._options.scope else {})
        headers = {"Authorization": _basic(self._options.basic_auth.reveal())}
        answer = json.loads(self._send(urllib.request.Request(url, urlencode(form).encode(), headers)))
        return str(answer["access_token"]), time.monotonic() + float(answer.get("expires_in", 60)) - EARLY_S

    def _send(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._options.timeout_s) as answer:
            content: bytes = answer.read(LARGEST_ANSWER + 1)
        if len(content) > LARGEST_ANSWER:
            raise ValueError(f"the answer is larger than {LARGEST_ANSWER >> 20} MiB")
        return content

    def _retry(self, what: str, request: Callable[[], bytes]) -> bytes:
        backoff, failures = Backoff(self._options.backoff_ms, LONGEST_PAUSE_MS, least=0.0), 0
        while True:
            try:
                return request()
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                known = self._error(error, what)
                failures += 1
                if not isinstance(known, RegistryUnavailable) or failures > self._options.retries:
                    raise known from None
            self._sleep(backoff.pause_ms(failures) / 1000)

    def _error(self, error: Exception, what: str) -> RegistryError:
        """What a failed request means to whoever has to act on it; free of secrets."""
        registry = f"The schema registry at {self._options.shown_urls}"
        if isinstance(error, urllib.error.HTTPError):
            answer = self._options.masked(error.read(SHOWN_CHARACTERS).decode(errors="replace"))
            if error.code == 404:
                return UnknownSchema(f"{registry} has no {what} (HTTP 404: {answer}).")
            if error.code in (401, 403):
                return RegistryError(
                    f"{registry} refused access to {what} (HTTP {error.code}): check user and password, or client id and secret."
                )
            if error.code >= 500 or error.code in (408, 429):
                return RegistryUnavailable(
                    f"{registry} failed at the request for {what}, after all retries (HTTP {error.code}: {answer})."
                )
            return RegistryError(f"{registry} refused the request for {what} (HTTP {error.code}: {answer}).")
        reason = self._options.masked(str(getattr(error, "reason", error)))[:SHOWN_CHARACTERS]
        if isinstance(error, OSError | http.client.HTTPException):
            return RegistryUnavailable(
                f"{registry} did not answer the request for {what} ({type(error).__name__}: {reason})."
            )
        return RegistryError(
            f"{registry} did not answer the request for {what} as Apicurio does ({reason}): check apicurio.registry.url."
        )


def _basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class ApicurioOptions:
    """How to reach an Apicurio registry, and which of its two kinds of ids (`globalIds`, `contentIds`) records carry."""

    http: RegistryOptions
    ids: str
    language: Language

    @property
    def shown_urls(self) -> str:
        """The address, for an error text."""
        return self.http.shown_urls


class ApicurioRegistry:
    """A `SchemaRegistry` of Apicurio. Safe for threads, which send one request at a time; nothing is written.

    Methods raise UnknownSchema, RegistryUnavailable after all retries, or RegistryError where the registry refuses. The constructor sends
    nothing.
    """

    def __init__(self, options: ApicurioOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._http = Http(options.http)
        self._url = options.http.urls[0]
        self._schemas = AnswerCache[RegisteredSchema](
            options.http.cache_size, negative_ttl_s=options.http.negative_ttl_s, clock=clock
        )

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id of the configured kind."""
        return self._schemas.get(schema_id, lambda: self._fetch(schema_id))

    def by_guid(self, guid: str) -> RegisteredSchema:
        """Apicurio has no GUIDs: never found."""
        raise UnknownSchema(f"There is no schema GUID {guid}: Apicurio names schemas by numbers.")

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        """None: Apicurio's converter gives schemas no version."""
        return None

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Never found: records name their schema."""
        raise UnknownSchema(f"The latest version of {subject} is not looked for in Apicurio.")

    def close(self) -> None:
        """Nothing is kept open."""

    def _fetch(self, schema_id: int) -> RegisteredSchema:
        what = f"schema {self.options.ids.removesuffix('s')} {schema_id}"
        url = f"{self._url}/ids/{self.options.ids}/{schema_id}"
        text = self._http.get(url, what).decode()
        references = tuple(self._references(url, what, done=set(), depth=0))
        return RegisteredSchema(self.options.language, text, references)

    def _references(self, url: str, what: str, *, done: set[str], depth: int) -> Iterator[Reference]:
        """All texts that the one at this place refers to, each once, after those it needs itself."""
        if depth > DEEPEST:
            raise RegistryError(f"The references of {what} at {self.options.shown_urls} go in a circle, or too deep.")
        for reference in self._listed(f"{url}/references", what):
            name = str(reference["name"])
            if name not in done:
                done.add(name)
                target = self._version(reference)
                suffix = "/content" if self._url.endswith("v3") else ""
                text = self._http.get(target + suffix, f"{name}, to which {what} refers").decode()
                yield from self._references(target, what, done=done, depth=depth + 1)
                yield Reference(name, text)

    def _listed(self, url: str, what: str) -> list[Mapping[str, Any]]:
        found = json.loads(self._http.get(url, f"references of {what}"))
        if not isinstance(found, list):
            raise RegistryError(
                f"{self.options.shown_urls} gave no list of references of {what}: check apicurio.registry.url."
            )
        return found

    def _version(self, reference: Mapping[str, Any]) -> str:
        group, artifact, version = (
            quote(str(reference.get(part) or "default"), safe="") for part in ("groupId", "artifactId", "version")
        )
        return f"{self._url}/groups/{group}/artifacts/{artifact}/versions/{version}"
