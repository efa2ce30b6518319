"""Which settings do the converters of keys, values and headers read? (SEMANTICS A1.4, A11)

The same rows exist below `key.converter.` and `value.converter.`; a converter ignores, with a warning, what only others read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_s3.config.classes import CONVERTERS, HEADER_CONVERTERS, OTHER_CONVERTERS
from kafka_s3.config.option import (
    Anything,
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
)
from kafka_s3.config.options.registries import registry_rows

_INT, _TEXT, _FLAG, _SECRET = Type.INT, Type.STRING, Type.BOOLEAN, Type.PASSWORD
_IDLE, _GROUP = OptionStatus.INFORMATIONAL, OptionGroup.CONVERTERS
_WRITING = "It is about writing; a sink only reads."


class Strategy:
    """Subject name strategies, by class name or short name."""

    text = "TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy"

    def accept(self, value: Value) -> Value:
        """The short name."""
        from kafka_s3.registry.subjects import strategy_of

        try:
            return str(strategy_of(str(value)))
        except ValueError:
            raise InvalidValue(f"must be one of: {self.text}.") from None


def _rows(prefix: str) -> Iterator[Option]:
    def row(name: str, type_: Type, default: str | None, doc: str, **more: object) -> Option:
        return Option(prefix + name, type_, default, doc, _GROUP, **more)  # type: ignore[arg-type]

    yield row("schemas.enable", _FLAG, "true", "JSON converter: every message is an envelope of schema and payload.")
    yield row(
        "encoding",
        _TEXT,
        "UTF-8",
        "String converter: the character set.",
        valid=OneOfAnyCase(("UTF-8", "UTF8")),
        note="Only UTF-8 is supported.",
    )
    yield row(
        "replace.null.with.default",
        _FLAG,
        "true",
        "JSON converter: null becomes the field's default.",
        not_yet=("false",),
        note="Leave it true.",
    )
    yield row(
        "schemas.cache.size",
        _INT,
        "1000",
        "JSON converter: size of its schema cache.",
        status=_IDLE,
        note="A tuning value of the original.",
    )
    yield row(
        "decimal.format",
        _TEXT,
        "BASE64",
        "JSON Schema converter: the form of decimals. The JSON converter reads both forms.",
        valid=OneOfAnyCase(("BASE64", "NUMERIC")),
    )
    yield row("schema.registry.url", Type.LIST, "", "Addresses of the schema registry.")
    yield row(
        "basic.auth.credentials.source",
        _TEXT,
        "URL",
        "Where user and password of the registry come from.",
        valid=OneOf(("URL", "USER_INFO", "SASL_INHERIT")),
        not_yet=("SASL_INHERIT",),
        note="Use USER_INFO or URL.",
    )
    yield row("basic.auth.user.info", _SECRET, None, "User and password, `user:password`.")
    yield row("schema.registry.basic.auth.user.info", _SECRET, None, "Older name of basic.auth.user.info.")
    yield row(
        "bearer.auth.credentials.source",
        _TEXT,
        "",
        "Where the bearer token comes from.",
        valid=OneOf(("", "STATIC_TOKEN")),
    )
    yield row("bearer.auth.token", _SECRET, None, "The bearer token.")
    yield row("bearer.auth.logical.cluster", _TEXT, "", "Logical cluster that goes with the token.")
    yield row("bearer.auth.identity.pool.id", _TEXT, "", "Identity pool that goes with the token.")
    ssl = "schema.registry.ssl."
    yield row(
        ssl + "truststore.type",
        _TEXT,
        "PEM",
        "Form of the trusted certificates.",
        valid=OneOf(("PEM",)),
        note="Convert a JKS store to PEM: keytool -exportcert -rfc.",
    )
    yield row(ssl + "truststore.location", _TEXT, "", "PEM file of the certificates that are trusted.")
    yield row(ssl + "truststore.certificates", _TEXT, "", "Trusted certificates in PEM form.")
    yield row(
        ssl + "keystore.type",
        _TEXT,
        "PEM",
        "Form of the client's certificate.",
        valid=OneOf(("PEM",)),
        note="Convert a JKS store to PEM.",
    )
    yield row(ssl + "keystore.location", _TEXT, "", "PEM file of the client's certificate and key.")
    yield row(ssl + "keystore.certificate.chain", _TEXT, "", "The client's certificate in PEM form.")
    yield row(ssl + "keystore.key", _SECRET, None, "The client's key in PEM form.")
    yield row(ssl + "key.password", _SECRET, None, "Password of the client's key.")
    yield row("key.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subject of key schemas.", valid=Strategy())
    yield row("value.subject.name.strategy", _TEXT, "TopicNameStrategy", "Subject of value schemas.", valid=Strategy())
    yield row(
        "use.latest.version",
        _FLAG,
        "false",
        "Read with the subject's latest schema.",
        not_yet=("true",),
        note="Records are read with the schema they were written with.",
    )
    yield row("latest.compatibility.strict", _FLAG, "true", "Check that latest schema.", status=_IDLE, note=_WRITING)
    yield row("auto.register.schemas", _FLAG, "true", "Register schemas.", status=_IDLE, note=_WRITING)
    yield row("schemas.cache.config", _INT, "1000", "Schemas kept in memory.", valid=Range(1, 2**31 - 1))
    yield row("enhanced.avro.schema.support", _FLAG, "false", "Avro: keep enums and the package part of names.")
    yield row("connect.meta.data", _FLAG, "true", "Avro: read Connect's own properties of a schema.")
    yield row("scrub.invalid.names", _FLAG, "false", "Replace what a name must not hold in another language.")
    yield row("optional.for.nullables", _FLAG, "false", "Protobuf: only fields that may be absent are optional.")
    yield row("wrapper.for.nullables", _FLAG, "false", "Protobuf: wrapper messages are optional values.")
    yield row("generate.index.for.unions", _FLAG, "true", "Protobuf: number the fields that stand for a oneof.")
    yield row("enhanced.protobuf.schema.support", _FLAG, "false", "Protobuf: keep package names.")
    yield row("json.fail.invalid.schema", _FLAG, "false", "JSON Schema: check every record against its schema.")
    yield row("use.optional.for.nonrequired", _FLAG, "false", "JSON Schema: fields that are not required are optional.")
    yield from registry_rows(prefix)
    yield row(
        "converter.type",
        _TEXT,
        prefix.split(".")[0],
        "Set by Connect itself.",
        status=_IDLE,
        note="Set by Connect itself.",
    )
    yield row("*", _TEXT, None, "Further settings of the converter.", status=_IDLE, note="No converter reads it.")


_CONVERTER: Final = KnownClass(CONVERTERS, others=OTHER_CONVERTERS)
ROWS: Final = (
    Option("key.converter", Type.CLASS, "org.apache.kafka.connect.storage.StringConverter", "Converter of record keys. They are read "
           "where they are stored (store.kafka.keys), and always under compatibility.strict.", _GROUP, valid=_CONVERTER),
    *_rows("key.converter."),
    Option("value.converter", Type.CLASS, None, "Converter of record values. Taken from Connect's worker file if that is given.", _GROUP,
           valid=_CONVERTER, required=True),
    *_rows("value.converter."),
    Option("header.converter", Type.CLASS, "simple", "Converter of record headers, whose values are stored as text. They are "
           "read where they are stored (store.kafka.headers).", _GROUP,
           valid=KnownClass(HEADER_CONVERTERS, others=OTHER_CONVERTERS)),
    Option("header.converter.schemas.enable", _FLAG, "true", "JSON converter: every header is an envelope of schema and payload.", _GROUP),
    Option("header.converter.*", _TEXT, None, "Settings of the header converter.", _GROUP, valid=Anything(), status=_IDLE,
           note="No header converter reads it."),
)  # fmt: skip
