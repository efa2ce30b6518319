"""Which Avro schema is a Connect schema written with? The rules of Confluent's AvroData (SEMANTICS A8.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote_plus

from kafka_s3.connect.schemas.avro_anything import ANYTHING
from kafka_s3.connect.schemas.avro_defaults import avro_default, fits, part
from kafka_s3.connect.schemas.avro_json import document
from kafka_s3.connect.schemas.avro_types import (
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMESPACE,
    RECORD_DOC,
    UNION,
    AvroField,
    AvroOptions,
    AvroType,
)
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import scale_of

__all__ = ["ANYTHING", "AvroOptions", "avro_schema"]

KINDS: Final = {
    SchemaType.INT8: "int", SchemaType.INT16: "int", SchemaType.INT32: "int", SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float", SchemaType.FLOAT64: "double", SchemaType.BOOLEAN: "boolean", SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}  # fmt: skip
LOGICAL: Final = {TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}


def avro_schema(schema: ConnectSchema | None, *, options: AvroOptions) -> Any:
    """The parsed JSON of the Avro schema of a Connect schema; without one, of schemaless values.

    Raises SchemaError for names that Avro does not allow, and where two different types have one name.
    """
    if schema is None:
        return ANYTHING
    try:
        return document(_Mapping(options).optional(schema))
    except RecursionError:
        raise SchemaError(f"The schema {schema.label()} is nested too deeply for Avro.") from None


class _Mapping:
    """Maps schemas under options; knows the names given to structs without one."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._made: dict[ConnectSchema, AvroType] = {}
        self._unnamed = 0

    def optional(self, schema: ConnectSchema) -> AvroType:
        """The type of a schema: of an optional one a union with null, whose first branch is that of the default."""
        if schema.kind is SchemaType.STRUCT and schema.name == UNION:
            return self._union(schema)
        if not schema.optional:
            return self._required(schema)
        null, made = AvroType("null"), self._required(replace(schema, optional=False))
        default_first = schema.default is not None and schema.kind is not SchemaType.STRUCT
        return AvroType("union", branches=[made, null] if default_first else [null, made])

    def _union(self, schema: ConnectSchema) -> AvroType:
        branches = [AvroType("null")] if schema.optional else []
        branches += [self._required(replace(field.schema, optional=False)) for field in schema.fields]
        return AvroType("union", branches=branches)

    def _required(self, schema: ConnectSchema) -> AvroType:
        known = self._made.get(schema)
        if known is None:
            known = self._bare(schema)
            known.props |= self._metadata(schema) | _logical(schema)
            known.props |= {key: text for key, text in schema.parameters if key.startswith("avro")}
            self._made[schema] = known
        return known

    def _bare(self, schema: ConnectSchema) -> AvroType:
        parameters = dict(schema.parameters)
        match schema.kind:
            case SchemaType.STRUCT:
                return self._record(schema, parameters)
            case SchemaType.ARRAY:
                return AvroType("array", items=self.optional(part(schema.items)))
            case SchemaType.MAP:
                return self._map(schema)
            case SchemaType.STRING if self._options.enhanced and ENUM in parameters:
                return self._enum(schema, parameters)
            case SchemaType.BYTES if schema.name is not None and FIXED_SIZE in parameters:
                return AvroType(
                    "fixed", name=self._checked_name(schema), size=_whole(parameters[FIXED_SIZE], FIXED_SIZE)
                )
            case _:
                return AvroType(KINDS[schema.kind])

    def _record(self, schema: ConnectSchema, parameters: dict[str, str]) -> AvroType:
        made = AvroType("record", name=self._checked_name(schema))
        if RECORD_DOC in parameters:
            made.props["doc"] = parameters[RECORD_DOC]
        for field in schema.fields:
            name = checked(self._scrubbed(field.name))
            made.fields.append(self._field(name, field.schema, parameters.get(FIELD_DOC + field.name)))
        return made

    def _field(self, name: str, schema: ConnectSchema, doc: str | None) -> AvroField:
        made = AvroField(name, self.optional(schema), {} if doc is None else {"doc": doc})
        default = avro_default(schema)
        if (default is not None or schema.optional) and fits(default, made.type):
            made.props["default"] = default
        return made

    def _map(self, schema: ConnectSchema) -> AvroType:
        keys, values = part(schema.keys), part(schema.values)
        if keys.kind is SchemaType.STRING and (not keys.optional or self._options.optional_map_keys):
            return AvroType("map", items=self.optional(values))
        entry = AvroType("record", name=f"{NAMESPACE}.{MAP_ENTRY}")
        if schema.name is not None:
            entry.name, entry.props = self._checked_name(schema), {"connect.internal.type": MAP_ENTRY}
        entry.fields = [self._field("key", keys, None), self._field("value", values, None)]
        return AvroType("array", items=entry)

    def _enum(self, schema: ConnectSchema, parameters: dict[str, str]) -> AvroType:
        symbols = [key.removeprefix(f"{ENUM}.") for key in parameters if key.startswith(f"{ENUM}.")]
        simple = self._name(schema).rpartition(".")[2]
        found = {prop: parameters.get(f"{NAMESPACE}.enum.{prop}.{simple}") for prop in ("doc", "default")}
        checked(parameters[ENUM].rpartition(".")[2])
        return AvroType(
            "enum",
            name=parameters[ENUM],
            symbols=tuple(checked(symbol) for symbol in symbols),
            props={prop: text for prop, text in found.items() if text is not None},
        )

    def _name(self, schema: ConnectSchema) -> str:
        if schema.name is None:
            self._unnamed += 1
            return DEFAULT_NAME + (str(self._unnamed) if self._unnamed > 1 else "")
        return ".".join(self._scrubbed(piece) for piece in schema.name.split("."))

    def _checked_name(self, schema: ConnectSchema) -> str:
        name = self._name(schema)
        checked(name.rpartition(".")[2])
        return name

    def _scrubbed(self, name: str) -> str:
        return scrubbed(name) if self._options.scrub_invalid_names else name

    def _metadata(self, schema: ConnectSchema) -> dict[str, Any]:
        parameters = dict(schema.parameters)
        digits = _digits(parameters, schema) if schema.name == DECIMAL else {}
        if not self._options.meta_data:
            return digits
        shown = {key: text for key, text in schema.parameters if key != FIELD_DEFAULT}
        found = {
            "connect.doc": schema.doc,
            "connect.version": schema.version,
            "connect.parameters": shown or None,
            "connect.default": None if FIELD_DEFAULT in parameters else avro_default(schema),
            "connect.name": schema.name,
            "connect.type": str(schema.kind) if schema.kind in (SchemaType.INT8, SchemaType.INT16) else None,
        }
        return digits | {key: value for key, value in found.items() if value is not None}


def checked(name: str) -> str:
    """The name, if Avro allows it. Raises SchemaError with the words of Avro's Java library."""
    if not name:
        raise SchemaError("Empty name: Avro needs names of letters, digits and underscores.")
    if not (name[0].isalpha() or name[0] == "_"):
        raise SchemaError(f"Illegal initial character: {name}. An Avro name begins with a letter or an underscore.")
    if not all(sign.isalpha() or sign.isdecimal() or sign == "_" for sign in name):
        raise SchemaError(f"Illegal character in: {name}. An Avro name has letters, digits and underscores.")
    return name


def scrubbed(name: str) -> str:
    """The name with what Avro does not allow replaced: each such byte by `_` and its two hex digits, `x` before a digit."""
    coded = quote_plus(name, safe="*-.").replace("~", "%7E")
    prefix = "x" if coded[:1].isdigit() else ""
    return prefix + "".join(sign if sign.isalnum() else "_" for sign in coded)


def _logical(schema: ConnectSchema) -> dict[str, str]:
    if schema.name == DECIMAL:
        return {"logicalType": "decimal"}
    return {"logicalType": LOGICAL[schema.name]} if schema.name in LOGICAL else {}


def _digits(parameters: dict[str, str], schema: ConnectSchema) -> dict[str, int]:
    precision = parameters.get(DECIMAL_PRECISION, str(DEFAULT_PRECISION))
    return {"scale": scale_of(schema), "precision": _whole(precision, DECIMAL_PRECISION)}


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SchemaError(f"The parameter {what} is {text!r}, not a whole number.") from None
