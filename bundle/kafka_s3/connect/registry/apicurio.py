"""What does an Apicurio registry know of a schema? Asked over its own REST interface, as Apicurio's converters do.

::

    <url>/ids/globalIds/<id>, <url>/ids/contentIds/<id>      the schema's text
    .../references                                           what it refers to: group, artifact, version, name
    <url>/groups/<g>/artifacts/<a>/versions/<v>[/content]    a text that is referred to; /content from version 3 on

`<url>` ends in `/apis/registry/v2` or `/apis/registry/v3`. Apicurio's Confluent-compatible interface is asked by `connect.registry.client`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from kafka_s3.connect.registry.cache import BoundedCache
from kafka_s3.connect.registry.http import Http
from kafka_s3.connect.registry.options import RegistryOptions
from kafka_s3.connect.schemas.registered import Language, Reference, RegisteredSchema
from kafka_s3.model.errors import RegistryError, UnknownSchema

DEEPEST: Final = 100


class _Unknown(str):
    """Kept in place of an answer: the registry said that there is none, in these words."""


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
        self._requests = threading.Lock()
        self._schemas: BoundedCache[RegisteredSchema | _Unknown] = BoundedCache(options.http.cache_size, clock=clock)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id of the configured kind."""
        with self._requests:
            found = self._schemas.get(schema_id)
            if found is None:
                try:
                    found = self._asked(schema_id)
                    self._schemas.put(schema_id, found)
                except UnknownSchema as error:
                    self._schemas.put(schema_id, _Unknown(error), ttl_s=self.options.http.negative_ttl_s)
                    raise
        if isinstance(found, _Unknown):
            raise UnknownSchema(str(found))
        return found

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

    def _asked(self, schema_id: int) -> RegisteredSchema:
        what = f"schema {self.options.ids.removesuffix('s')} {schema_id}"
        place = f"{self._url}/ids/{self.options.ids}/{schema_id}"
        text = self._http.get(place, what).decode()
        references = tuple(self._references(place, what, done=set(), depth=0))
        return RegisteredSchema(self.options.language, text, references)

    def _references(self, place: str, what: str, *, done: set[str], depth: int) -> Iterator[Reference]:
        """All texts that the one at this place refers to, each once, after those it needs itself."""
        if depth > DEEPEST:
            raise RegistryError(f"The references of {what} at {self.options.shown_urls} go in a circle, or too deep.")
        for reference in self._listed(f"{place}/references", what):
            name = str(reference["name"])
            if name not in done:
                done.add(name)
                target = self._version(reference)
                suffix = "/content" if self._url.endswith("v3") else ""
                text = self._http.get(target + suffix, f"{name}, to which {what} refers").decode()
                yield from self._references(target, what, done=done, depth=depth + 1)
                yield Reference(name, text)

    def _listed(self, place: str, what: str) -> list[Mapping[str, Any]]:
        found = json.loads(self._http.get(place, f"references of {what}"))
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
