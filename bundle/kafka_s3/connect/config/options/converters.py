"""Which settings do the converters of keys, values and headers read, those of AWS Glue and Apicurio included? (SEMANTICS A1.4, A11)

The same rows exist below `key.converter.` and `value.converter.`; a converter ignores, with a warning, what only others read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kafka_s3.connect.config.classes import CONVERTERS, HEADER_CONVERTERS, OTHER_CONVERTERS, OWN_CONVERTER
from kafka_s3.connect.config.option import (
    InvalidValue,
    KnownClass,
    OneOf,
    OneOfAnyCase,
    Option,
    OptionGroup,
    OptionStatus,
    Range,
    Type,
    Value,
    accepts,
    anything,
)

_INT, _TEXT, _FLAG, _SECRET = Type.INT, Type.STRING, Type.BOOLEAN, Type.PASSWORD
_IDLE, _GROUP = OptionStatus.INFORMATIONAL, OptionGroup.CONVERTERS


_WRITING = "It is about writing; a sink only reads."
_SERDE: Final = "io.apicurio.registry.serde."
_NOT_READ: Final = "It is about writing, or about the cache of the original; the sink asks for each schema once."
ID_HANDLERS: Final = {
    f"{_SERDE}DefaultIdHandler": "8",
    f"{_SERDE}Legacy8ByteIdHandler": "8",
    f"{_SERDE}Legacy4ByteIdHandler": "4",
    f"{_SERDE}Default4ByteIdHandler": "4",
    f"{_SERDE}OptimisticFallbackIdHandler": "either",
}
"""Apicurio's handlers by the bytes of an id; its version 2 has the first and the third, version 3 the others."""


@accepts(", ".join(ID_HANDLERS))
def id_handler(value: Value) -> Value:
    """Apicurio's own handlers of ids, or none."""
    return str(KnownClass(ID_HANDLERS).accept(str(value))) if value else ""


@accepts("TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy")
def strategy_name(value: Value) -> Value:
    """Subject name strategies, by class name or short name."""
    from kafka_s3.connect.registry.options import strategy_of

    try:
        return str(strategy_of(str(value)))
    except ValueError:
        raise InvalidValue(f"must be one of: {strategy_name.text}.") from None


def _row(name: str, type_: Type, default: str | None, doc: str, **more: Any) -> Option:
    """A row by the name that it has below every converter's prefix."""
    return Option(name, type_, default, doc, _GROUP, **more)


_PLAIN: Final = (
    _row("schemas.enable", _FLAG, "true", "JSON converter: every message is an envelope of schema and payload."),
    _row("encoding", _TEXT, "UTF-8", "String converter: the character set.", valid=OneOfAnyCase(("UTF-8", "UTF8")),
         note="Only UTF-8 is supported."),
    _row("replace.null.with.default", _FLAG, "true", "JSON converter: null becomes the field's default.", not_yet=("false",),
         note="Leave it true."),
    _row("schemas.cache.size", _INT, "1000", "JSON converter: size of its schema cache.", status=_IDLE,
         note="A tuning value of the original."),
    _row("decimal.format", _TEXT, "BASE64", "JSON Schema converter: the form of decimals. The JSON converter reads both forms.",
         valid=OneOfAnyCase(("BASE64", "NUMERIC"))),
)  # fmt: skip
_REACHED: Final = (
    _row("schema.registry.url", Type.LIST, "", "Addresses of the schema registry."),
    _row("basic.auth.credentials.source", _TEXT, "URL", "Where user and password of the registry come from.",
         valid=OneOf(("URL", "USER_INFO", "SASL_INHERIT")), not_yet=("SASL_INHERIT",), note="Use USER_INFO or URL."),
    _row("basic.auth.user.info", _SECRET, None, "User and password, `user:password`."),
    _row("schema.registry.basic.auth.user.info", _SECRET, None, "Older name of basic.auth.user.info."),
    _row("bearer.auth.credentials.source", _TEXT, "", "Where the bearer token comes from.", valid=OneOf(("", "STATIC_TOKEN"))),
    _row("bearer.auth.token", _SECRET, None, "The bearer token."),
    _row("bearer.auth.logical.cluster", _TEXT, "", "Logical cluster that goes with the token."),
    _row("bearer.auth.identity.pool.id", _TEXT, "", "Identity pool that goes with the token."),
)  # fmt: skip
_SSL: Final = "schema.registry.ssl."
PEM_OF_TRUST: Final = (
    "Convert it: keytool -list -rfc -keystore truststore.jks > truststore.pem; then name that file, without "
    "schema.registry.ssl.truststore.type and password."
)
PEM_OF_KEYS: Final = (
    "Convert it: keytool -importkeystore -srckeystore keystore.jks -destkeystore keystore.p12 -deststoretype PKCS12, then "
    "openssl pkcs12 -in keystore.p12 -out keystore.pem; then name that file, without schema.registry.ssl.keystore.type, and give the "
    "password of its key as schema.registry.ssl.key.password."
)
_TLS: Final = (
    _row(_SSL + "truststore.type", _TEXT, "PEM", "Form of the trusted certificates.", valid=OneOf(("PEM",)),
         note=PEM_OF_TRUST),
    _row(_SSL + "truststore.location", _TEXT, "", "PEM file of the certificates that are trusted."),
    _row(_SSL + "truststore.password", _SECRET, None, "Password of the store.", status=_IDLE, note="PEM has none."),
    _row(_SSL + "truststore.certificates", _TEXT, "", "Trusted certificates in PEM form."),
    _row(_SSL + "keystore.type", _TEXT, "PEM", "Form of the client's certificate.", valid=OneOf(("PEM",)),
         note=PEM_OF_KEYS),
    _row(_SSL + "keystore.location", _TEXT, "", "PEM file of the client's certificate and key."),
    _row(_SSL + "keystore.password", _SECRET, None, "Password of the store.", status=_IDLE,
         note="PEM has none; that of the key is schema.registry.ssl.key.password."),
    _row(_SSL + "keystore.certificate.chain", _TEXT, "", "The client's certificate in PEM form."),
    _row(_SSL + "keystore.key", _SECRET, None, "The client's key in PEM form."),
    _row(_SSL + "key.password", _SECRET, None, "Password of the client's key."),
)  # fmt: skip
_DUAL: Final = "io.confluent.kafka.serializers.schema.id.DualSchemaIdDeserializer"
_ID_NOTE: Final = "The header goes before the bytes; records without it are read by their bytes."
_SUBJECTS: Final = (
    _row("key.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subject of key schemas.", valid=strategy_name),
    _row("value.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subject of value schemas.", valid=strategy_name),
    _row("use.latest.version", _FLAG, "false", "Read with the subject's latest schema.", not_yet=("true",),
         note="Records are read with the schema they were written with."),
    _row("latest.compatibility.strict", _FLAG, "true", "Check that latest schema.", status=_IDLE, note=_WRITING),
    _row("auto.register.schemas", _FLAG, "true", "Register schemas.", status=_IDLE, note=_WRITING),
    _row("reference.subject.name.strategy", _TEXT, "DefaultReferenceSubjectNameStrategy", "Subject of schemas that are referred to.",
         status=_IDLE, note=_WRITING),
    _row("use.schema.guid", _FLAG, "false", "Name schemas by GUIDs.", status=_IDLE, note=_WRITING),
    _row("key.schema.id.deserializer", _TEXT, _DUAL, "Where records name their keys' schemas.", valid=OneOf((_DUAL,)), note=_ID_NOTE),
    _row("value.schema.id.deserializer", _TEXT, _DUAL, "Where records name their values' schemas.", valid=OneOf((_DUAL,)), note=_ID_NOTE),
    _row("schemas.cache.config", _INT, "1000", "Schemas kept in memory.", valid=Range(1, 2**31 - 1)),
)  # fmt: skip
_LANGUAGES: Final = (
    _row("enhanced.avro.schema.support", _FLAG, "false", "Avro: keep enums and the package part of names."),
    _row("connect.meta.data", _FLAG, "true", "Avro: read Connect's own properties of a schema."),
    _row("flatten.singleton.unions", _FLAG, "false", "Avro: a union of one type is that type.", not_yet=("true",), note="Leave it false."),
    _row("ignore.default.for.nullables", _FLAG, "false", "Null stays null where a field has a default.", not_yet=("true",),
         note="Leave it false."),
    _row("allow.optional.map.keys", _FLAG, "false", "Avro: keys of maps may be optional.", status=_IDLE, note=_WRITING),
    _row("scrub.invalid.names", _FLAG, "false", "Replace what a name must not hold in another language."),
    _row("optional.for.nullables", _FLAG, "false", "Protobuf: only fields that may be absent are optional."),
    _row("optional.for.proto2", _FLAG, "true", "Protobuf: optional fields of proto2 that are absent are null."),
    _row("wrapper.for.nullables", _FLAG, "false", "Protobuf: wrapper messages are optional values."),
    _row("wrapper.for.raw.primitives", _FLAG, "true", "Protobuf: a record that is a wrapper message is its value."),
    _row("generate.index.for.unions", _FLAG, "true", "Protobuf: number the fields that stand for a oneof."),
    _row("generate.struct.for.nulls", _FLAG, "false", "Protobuf: what is absent has its default, messages too."),
    _row("int.for.enums", _FLAG, "false", "Protobuf: enums are numbers."),
    _row("flatten.unions", _FLAG, "false", "Protobuf: the members of a oneof are fields like the others."),
    _row("enhanced.protobuf.schema.support", _FLAG, "false", "Protobuf: keep package names."),
    _row("json.fail.invalid.schema", _FLAG, "false", "JSON Schema: check every record against its schema."),
    _row("use.optional.for.nonrequired", _FLAG, "false", "JSON Schema: fields that are not required are optional."),
    _row("object.additional.properties", _FLAG, "true", "JSON Schema: objects may have more members.", status=_IDLE, note=_WRITING),
)  # fmt: skip


GLUE: Final = (
    _row("region", _TEXT, "", "AWS Glue: region of the registry; blank: that of the surroundings."),
    _row("endpoint", _TEXT, "", "AWS Glue: address of another endpoint, as of a private link."),
    _row("proxyUrl", _TEXT, "", "AWS Glue: HTTP proxy; blank: that of the surroundings."),
    _row("cacheSize", _INT, "200", "AWS Glue: schema versions kept in memory.", valid=Range(1, 2**31 - 1)),
    _row("secondaryDeserializer", _TEXT, "", "AWS Glue: class that reads records of another registry.", status=OptionStatus.REFUSED,
         note="Records of another registry are dead letters; read them with a sink of their own."),
    *(_row(name, _TEXT, None, "AWS Glue: about registering, writing or the original's cache.", status=_IDLE, note=_NOT_READ) for name in (
        "registry.name", "schemaName", "schemaNameGenerationClass", "schemaAutoRegistrationEnabled", "dataFormat", "avroRecordType",
        "compression", "compatibility", "description", "tags", "metadata", "userAgentApp", "timeToLiveMillis", "protobufMessageType",
        "jacksonSerializationFeatures", "jacksonDeserializationFeatures", "registerJavaTimeModule", "objectMapperFactory")),
)  # fmt: skip


def _login_rows(prefix: str, older: str = "") -> Iterator[Option]:
    yield _row(f"{prefix}username", _TEXT, "", f"Apicurio: user{older}.")
    yield _row(f"{prefix}password", _SECRET, None, f"Apicurio: password{older}.")
    yield _row(f"{prefix}service.token.endpoint", _TEXT, "", f"Apicurio: where tokens come from{older}.")
    yield _row(f"{prefix}client.id", _TEXT, "", f"Apicurio: client id for a token{older}.")
    yield _row(f"{prefix}client.secret", _SECRET, None, f"Apicurio: client secret for a token{older}.")
    yield _row(f"{prefix}client.scope", _TEXT, "", f"Apicurio: scope of the token{older}.")


_IDS: Final = OneOfAnyCase(("", "globalId", "contentId"))
APICURIO: Final = (
    _row("apicurio.registry.url", _TEXT, "", "Apicurio: address, up to `/apis/registry/v2` or `/v3`."),
    _row("apicurio.registry.id-handler", Type.CLASS, "", "Apicurio: how many bytes an id has. By default 8 with version 2 of the "
         "interface and 4 with version 3.", valid=id_handler, note="Own classes are never loaded."),
    _row("apicurio.registry.as-confluent", _FLAG, "false", "Apicurio 2: ids have 4 bytes."),
    _row("apicurio.registry.use-id", _TEXT, "", "Apicurio: which id records carry; by default globalId with version 2 of the "
         "interface, contentId with version 3.", valid=_IDS),
    _row("apicurio.use-id", _TEXT, "", "Apicurio: older name of apicurio.registry.use-id.", valid=_IDS),
    _row("apicurio.registry.headers.enabled", _FLAG, "false", "Apicurio: ids are in headers of records.", not_yet=("true",),
         note="Ids are read in front of the payload: producers set apicurio.registry.headers.enabled=false."),
    _row("apicurio.registry.avro.encoding", _TEXT, "BINARY", "Apicurio: form of Avro payloads.", valid=OneOf(("BINARY", "JSON")),
         not_yet=("JSON",), note="Avro's JSON form is not read."),
    *_login_rows("apicurio.auth.", "; the name of version 2"),
    *_login_rows("apicurio.registry.auth."),
    *(_row(f"apicurio.registry.{name}", _TEXT, None, "Apicurio: about registering, writing or the original's cache.", status=_IDLE,
           note=_NOT_READ) for name in (
        "auto-register", "auto-register.if-exists", "find-latest", "artifact-resolver-strategy", "artifact.group-id",
        "artifact.artifact-id", "artifact.version", "check-period-ms", "retry-count", "retry-backoff-ms", "avro-datum-provider")),
    _row("apicurio.*", _TEXT, None, "Any other setting of Apicurio's converters.", status=OptionStatus.REFUSED,
         note="TLS goes by the certificate authorities of the machine; ids are read in front of the payload, without fallback."),
)  # fmt: skip


def _rows(side: str) -> Iterator[Option]:
    own = _row("converter.type", _TEXT, side, "Set by Connect itself.", status=_IDLE, note="Set by Connect itself.")
    rest = _row("*", _TEXT, None, "Further settings of the converter.", status=_IDLE, note="No converter reads it.")
    for row in (*_PLAIN, *_REACHED, *_TLS, *_SUBJECTS, *_LANGUAGES, *GLUE, *APICURIO, own, rest):
        yield replace(row, key=f"{side}.converter.{row.key}")


_CONVERTER: Final = KnownClass(CONVERTERS, others=OTHER_CONVERTERS, instead=OWN_CONVERTER)
ROWS: Final = (
    Option("key.converter", Type.CLASS, "org.apache.kafka.connect.storage.StringConverter", "Converter of record keys. They are read "
           "where they are stored (store.kafka.keys), and always under compatibility.strict.", _GROUP, valid=_CONVERTER),
    *_rows("key"),
    Option("value.converter", Type.CLASS, None, "Converter of record values. Taken from Connect's worker file if that is given.", _GROUP,
           valid=_CONVERTER, required=True),
    *_rows("value"),
    Option("header.converter", Type.CLASS, "simple", "Converter of record headers, whose values are stored as text. They are "
           "read where they are stored (store.kafka.headers).", _GROUP,
           valid=KnownClass(HEADER_CONVERTERS, others=OTHER_CONVERTERS)),
    Option("header.converter.schemas.enable", _FLAG, "true", "JSON converter: every header is an envelope of schema and payload.", _GROUP),
    Option("header.converter.*", _TEXT, None, "Settings of the header converter.", _GROUP, valid=anything, status=_IDLE,
           note="No header converter reads it."),
)  # fmt: skip
