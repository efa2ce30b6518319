"""How do Avro schemas and Connect schemas map to each other? By the rules of Confluent's AvroData.

To Avro for files (SEMANTICS A8.2), from Avro for the Avro converter (SEMANTICS A11). Two things that the original refuses are taken here:
a decimal that is `fixed`, and a registry version for a logical type at the top. A default that does not fit its type is left out, as
the original does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote_plus

from kafka_s3.connect.schemas.avro_types import (
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMED,
    NAMESPACE,
    RECORD_DOC,
    REMEDY,
    UNION,
    AvroField,
    AvroOptions,
    AvroType,
    document,
    is_map_entry,
    load_types,
    nullable,
    read_types,
)
from kafka_s3.connect.schemas.avro_values import ANYTHING, is_anything
from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Field,
    Recursion,
    SchemaError,
    SchemaType,
    in_order,
    inner_schema,
)
from kafka_s3.connect.schemas.expansion import check_parts
from kafka_s3.connect.schemas.json_form import decimal_from, default_value, from_json, scale_of, to_json, unscaled_bytes
from kafka_s3.connect.schemas.registered import Reference


def connect_default(default: Any, avro: AvroType, schema: ConnectSchema) -> str | None:
    """The text of a schema's default from Avro's JSON form of it; None for null and for what does not fit."""
    if default is None:
        return None
    try:
        return json.dumps(to_json(_value(default, avro, schema), schema))
    except (SchemaError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None


def avro_default(schema: ConnectSchema) -> Any:
    """Avro's JSON form of a schema's default, None where there is none. Raises SchemaError for a default that does not fit."""
    return _avro_json(default_value(schema), schema)


def is_default_of(default: Any, avro: AvroType) -> bool:
    """Whether Avro takes the JSON value as the default of a field of the type; of a union, the first branch decides."""
    match avro.kind:
        case "null":
            return default is None
        case "boolean":
            return isinstance(default, bool)
        case "int" | "long":
            return isinstance(default, int) and not isinstance(default, bool)
        case "float" | "double":
            return isinstance(default, (int, float)) and not isinstance(default, bool)
        case "array":
            return isinstance(default, list) and all(is_default_of(item, avro.element()) for item in default)
        case "map":
            return isinstance(default, dict) and all(is_default_of(item, avro.element()) for item in default.values())
        case "union":
            return bool(avro.branches) and is_default_of(default, avro.branches[0])
        case "record":
            members = default if isinstance(default, dict) else None
            return members is not None and all(
                is_default_of(members.get(field.name, field.props.get("default")), field.type) for field in avro.fields
            )
        case _:
            return isinstance(default, str)


def _value(default: Any, avro: AvroType, schema: ConnectSchema) -> Any:
    if default is None:
        if schema.optional:
            return None
        raise SchemaError("A null default does not fit a required schema.")
    wrapped = nullable(avro)
    if wrapped is not None:
        return _value(default, wrapped, schema)
    if avro.kind in ("bytes", "fixed"):
        raw = default.encode("latin-1")
        return decimal_from(raw, scale_of(schema)) if schema.name == DECIMAL else raw
    match schema.kind:
        case SchemaType.STRUCT if avro.kind == "union":
            filled = next(branch for branch in avro.branches if branch.kind != "null")
            first = schema.fields[0]
            return dict.fromkeys(field.name for field in schema.fields) | {
                first.name: _value(default, filled, first.schema)
            }
        case SchemaType.STRUCT:
            members = zip(schema.fields, avro.fields, strict=True)
            return {field.name: _member(default, field, member.type) for field, member in members}
        case SchemaType.ARRAY:
            return [_value(item, avro.element(), inner_schema(schema.items)) for item in default]
        case SchemaType.MAP:
            return _pairs(default, avro.element(), schema)
        case _:
            return from_json(default, schema)


def _member(default: Any, field: Field, avro: AvroType) -> Any:
    if field.name not in default and field.schema.default is not None:
        return from_json(json.loads(field.schema.default), field.schema)
    return _value(default.get(field.name), avro, field.schema)


def _pairs(default: Any, element: AvroType, schema: ConnectSchema) -> list[tuple[Any, Any]]:
    keys, values = inner_schema(schema.keys), inner_schema(schema.values)
    if isinstance(default, dict):
        return [(key, _value(value, element, values)) for key, value in default.items()]
    types = {member.name: member.type for member in element.fields}
    entries = [(item["key"], item["value"]) if isinstance(item, dict) else item for item in default]
    return [(_value(key, types["key"], keys), _value(value, types["value"], values)) for key, value in entries]


def _avro_json(value: Any, schema: ConnectSchema) -> Any:
    if value is None:
        return None
    if schema.name == DECIMAL:
        return unscaled_bytes(value, scale_of(schema)).decode("latin-1")
    match schema.kind:
        case SchemaType.BYTES:
            return value.decode("latin-1")
        case SchemaType.ARRAY:
            return [_avro_json(item, inner_schema(schema.items)) for item in value]
        case SchemaType.MAP:
            keys, values = inner_schema(schema.keys), inner_schema(schema.values)
            pairs = [[_avro_json(key, keys), _avro_json(item, values)] for key, item in value]
            return dict(pairs) if keys.kind is SchemaType.STRING and not keys.optional else pairs
        case SchemaType.STRUCT:
            members = {field.name: _avro_json(value.get(field.name), field.schema) for field in schema.fields}
            return next(iter(members.values()), None) if schema.name == UNION else members
        case _:
            return value


AVRO_TYPES: Final = {
    SchemaType.INT8: "int", SchemaType.INT16: "int", SchemaType.INT32: "int", SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float", SchemaType.FLOAT64: "double", SchemaType.BOOLEAN: "boolean", SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}  # fmt: skip
LOGICAL_TYPES: Final = {TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}


def avro_schema(schema: ConnectSchema | None, *, options: AvroOptions) -> Any:
    """The parsed JSON of the Avro schema of a Connect schema; without one, of schemaless values.

    Raises SchemaError for names that Avro does not allow, and where two different types have one name.
    """
    if schema is None:
        return ANYTHING
    try:
        return document(_ToAvro(options).optional(schema))
    except RecursionError:
        raise SchemaError(f"The schema {schema.label()} is nested too deeply for Avro.") from None


class _ToAvro:
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
                return AvroType("array", items=self.optional(inner_schema(schema.items)))
            case SchemaType.MAP:
                return self._map(schema)
            case SchemaType.STRING if self._options.enhanced and ENUM in parameters:
                return self._enum(schema, parameters)
            case SchemaType.BYTES if schema.name is not None and FIXED_SIZE in parameters:
                return AvroType(
                    "fixed", name=self._checked_name(schema), size=_whole(parameters[FIXED_SIZE], FIXED_SIZE)
                )
            case _:
                return AvroType(AVRO_TYPES[schema.kind])

    def _record(self, schema: ConnectSchema, parameters: dict[str, str]) -> AvroType:
        made = self._made[schema] = AvroType("record", name=self._checked_name(schema))
        if RECORD_DOC in parameters:
            made.props["doc"] = parameters[RECORD_DOC]
        for field in schema.fields:
            name = checked(self._scrubbed(field.name))
            made.fields.append(self._field(name, field.schema, parameters.get(FIELD_DOC + field.name)))
        return made

    def _field(self, name: str, schema: ConnectSchema, doc: str | None) -> AvroField:
        made = AvroField(name, self.optional(schema), {} if doc is None else {"doc": doc})
        default = avro_default(schema)
        if (default is not None or schema.optional) and is_default_of(default, made.type):
            made.props["default"] = default
        return made

    def _map(self, schema: ConnectSchema) -> AvroType:
        keys, values = inner_schema(schema.keys), inner_schema(schema.values)
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
        digits = _decimal_props(parameters, schema) if schema.name == DECIMAL else {}
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
    return {"logicalType": LOGICAL_TYPES[schema.name]} if schema.name in LOGICAL_TYPES else {}


def _decimal_props(parameters: dict[str, str], schema: ConnectSchema) -> dict[str, int]:
    precision = parameters.get(DECIMAL_PRECISION, str(DEFAULT_PRECISION))
    return {"scale": scale_of(schema), "precision": _whole(precision, DECIMAL_PRECISION)}


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SchemaError(f"The parameter {what} is {text!r}, not a whole number.") from None


CONNECT_TYPES: Final = {
    "boolean": SchemaType.BOOLEAN, "int": SchemaType.INT32, "long": SchemaType.INT64, "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64, "string": SchemaType.STRING, "bytes": SchemaType.BYTES, "fixed": SchemaType.BYTES,
    "enum": SchemaType.STRING,
}  # fmt: skip
LOGICAL_NAMES: Final = {
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

    `version` is the registry's; `connect.version` overrides it. Raises SchemaError for what Connect cannot hold.
    """
    found = read_types(avro)
    return None if is_anything(found) else _FromAvro(options).schema(found, version=version)


class _FromAvro:
    """Maps types under options; knows the records around the type at hand, to find recursion.

    A record that contains itself is written out where it comes first; from then on a recursion stands for it.
    """

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._around: list[str] = []
        self._recursions: dict[str, Recursion] = {}
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
        parameters: dict[str, str] = {}
        if self._options.meta_data:
            docs = {RECORD_DOC: avro.props.get("doc")}
            docs |= {FIELD_DOC + member.name: member.props.get("doc") for member in avro.fields}
            parameters = {key: doc for key, doc in docs.items() if isinstance(doc, str)}
        if name in self._around:
            self._recursions.setdefault(name, Recursion(name))
        if name in self._recursions:
            return ConnectSchema(SchemaType.STRUCT, fields=self._recursions[name], parameters=tuple(parameters.items()))
        self._around.append(name)
        fields = [
            Field(
                member.name,
                self.schema(member.type, default=member.props.get("default", ABSENT)),
                _aliases(member, avro.fields),
            )
            for member in avro.fields
        ]
        self._around.pop()
        if name in self._recursions:
            self._recursions[name].define(fields)
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
        name = LOGICAL_NAMES.get((avro.kind, logical.lower()))
        if name is not None:
            parameters |= _decimal_parameters(avro.props) if name == DECIMAL else {}
            return ConnectSchema(CONNECT_TYPES[avro.kind], name=name, version=1, parameters=tuple(parameters.items()))
    elif avro.kind == "int" and isinstance(small, str):
        if small not in SMALL_INTS:
            raise SchemaError(f"connect.type is {small!r}; of an Avro int it is int8 or int16. {REMEDY}")
        return ConnectSchema(SMALL_INTS[small])
    return ConnectSchema(CONNECT_TYPES[avro.kind], parameters=tuple(parameters.items()))


def _decimal_parameters(props: Mapping[str, Any]) -> dict[str, str]:
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


def _aliases(member: AvroField, members: Sequence[AvroField]) -> tuple[str, ...]:
    """The names that a field had; one that another field has now is not among them."""
    given = member.props.get("aliases")
    taken = {one.name for one in members}
    return (
        tuple(name for name in given if isinstance(name, str) and name not in taken) if isinstance(given, list) else ()
    )
