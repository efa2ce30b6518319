"""Which schemas, ids and versions does a schema registry hand out? The rules of Confluent's, without its HTTP."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NO_SUBJECT, NO_VERSION, NO_SCHEMA, INVALID_SCHEMA, INVALID_VERSION = 40401, 40402, 40403, 42201, 42202
LANGUAGES: Final = ("AVRO", "JSON", "PROTOBUF")
LATEST: Final = -1
CONTENT: Final = ("schema", "schemaType", "references", "metadata", "ruleSet")
NAMESPACE: Final = uuid.UUID("5b3c1c5e-6c2a-4a1e-9a64-3c0f5f0d8a11")

Body = Mapping[str, Any]


class RegistryRefusal(Exception):
    """The registry's answer to a bad request, by its own error code, which begins with the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
        """The schema of a global id."""
        if schema_id not in self._contents:
            raise RegistryRefusal(NO_SCHEMA, f"Schema {schema_id} not found")
        return dict(self._contents[schema_id])

    def by_guid(self, guid: str) -> dict[str, Any]:
        """The schema of a GUID."""
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
        """The versions of a subject."""
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
        _parsed(language, content["schema"])
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
    return json.dumps([language, _parsed(language, content["schema"]), {**content, "schema": None}], sort_keys=True)


def _parsed(language: str, text: str) -> Any:
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
