"""How does `TimestampConverter` read and write instants? As text, as a number since 1970, as Connect's Date, Time and Timestamp."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka_s3.connect.java.calendar import DAY_MS
from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import to_json
from kafka_s3.connect.transforms.columns import Struct, mapped
from kafka_s3.connect.transforms.date_columns import converted
from kafka_s3.connect.transforms.fields import java_kind
from kafka_s3.connect.transforms.record import (
    CONNECT,
    NULL_POINTER,
    ConnectRecord,
    JavaDate,
    RecordPart,
    Refused,
    bare,
    default_of,
    field_value,
    java_class,
    require_fields,
    require_map,
    require_struct,
)  # fmt: skip
from kafka_s3.model.offsets import TopicPartition

PURPOSE: Final = "converting timestamp formats"
NO_FORMAT: Final = 'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null'
PER_MS: Final = {"seconds": (1, 1000), "milliseconds": (1, 1), "microseconds": (1000, 1), "nanoseconds": (1_000_000, 1)}
"""How many of a unit make how many milliseconds."""
LONG: Final = 2**63
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
        """As the pattern is."""
        return self.dates is None or self.dates.deterministic

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the instant in its new form; null stays null. A field that a value without schema lacks becomes null."""
        value, schema = self.part.of(record)
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

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The field's column, where its texts have all the same simple pattern."""
        return mapped(run, self.part, self._columns, defaults=self.defaults) if self.field else None

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
        out = {}
        for field in schema.fields:
            member = field_value(value, field.name, field.schema, defaults=self.defaults)
            out[field.name] = self.convert(member, form_of(field.schema)) if field.name == self.field else member
        return out

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = tuple(
            Field(field.name, replace(SCHEMAS[self.target], optional=field.schema.optional))
            if field.name == self.field
            else field
            for field in schema.fields
        )
        other = bare(schema, fields=fields, optional=schema.optional)
        if schema.default is None:
            return other
        default = self._of_struct(default_of(schema), schema)
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
    return max(-LONG, min(LONG - 1, number))
