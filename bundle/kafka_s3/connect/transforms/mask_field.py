"""What stands in the place of a masked field? The type's zero, or a replacement where the type can read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.java.numbers import narrow, parse_double, wrapped
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.arrow import arrow_type
from kafka_s3.connect.schemas.connect import DECIMAL, Field, SchemaType
from kafka_s3.connect.transforms.record import (
    ConnectRecord,
    JavaDate,
    RecordPart,
    Refused,
    Schema,
    Struct,
    field_value,
    java_class,
    mapped,
    require_map,
    require_struct,
    scalar,
)
from kafka_s3.model.offsets import TopicPartition

PURPOSE: Final = "mask fields"
BITS: Final = {"java.lang.Byte": 8, "java.lang.Short": 16, "java.lang.Integer": 32, "java.lang.Long": 64}
EMPTY: Final[dict[str, Any]] = {
    "java.lang.Boolean": False, "java.lang.Byte": 0, "java.lang.Short": 0, "java.lang.Integer": 0, "java.lang.Long": 0,
    "java.lang.Float": 0.0, "java.lang.Double": 0.0, "java.math.BigDecimal": Decimal(0), "java.util.Date": 0, "java.lang.String": "",
    "java.util.ArrayList": [], "java.util.HashMap": {},
}  # fmt: skip
NUMBERS: Final[dict[str, Callable[[str], Any]]] = {
    "java.lang.Float": lambda text: narrow(parse_double(text)),
    "java.lang.Double": parse_double,
    "java.math.BigDecimal": Decimal,
    "java.lang.String": str,
}


@dataclass(frozen=True, slots=True)
class MaskField:
    """Masks fields of a part; `replacement` None stands for each type's zero. The schema stays as it is."""

    part: RecordPart
    fields: frozenset[str]
    replacement: str | None
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with masked fields; null stays null, and a value without schema gets the fields that it lacks as null."""
        value, schema = self.part.of(record)
        if schema is None:
            found = dict(require_map(value, PURPOSE))
            found |= {name: self._masked(found.get(name), None) for name in self.fields}
            return self.part.put(record, found, None)
        members = require_struct(value, schema, PURPOSE)
        out = {}
        for field in schema.fields:
            member = field_value(members, field.name, field.schema, defaults=self.defaults)
            out[field.name] = self._masked(member, field.schema) if field.name in self.fields else member
        return self.part.put(record, out, schema)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """One value in each masked column, but where it is null."""
        return mapped(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        arrays = []
        for field, array in zip(value.schema.fields, value.arrays, strict=True):
            if field.name in self.fields:
                masked = self._column(field, array)
                if masked is None:
                    return None
                array = masked
            arrays.append(array)
        return Struct(value.schema, tuple(arrays))

    def _column(self, field: Field, array: pa.ChunkedArray) -> pa.ChunkedArray | None:
        if field.schema.kind in (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP, SchemaType.BYTES):
            return None
        try:
            mask = self._masked("" if field.schema.kind is SchemaType.STRING else 0, field.schema)
        except Refused:
            return None
        kind = arrow_type(field.schema)
        return pc.if_else(array.is_valid(), scalar(mask, kind), pa.scalar(None, kind))

    def _masked(self, value: Any, schema: Schema) -> Any:
        if value is None:
            return None
        java = java_class(value, schema)
        if self.replacement is not None:
            return self._replaced(java)
        if java not in EMPTY:
            raise Refused(f"Cannot mask value of type: class {java}")
        if java == "java.util.HashMap":
            return {} if schema is None else []
        if schema is not None and schema.name == DECIMAL:
            return Decimal(0)
        return JavaDate(0) if isinstance(value, JavaDate) else EMPTY[java]

    def _replaced(self, java: str) -> Any:
        text = self.replacement or ""
        try:
            if java in BITS:
                return _whole(text, BITS[java])
            if java in NUMBERS:
                return NUMBERS[java](text)
        except (ValueError, InvalidOperation, OverflowError):
            number = "a number" if java in BITS else "number"
            raise Refused(f"Unable to convert {text} (class java.lang.String) to {number}") from None
        raise Refused(f"Cannot mask value of type class {java} with custom replacement.")


def _whole(text: str, bits: int) -> int:
    """A number in text as an integer of so many bits, as Connect's `Values` reads it: towards zero, and cut to the bits."""
    return wrapped(int(Decimal(text.strip())), bits)
