"""What becomes of a value in a file of another schema? It is projected to the file's schema (SEMANTICS A6), or told why it cannot be.

`projection` works on Python values, `project_table` on Arrow columns as far as casts and added columns do it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.json_form import from_json

Project: TypeAlias = Callable[[Any], Any]

NUMBERS: Final = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
)
"""Connect's numbers; each can become any of those behind it."""
ENUMS: Final = (
    "io.confluent.connect.avro.Enum", "io.confluent.connect.json.Enum", "io.confluent.connect.protobuf.Enum",
    "org.apache.kafka.connect.data.Enum",
)  # fmt: skip
"""Parameters that mark a string as an enum; a parameter of that name with a symbol behind it stands for each symbol."""
NO_ACCOUNT: Final = ("connect.record.doc", "connect.record.aliases", "connect.record.namespace")
FIELD_DOC: Final = "io.confluent.connect.avro.field.doc."


def mismatch(record: ConnectSchema, file: ConnectSchema, *, where: str = "value") -> str | None:
    """Why values of a record schema cannot be projected to a file schema, with the place; None where they can."""
    if not _promotable(record.kind, file.kind):
        return f"{where}: {record.kind} cannot become {file.kind}"
    if record.name != file.name:
        return f"{where}: the schema's name is {record.name}, not {file.name}"
    if not parameters_fit(record, file):
        return f"{where}: the schemas' parameters differ"
    if record.optional and not file.optional and file.default is None:
        return f"{where}: it may be null, but is required without a default"
    for inner, (left, right) in _pairs(record, file, where):
        if left is None and not right.optional and right.default is None:
            return f"{inner}: it is missing, but is required without a default"
        found = mismatch(left, right, where=inner) if left is not None else None
        if found is not None:
            return found
    return None


def project(value: Any, record: ConnectSchema, file: ConnectSchema) -> Any:
    """The value of a record schema as one of a file schema. Raises SchemaError where that is impossible."""
    return projection(record, file)(value)


@lru_cache(maxsize=256)
def projection(record: ConnectSchema, file: ConnectSchema) -> Project:
    """The function that projects values: the file's fields, numbers widened, defaults and nulls for those that are missing.

    Raises SchemaError where the schemas do not fit; the function does where a value is null that must not be.
    """
    reason = mismatch(record, file)
    if reason is not None:
        raise SchemaError(
            f"{record.label()} cannot be projected to {file.label()}: {reason}. "
            "Let files roll at schema changes (schema.compatibility=NONE), or make the schemas compatible."
        )
    return _projection(record, file, where="value")


def default_value(schema: ConnectSchema) -> Any:
    """The default as a Connect value; None where there is none. Raises SchemaError where it is no value of the schema."""
    return None if schema.default is None else from_json(json.loads(schema.default), schema, where="default")


def project_table(table: pa.Table, record: ConnectSchema, file: ConnectSchema) -> pa.Table | None:
    """The rows of a table of record structs (types as `arrow_type` gives them) as file structs; None where only `project` can tell."""
    if file.kind is not SchemaType.STRUCT or not file.fields or mismatch(record, file) is not None:
        return None
    taken = {name: table.column(name).combine_chunks() for name in table.column_names}
    if any(isinstance(column, pa.ChunkedArray) for column in taken.values()):
        return None  # more text than one Arrow array can hold
    columns = _columns(taken, record, file, valid=pa.repeat(True, table.num_rows))
    return None if columns is None else pa.Table.from_arrays(columns, schema=pa.schema(_arrow_fields(file)))


def _projection(record: ConnectSchema, file: ConnectSchema, *, where: str) -> Project:
    convert = _same if record == file else _conversion(record, file, where)
    if file.optional:
        return lambda value: None if value is None else convert(value)
    default = default_value(file)

    def required(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if default is None:
            raise SchemaError(f"{where} is null, but its schema {file.label()} is required and has no default.")
        return default

    return required


def _conversion(record: ConnectSchema, file: ConnectSchema, where: str) -> Project:
    if file.kind is SchemaType.STRUCT:
        return _of_structs(record, file, where)
    inner = [_projection(left, right, where=place) for place, (left, right) in _pairs(record, file, where) if left]
    if file.kind is SchemaType.ARRAY:
        (item,) = inner
        return lambda value: [item(element) for element in value]
    if file.kind is SchemaType.MAP:
        key, member = inner
        return lambda value: [(key(k), member(v)) for k, v in value]
    if record.kind in NUMBERS and record.kind is not file.kind:
        return _float32 if file.kind is SchemaType.FLOAT32 else float if file.kind is SchemaType.FLOAT64 else _same
    return _same


def _of_structs(record: ConnectSchema, file: ConnectSchema, where: str) -> Project:
    taken: list[tuple[str, Project]] = []
    for field, (place, (left, right)) in zip(file.fields, _pairs(record, file, where), strict=True):
        taken.append((field.name, _filled(right) if left is None else _projection(left, right, where=place)))
    return lambda value: {name: convert(value.get(name)) for name, convert in taken}


def _filled(schema: ConnectSchema) -> Project:
    default = default_value(schema)
    return lambda _: default


def _same(value: Any) -> Any:
    return value


def _float32(value: float) -> float:
    """The nearest number that a Java float can hold."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _pairs(
    record: ConnectSchema, file: ConnectSchema, where: str
) -> Iterator[tuple[str, tuple[ConnectSchema | None, ConnectSchema]]]:
    """The schemas inside the file's with their counterparts in the record's, and the places."""
    members = {field.name: field.schema for field in record.fields} if file.fields else {}
    for field in file.fields:
        yield f"{where}.{field.name}", (members.get(field.name), field.schema)
    for place, left, right in (
        (f"{where}[]", record.items, file.items),
        (f"{where}.key", record.keys, file.keys),
        (f"{where}.value", record.values, file.values),
    ):
        if left is not None and right is not None:
            yield place, (left, right)


def _promotable(record: SchemaType, file: SchemaType) -> bool:
    if record is file:
        return True
    return record in NUMBERS and file in NUMBERS and NUMBERS.index(record) < NUMBERS.index(file)


def parameters_fit(record: ConnectSchema, file: ConnectSchema) -> bool:
    """Whether the parameters are equal but for documentation and for symbols of an enum that only the file has."""
    ours, theirs = _accountable(record), _accountable(file)
    if any(marker in ours and marker in theirs for marker in ENUMS):
        if any(_is_symbol(name) and name not in theirs for name in ours):
            return False
        ours, theirs = ({k: v for k, v in side.items() if not _is_symbol(k)} for side in (ours, theirs))
    return ours == theirs


def _accountable(schema: ConnectSchema) -> dict[str, str]:
    """The parameters without those that only document."""
    return {k: v for k, v in schema.parameters if k not in NO_ACCOUNT and not k.startswith(FIELD_DOC)}


def _is_symbol(name: str) -> bool:
    return any(name.startswith(f"{marker}.") for marker in ENUMS)


def _columns(
    taken: dict[str, pa.Array], record: ConnectSchema, file: ConnectSchema, *, valid: pa.Array
) -> list[pa.Array] | None:
    columns = []
    for field, (_, (left, right)) in zip(_arrow_fields(file), _pairs(record, file, ""), strict=True):
        column: pa.Array | None
        if left is not None:
            column = _column(taken[field.name], left, right, valid=valid) if field.name in taken else None
        elif right.default is None:
            column = pa.nulls(len(valid), field.type)
        else:
            column = pa.array([default_value(right)] * len(valid), field.type)
        if column is None or column.type != field.type:
            return None
        columns.append(column)
    return columns


def _column(array: pa.Array, record: ConnectSchema, file: ConnectSchema, *, valid: pa.Array) -> pa.Array | None:
    """The column in the file's type; `valid` says which of its parents are there. Null where a value is required: the slow path."""
    if not file.optional and pc.any(pc.and_(valid, array.is_null())).as_py():
        return None
    if record.kind in NUMBERS and record.kind is not file.kind:
        return array.cast(arrow_type(file), safe=False)
    if file.kind is not SchemaType.STRUCT or not file.fields:
        return array
    members = {field.name: array.field(field.name) for field in array.type}
    columns = _columns(members, record, file, valid=pc.and_(valid, array.is_valid()))
    if columns is None:
        return None
    return pa.StructArray.from_arrays(columns, fields=_arrow_fields(file), mask=array.is_null())


def _arrow_fields(schema: ConnectSchema) -> list[pa.Field]:
    return [arrow_field(field.name, field.schema) for field in schema.fields]
