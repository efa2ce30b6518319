"""May a record join an open file that has another schema, and what becomes of its value there? (SEMANTICS A6)

`schema_decision` says whether it is written, projected to the file's schema, or has to wait for a new file. `projection` works on Python
values, `project_table` on Arrow columns as far as casts and added columns do it. `unified` goes beyond the original: a schema that holds
the values of two, so that records whose versions alternate can share a file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, Recursion, SchemaError, SchemaType, in_order
from kafka_s3.connect.schemas.json_form import BOUNDS, FLOATS, default_value

T = TypeVar("T")
MOST: Final = 1000


class SchemaPairs(Generic[T]):
    """Answers to a question about two schemas; the schemas are kept, so that their identities stay theirs."""

    def __init__(self, ask: Callable[[ConnectSchema, ConnectSchema], T]) -> None:
        self._ask = ask
        self._known: dict[tuple[int, int], tuple[ConnectSchema, ConnectSchema, T]] = {}

    def __call__(self, one: ConnectSchema, other: ConnectSchema) -> T:
        """The answer, asked for once. Raises what the question raises, each time."""
        key = (id(one), id(other))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = (one, other, self._ask(one, other))
        return known[2]


Project: TypeAlias = Callable[[Any], Any]

NUMBERS: Final = (*BOUNDS, *FLOATS)
"""Connect's numbers; each can become any of those behind it."""
ENUMS: Final = (
    "io.confluent.connect.avro.Enum", "io.confluent.connect.json.Enum", "io.confluent.connect.protobuf.Enum",
    "org.apache.kafka.connect.data.Enum",
)  # fmt: skip
"""Parameters that mark a string as an enum; a parameter of that name with a symbol behind it stands for each symbol."""
NO_ACCOUNT: Final = ("connect.record.doc", "connect.record.aliases", "connect.record.namespace")
FIELD_DOC: Final = "io.confluent.connect.avro.field.doc."


def mismatch(
    record: ConnectSchema, file: ConnectSchema, *, where: str = "value", compared: set[tuple[int, int]] | None = None
) -> str | None:
    """Why values of a record schema cannot be projected to a file schema, with the place; None where they can.

    Recursions that are being compared count as fitting: only a difference elsewhere can tell them apart.
    """
    compared = set() if compared is None else compared
    if isinstance(record.fields, Recursion) or isinstance(file.fields, Recursion):
        if (id(record.fields), id(file.fields)) in compared:
            return None
        compared.add((id(record.fields), id(file.fields)))
    if not _promotable(record.kind, file.kind):
        return f"{where}: {record.kind} cannot become {file.kind}"
    if record.name != file.name:
        return f"{where}: the schema's name is {record.name}, not {file.name}"
    if not parameters_match(record, file):
        return f"{where}: the schemas' parameters differ"
    if record.optional and not file.optional and file.default is None:
        return f"{where}: it may be null, but is required without a default"
    for inner, (left, right) in _pairs(record, file, where):
        if left is None and not right.optional and right.default is None:
            return f"{inner}: it is missing, but is required without a default"
        found = mismatch(left, right, where=inner, compared=compared) if left is not None else None
        if found is not None:
            return found
    return None


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


def project_table(table: pa.Table, record: ConnectSchema, file: ConnectSchema) -> pa.Table | None:
    """The rows of a table of record structs (types as `arrow_type` gives them) as file structs; None where only `projection` can decide."""
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
    if isinstance(record.fields, Recursion) or isinstance(file.fields, Recursion):
        return lambda value: _of_definitions(record, file)(value)
    if file.kind is SchemaType.STRUCT:
        return _of_structs(record, file, where)
    inner = [_projection(left, right, where=path) for path, (left, right) in _pairs(record, file, where) if left]
    if file.kind is SchemaType.ARRAY:
        (item,) = inner
        return lambda value: [item(element) for element in value]
    if file.kind is SchemaType.MAP:
        key, member = inner
        return lambda value: [(key(k), member(v)) for k, v in value]
    if record.kind in NUMBERS and record.kind is not file.kind:
        return _float32 if file.kind is SchemaType.FLOAT32 else float if file.kind is SchemaType.FLOAT64 else _same
    return _same


@lru_cache(maxsize=256)
def _of_definitions(record: ConnectSchema, file: ConnectSchema) -> Project:
    return _of_structs(record.unrolled(), file.unrolled(), file.label())


def _of_structs(record: ConnectSchema, file: ConnectSchema, where: str) -> Project:
    taken: list[tuple[str, Project]] = []
    for field, (path, (left, right)) in zip(file.fields, _pairs(record, file, where), strict=True):
        taken.append((field.name, _filled(right) if left is None else _projection(left, right, where=path)))
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
    for path, left, right in (
        (f"{where}[]", record.items, file.items),
        (f"{where}.key", record.keys, file.keys),
        (f"{where}.value", record.values, file.values),
    ):
        if left is not None and right is not None:
            yield path, (left, right)


def _promotable(record: SchemaType, file: SchemaType) -> bool:
    if record is file:
        return True
    return record in NUMBERS and file in NUMBERS and NUMBERS.index(record) < NUMBERS.index(file)


def parameters_match(record: ConnectSchema, file: ConnectSchema) -> bool:
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


VERSION_REQUIRED: Final = "Schema version required for {mode} compatibility"
EXACT: Final = {
    SchemaType.FLOAT32: {SchemaType.INT8, SchemaType.INT16, SchemaType.FLOAT32},
    SchemaType.FLOAT64: {SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.FLOAT32, SchemaType.FLOAT64},
}
"""Which numbers a float holds without rounding."""


class Compatibility(StrEnum):
    """The values of `schema.compatibility`; FULL acts as BACKWARD."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"

    @classmethod
    def named(cls, text: str) -> Compatibility:
        """The compatibility of that name; any other text acts as NONE (SEMANTICS A1.1)."""
        return cls(text) if text in cls.__members__ else cls.NONE


class SchemaDecision(Enum):
    """What happens to a record: written as it is, into a new file after this one is committed, projected to the file's schema, or
    not at all: `VERSION_REQUIRED` says why, or only one side has a schema (no writer asks that).
    """

    WRITE = auto()
    ROLL = auto()
    PROJECT = auto()
    REJECT = auto()


def schema_decision(
    record: ConnectSchema | None, file: ConnectSchema | None, compatibility: Compatibility
) -> SchemaDecision:
    """What happens to a record of one schema at a file that holds records of another. Equal schemas count as the same object.

    Where only one side has a schema, the check refuses the record in every mode, as in the original; writers close the file before they
    ask (SEMANTICS A3.2).
    """
    if record == file:
        return SchemaDecision.WRITE
    if record is None or file is None:
        return SchemaDecision.REJECT
    if compatibility is Compatibility.NONE:
        return SchemaDecision.ROLL
    if record.version is None or file.version is None:
        return SchemaDecision.REJECT
    older, newer = record.version < file.version, record.version > file.version
    if mismatch(record, file) or (older if compatibility is Compatibility.FORWARD else newer):
        return SchemaDecision.ROLL
    return SchemaDecision.PROJECT


def unified(left: ConnectSchema, right: ConnectSchema) -> ConnectSchema | None:
    """The schema that holds the values of both without loss, None where there is none; both project to it.

    Left's fields come first, then those that only right has; a field of one side alone becomes optional unless it has a default.
    Absorbing: a schema that went into a unified one does not change it any more, but for the version, which is the greater one.
    Types that contain themselves, and differ within, have none.
    """
    if left == right:
        return left
    if isinstance(left.fields, Recursion) or isinstance(right.fields, Recursion):
        return replace(left, optional=True) if replace(left, optional=True) == replace(right, optional=True) else None
    kind, parameters, fields = (
        _common(left.kind, right.kind),
        _joined_parameters(left, right),
        _joined_fields(left, right),
    )
    if kind is None or parameters is None or fields is None or left.name != right.name:
        return None
    if left.kind is not right.kind and left.name:
        return None  # a named number, like a Timestamp, has no wider form
    pairs = ((left.items, right.items), (left.keys, right.keys), (left.values, right.values))
    items, keys, values = (unified(ours, theirs) if ours and theirs else None for ours, theirs in pairs)
    if any(found is None and ours is not None for found, (ours, _) in zip((items, keys, values), pairs, strict=True)):
        return None
    agreed = left.default == right.default
    return replace(
        left,
        kind=kind,
        # where only one has a default, records may lack the value: so it may be null once the default is gone
        optional=left.optional or right.optional or not agreed,
        version=max((v for v in (left.version, right.version) if v is not None), default=None),
        doc=left.doc if left.doc is not None else right.doc,
        parameters=parameters,
        default=left.default if agreed else None,
        fields=fields,
        items=items,
        keys=keys,
        values=values,
    )


def _common(left: SchemaType, right: SchemaType) -> SchemaType | None:
    """The narrowest type that holds the values of both exactly."""
    if left is right or left not in NUMBERS or right not in NUMBERS:
        return left if left is right else None
    wider = max(left, right, key=NUMBERS.index)
    if wider not in EXACT or {left, right} <= EXACT[wider]:
        return wider
    return SchemaType.FLOAT64 if {left, right} <= EXACT[SchemaType.FLOAT64] else None


def _joined_parameters(left: ConnectSchema, right: ConnectSchema) -> tuple[tuple[str, str], ...] | None:
    ours = dict(left.parameters)
    joined = in_order((*left.parameters, *(pair for pair in right.parameters if pair[0] not in ours)))
    widest = replace(left, parameters=joined)
    return joined if parameters_match(left, widest) and parameters_match(right, widest) else None


def _joined_fields(left: ConnectSchema, right: ConnectSchema) -> tuple[Field, ...] | None:
    ours, theirs = ({field.name: field.schema for field in side.fields} for side in (left, right))
    aliases = {field.name: field.aliases for side in (left, right) for field in side.fields}
    joined = []
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            both = unified(ours[name], theirs[name])
        else:
            alone = ours[name] if name in ours else theirs[name]
            both = alone if alone.default is not None else replace(alone, optional=True)
        if both is None:
            return None
        earlier = tuple(one for one in aliases[name] if one not in aliases)
        joined.append(Field(name, both, earlier))
    return tuple(joined)
