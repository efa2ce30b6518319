"""Which Connect type does a single Protobuf value have? Scalars, enums, wrappers, and messages that stand for dates and decimals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaType, in_order
from kafka_s3.connect.schemas.decimals import MOST_DIGITS
from kafka_s3.connect.schemas.protobuf_descriptors import field_params, is_proto2

Read = Callable[[Any], Any]
ENUM: Final = "io.confluent.connect.protobuf.Enum"
TYPE: Final = "io.confluent.connect.protobuf.Type"
PRECISION: Final = "connect.decimal.precision"
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
EPOCH: Final = date(1970, 1, 1).toordinal()
LARGEST_SCALE: Final = 32767
MOST_BYTES: Final = MOST_DIGITS // 3


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
        raise ValueError(f"{message.seconds} s and {message.nanos} ns is no timestamp of the years 1 to 9999")
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
    if len(message.value) > MOST_BYTES:  # making digits of them takes time that grows with the square
        raise ValueError(f"the decimal has {len(message.value)} bytes; the most that are read are {MOST_BYTES}")
    unscaled = int.from_bytes(message.value, "big", signed=True)
    sign, digits, _ = Decimal(unscaled).as_tuple()
    number = Decimal((sign, digits, -message.scale))
    if not 0 < message.precision < len(digits):
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
