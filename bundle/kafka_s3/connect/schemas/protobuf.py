"""Which Connect schema and values does a Protobuf message type mean? The rules of Confluent's ProtobufData, reading (SEMANTICS A11).

A message is a struct: first a field for every oneof (`<name>_<index>`, a struct of which one member is set), then its other fields
as declared. Every field's schema has its number as the parameter `io.confluent.connect.protobuf.Tag`.

Optional: by default all fields. With `optional.for.nullables` only messages, enums, repeated fields, maps, and what has the
keyword `optional`; with `wrapper.for.nullables` alone the same without the keyword. Branches of a oneof always, for one at most is set.

Null: unset messages, unset fields with the keyword `optional`, and oneofs without a branch. Other unset fields have their default.

A message type that contains itself, such as `google.protobuf.Struct`, is written out where it comes first; from then on a recursion stands
for it.

Wrappers (`google.protobuf.StringValue`...): structs with the field `value`, as any message; with `wrapper.for.nullables` optional
primitives. Unsigned 64-bit numbers above 2^63 become negative, as in Java; unsigned 32-bit ones become int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

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
)
from kafka_s3.connect.schemas.json_form import decimal_from
from kafka_s3.connect.schemas.protobuf_descriptors import field_params, is_proto2

Read = Callable[[Any], Any]
ENUM: Final = "io.confluent.connect.protobuf.Enum"
TYPE: Final = "io.confluent.connect.protobuf.Type"
PRECISION: Final = "connect.decimal.precision"
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
EPOCH: Final = date(1970, 1, 1).toordinal()
LARGEST_SCALE: Final = 32767


@dataclass(frozen=True, slots=True)
class ProtobufMapping:
    """A Connect schema, and what turns a value as Protobuf's classes give it into one of that schema."""

    schema: ConnectSchema
    read: Read


def _same(value: Any) -> Any:
    return value


def _signed(bits: int) -> Read:
    half = 1 << (bits - 1)
    return lambda value: (value + half) % (2 * half) - half


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        raise ValueError("the string is not valid UTF-8")
    return str(value)


def _replaced(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


F = FieldDescriptor
SCALARS: Final[dict[int, tuple[SchemaType, str | None, Read]]] = {
    F.TYPE_INT32: (SchemaType.INT32, None, _same), F.TYPE_SINT32: (SchemaType.INT32, "sint32", _same),
    F.TYPE_SFIXED32: (SchemaType.INT32, "sfixed32", _same), F.TYPE_UINT32: (SchemaType.INT64, "uint32", _same),
    F.TYPE_FIXED32: (SchemaType.INT64, "fixed32", _same), F.TYPE_INT64: (SchemaType.INT64, None, _same),
    F.TYPE_SINT64: (SchemaType.INT64, "sint64", _same), F.TYPE_SFIXED64: (SchemaType.INT64, "sfixed64", _same),
    F.TYPE_UINT64: (SchemaType.INT64, "uint64", _signed(64)), F.TYPE_FIXED64: (SchemaType.INT64, "fixed64", _signed(64)),
    F.TYPE_FLOAT: (SchemaType.FLOAT32, None, _same), F.TYPE_DOUBLE: (SchemaType.FLOAT64, None, _same),
    F.TYPE_BOOL: (SchemaType.BOOLEAN, None, _same), F.TYPE_STRING: (SchemaType.STRING, None, _text),
    F.TYPE_BYTES: (SchemaType.BYTES, None, _same),
}  # fmt: skip
NARROW: Final = {"int8": (SchemaType.INT8, _signed(8)), "int16": (SchemaType.INT16, _signed(16))}


def scalar(field: FieldDescriptor) -> ProtobufMapping:
    """The type of a scalar field; the parameter `connect.type` of `confluent.field_meta` makes a 32-bit number int8 or int16.

    Malformed UTF-8 becomes replacement characters in proto2 and is refused elsewhere, as in Java.
    """
    kind, name, read = SCALARS[field.type]
    if kind is SchemaType.STRING and is_proto2(field.file):  # type: ignore[attr-defined] # the stubs forget it
        read = _replaced
    narrow = field_params(field).get("connect.type") if kind is SchemaType.INT32 else None
    if narrow in NARROW:
        kind, read = NARROW[narrow]
        return ProtobufMapping(ConnectSchema(kind), read)
    return ProtobufMapping(ConnectSchema(kind, parameters=((TYPE, name),) if name else ()), read)


def message_of(field: FieldDescriptor) -> Descriptor:
    """The type of a field of type message; only other fields have none."""
    return cast(Descriptor, field.message_type)


def enum(descriptor: EnumDescriptor, name: str, *, kind: SchemaType) -> ProtobufMapping:
    """An enum as its symbols or, of kind int32, its numbers. A number without symbol reads as Java names it."""
    symbols: dict[int, str] = {}
    for value in descriptor.values:
        symbols.setdefault(value.number, value.name)
    listed = [(f"{ENUM}.{value.name}", str(value.number)) for value in descriptor.values]
    parameters = in_order([(ENUM, descriptor.name), *listed])
    schema = ConnectSchema(kind, optional=True, name=name, parameters=parameters)
    unknown = f"UNKNOWN_ENUM_VALUE_{descriptor.name}_"
    if kind is SchemaType.INT32:
        return ProtobufMapping(schema, _same)
    return ProtobufMapping(schema, lambda number: symbols.get(number) or f"{unknown}{number}")


def logical(field: FieldDescriptor) -> ProtobufMapping | None:
    """The Connect type of a field of message type that stands for a date, time, timestamp or decimal; None for other messages."""
    match message_of(field).full_name:
        case "google.protobuf.Timestamp":
            return ProtobufMapping(ConnectSchema(SchemaType.INT64, name=TIMESTAMP, version=1), _timestamp)
        case "google.type.Date":
            return ProtobufMapping(ConnectSchema(SchemaType.INT32, name=DATE, version=1), _date)
        case "google.type.TimeOfDay":
            return ProtobufMapping(ConnectSchema(SchemaType.INT32, name=TIME, version=1), _time)
        case "confluent.type.Decimal":
            params = field_params(field)
            scale, precision = _whole(params.get("scale")), _whole(params.get("precision"))
            parameters = (
                *(((PRECISION, str(precision)),) if precision is not None else ()),
                ("scale", str(scale or 0)),
            )
            schema = ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=parameters)
            return ProtobufMapping(schema, _decimal)
    return None


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _timestamp(message: Any) -> int:
    if not FIRST_SECOND <= message.seconds <= LAST_SECOND or not 0 <= message.nanos < 10**9:
        raise ValueError(f"{message.seconds} s and {message.nanos} ns is not a timestamp of the years 1 to 9999")
    return int(message.seconds * 1000 + message.nanos // 1_000_000)


def _date(message: Any) -> int:
    try:
        return date(message.year, message.month, message.day).toordinal() - EPOCH
    except (ValueError, OverflowError):
        raise ValueError(f"there is no date of year {message.year}, month {message.month}, day {message.day}") from None


def _time(message: Any) -> int:
    h, m, s, nanos = message.hours, message.minutes, message.seconds, message.nanos
    if not (0 <= h < 24 and 0 <= m < 60 and 0 <= s < 60 and 0 <= nanos < 10**9):
        raise ValueError(f"there is no time of day of {h} h, {m} min, {s} s, {nanos} ns")
    return int(((h * 60 + m) * 60 + s) * 1000 + nanos // 1_000_000)


def _decimal(message: Any) -> Decimal:
    """The number with the scale that the message names. No bytes are zero, as in Confluent's clients outside Java."""
    if abs(message.scale) > LARGEST_SCALE:
        raise ValueError(f"the decimal's scale is {message.scale}, more than {LARGEST_SCALE} digits")
    number = decimal_from(message.value, message.scale)
    if not 0 < message.precision < len(number.as_tuple().digits):
        return number
    rounding = Context(prec=message.precision, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return rounding.plus(number)


def _value_of(type_code: int) -> ProtobufMapping:
    kind, _, read = SCALARS[type_code]
    return ProtobufMapping(ConnectSchema(kind), lambda message: read(message.value))


WRAPPERS: Final[dict[str, ProtobufMapping]] = {
    f"google.protobuf.{name}Value": _value_of(type_code)
    for name, type_code in {
        "Double": F.TYPE_DOUBLE, "Float": F.TYPE_FLOAT, "Int64": F.TYPE_INT64, "UInt64": F.TYPE_UINT64, "Int32": F.TYPE_INT32,
        "UInt32": F.TYPE_UINT32, "Bool": F.TYPE_BOOL, "String": F.TYPE_STRING, "Bytes": F.TYPE_BYTES,
    }.items()
}  # fmt: skip


NAMESPACE: Final = "io.confluent.connect.protobuf"
UNION, TAG = f"{NAMESPACE}.Union.", f"{NAMESPACE}.Tag"
DEEPEST: Final = 100
"""Protobuf's own parsers take no more levels of messages."""

Present = Mapping[int, Any]
"""The set fields of a message, by number."""


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """Settings of the Protobuf converter, by their names with dots, with its defaults.

    `scrub.invalid.names` is not among them: it concerns names of Connect schemas that become Protobuf, not reading.
    """

    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    wrapper_for_raw_primitives: bool = True
    generate_index_for_unions: bool = True
    generate_struct_for_nulls: bool = False
    int_for_enums: bool = False
    flatten_unions: bool = False
    enhanced_protobuf_schema_support: bool = False
    default_messages: bool = False
    """Of AWS Glue's converter: a message that is absent, and has no keyword `optional`, holds its defaults."""


def translation(descriptor: Descriptor, *, options: ProtobufOptions, version: int | None) -> ProtobufMapping:
    """The schema of a message type, with `version`, and what reads its messages into the forms of `connect.schemas.json_form`.

    Raises SchemaError for types that Connect cannot hold: groups, and too deep ones. Reading raises ValueError where a value has
    no Connect form: a date that does not exist, text that is not UTF-8.
    """
    if options.wrapper_for_raw_primitives and descriptor.full_name in WRAPPERS:
        unwrapped = WRAPPERS[descriptor.full_name]
        return replace(unwrapped, schema=replace(unwrapped.schema, version=version))
    struct = _Translator(options).message(descriptor)
    return replace(struct, schema=replace(struct.schema, version=version))


class _Translator:
    """Translates the message types of one schema, each once."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._done: dict[str, ProtobufMapping] = {}
        self._open: list[str] = []
        self._recursions: dict[str, Recursion] = {}

    def message(self, descriptor: Descriptor) -> ProtobufMapping:
        name = descriptor.full_name
        if name in self._open:
            self._recursions.setdefault(name, Recursion(name))
        if name in self._recursions:
            schema = ConnectSchema(SchemaType.STRUCT, name=self._name(descriptor), fields=self._recursions[name])
            return ProtobufMapping(schema, lambda message: self._done[name].read(message))
        if name in self._done:
            return self._done[name]
        if len(self._open) >= DEEPEST:
            raise SchemaError(
                f"The Protobuf type {self._open[0]} nests messages more than {DEEPEST} levels deep. "
                "Take the converter ByteArrayConverter for this topic, or a message type without that field."
            )
        self._open.append(name)
        keywords = _Keywords(descriptor)
        members: list[tuple[Field, Callable[[Present], Any]]] = []
        for oneof in descriptor.oneofs:
            if not keywords.synthetic(oneof):
                members += self._oneof(oneof)
        for field in descriptor.fields:
            if field.containing_oneof is None or keywords.synthetic(field.containing_oneof):
                made = self._field(field, nullable=keywords.optional(field))
                members.append((Field(field.name, made.schema), self._getter(field, made, keywords)))
        self._open.pop()
        if name in self._recursions:
            self._recursions[name].define(field for field, _ in members)
        schema = ConnectSchema(
            SchemaType.STRUCT, name=self._name(descriptor), fields=tuple(field for field, _ in members)
        )
        self._done[name] = ProtobufMapping(schema, _struct_reader([(field.name, get) for field, get in members]))
        return self._done[name]

    def _name(self, descriptor: Any) -> str:
        full = self._options.enhanced_protobuf_schema_support
        return str(descriptor.full_name if full else descriptor.name)

    def _oneof(self, oneof: OneofDescriptor) -> list[tuple[Field, Callable[[Present], Any]]]:
        branches = [(field, self._field(field, nullable=False)) for field in oneof.fields]
        fields = [Field(field.name, replace(made.schema, optional=True)) for field, made in branches]
        if self._options.flatten_unions:
            gets = [_if_present(field.number, made.read) for field, made in branches]
            return list(zip(fields, gets, strict=True))
        name = f"{oneof.name}_{oneof.index}" if self._options.generate_index_for_unions else oneof.name
        schema = ConnectSchema(SchemaType.STRUCT, optional=True, name=UNION + self._name(oneof), fields=tuple(fields))
        readers = [(field.number, field.name, made.read) for field, made in branches]
        return [(Field(name, schema), _union_reader(readers))]

    def _field(self, field: FieldDescriptor, *, nullable: bool) -> ProtobufMapping:
        made = self._map(field) if _is_map(field) else self._single(field)
        if field.is_repeated and made.schema.kind is not SchemaType.MAP:
            items = ConnectSchema(SchemaType.ARRAY, optional=True, items=replace(made.schema, optional=True))
            read_item = made.read
            made = ProtobufMapping(items, lambda values: [read_item(value) for value in values])
        if self._options.optional_for_nullables:
            optional = made.schema.optional or nullable
        else:
            optional = made.schema.optional or not self._options.wrapper_for_nullables
        parameters = in_order((*made.schema.parameters, (TAG, str(field.number))))
        return replace(made, schema=replace(made.schema, optional=optional, parameters=parameters))

    def _single(self, field: FieldDescriptor) -> ProtobufMapping:
        if field.type == FieldDescriptor.TYPE_ENUM:
            symbols = cast(EnumDescriptor, field.enum_type)
            return enum(
                symbols,
                self._name(symbols),
                kind=SchemaType.INT32 if self._options.int_for_enums else SchemaType.STRING,
            )
        if field.type == FieldDescriptor.TYPE_GROUP:
            raise SchemaError(f"The field {field.full_name} is a group, which Connect cannot hold; make it a message.")
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            return scalar(field)
        made = logical(field)
        if made is None and self._options.wrapper_for_nullables:
            made = WRAPPERS.get(message_of(field).full_name)
        if made is None:
            made = self.message(message_of(field))
        return replace(made, schema=replace(made.schema, optional=True))

    def _map(self, field: FieldDescriptor) -> ProtobufMapping:
        entry = message_of(field)
        keywords = _Keywords(entry)
        keys, values = (self._field(member, nullable=keywords.optional(member)) for member in entry.fields)
        name = re.sub("(?<!^)(?=[A-Z])", "_", self._name(entry).removesuffix("Entry")).lower()
        schema = ConnectSchema(SchemaType.MAP, optional=True, name=name, keys=keys.schema, values=values.schema)
        return ProtobufMapping(schema, _map_reader(field, keys, values.read))

    def _getter(self, field: FieldDescriptor, made: ProtobufMapping, keywords: _Keywords) -> Callable[[Present], Any]:
        number, read = field.number, made.read
        if field.is_repeated:
            return lambda present: read(present[number]) if number in present else []
        single = field.type == FieldDescriptor.TYPE_MESSAGE
        tracked = keywords.proto3(field) or (self._options.optional_for_proto2 and keywords.optional(field))
        nullable = tracked or (single and not self._options.default_messages)
        if nullable and not self._options.generate_struct_for_nulls:
            return _if_present(number, read)
        if isinstance(made.schema.fields, Recursion):  # defaults would have no end
            return _if_present(number, read)
        default = message_factory.GetMessageClass(message_of(field))() if single else field.default_value
        return lambda present: read(present.get(number, default))


class _Keywords:
    """Which fields of a message type have the keyword `optional`? Descriptors do not have it, their serialized form does."""

    def __init__(self, descriptor: Descriptor) -> None:
        proto = descriptor_pb2.DescriptorProto()
        descriptor.CopyToProto(proto)
        self._proto2 = is_proto2(descriptor.file)
        self._proto3 = {field.number for field in proto.field if field.proto3_optional}

    def proto3(self, field: FieldDescriptor) -> bool:
        return field.number in self._proto3

    def synthetic(self, oneof: OneofDescriptor) -> bool:
        return len(oneof.fields) == 1 and self.proto3(oneof.fields[0])

    def optional(self, field: FieldDescriptor) -> bool:
        single = not (field.is_repeated or field.is_required) and field.containing_oneof is None
        return self.proto3(field) or (self._proto2 and single)


def _is_map(field: FieldDescriptor) -> bool:
    # By its looks, as ProtobufData recognises it: Connect's own schemas spell entries out instead of writing map<K, V>.
    if not field.is_repeated or field.type != FieldDescriptor.TYPE_MESSAGE:
        return False
    entry = message_of(field)
    single = [member.name for member in entry.fields if not member.is_repeated]
    return bool(entry.name.endswith("Entry")) and len(entry.fields) == 2 and single == ["key", "value"]


def _struct_reader(members: list[tuple[str, Callable[[Present], Any]]]) -> Read:
    def read(message: Message) -> dict[str, Any]:
        # Of the class: a field of that name hides the method on the message.
        present = {field.number: value for field, value in type(message).ListFields(message)}
        value: dict[str, Any] = {}
        name = ""
        try:
            for name, get in members:
                value[name] = get(present)
        except (ValueError, ArithmeticError, SchemaError) as error:
            raise ValueError(f"{name}: {error}") from None
        return value

    return read


def _union_reader(branches: list[tuple[int, str, Read]]) -> Callable[[Present], Any]:
    empty = {name: None for _, name, _ in branches}

    def get(present: Present) -> dict[str, Any] | None:
        for number, name, read in branches:
            if number in present:
                return {**empty, name: read(present[number])}
        return None

    return get


def _if_present(number: int, read: Read) -> Callable[[Present], Any]:
    return lambda present: read(present[number]) if number in present else None


def _map_reader(field: FieldDescriptor, keys: ProtobufMapping, read_value: Read) -> Read:
    read_key = keys.read

    def entries(values: Any) -> list[tuple[Any, Any]]:
        pairs = [(read_key(entry.key), read_value(entry.value)) for entry in values]
        return (
            pairs
            if keys.schema.kind in (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)
            else list(dict(pairs).items())
        )

    def real(values: Any) -> list[tuple[Any, Any]]:
        # Sorted, for the order in Protobuf's hash table differs between processes.
        return [(read_key(key), read_value(values[key])) for key in sorted(values)]

    return real if message_of(field).GetOptions().map_entry else entries
