"""How does a transform take all records of a run at once? By the columns of its key or value, where it has some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from kafka_s3.connect.records.avro_bodies import AvroBodies
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.transforms.record import RecordPart, default_of
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

NESTED = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


@runtime_checkable
class ByColumns(Protocol):
    """A transform that can take runs whole. `apply` says what it has to do; this is the quick way to the same records."""

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The run as it goes on, None where its records have to be taken one by one. `place` is where they are, after routers."""
        ...


@dataclass(frozen=True, slots=True)
class Struct:
    """Structs in columns: one array per field of the schema."""

    schema: ConnectSchema
    arrays: tuple[pa.ChunkedArray, ...]

    def named(self, name: str) -> pa.ChunkedArray:
        """The column of a field."""
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
                array = array.fill_null(scalar(default_of(field.schema), arrow_type(field.schema)))
            arrays.append(array)
        return Struct(self.schema, tuple(arrays))


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A Connect value as a scalar of its column's type."""
    return pa.array([value], kind)[0]


def constant(value: Any, kind: pa.DataType, count: int) -> pa.ChunkedArray:
    """So many times one value."""
    return pa.chunked_array([pa.repeat(scalar(value, kind), count)])


def struct_of(run: Run, part: RecordPart) -> Struct | None:
    """The columns of a run's key or value, None where it has none or they do not follow the schema."""
    if part is RecordPart.VALUE:
        values, schema = run.values, run.schema
    elif Role.KEY in run.sidecars:
        values, schema = run.sidecars[Role.KEY].values, run.sidecars[Role.KEY].schema
    else:
        return None
    table = values.table if isinstance(values, StructColumns | AvroBodies) else None
    if table is None or schema is None or schema.kind is not SchemaType.STRUCT:
        return None
    names = [field.name for field in schema.fields]
    if table.column_names != names or len(set(names)) < len(names):
        return None
    if any(table.schema.field(field.name).type != arrow_type(field.schema) for field in schema.fields):
        return None
    return Struct(schema, tuple(table.columns))


def put(run: Run, part: RecordPart, struct: Struct) -> Run:
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


def mapped(run: Run, part: RecordPart, change: Callable[[Struct], Struct | None], *, defaults: bool) -> Run | None:
    """The run with changed columns; nulls have become their defaults before where `defaults`. None where that is not possible."""
    struct = struct_of(run, part)
    if struct is not None and defaults:
        struct = struct.with_defaults()
    changed = change(struct) if struct is not None else None
    if changed is None or not changed.arrays:
        return None
    return put(run, part, changed)
