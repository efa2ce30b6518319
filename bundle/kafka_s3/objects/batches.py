"""How do the records of an object come as Arrow batches with the columns that a reader wants? And which columns does it have?

Parquet by pages, Avro by blocks, text by pieces: a few MiB of an object are in memory, whatever its size. Columns are found by name; one
that an object lacks is null. What a column cannot take is an error that names object, column and both types: no value is changed, and
none is left out but where the reader's columns were chosen by the user (`OtherFields.IGNORED`). What the directory says (`year=2025`) fills
columns that the records do not have.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_s3.connect.schemas.arrow import arrow_table, arrow_type, as_text, final_type, infer_table, map_leaves
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, SchemaType
from kafka_s3.objects.block_gzip_form import Framing, Lines
from kafka_s3.objects.readers import (
    DAMAGE,
    AvroContainer,
    ObjectUnreadable,
    StoredObject,
    avro_values,
    byte_rows,
    parquet_batches,
    pieces_of,
    ranged_file,
)
from kafka_s3.store.store import ObjectStore

VALUE: Final = "value"
"""The column of values without fields."""
SAMPLED_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20
BATCH_ROWS: Final = 8192
MOST_LEVELS: Final = 50
"""Arrow sends batches to Spark with columns of 64 levels at most."""
_HALVES: Final = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL)
_PER_S: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class OtherFields(StrEnum):
    """What happens to fields of an object for which there is no column."""

    REFUSED = "refused"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Bytes:
    """How records of bytes are separated in an object."""

    separator: bytes
    framing: Framing


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a reader wants, what becomes of other fields, and the texts that fill columns which the records do not have."""

    schema: pa.Schema
    others: OtherFields = OtherFields.IGNORED
    fills: Mapping[str, str | None] = field(default_factory=dict)

    def fill(self, wanted: pa.Field) -> Any:
        """What a column holds that the records do not have. Raises Unfit where the directory's text is not of its type."""
        text = self.fills.get(wanted.name)
        try:
            return pa.scalar(None, wanted.type) if text is None else pa.scalar(text, pa.string()).cast(wanted.type)
        except pa.ArrowException as error:
            raise Unfit(f"column {wanted.name} is {text!r} by the directory, which is no {wanted.type}") from error


class Unfit(ValueError):
    """A value has no place in the columns."""


# ------------------------------------------------------------ which columns an object has


def object_schema(store: ObjectStore, part: StoredObject) -> pa.Schema:
    """The columns of an object: by footer or header, of JSON by its first SAMPLED_ROWS rows. Raises ObjectUnreadable, StorageError.

    What is null or an empty object in all of these rows has the type null or struct<>, until `settled` finds a better one.
    """
    try:
        match part.format:
            case "parquet":
                with pq.ParquetFile(ranged_file(store, part), pre_buffer=False) as file:
                    found = file.schema_arrow
            case "avro":
                found = _avro_schema(AvroContainer(pieces_of(store, part)).schema)
            case "json":
                rows = _json_rows(byte_rows(pieces_of(store, part), part.key, "json", separator=b"", framing=Lines()))
                found = infer_table(list(islice(rows, SAMPLED_ROWS))).schema
            case _:
                found = pa.schema([(VALUE, pa.binary())])
    except (*DAMAGE, SchemaError) as error:
        raise _unreadable(part, error) from error
    return pa.schema([pa.field(one.name, map_leaves(one.type, _plain_leaf)) for one in shallow_columns(found)])


def shallow_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns with JSON text in place of what is nested more than MOST_LEVELS deep."""
    return pa.schema([pa.field(one.name, _shallow(one.type, MOST_LEVELS)) for one in schema])


def _shallow(kind: pa.DataType, levels: int) -> pa.DataType:
    if not pa.types.is_nested(kind):
        return kind
    if not levels:
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_shallow(kind.value_type, levels - 1))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _shallow(kind.item_type, levels - 1))
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([one.with_type(_shallow(one.type, levels - 1)) for one in kind])


def _avro_schema(text: str) -> pa.Schema:
    schema = connect_schema_of_avro(parse_avro(text), options=AvroOptions())
    if schema is None:
        raise SchemaError("its schema has no columns (it contains itself, or a union of several types)")
    return pa.schema(_avro_fields(schema))


def _avro_fields(schema: ConnectSchema) -> list[pa.Field]:
    if schema.kind is not SchemaType.STRUCT:
        return [pa.field(VALUE, arrow_type(schema))]
    return [pa.field(one.name, arrow_type(one.schema)) for one in schema.fields]


def _plain_leaf(kind: pa.DataType) -> pa.DataType:
    """What query engines have of a type: times of day as milliseconds, decimals of 38 digits."""
    if pa.types.is_time32(kind):
        return pa.int32()
    return pa.decimal128(38, min(kind.scale, 38)) if pa.types.is_decimal256(kind) else kind


def settled(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """The columns of objects, with a type for what is null or empty in one of them: that of the first other that has one, else text."""
    known: pa.DataType = pa.null()
    for one in schemas:
        known = _filled(known, pa.struct(list(one)), grows=True)
    return [pa.schema(list(final_type(_filled(pa.struct(list(one)), known)))) if len(one) else one for one in schemas]


def _filled(kind: pa.DataType, by: pa.DataType, *, grows: bool = False) -> pa.DataType:
    """A type with another's in place of what is null or empty; where it `grows`, with the other's further members, too."""
    if pa.types.is_null(kind) or (pa.types.is_struct(kind) and not kind.num_fields and pa.types.is_struct(by)):
        return by
    if pa.types.is_struct(kind) and pa.types.is_struct(by):
        given = {one.name: one.type for one in by}
        own = {one.name: _filled(one.type, given.get(one.name, pa.null()), grows=grows) for one in kind}
        return pa.struct(list(({**given, **own} if grows else own).items()))
    if pa.types.is_list(kind) and pa.types.is_list(by):
        return pa.list_(_filled(kind.value_type, by.value_type, grows=grows))
    if pa.types.is_map(kind) and pa.types.is_map(by):
        return pa.map_(kind.key_type, _filled(kind.item_type, by.item_type, grows=grows))
    return kind


# ------------------------------------------------------------ an object in batches


def record_batches(
    store: ObjectStore, part: StoredObject, columns: Columns, *, records: int, form: Bytes
) -> Iterator[pa.RecordBatch]:
    """The records of an object with exactly these columns, in order. Raises ObjectUnreadable, ObjectMissing, StorageError."""
    try:
        for table in _tables(store, part, columns, records=records, form=form):
            yield from table.combine_chunks().to_batches()
    except (*DAMAGE, SchemaError) as error:
        raise _unreadable(part, error) from error


def _tables(
    store: ObjectStore, part: StoredObject, columns: Columns, *, records: int, form: Bytes
) -> Iterator[pa.Table]:
    match part.format:
        case "parquet":
            rows = max(1, min(BATCH_ROWS, BATCH_BYTES * max(records, 1) // max(part.size, 1)))
            for batch in parquet_batches(ranged_file(store, part), rows):
                yield conformed(pa.Table.from_batches([batch]), columns)
        case "avro":
            yield from _avro_tables(store, part, columns)
        case "json":
            lines = byte_rows(pieces_of(store, part), part.key, "json", separator=b"", framing=form.framing)
            shape = JsonShape(columns)
            for some in _in_pieces(lines):
                yield shape.table(some)
        case _:
            found = byte_rows(
                pieces_of(store, part), part.key, part.format, separator=form.separator, framing=form.framing
            )
            for some in _in_pieces(one[1] if isinstance(one, tuple) else one for one in found):
                yield conformed(pa.table({VALUE: pa.array(some, pa.binary())}), columns)


def _avro_tables(store: ObjectStore, part: StoredObject, columns: Columns) -> Iterator[pa.Table]:
    container = AvroContainer(pieces_of(store, part))
    connect = connect_schema_of_avro(parse_avro(container.schema), options=AvroOptions())
    if connect is None:
        _avro_schema(container.schema)  # says why
        return
    values = avro_values(container, connect)
    while some := list(islice(values, BATCH_ROWS)):
        yield conformed(_avro_table(some, connect), columns)


def _avro_table(values: list[Any], schema: ConnectSchema) -> pa.Table:
    if schema.kind is SchemaType.STRUCT:
        return arrow_table(values, schema)
    return pa.table({VALUE: pa.array(values, arrow_type(schema))})


def _in_pieces(rows: Iterator[bytes]) -> Iterator[list[bytes]]:
    some, size = list[bytes](), 0
    for row in rows:
        some.append(row)
        size += len(row)
        if size >= BATCH_BYTES or len(some) == BATCH_ROWS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _unreadable(part: StoredObject, error: Exception) -> ObjectUnreadable:
    if isinstance(error, Unfit):
        return ObjectUnreadable(
            f"{part.key}: {error}. Give the columns that are wanted with their types as the schema, or read fewer entries."
        )
    return ObjectUnreadable(
        f"{part.key} cannot be read as {part.format} ({type(error).__name__}: {error}). kafka-s3 verify says what is wrong."
    )


# ------------------------------------------------------------ columns to the types that are wanted


def conformed(table: pa.Table, wanted: Columns) -> pa.Table:
    """The table with exactly these columns. Raises Unfit where a value would be lost."""
    columns, spelt = [], {name.lower(): name for name in reversed(table.column_names)}
    if wanted.others is OtherFields.REFUSED:
        _refuse_others(pa.struct(list(table.schema)), pa.struct(list(wanted.schema)), "")
    for one in wanted.schema:
        name = one.name if one.name in table.column_names else spelt.get(one.name.lower())
        if name is None:
            columns.append(pa.repeat(wanted.fill(one), table.num_rows))
        else:
            columns.append(_shaped(table.column(name).combine_chunks(), one.type, name))
    return pa.Table.from_arrays(columns, schema=wanted.schema)


def _shaped(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        if not pa.types.is_nested(kind) or type(array.type) is not type(kind):
            raise Unfit(f"column {name} is {array.type}, which {kind} does not hold: {error}") from error
    try:  # structs with other members: a missing one is null
        return pa.array([_with_texts(value, kind) for value in array.to_pylist()], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise Unfit(f"column {name} is {array.type}, which {kind} does not hold: {error}") from error


def _with_texts(value: Any, kind: pa.DataType) -> Any:
    """Return the value with JSON text for what is nested in place of a text."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {one.name: _with_texts(value[one.name], one.type) for one in kind if one.name in value}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_with_texts(item, kind.value_type) for item in value]
    if isinstance(value, list) and pa.types.is_map(kind):
        return [(name, _with_texts(item, kind.item_type)) for name, item in value]
    if isinstance(value, dict | list) and pa.types.is_string(kind):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return value


def _refuse_others(found: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Raises Unfit for a field, also of a struct within, that has no column."""
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = {one.name.lower(): one.type for one in wanted}
        for one in found:
            if one.name.lower() not in names:
                raise Unfit(f"column {path}{one.name} ({one.type}) is not among those that were found at the beginning")
            _refuse_others(one.type, names[one.name.lower()], f"{path}{one.name}.")
    elif pa.types.is_list(found) and pa.types.is_list(wanted):
        _refuse_others(found.value_type, wanted.value_type, f"{path}element.")
    elif pa.types.is_map(found) and pa.types.is_map(wanted):
        _refuse_others(found.item_type, wanted.item_type, f"{path}value.")


# ------------------------------------------------------------ JSON

_Convert = Callable[[Any], Any]


def parse_row(line: bytes, *, parse_float: Callable[[str], Any] = float) -> Any:
    """Return the JSON document of a line. Half a surrogate pair, which no column holds, is `?`, as Java's encoder has it."""
    if b"\\ud" in line or b"\\uD" in line:
        line = _HALVES.sub(lambda match: b"?" if match["half"] else match[0], line)
    return json.loads(line, parse_float=parse_float)


def _json_rows(lines: Iterator[bytes]) -> Iterator[Any]:
    return (parse_row(line) for line in lines)


class JsonShape:
    """Lines of JSON as tables of these columns. Text for a time is ISO 8601, a number epoch milliseconds, as Connect writes it."""

    def __init__(self, columns: Columns) -> None:
        self._schema = columns.schema
        self._fraction: Callable[[str], Any] = Decimal if _holds_decimals(columns.schema) else float
        self._convert = _struct(list(columns.schema), columns.others, "")
        self._fills = {one.name: columns.fill(one).as_py() for one in columns.schema if one.name in columns.fills}

    def table(self, lines: Sequence[bytes]) -> pa.Table:
        """The rows of some lines. Raises ValueError for what is not JSON, Unfit for a value without a place."""
        rows = [self._row(parse_row(line, parse_float=self._fraction)) for line in lines]
        columns = []
        for one in self._schema:
            values = [row[one.name] for row in rows]
            try:
                columns.append(pa.array(values, one.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
                raise Unfit(f"column {one.name} holds what {one.type} does not: {error}") from error
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _row(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if VALUE not in self._schema.names:
                raise Unfit(f"a record is not an object, so that it has no column but {VALUE}")
            value = {VALUE: value}
        row = self._convert(value)
        for name, text in self._fills.items():
            if name not in value:
                row[name] = text
        return row


def _holds_decimals(schema: pa.Schema) -> bool:
    found: list[pa.DataType] = []
    for one in schema:
        map_leaves(one.type, lambda leaf: found.append(leaf) or leaf)  # type: ignore[func-returns-value]
    return any(pa.types.is_decimal(leaf) for leaf in found)


def _struct(fields: Sequence[pa.Field], others: OtherFields, path: str) -> _Convert:
    members = {one.name: _converter(one.type, others, f"{path}{one.name}") for one in fields}
    refuses = others is OtherFields.REFUSED

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Unfit(f"column {path.rstrip('.')} holds {as_text(value)!r:.80}, which is not an object")
        if refuses and not value.keys() <= members.keys():
            other = next(name for name in value if name not in members)
            raise Unfit(f"field {path}{other} is not among those that were found at the beginning")
        return {name: to(value.get(name)) for name, to in members.items()}

    return convert


def _converter(kind: pa.DataType, others: OtherFields, path: str) -> _Convert:
    """What makes Arrow's value of one in JSON."""
    if pa.types.is_struct(kind):
        return _struct(list(kind), others, f"{path}.")
    if pa.types.is_list(kind):
        element = _converter(kind.value_type, others, f"{path}.element")
        return _checked(lambda value: [element(one) for one in value], list, kind, path)
    if pa.types.is_map(kind):
        of_key, of_value = _converter(kind.key_type, others, path), _converter(kind.item_type, others, path)
        return _checked(
            lambda value: [
                (of_key(key), of_value(one)) for key, one in (value.items() if isinstance(value, dict) else value)
            ],
            (dict, list), kind, path,
        )  # fmt: skip
    if pa.types.is_timestamp(kind):
        return _checked(_moments(kind), (int, str), kind, path)
    for is_kind, types, convert in _LEAVES:
        if is_kind(kind):
            return _checked(convert, types, kind, path)
    raise Unfit(f"column {path} is {kind}, which JSON has no form for")


def _checked(convert: _Convert, types: Any, kind: pa.DataType, path: str) -> _Convert:
    def checked(value: Any) -> Any:
        if value is None:
            return None
        fits = isinstance(value, types) and (types in (object, bool) or not isinstance(value, bool))
        try:
            if fits:
                return convert(value)
        except (ValueError, ArithmeticError) as error:
            if isinstance(error, Unfit):
                raise
        raise Unfit(f"column {path} holds {as_text(value)!r:.80}, which is no {kind}")

    return checked


def _text(value: Any) -> str | None:
    """Return text as it is, anything else as JSON, with floats for decimals: as the object has it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


def _number(value: Any) -> float:
    if isinstance(value, str) and value not in _NOT_FINITE:
        raise ValueError(value)
    return float(value)


def _moments(kind: pa.DataType) -> _Convert:
    """Return what makes a time of that type; from a number it makes a number, because Python's times end with the year 9999."""
    per_s = _PER_S[kind.unit]

    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            return value * per_s // 1000
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment if kind.tz is not None else moment.replace(tzinfo=None)

    return convert


def _day(value: Any) -> date | int:
    return date.fromisoformat(value) if isinstance(value, str) else value


_LEAVES: Final[tuple[tuple[Callable[[pa.DataType], bool], Any, _Convert], ...]] = (
    (pa.types.is_null, object, lambda value: None),
    (pa.types.is_string, object, _text),
    (pa.types.is_boolean, bool, bool),
    (pa.types.is_integer, int, int),
    (pa.types.is_floating, (int, float, Decimal, str), _number),
    (pa.types.is_decimal, (int, Decimal, str), Decimal),
    (pa.types.is_binary, str, lambda text: base64.b64decode(text, validate=True)),
    (pa.types.is_date32, (int, str), _day),
)
