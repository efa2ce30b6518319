"""Which Connect schema does an Avro schema mean? The rules of Confluent's AvroData, as the Avro converter applies them (SEMANTICS A11).

Two things that the original refuses are taken here: a decimal that is `fixed`, and a registry version for a logical type at the top.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafka_s3.connect.schemas.avro_anything import is_anything
from kafka_s3.connect.schemas.avro_defaults import connect_default
from kafka_s3.connect.schemas.avro_json import document
from kafka_s3.connect.schemas.avro_types import (
    CONVERTER_OPTIONS,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    NAMED,
    NAMESPACE,
    RECORD_DOC,
    REMEDY,
    UNION,
    AvroOptions,
    AvroType,
    is_map_entry,
    load_types,
    nullable,
    read_types,
)
from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Field,
    SchemaError,
    SchemaType,
    in_order,
)
from kafka_s3.connect.schemas.expansion import check_parts
from kafka_s3.connect.schemas.registered import Reference

__all__ = ["CONVERTER_OPTIONS", "AvroOptions", "connect_schema_of_avro", "parse_avro"]

KINDS: Final = {
    "boolean": SchemaType.BOOLEAN, "int": SchemaType.INT32, "long": SchemaType.INT64, "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64, "string": SchemaType.STRING, "bytes": SchemaType.BYTES, "fixed": SchemaType.BYTES,
    "enum": SchemaType.STRING,
}  # fmt: skip
LOGICAL: Final = {
    ("int", "date"): DATE, ("int", "time-millis"): TIME, ("long", "timestamp-millis"): TIMESTAMP,
    ("bytes", "decimal"): DECIMAL, ("fixed", "decimal"): DECIMAL,
}  # fmt: skip
SMALL_INTS: Final = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}


class _Absent:
    """Says that a field has no default, where None says that its default is null."""


ABSENT: Final = _Absent()


def parse_avro(text: str, references: Sequence[Reference] = ()) -> Any:
    """The parsed JSON of a registered schema, with the types it refers to put in where they are first used.

    Raises SchemaError for a broken schema.
    """
    return document(load_types(text, references))


def connect_schema_of_avro(avro: Any, *, options: AvroOptions, version: int | None = None) -> ConnectSchema | None:
    """The Connect schema of an Avro schema (parsed JSON), None for that of schemaless values.

    `version` is the registry's; `connect.version` overrides it. Raises SchemaError for what Connect cannot hold; that includes
    recursive types, which have no finite Connect schema.
    """
    found = read_types(avro)
    return None if is_anything(found) else _Mapping(options).schema(found, version=version)


class _Mapping:
    """Maps types under options; knows the records around the type at hand, to find recursion."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._around: list[str] = []
        self._parts = 0

    def schema(self, avro: AvroType, *, version: int | None = None, default: Any = ABSENT) -> ConnectSchema:
        """The schema of a type; `default` is the JSON of the default of the field that has the type."""
        self._parts += 1
        check_parts(self._parts)
        wrapped = nullable(avro)
        if wrapped is not None:
            # Registry version and field default do not reach the wrapped type: so it is in the original.
            return replace(self.schema(wrapped), optional=True)
        made = self._bare(avro)
        parameters = dict(made.parameters) | self._parameters(avro.props)
        own = avro.props.get("connect.default")
        if default is not ABSENT and own is None and self._options.meta_data:
            parameters[FIELD_DEFAULT] = "true"
        doc = avro.props.get("connect.doc") if self._options.meta_data else None
        made = replace(
            made,
            name=_name(avro, made),
            version=_version(avro, made, version),
            doc=doc if isinstance(doc, str) else None,
            parameters=in_order(parameters.items()),
        )
        return replace(made, default=connect_default(own if default is ABSENT else default, avro, made))

    def _bare(self, avro: AvroType) -> ConnectSchema:
        match avro.kind:
            case "record":
                return self._struct(avro)
            case "union":
                return self._union(avro)
            case "map":
                return ConnectSchema(
                    SchemaType.MAP, keys=ConnectSchema(SchemaType.STRING), values=self.schema(avro.element())
                )
            case "array" if is_map_entry(avro.element()):
                return self._entries(avro.element())
            case "array":
                return ConnectSchema(SchemaType.ARRAY, items=self.schema(avro.element()))
            case "enum":
                return ConnectSchema(SchemaType.STRING, parameters=tuple(self._enum(avro).items()))
            case "null":
                raise SchemaError("A null type that is not part of a union is not supported: it could hold nothing.")
            case _:
                return _scalar(avro)

    def _struct(self, avro: AvroType) -> ConnectSchema:
        name = avro.name or ""
        if name in self._around:
            raise SchemaError(
                f"The Avro type {name} contains itself. Recursive types are not supported; "
                "write the topic with a converter that leaves values as they are, or flatten the type."
            )
        self._around.append(name)
        fields = [
            Field(member.name, self.schema(member.type, default=member.props.get("default", ABSENT)))
            for member in avro.fields
        ]
        self._around.pop()
        parameters: dict[str, str] = {}
        if self._options.meta_data:
            docs = {RECORD_DOC: avro.props.get("doc")}
            docs |= {FIELD_DOC + member.name: member.props.get("doc") for member in avro.fields}
            parameters = {key: doc for key, doc in docs.items() if isinstance(doc, str)}
        return ConnectSchema(SchemaType.STRUCT, fields=tuple(fields), parameters=tuple(parameters.items()))

    def _union(self, avro: AvroType) -> ConnectSchema:
        fields: list[Field] = []
        for branch in avro.branches:
            if branch.kind == "null":
                continue
            name = self._branch_name(branch)
            if any(field.name == name for field in fields):
                raise SchemaError(
                    f"Multiple union schemas map to the Connect union field name {name}. "
                    "Set enhanced.avro.schema.support=true to tell them apart by their full names."
                )
            fields.append(Field(name, replace(self.schema(branch), optional=True)))
        optional = any(branch.kind == "null" for branch in avro.branches)
        return ConnectSchema(SchemaType.STRUCT, name=UNION, optional=optional, fields=tuple(fields))

    def _branch_name(self, branch: AvroType) -> str:
        if branch.name is None:
            return branch.kind
        return branch.name if self._options.enhanced else branch.simple_name()

    def _entries(self, entry: AvroType) -> ConnectSchema:
        members = {member.name: member.type for member in entry.fields}
        if set(members) != {"key", "value"} or len(entry.fields) != 2:
            raise SchemaError(
                f"The Avro type {entry.name} is a map entry but has the fields {', '.join(members)}, not key and value. {REMEDY}"
            )
        return ConnectSchema(SchemaType.MAP, keys=self.schema(members["key"]), values=self.schema(members["value"]))

    def _enum(self, avro: AvroType) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._options.meta_data:
            for prop in ("doc", "default"):
                if isinstance(avro.props.get(prop), str):
                    found[f"{NAMESPACE}.enum.{prop}.{avro.simple_name()}"] = avro.props[prop]
        return found | {ENUM: avro.name or ""} | {f"{ENUM}.{symbol}": symbol for symbol in avro.symbols}

    def _parameters(self, props: Mapping[str, Any]) -> dict[str, str]:
        given = props.get("connect.parameters") if self._options.meta_data else None
        if given is not None and not (
            isinstance(given, dict) and all(isinstance(text, str) for text in given.values())
        ):
            raise SchemaError(f"connect.parameters is {json.dumps(given)[:80]}, not an object of texts. {REMEDY}")
        own = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in props.items()
            if key.startswith("avro")
        }
        return (given or {}) | own


def _scalar(avro: AvroType) -> ConnectSchema:
    parameters = {FIXED_SIZE: str(avro.size)} if avro.kind == "fixed" else {}
    logical, small = avro.props.get("logicalType"), avro.props.get("connect.type")
    if isinstance(logical, str):
        name = LOGICAL.get((avro.kind, logical.lower()))
        if name is not None:
            parameters |= _digits(avro.props) if name == DECIMAL else {}
            return ConnectSchema(KINDS[avro.kind], name=name, version=1, parameters=tuple(parameters.items()))
    elif avro.kind == "int" and isinstance(small, str):
        if small not in SMALL_INTS:
            raise SchemaError(f"connect.type is {small!r}; of an Avro int it is int8 or int16. {REMEDY}")
        return ConnectSchema(SMALL_INTS[small])
    return ConnectSchema(KINDS[avro.kind], parameters=tuple(parameters.items()))


def _digits(props: Mapping[str, Any]) -> dict[str, str]:
    scale, precision = props.get("scale"), props.get("precision", DEFAULT_PRECISION)
    if not isinstance(precision, int):
        raise SchemaError(f"The precision of an Avro decimal is {precision!r}, not a whole number. {REMEDY}")
    found = {"scale": str(int(scale) if isinstance(scale, (int, float)) else 0)}
    return found if precision == DEFAULT_PRECISION else found | {DECIMAL_PRECISION: str(precision)}


def _version(avro: AvroType, made: ConnectSchema, registered: int | None) -> int | None:
    own = avro.props.get("connect.version")
    if own is None:
        return registered if made.version is None else made.version
    if not isinstance(own, (int, float)):
        raise SchemaError(f"connect.version is {own!r}, not a number. {REMEDY}")
    if made.version is not None and int(own) != made.version:
        raise SchemaError(f"connect.version is {own}, but {made.name} has version {made.version}. {REMEDY}")
    return int(own) if own >= 0 else None


def _name(avro: AvroType, made: ConnectSchema) -> str | None:
    own = avro.props.get("connect.name")
    if own is not None and not isinstance(own, str):
        raise SchemaError(f"connect.name is {own!r}, not a text. {REMEDY}")
    if made.name is not None:
        if own is not None and own != made.name:
            raise SchemaError(f"connect.name is {own}, but the type is that of {made.name}. {REMEDY}")
        return made.name
    name = own if own is not None else avro.name if avro.kind in NAMED else None
    return None if name is None or name.startswith(DEFAULT_NAME) else name
