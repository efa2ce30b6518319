"""How do values change their types? By `Cast`, and instants by `TimestampConverter`.

`Cast`: integers wrap, doubles saturate, text is parsed as Java parses it. Arrow casts whole columns where it does exactly as Java does.
`TimestampConverter`: text, a number since 1970, Connect's Date, Time and Timestamp; a column at a time for all numbers, and for texts of
patterns with digits in fixed places. What neither does in columns is done one by one.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.java.numbers import (
    decimal_text,
    double_text,
    float_text,
    hash_order,
    narrow,
    parse_double,
    parse_integer,
    truncated,
    wrapped,
)  # fmt: skip
from kafka_s3.connect.java.simple_dates import DAY_MS, SimpleDates, iso_text
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.schemas.arrow import LOGICAL, SIMPLE
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import BOUNDS, FLOATS, default_value, to_json
from kafka_s3.connect.transforms.fields import java_kind
from kafka_s3.connect.transforms.record import (
    CONNECT,
    NULL_POINTER,
    ConnectRecord,
    JavaDate,
    RecordPart,
    Refused,
    Schema,
    Struct,
    bare,
    field_values,
    java_class,
    require_fields,
    require_map,
    require_struct,
    with_changed_columns,
)  # fmt: skip  # fmt: skip
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

STORED: Final = {TIMESTAMP: pa.int64(), DATE: pa.int32(), TIME: pa.int32()}
WHOLE_TEXT: Final = r"^-?[0-9]{1,18}$"


def cast_column(array: pa.ChunkedArray, schema: ConnectSchema, kind: SchemaType) -> pa.ChunkedArray | None:
    """The column in another type, None where Arrow would do it otherwise than Java, or refuse a value."""
    if schema.name in STORED:
        if kind is SchemaType.STRING:
            return None
        array = array.cast(STORED[schema.name])
    elif schema.name is not None and schema.kind is SchemaType.BYTES:
        return None
    if schema.kind is kind:
        return array
    match schema.kind:
        case SchemaType.INT8 | SchemaType.INT16 | SchemaType.INT32 | SchemaType.INT64:
            return _from_integers(array, kind)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return _from_floats(array, kind)
        case SchemaType.BOOLEAN:
            return array.cast(pa.string()) if kind is SchemaType.STRING else array.cast(pa.int32()).cast(SIMPLE[kind])
        case SchemaType.STRING:
            return _from_texts(array, kind)
        case _:
            return None


def _from_integers(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray:
    if kind is SchemaType.BOOLEAN:
        return pc.not_equal(array, 0)
    if kind in BITS:
        return _wrapped(array, BITS[kind])
    return array.cast(SIMPLE[kind], safe=False)


def _from_floats(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray | None:
    if kind is SchemaType.STRING:
        return None
    if kind in FLOATS:
        return array.cast(SIMPLE[kind], safe=False)
    whole = _truncated(array, 64 if kind in (SchemaType.INT64, SchemaType.BOOLEAN) else 32)
    return pc.not_equal(whole, 0) if kind is SchemaType.BOOLEAN else _wrapped(whole, BITS[kind])


def _from_texts(array: pa.ChunkedArray, kind: SchemaType) -> pa.ChunkedArray | None:
    if kind is SchemaType.BOOLEAN:
        return pc.equal(pc.utf8_lower(array), "true")
    if kind not in BITS or pc.all(pc.match_substring_regex(array, WHOLE_TEXT)).as_py() is False:
        return None
    numbers = array.cast(pa.int64())
    bound = 2 ** (min(BITS[kind], 63) - 1)
    within = (
        kind is SchemaType.INT64 or pc.all(pc.and_(pc.greater_equal(numbers, -bound), pc.less(numbers, bound))).as_py()
    )
    return None if within is False else numbers.cast(SIMPLE[kind])


def _wrapped(array: pa.ChunkedArray, bits: int) -> pa.ChunkedArray:
    """The lower bits of each number, in the column type of that width."""
    if bits >= 32:
        return array.cast(pa.int64() if bits == 64 else pa.int32(), safe=False)
    numbers = pc.fill_null(array, 0).to_numpy().astype(np.int8 if bits == 8 else np.int16).astype(np.int32)
    return _with_nulls(numbers, array)


def _truncated(array: pa.ChunkedArray, bits: int) -> pa.ChunkedArray:
    """Each number towards zero, at most what fits, 0 for what is no number."""
    numbers = pc.fill_null(array, 0.0).to_numpy().astype(np.float64)
    bound = 2.0 ** (bits - 1)
    high, low = numbers >= bound, numbers <= -bound
    whole = np.where(high | low | np.isnan(numbers), 0.0, numbers).astype(np.int64)
    whole[high], whole[low] = 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
    return _with_nulls(whole, array)


def _with_nulls(numbers: np.ndarray, column: pa.ChunkedArray) -> pa.ChunkedArray:
    mask = None if not column.null_count else column.is_null().to_numpy()
    return pa.chunked_array([pa.array(numbers, mask=mask)])


CASTING: Final = "cast types"
BITS: Final = {kind: bits + 1 for kind, bits in BOUNDS.items()}
INPUTS: Final = "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]"
DATES: Final = (DATE, TIME, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Cast:
    """Casts `fields` of a part to types, or the whole part to `whole`."""

    part: RecordPart
    fields: Mapping[str, SchemaType]
    whole: SchemaType | None
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with cast fields; a field that a value without schema does not have becomes null."""
        value, schema = self.part.value_of(record)
        if value is None:
            return record
        if self.whole is not None:
            other = None if schema is None else self._schema(schema)
            return self.part.put(record, cast(value, schema, self.whole), other)
        if schema is None:
            found = dict(require_map(value, CASTING))
            found |= {name: cast(found.get(name), None, self.fields[name]) for name in hash_order(self.fields)}
            return self.part.put(record, found, None)
        other = self._schema(schema)
        members = require_struct(value, schema, CASTING)
        out = field_values(members, schema, defaults=self.defaults)
        out |= {
            field.name: cast(out[field.name], field.schema, self.fields[field.name])
            for field in schema.fields
            if field.name in self.fields
        }
        return self.part.put(record, out, other)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """Struct fields, where Arrow casts as Java does."""
        if self.whole is not None or (self.part is RecordPart.KEY and Role.KEY not in run.sidecars):
            return None
        return with_changed_columns(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        kinds = self.fields
        arrays = [
            cast_column(array, field.schema, kinds[field.name]) if field.name in kinds else array
            for field, array in zip(value.schema.fields, value.arrays, strict=True)
        ]
        if any(array is None for array in arrays):
            return None
        try:
            return Struct(self._schema(value.schema), tuple(arrays))
        except Refused:
            return None

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        if self.whole is not None:
            return replace(
                bare(schema), kind=self.whole, optional=schema.optional, default=_default(schema, self.whole)
            )
        fields = [self._field(field) for field in require_fields(schema).fields]
        default = _default(schema, SchemaType.STRUCT)
        return bare(schema, fields=tuple(fields), optional=schema.optional, default=default)

    def _field(self, field: Field) -> Field:
        kind = self.fields.get(field.name)
        if kind is None:
            return field
        default = _default(field.schema, kind)
        return replace(field, schema=ConnectSchema(kind, optional=field.schema.optional, default=default))


def _default(schema: ConnectSchema, kind: SchemaType) -> str | None:
    if schema.default is None:
        return None
    value = cast(default_value(schema), schema, kind)
    return json.dumps(to_json(value, ConnectSchema(kind)))


def cast(value: Any, schema: Schema, kind: SchemaType) -> Any:
    """One value cast to a type. Raises Refused."""
    if value is None:
        return None
    _check_input(value, schema)
    if isinstance(value, bytes) and kind is not SchemaType.STRING:
        raise Refused(f"Unexpected type in Cast transformation: class {java_class(value, schema)}")
    try:
        match kind:
            case SchemaType.STRING:
                return _text(value, schema)
            case SchemaType.BOOLEAN:
                return _boolean(value)
            case SchemaType.FLOAT32 | SchemaType.FLOAT64:
                return _floating(value, kind)
            case _:
                return _integer(value, BITS[kind])
    except (ValueError, OverflowError):
        raise Refused(f"Value ({_shown(value, schema)}) was out of range for requested data type") from None


def _check_input(value: Any, schema: Schema) -> None:
    if schema is None:
        if isinstance(value, JavaDate | Decimal):
            known = "which is not supported by Connect's data API"
            raise Refused(f"Cast transformation was passed a value of type class {java_class(value)} {known}")
        kind = "ARRAY" if isinstance(value, list) else "MAP" if isinstance(value, dict) else None
    else:
        kind = schema.kind.upper() if schema.kind in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT) else None
    if kind:
        raise Refused(f"Cast transformation does not support casting from {kind}; supported types are {INPUTS}")


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        return parse_integer(value, bits)
    if isinstance(value, float):
        return truncated(value, bits)
    return wrapped(int(value), bits)


def _floating(value: Any, kind: SchemaType) -> float:
    if isinstance(value, str):
        return _nearest_float(value) if kind is SchemaType.FLOAT32 else parse_double(value)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf") if value > 0 else float("-inf")
    if kind is SchemaType.FLOAT64:
        return number
    return (
        _nearest_float(str(value))
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
        else narrow(number)
    )


def _nearest_float(text: str) -> float:
    """The 32-bit number nearest to a decimal text, without the double rounding by way of 64 bits."""
    number = parse_double(text)
    near = narrow(number)
    if near in (float("inf"), float("-inf")) or number != number:
        return near
    exact = Decimal(text.strip().rstrip("fFdD")) if number not in (float("inf"), float("-inf")) else Decimal(number)
    below, above = (float(np.nextafter(np.float32(near), np.float32(to))) for to in (float("-inf"), float("inf")))
    candidates = [found for found in (near, below, above) if abs(found) != float("inf")]
    return min(
        candidates, key=lambda found: (abs(Decimal(found) - exact), struct.unpack("I", struct.pack("f", found))[0] & 1)
    )


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return value if isinstance(value, bool) else _integer(value, 64) != 0


def _text(value: Any, schema: Schema) -> str:
    name = schema.name if schema is not None else None
    if name in DATES:
        return iso_text(value * 86_400_000 if name == DATE else value)
    match value:
        case bool():
            return json.dumps(value)
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return float_text(value) if schema is not None and schema.kind is SchemaType.FLOAT32 else double_text(value)
        case Decimal():
            return decimal_text(value)
        case _:
            return str(value)


def _shown(value: Any, schema: Schema) -> str:
    return decimal_text(value) if schema is not None and schema.name == DECIMAL else _text(value, schema)


Layout = list[tuple[str, int]]
WIDTHS: Final = {("y", 4): 4, ("M", 2): 2, ("d", 2): 2, ("H", 2): 2, ("m", 2): 2, ("s", 2): 2, ("S", 3): 3}
GREGORIAN_MS: Final = -12_212_553_600_000
"""1583-01-01: before it Java's calendar is another one."""
YEAR_10000_MS: Final = 253_402_300_800_000
MAX_MS: Final = 2**53
TARGETS: Final = {"Date": LOGICAL[DATE], "Time": LOGICAL[TIME], "Timestamp": LOGICAL[TIMESTAMP]}


def converted(
    array: pa.ChunkedArray, form: str, target: str, *, dates: SimpleDates | None, per_ms: tuple[int, int]
) -> pa.ChunkedArray | None:
    """A column of one form in another one (`SCHEMAS`), None where its values have to be converted one by one."""
    if form == target and form != "string" and form != "unix":
        return array
    layout = None if dates is None else layout_of(dates)
    missing = array.is_null().to_numpy() if array.null_count else None
    instants = _instants(array, form, layout, per_ms)
    if instants is None:
        return None
    if target == "string":
        texts = None if layout is None else written(instants, layout)
        return None if texts is None else pa.chunked_array([_masked(texts, missing)])
    numbers = instants
    if target == "unix":
        of_unit, ms = per_ms
        if of_unit > 1 and np.abs(instants).max(initial=0) > (2**63 - 1) // of_unit:
            return None
        numbers = _columns_towards_zero(instants * of_unit, ms)
        return pa.chunked_array([pa.array(numbers, mask=missing)])
    if target == "Date":
        numbers = instants // DAY_MS
    elif target == "Time":
        numbers = instants % DAY_MS
    plain = pa.array(numbers, mask=missing)
    return pa.chunked_array([(plain if target == "Timestamp" else plain.cast(pa.int32())).cast(TARGETS[target])])


def layout_of(dates: SimpleDates) -> Layout | None:
    """The parts of a pattern with their widths: letters that stand for digits, or literal text; None where one is of any other kind."""
    found: Layout = []
    for text, count in dates.tokens:
        if not count:
            if not text.isascii():
                return None
            found.append((f"'{text}", len(text)))
        elif (text, count) in WIDTHS:
            found.append((text, count))
        elif text == "X":
            found.append(("'Z", 1))
        else:
            return None
    letters = [name for name, _ in found if not name.startswith("'")]
    return found if len(set(letters)) == len(letters) and "y" in letters else None


def _instants(array: pa.ChunkedArray, form: str, layout: Layout | None, per_ms: tuple[int, int]) -> Longs | None:
    """Epoch milliseconds of each row, 0 where it is null."""
    match form:
        case "string":
            return None if layout is None else parsed(pc.fill_null(array, _placeholder(layout)), layout)
        case "unix":
            numbers: Longs = pc.fill_null(array, 0).to_numpy()
            of_unit, ms = per_ms
            if ms > 1 and np.abs(numbers).max(initial=0) > MAX_MS:
                return None
            return _columns_towards_zero(numbers * ms, of_unit)
        case "Date":
            days: Longs = pc.fill_null(array.cast(pa.int32()), 0).to_numpy().astype(np.int64)
            return days * DAY_MS
        case "Time":
            times: Longs = pc.fill_null(array.cast(pa.int32()), 0).to_numpy().astype(np.int64)
            return times
        case _:
            instants: Longs = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
            return instants


def _placeholder(layout: Layout) -> str:
    return "".join(name[1:] if name.startswith("'") else "1" * width for name, width in layout)


def parsed(texts: pa.ChunkedArray, layout: Layout) -> Longs | None:
    """Epoch milliseconds of texts, None where one of them is not laid out so. Month 13 is the next January."""
    width = sum(width for _, width in layout)
    if not len(texts) or not pc.all(pc.equal(pc.binary_length(texts), width)).as_py():
        return None if len(texts) else np.empty(0, np.int64)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts.combine_chunks()), "")[0].as_buffer()
    rows = np.frombuffer(joined, np.uint8).reshape(len(texts), width)
    parts: dict[str, Longs] = {}
    at = 0
    for name, length in layout:
        piece = rows[:, at : at + length]
        at += length
        if name.startswith("'"):
            if (piece != np.frombuffer(name[1:].encode(), np.uint8)).any():
                return None
            continue
        digits = piece - np.uint8(48)
        if (digits > 9).any():
            return None
        parts[name] = digits.astype(np.int64) @ (10 ** np.arange(length - 1, -1, -1, dtype=np.int64))
    return _joined(parts, len(texts))


def _joined(parts: dict[str, Longs], count: int) -> Longs | None:
    one, zero = np.ones(count, np.int64), np.zeros(count, np.int64)
    if parts["y"].min(initial=9999) < 1584:
        return None
    months = parts.get("M", one) - 1
    first = (parts["y"] - 1970) * 12 + months
    days = first.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + parts.get("d", one) - 1
    seconds = (parts.get("H", zero) * 60 + parts.get("m", zero)) * 60 + parts.get("s", zero)
    found: Longs = days * DAY_MS + seconds * 1000 + parts.get("S", zero)
    return found


def written(instants: Longs, layout: Layout) -> pa.Array | None:
    """The texts of instants, None where a year does not have four digits of the Gregorian calendar."""
    if instants.min(initial=0) < GREGORIAN_MS or instants.max(initial=0) >= YEAR_10000_MS:
        return None
    days, ms = np.divmod(instants, DAY_MS)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    year, month = np.divmod(months.astype(np.int64), 12)
    numbers = {
        "y": year + 1970, "M": month + 1, "d": days - months.astype("datetime64[D]").astype(np.int64) + 1, "H": ms // 3_600_000,
        "m": ms // 60_000 % 60, "s": ms // 1000 % 60, "S": ms % 1000,
    }  # fmt: skip
    width = sum(width for _, width in layout)
    rows = np.empty((len(instants), width), np.uint8)
    at = 0
    for name, length in layout:
        if name.startswith("'"):
            rows[:, at : at + length] = np.frombuffer(name[1:].encode(), np.uint8)
        else:
            for digit in range(length):
                rows[:, at + digit] = numbers[name] // 10 ** (length - 1 - digit) % 10 + 48
        at += length
    offsets = np.arange(len(instants) + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(len(instants), pa.py_buffer(offsets), pa.py_buffer(rows))


def _masked(texts: pa.Array, missing: npt.NDArray[np.bool_] | None) -> pa.Array:
    return texts if missing is None else pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), texts)


def _columns_towards_zero(numbers: Longs, divisor: int) -> Longs:
    found: Longs = np.where(numbers < 0, -(-numbers // divisor), numbers // divisor)
    return found


PURPOSE: Final = "converting timestamp formats"
NO_FORMAT: Final = 'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null'
PER_MS: Final = {"seconds": (1, 1000), "milliseconds": (1, 1), "microseconds": (1000, 1), "nanoseconds": (1_000_000, 1)}
"""How many of a unit make how many milliseconds."""
LONG_BOUND: Final = 2**63
SCHEMAS: Final = {
    "string": ConnectSchema(SchemaType.STRING),
    "unix": ConnectSchema(SchemaType.INT64),
    "Date": ConnectSchema(SchemaType.INT32, name=DATE, version=1),
    "Time": ConnectSchema(SchemaType.INT32, name=TIME, version=1),
    "Timestamp": ConnectSchema(SchemaType.INT64, name=TIMESTAMP, version=1),
}
NAMED: Final = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}


@dataclass(frozen=True, slots=True)
class TimestampConverter:
    """Converts a field of a part, or the whole part where `field` is blank, to a form of `SCHEMAS`; `unit` is that of `unix`."""

    part: RecordPart
    field: str
    target: str
    dates: SimpleDates | None
    unit: str
    defaults: bool

    @property
    def deterministic(self) -> bool:
        return self.dates is None or self.dates.deterministic

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the instant in its new form; null stays null. A field that a value without schema lacks becomes null."""
        value, schema = self.part.value_of(record)
        if schema is None:
            return self.part.put(record, self._of_map(value), None)
        if not self.field:
            other = replace(SCHEMAS[self.target], optional=schema.optional)
            form = form_of(schema)
            return self.part.put(record, self.convert(value, form), other)
        if value is not None:
            require_struct(value, schema, PURPOSE)
        other = self._schema(require_fields(schema))
        return self.part.put(record, self._of_struct(value, schema), other)

    def convert(self, value: Any, form: str) -> Any:
        """One value of a form. Raises Refused."""
        return None if value is None else self._written(self._instant(value, form))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """The field's column, where its texts have all the same simple pattern."""
        return with_changed_columns(run, self.part, self._columns, defaults=self.defaults) if self.field else None

    def _columns(self, value: Struct) -> Struct | None:
        arrays = list(value.arrays)
        names = [field.name for field in value.schema.fields]
        if self.field in names:
            at = names.index(self.field)
            try:
                form = form_of(value.schema.fields[at].schema)
            except Refused:
                return None
            array = converted(arrays[at], form, self.target, dates=self.dates, per_ms=PER_MS[self.unit])
            if array is None:
                return None
            arrays[at] = array
        return Struct(self._schema(value.schema), tuple(arrays))

    def _of_map(self, value: Any) -> Any:
        if value is None or not self.field:
            return self._schemaless(value)
        found = dict(require_map(value, PURPOSE))
        found[self.field] = self._schemaless(found.get(self.field))
        return found

    def _schemaless(self, value: Any) -> Any:
        form = {str: "string", int: "unix", JavaDate: "Timestamp"}.get(type(value))
        if value is not None and form is None:
            raise Refused(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")
        found = self.convert(value, form or "")
        if found is None or self.target not in NAMED.values():
            return found
        return JavaDate(found * DAY_MS if self.target == "Date" else found)

    def _of_struct(self, value: Any, schema: ConnectSchema) -> Any:
        if value is None:
            return None
        out = field_values(value, schema, defaults=self.defaults)
        field = schema.field(self.field)
        if field is not None:
            out[field.name] = self.convert(out[field.name], form_of(field.schema))
        return out

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = tuple(
            replace(field, schema=replace(SCHEMAS[self.target], optional=field.schema.optional))
            if field.name == self.field
            else field
            for field in schema.fields
        )
        other = bare(schema, fields=fields, optional=schema.optional)
        if schema.default is None:
            return other
        default = self._of_struct(default_value(schema), schema)
        return replace(other, default=json.dumps(to_json(default, other)))

    def _instant(self, value: Any, form: str) -> int:
        match form:
            case "string":
                return self._parsed(value)
            case "unix":
                of_unit, ms = PER_MS[self.unit]
                return _bounded(_towards_zero(value * ms, of_unit))
            case "Date":
                return int(value) * DAY_MS
            case _:
                return int(value)

    def _parsed(self, text: str) -> int:
        if self.dates is None:
            raise Refused(NO_FORMAT, NULL_POINTER)
        try:
            return self.dates.parse(text)
        except ValueError:
            pattern = self.dates.pattern
            raise Refused(f"Could not parse timestamp: value ({text}) does not match pattern ({pattern})") from None

    def _written(self, epoch_ms: int) -> Any:
        match self.target:
            case "string":
                return self.dates.format(epoch_ms) if self.dates is not None else ""
            case "unix":
                of_unit, ms = PER_MS[self.unit]
                return _bounded(_towards_zero(epoch_ms * of_unit, ms))
            case "Date":
                return epoch_ms // DAY_MS
            case "Time":
                return epoch_ms % DAY_MS
            case _:
                return epoch_ms


def form_of(schema: ConnectSchema) -> str:
    """The form in which a schema holds instants. Raises Refused."""
    if schema.name in NAMED:
        return NAMED[schema.name]
    form = {SchemaType.STRING: "string", SchemaType.INT64: "unix"}.get(schema.kind)
    if form is None:
        named = f"{schema.name}:" if schema.name is not None else ""
        shown = f"Schema{{{named}{java_kind(schema)}}}"
        raise Refused(f"Schema {shown} does not correspond to a known timestamp type format", CONNECT)
    return form


def _towards_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number < 0 else number // divisor


def _bounded(number: int) -> int:
    return max(-LONG_BOUND, min(LONG_BOUND - 1, number))
