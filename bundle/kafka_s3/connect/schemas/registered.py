"""What does a schema registry know of a schema? Its kind, its text, and the schemas it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Language(StrEnum):
    """The schema languages of a registry, by its own names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one refers to by `name` (an Avro full name, a JSON Schema URI, a .proto path)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as registered. `references` are all that it needs, directly or not, each after those it needs itself.

    `metadata` are the registry's own properties of it; `text` of Protobuf is a .proto file or the base64 form of a FileDescriptorProto.
    """

    language: Language
    text: str
    references: tuple[Reference, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()


class SchemaRegistry(Protocol):
    """Where schemas are looked up. Methods raise UnknownSchema, RegistryUnavailable, or RegistryError where access is refused."""

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of a global id."""
        ...

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The schema of a GUID, written with dashes."""
        ...

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The schema's version number in a subject, None where the subject does not have it."""
        ...

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """The subject's newest version and its schema."""
        ...
