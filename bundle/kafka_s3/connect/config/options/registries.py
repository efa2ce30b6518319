"""Which settings do the converters of AWS Glue and Apicurio read? By the keys of those converters, below `key.converter.` and the like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.connect.config.option import Option, OptionGroup, OptionStatus, Type
from kafka_s3.connect.config.valid_values import Anything, KnownClass, OneOf, OneOfAnyCase, Range, Valid

_TEXT, _FLAG, _INT, _LONG, _SECRET = Type.STRING, Type.BOOLEAN, Type.INT, Type.LONG, Type.PASSWORD
_SERDE: Final = "io.apicurio.registry.serde."
_WRITING: Final = "It is about writing, or about the cache of the original; the sink asks for each schema once."
ID_HANDLERS: Final = {
    f"{_SERDE}DefaultIdHandler": "8",
    f"{_SERDE}Legacy8ByteIdHandler": "8",
    f"{_SERDE}Legacy4ByteIdHandler": "4",
    f"{_SERDE}Default4ByteIdHandler": "4",
    f"{_SERDE}OptimisticFallbackIdHandler": "either",
}
"""Apicurio's handlers by the bytes of an id; its version 2 has the first and the third, version 3 the others."""


def registry_rows(prefix: str) -> Iterator[Option]:
    """The rows below a converter's prefix."""
    yield from _glue(prefix)
    yield from _apicurio(prefix)


def _row(key: str, type_: Type, default: str | None, doc: str, valid: Valid | None = None, *, not_yet: tuple[str, ...] = (),
         note: str = "") -> Option:  # fmt: skip
    return Option(
        key, type_, default, doc, OptionGroup.CONVERTERS, valid=valid or Anything(), not_yet=not_yet, note=note
    )


def _idle(key: str, doc: str, type_: Type = _TEXT) -> Option:
    return Option(key, type_, None, doc, OptionGroup.CONVERTERS, status=OptionStatus.INFORMATIONAL, note=_WRITING)


def _glue(prefix: str) -> Iterator[Option]:
    yield _row(f"{prefix}region", _TEXT, "", "AWS Glue: region of the registry; blank: that of the surroundings.")
    yield _row(f"{prefix}endpoint", _TEXT, "", "AWS Glue: address of another endpoint, as of a private link.")
    yield _row(f"{prefix}proxyUrl", _TEXT, "", "AWS Glue: HTTP proxy; blank: that of the surroundings.")
    yield _row(f"{prefix}cacheSize", _INT, "200", "AWS Glue: schema versions kept in memory.", Range(1, 2**31 - 1))
    yield Option(
        f"{prefix}secondaryDeserializer", _TEXT, "", "AWS Glue: class that reads records of another registry.", OptionGroup.CONVERTERS,
        status=OptionStatus.REFUSED, note="Records of another registry are dead letters; read them with a sink of their own.",
    )  # fmt: skip
    writing = (
        "registry.name", "schemaName", "schemaNameGenerationClass", "schemaAutoRegistrationEnabled", "dataFormat", "avroRecordType",
        "compression", "compatibility", "description", "tags", "metadata", "userAgentApp", "timeToLiveMillis", "protobufMessageType",
        "jacksonSerializationFeatures", "jacksonDeserializationFeatures", "registerJavaTimeModule", "objectMapperFactory",
    )  # fmt: skip
    for name in writing:
        yield _idle(f"{prefix}{name}", "AWS Glue: about registering, writing or the original's cache.")


def _apicurio(prefix: str) -> Iterator[Option]:
    mine = f"{prefix}apicurio."
    yield _row(f"{mine}registry.url", _TEXT, "", "Apicurio: address, up to `/apis/registry/v2` or `/v3`.")
    yield _row(f"{mine}registry.id-handler", Type.CLASS, "", "Apicurio: how many bytes an id has. By default 8 with version 2 of the "
               "interface and 4 with version 3.", IdHandler(), note="Own classes are never loaded.")  # fmt: skip
    yield _row(f"{mine}registry.as-confluent", _FLAG, "false", "Apicurio 2: ids have 4 bytes.")
    ids = OneOfAnyCase(("", "globalId", "contentId"))
    yield _row(f"{mine}registry.use-id", _TEXT, "", "Apicurio: which id records carry; by default globalId with version 2 of the "
               "interface, contentId with version 3.", ids)  # fmt: skip
    yield _row(f"{mine}use-id", _TEXT, "", "Apicurio: older name of apicurio.registry.use-id.", ids)
    yield _row(f"{mine}registry.headers.enabled", _FLAG, "false", "Apicurio: ids are in headers of records.", not_yet=("true",),
               note="Ids are read in front of the payload: producers set apicurio.registry.headers.enabled=false.")  # fmt: skip
    yield _row(f"{mine}registry.avro.encoding", _TEXT, "BINARY", "Apicurio: form of Avro payloads.", OneOf(("BINARY", "JSON")),
               not_yet=("JSON",), note="Avro's JSON form is not read.")  # fmt: skip
    for auth in ("auth.", "registry.auth."):
        older = "; the name of version 2" if auth == "auth." else ""
        yield _row(f"{mine}{auth}username", _TEXT, "", f"Apicurio: user{older}.")
        yield _row(f"{mine}{auth}password", _SECRET, None, f"Apicurio: password{older}.")
        yield _row(f"{mine}{auth}service.token.endpoint", _TEXT, "", f"Apicurio: where tokens come from{older}.")
        yield _row(f"{mine}{auth}client.id", _TEXT, "", f"Apicurio: client id for a token{older}.")
        yield _row(f"{mine}{auth}client.secret", _SECRET, None, f"Apicurio: client secret for a token{older}.")
        yield _row(f"{mine}{auth}client.scope", _TEXT, "", f"Apicurio: scope of the token{older}.")
    writing = (
        "auto-register", "auto-register.if-exists", "find-latest", "artifact-resolver-strategy", "artifact.group-id",
        "artifact.artifact-id", "artifact.version", "check-period-ms", "retry-count", "retry-backoff-ms", "avro-datum-provider",
    )  # fmt: skip
    for name in writing:
        yield _idle(f"{mine}registry.{name}", "Apicurio: about registering, writing or the original's cache.")
    yield Option(
        f"{mine}*", _TEXT, None, "Any other setting of Apicurio's converters.", OptionGroup.CONVERTERS, status=OptionStatus.REFUSED,
        note="TLS goes by the certificate authorities of the machine; ids are read in front of the payload, without fallback.",
    )  # fmt: skip


class IdHandler:
    """Apicurio's own handlers of ids, or none."""

    text: str = ", ".join(ID_HANDLERS)

    def accept(self, value: object) -> str:
        """The bytes of an id: 8, 4, either, or blank. Raises InvalidValue."""
        return str(KnownClass(ID_HANDLERS).accept(str(value))) if value else ""
