"""How does `Cast` change types? Integers wrap, doubles saturate, text is parsed as Java parses it.

Arrow casts whole columns where it does exactly as Java does; all others are cast one by one.
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
from kafka_s3.connect.java.simple_dates import iso_text
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.arrow import SIMPLE
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import BOUNDS, FLOATS, default_value, to_json
from kafka_s3.connect.transforms.record import (
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
)  # fmt: skip
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


PURPOSE: Final = "cast types"
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
            found = dict(require_map(value, PURPOSE))
            found |= {name: cast(found.get(name), None, self.fields[name]) for name in hash_order(self.fields)}
            return self.part.put(record, found, None)
        other = self._schema(schema)
        members = require_struct(value, schema, PURPOSE)
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
        return Field(field.name, ConnectSchema(kind, optional=field.schema.optional, default=default))


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
    try:
        match kind:
            case SchemaType.STRING:
                return _text(value, schema)
            case SchemaType.BOOLEAN:
                return _boolean(value, schema)
            case SchemaType.FLOAT32 | SchemaType.FLOAT64:
                return _floating(value, schema, kind)
            case _:
                return _integer(value, schema, BITS[kind])
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


def _unexpected(value: Any, schema: Schema) -> Refused:
    return Refused(f"Unexpected type in Cast transformation: class {java_class(value, schema)}")


def _integer(value: Any, schema: Schema, bits: int) -> int:
    if isinstance(value, str):
        return parse_integer(value, bits)
    if isinstance(value, bytes):
        raise _unexpected(value, schema)
    if isinstance(value, float):
        return truncated(value, bits)
    return wrapped(int(value), bits)


def _floating(value: Any, schema: Schema, kind: SchemaType) -> float:
    if isinstance(value, str):
        if kind is SchemaType.FLOAT32:
            return _nearest_float(value)
        return parse_double(value)
    if isinstance(value, bytes):
        raise _unexpected(value, schema)
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
    import numpy as np

    number = parse_double(text)
    near = narrow(number)
    if near in (float("inf"), float("-inf")) or number != number:
        return near
    exact = Decimal(text.strip().rstrip("fFdD")) if number not in (float("inf"), float("-inf")) else Decimal(number)
    below, above = (float(np.nextafter(np.float32(near), np.float32(to))) for to in (float("-inf"), float("inf")))
    candidates = [found for found in (near, below, above) if abs(found) != float("inf")]
    return min(candidates, key=lambda found: (abs(Decimal(found) - exact), _mantissa(found) & 1))


def _mantissa(number: float) -> int:
    found: int = struct.unpack("I", struct.pack("f", number))[0]
    return found


def _boolean(value: Any, schema: Schema) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, bytes):
        raise _unexpected(value, schema)
    return value if isinstance(value, bool) else _integer(value, schema, 64) != 0


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
