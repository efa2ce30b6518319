"""What does a transform see? One record with key, value and headers, as Connect's `SinkRecord`, or the columns of a whole run of records.

Values have the forms of `connect.schemas.json_form`. A record that a transform refuses is a `Refused` with the original's exception and
text; the chain makes a failure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import AvroBodies, StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import default_value
from kafka_s3.model.errors import SinkError
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

CONNECT: Final = "org.apache.kafka.connect.errors.ConnectException"
DATA: Final = "org.apache.kafka.connect.errors.DataException"
ILLEGAL: Final = "java.lang.IllegalArgumentException"
NULL_POINTER: Final = "java.lang.NullPointerException"
Schema: TypeAlias = ConnectSchema | None


class Refused(SinkError):
    """A transform cannot take a record. `exception` is the Java class that the original throws."""

    def __init__(self, message: str, exception: str = DATA) -> None:
        self.exception = exception
        self.message = message
        super().__init__(message)


class JavaDate(int):
    """A `java.util.Date` in a value without schema: epoch milliseconds, and written as that number."""


@dataclass(frozen=True, slots=True)
class Header:
    """One header; `schema` None where the value has none."""

    key: str
    value: Any
    schema: Schema


@dataclass(frozen=True, slots=True)
class ConnectRecord:
    """A record between converters and writer. `timestamp` is epoch ms, None where Kafka has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: Any
    key_schema: Schema
    value: Any
    value_schema: Schema
    headers: tuple[Header, ...] = ()


class RecordPart(StrEnum):
    """Which part of a record a transform works on (`$Key`, `$Value`)."""

    KEY = "key"
    VALUE = "value"

    def value_of(self, record: ConnectRecord) -> tuple[Any, Schema]:
        return (record.key, record.key_schema) if self is RecordPart.KEY else (record.value, record.value_schema)

    def put(self, record: ConnectRecord, value: Any, schema: Schema) -> ConnectRecord:
        if self is RecordPart.KEY:
            return replace(record, key=value, key_schema=schema)
        return replace(record, value=value, value_schema=schema)


class Transform(Protocol):
    """One step of a chain. Own ones are entry points of the group `kafka_s3.transforms`: callables that take the settings below
    `transforms.<alias>.` as `connect.config.transforms.Configured` and return an object of this protocol. One that may make something else
    of the same record the next time, for example because it looks at the clock, says so by an attribute `deterministic` that is False:
    `verify` then does not compare values.
    """

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record as it goes on, None where it is dropped. Raises Refused."""
        ...


class Predicate(Protocol):
    """A question about a record."""

    def test(self, record: ConnectRecord) -> bool: ...


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """A value without schema that has fields. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused(f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}")
    return value


def require_struct(value: Any, schema: ConnectSchema, purpose: str) -> dict[str, Any]:
    """A struct. Raises Refused."""
    if schema.kind is not SchemaType.STRUCT or value is None:
        raise Refused(f"Only Struct objects supported for [{purpose}], found: {java_class(value, schema)}")
    found: dict[str, Any] = value
    return found


def require_fields(schema: ConnectSchema) -> ConnectSchema:
    """A schema with fields. Raises Refused."""
    if schema.kind is not SchemaType.STRUCT:
        raise Refused("Cannot list fields on non-struct type")
    return schema


def field_value(value: dict[str, Any], name: str, schema: ConnectSchema, *, defaults: bool) -> Any:
    """The member of a struct; its default in place of null where `defaults`."""
    found = value.get(name)
    return default_value(schema) if found is None and defaults else found


def field_values(value: dict[str, Any], schema: ConnectSchema, *, defaults: bool) -> dict[str, Any]:
    """The members of a struct by the fields of its schema; defaults in place of nulls where `defaults`."""
    return {field.name: field_value(value, field.name, field.schema, defaults=defaults) for field in schema.fields}


def bare(schema: ConnectSchema, **changes: Any) -> ConnectSchema:
    """Name, version, doc and parameters of a schema and nothing else of it, which is what most transforms keep."""
    kept = ConnectSchema(schema.kind, False, schema.name, schema.version, schema.doc, schema.parameters)
    return replace(kept, **changes)


_SCHEMALESS: Final = {
    str: "java.lang.String", bool: "java.lang.Boolean", JavaDate: "java.util.Date", int: "java.lang.Long", float: "java.lang.Double",
    list: "java.util.ArrayList", dict: "java.util.HashMap", Decimal: "java.math.BigDecimal", bytes: "[B",
}  # fmt: skip
_LOGICAL: Final = {
    DATE: "java.util.Date", TIME: "java.util.Date", TIMESTAMP: "java.util.Date", DECIMAL: "java.math.BigDecimal",
}  # fmt: skip
_KINDS: Final = {
    SchemaType.INT8: "java.lang.Byte", SchemaType.INT16: "java.lang.Short", SchemaType.INT32: "java.lang.Integer",
    SchemaType.INT64: "java.lang.Long",
    SchemaType.FLOAT32: "java.lang.Float", SchemaType.FLOAT64: "java.lang.Double", SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.STRING: "java.lang.String", SchemaType.BYTES: "[B", SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
    SchemaType.STRUCT: "org.apache.kafka.connect.data.Struct",
}  # fmt: skip


def java_class(value: Any, schema: Schema = None) -> str:
    """The name of the Java class that a value has in the original, `null` for null."""
    if value is None:
        return "null"
    if schema is not None:
        return _LOGICAL.get(schema.name or "") or _KINDS[schema.kind]
    return _SCHEMALESS[type(value)]


NESTED = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


@runtime_checkable
class ByColumns(Protocol):
    """A transform that can take runs whole. `apply` says what it has to do; this is the quick way to the same records."""

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """The run as it goes on, None where its records have to be taken one by one. `topic_partition` is where they are, after routers."""
        ...


@dataclass(frozen=True, slots=True)
class Struct:
    """Structs in columns: one array per field of the schema."""

    schema: ConnectSchema
    arrays: tuple[pa.ChunkedArray, ...]

    def named(self, name: str) -> pa.ChunkedArray:
        return self.arrays[[field.name for field in self.schema.fields].index(name)]

    def with_fields(self, fields: Sequence[tuple[Field, pa.ChunkedArray]], schema: ConnectSchema) -> Struct:
        """Other fields under the rest of a schema."""
        return Struct(replace(schema, fields=tuple(field for field, _ in fields)), tuple(array for _, array in fields))

    def with_defaults(self) -> Struct | None:
        """Defaults in place of null; None where a default is nested."""
        arrays = []
        for field, array in zip(self.schema.fields, self.arrays, strict=True):
            if field.schema.default is not None and array.null_count:
                if field.schema.kind in NESTED:
                    return None
                array = array.fill_null(scalar(default_value(field.schema), arrow_type(field.schema)))
            arrays.append(array)
        return Struct(self.schema, tuple(arrays))


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A Connect value as a scalar of its column's type."""
    return pa.array([value], kind)[0]


def constant(value: Any, kind: pa.DataType, count: int) -> pa.ChunkedArray:
    """So many times one value."""
    return pa.chunked_array([pa.repeat(scalar(value, kind), count)])


def part_of(run: Run, part: RecordPart) -> Sidecar | None:
    """A run's values or keys with their schema, None where it has no keys."""
    return Sidecar(run.values, run.schema) if part is RecordPart.VALUE else run.sidecars.get(Role.KEY)


def struct_of(run: Run, part: RecordPart) -> Struct | None:
    """The columns of a run's key or value, None where it has none or they do not follow the schema."""
    found = part_of(run, part)
    if found is None:
        return None
    values, schema = found.values, found.schema
    table = values.table if isinstance(values, StructColumns | AvroBodies) else None
    if table is None or schema is None or schema.kind is not SchemaType.STRUCT:
        return None
    names = [field.name for field in schema.fields]
    if table.column_names != names or len(set(names)) < len(names):
        return None
    if any(table.schema.field(field.name).type != arrow_type(field.schema) for field in schema.fields):
        return None
    return Struct(schema, tuple(table.columns))


def with_columns(run: Run, part: RecordPart, struct: Struct) -> Run:
    """The run with other columns. A struct that is left without fields cannot be a table: then its values are Python's."""
    table = pa.Table.from_arrays(
        list(struct.arrays), schema=pa.schema([arrow_field(field.name, field.schema) for field in struct.schema.fields])
    )
    return put_values(run, part, StructColumns(table), struct.schema)


def put_values(run: Run, part: RecordPart, values: Values, schema: ConnectSchema | None) -> Run:
    """The run with another key or value."""
    if part is RecordPart.VALUE:
        return replace(run, values=values, schema=schema)
    return replace(run, sidecars={**run.sidecars, Role.KEY: Sidecar(values, schema)})


def with_changed_columns(
    run: Run, part: RecordPart, change: Callable[[Struct], Struct | None], *, defaults: bool
) -> Run | None:
    """The run with changed columns; nulls have become their defaults before where `defaults`. None where that is not possible."""
    struct = struct_of(run, part)
    if struct is not None and defaults:
        struct = struct.with_defaults()
    changed = change(struct) if struct is not None else None
    if changed is None or not changed.arrays:
        return None
    return with_columns(run, part, changed)
