"""How are the payloads of one Avro schema decoded? A batch at a time into columns, one by one where that cannot be (SEMANTICS A11).

`Program` says which steps walk the payloads of a schema (`avro_loops` shows what steps are), and which columns they fill. A compiled loop
notes the numbers of a whole batch, without a Python object per record, and Arrow takes them over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_s3.connect.converters import avro_loops
from kafka_s3.connect.converters.converter import Payloads, decode_each
from kafka_s3.connect.records.joining import texts_in_place
from kafka_s3.connect.records.values import AvroBodies, Longs, Plain
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_table, arrow_type
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions, AvroType, is_map_entry, nullable, read_types
from kafka_s3.connect.schemas.avro_values import Datum, decoder, measuring_decoder
from kafka_s3.connect.schemas.connect import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Recursion,
    SchemaType,
    inner_schema,
)
from kafka_s3.connect.schemas.expansion import (
    AT_ONCE,
    TooManyValues,
    depth_check,
    entry_width,
    most_values_of_each,
    width,
)
from kafka_s3.connect.schemas.registered import RegisteredSchema

KINDS: Final = {
    "boolean": (avro_loops.BOOLEAN, SchemaType.BOOLEAN), "int": (avro_loops.INT, SchemaType.INT32),
    "long": (avro_loops.LONG, SchemaType.INT64), "float": (avro_loops.FLOAT, SchemaType.FLOAT32),
    "double": (avro_loops.DOUBLE, SchemaType.FLOAT64), "bytes": (avro_loops.BYTES, SchemaType.BYTES),
    "string": (avro_loops.STRING, SchemaType.STRING), "enum": (avro_loops.ENUM, SchemaType.STRING),
    "fixed": (avro_loops.FIXED, SchemaType.BYTES), "record": (avro_loops.RECORD, SchemaType.STRUCT),
    "union": (avro_loops.UNION, SchemaType.STRUCT), "array": (avro_loops.ARRAY, SchemaType.ARRAY),
    "map": (avro_loops.ARRAY, SchemaType.MAP),
}  # fmt: skip
"""The steps of Avro's types, and the Connect types that their columns hold."""
TIMES: Final = {DATE: "int", TIME: "int", TIMESTAMP: "long"}
SIZES: Final = {"boolean": 1, "float": 4, "double": 8}
Pair: TypeAlias = tuple[AvroType, ConnectSchema]


@dataclass(frozen=True, slots=True)
class ColumnNode:
    """A type, without null, with the `column` of its entries and the `children` in it: fields, items, keys and values, or types of a union.

    A record that is never null has no column, but NONE. `optional`: an entry may be null.
    """

    avro: AvroType
    arrow: pa.DataType
    column: int
    optional: bool
    children: list[ColumnNode]


@dataclass(slots=True)
class Step:
    """What is read next; `avro_loops` shows how."""

    kind: int
    branches: int
    """Of its union, 0 without one; and the index of null among them."""
    null: int
    size: int
    """The count of symbols, the bytes of a value that always has as many, the index of a BRANCH, the values of an ITEM."""
    column: int
    """NONE where nobody wants it."""
    level: int
    jump: int
    """The step behind all of its own; that of an ITEM is the first one of an item."""
    of: int
    """The level of an ITEM's entries, the UNION of a BRANCH."""
    state: int = 0
    """While payloads are walked: how many items are left of an ITEM's block, which branch a UNION has."""


class _Target(NamedTuple):
    """The level of the columns of a type, and whether they are wanted."""

    level: int
    wanted: bool


class Program:
    """The `steps` that walk the payloads of a record, and the `children` of those of its fields that are wanted.

    `levels` says of each column which level it is of, `wanted` of each level whether it has columns.
    """

    def __init__(self, avro: AvroType, schema: ConnectSchema, names: frozenset[str] | None) -> None:
        self.steps: list[Step] = []
        self.levels: list[int] = []
        self.wanted = [True]
        self.children: list[ColumnNode] = []
        for member, pair in zip(avro.fields, _inside(avro, schema), strict=True):
            wanted = names is None or member.name in names
            self.children += [self._add(*pair, _Target(0, wanted))] * wanted

    def _add(self, avro: AvroType, schema: ConnectSchema, target: _Target, *, branch: bool = False) -> ColumnNode:
        """Adds the steps of a type, which may be the branch of a union of several."""
        union, avro = avro.branches, nullable(avro) or avro
        optional = branch or _has_null(union)
        if avro.kind == "record" and not optional:
            return ColumnNode(avro, arrow_type(schema), avro_loops.NONE, optional, self._all(avro, schema, target))
        column = self._column(target)
        size = len(avro.symbols) or avro.size or SIZES.get(avro.kind, 0)
        step = self._step(KINDS[avro.kind][0], target, column=column, size=size, union=union)
        match avro.kind:
            case "array" | "map":
                children = self._items(avro, schema, target, column=column)
            case "union":
                children = self._branches(avro, schema, target, union=len(self.steps) - 1)
            case _:
                children = self._all(avro, schema, target)
        step.jump = len(self.steps)
        return ColumnNode(avro, arrow_type(schema), column, optional, children)

    def _all(self, avro: AvroType, schema: ConnectSchema, target: _Target) -> list[ColumnNode]:
        return [self._add(*pair, target) for pair in _inside(avro, schema)]

    def _items(self, avro: AvroType, schema: ConnectSchema, target: _Target, *, column: int) -> list[ColumnNode]:
        level, first = len(self.wanted), len(self.steps)
        self.wanted.append(target.wanted)
        children = self._all(avro, schema, _Target(level, target.wanted))
        each = entry_width(schema) if schema.kind is SchemaType.MAP else width(schema.items)
        self._step(avro_loops.ITEM, target, column=column, size=each, of=level).jump = first
        return children

    def _branches(self, avro: AvroType, schema: ConnectSchema, target: _Target, *, union: int) -> list[ColumnNode]:
        children = []
        indexes = (index for index, branch in enumerate(avro.branches) if branch.kind != "null")
        for index, pair in zip(indexes, _inside(avro, schema), strict=True):
            step = self._step(avro_loops.BRANCH, target, size=index, of=union)
            children.append(self._add(*pair, target, branch=True))
            step.jump = len(self.steps)
        return children

    def _column(self, target: _Target) -> int:
        if not target.wanted:
            return avro_loops.NONE
        self.levels.append(target.level)
        return len(self.levels) - 1

    def _step(
        self,
        kind: int,
        target: _Target,
        *,
        column: int = avro_loops.NONE,
        size: int = 0,
        union: Sequence[AvroType] = (),
        of: int = avro_loops.NONE,
    ) -> Step:
        null = next((index for index, branch in enumerate(union) if branch.kind == "null"), avro_loops.NONE)
        step = Step(kind, len(union), null, size, column, target.level, len(self.steps) + 1, of)
        self.steps.append(step)
        return step


def is_columnar(avro: AvroType, schema: ConnectSchema) -> bool:
    """Whether columns hold the values of a type just as the decoder of single payloads reads them."""
    if isinstance(schema.fields, Recursion):
        return False
    if _has_null(avro.branches) and (not schema.optional or schema.default is not None):
        return False  # a null with a default is the default, which a column of the writer's nulls does not say
    avro = nullable(avro) or avro
    meant = SchemaType.MAP if _is_map(avro) else KINDS.get(avro.kind, (0, None))[1]
    if meant is not schema.kind or schema.name == DECIMAL or TIMES.get(schema.name or "", avro.kind) != avro.kind:
        return False
    pairs = _inside(avro, schema)
    if (avro.kind in ("record", "union") and not pairs) or (avro.kind == "fixed" and not 0 < avro.size < 1 << 31):
        return False  # it takes no bytes, or more than there are
    return all(is_columnar(*pair) for pair in pairs) and not (
        meant is SchemaType.MAP and inner_schema(schema.keys).optional
    )


def _has_null(union: Sequence[AvroType]) -> bool:
    return any(branch.kind == "null" for branch in union)


def _is_map(avro: AvroType) -> bool:
    """Whether keys and values are read in turn."""
    if avro.kind == "array" and is_map_entry(avro.element()):
        return [field.name for field in avro.element().fields] == ["key", "value"]
    return avro.kind == "map"


def _inside(avro: AvroType, schema: ConnectSchema) -> list[Pair]:
    """The types in a type, as they follow in its bytes, and their Connect schemas."""
    match avro.kind:
        case "record":
            return [(field.type, its.schema) for field, its in zip(avro.fields, schema.fields, strict=True)]
        case "union":
            branches = [branch for branch in avro.branches if branch.kind != "null"]
            return [(branch, its.schema) for branch, its in zip(branches, schema.fields, strict=True)]
        case "map":
            return [(AvroType("string"), inner_schema(schema.keys)), (avro.element(), inner_schema(schema.values))]
        case "array" if _is_map(avro):
            key, value = (field.type for field in avro.element().fields)
            return [(key, inner_schema(schema.keys)), (value, inner_schema(schema.values))]
        case "array":
            return [(avro.element(), inner_schema(schema.items))]
    return []


Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
UNBOUNDED: Final = 1 << 61
"""Room for entries that nobody wants."""


class Entries(NamedTuple):
    """The entries of a column as `avro_loops.walk` notes them: numbers, and which of them are no nulls."""

    numbers: Longs
    valid: Flags

    def resized(self, count: int, room: int) -> Entries:
        """So many of them, with room for others."""
        if room == len(self.valid):
            return self
        made = Entries(np.empty(room, np.int64), np.empty(room, bool))
        made.numbers[:count], made.valid[:count] = self.numbers[:count], self.valid[:count]
        return made


class AvroColumns:
    """Reads the payloads of one writer schema into the columns of its Connect schema, all of them or some."""

    def __init__(self, avro: AvroType, schema: ConnectSchema, names: frozenset[str] | None = None) -> None:
        self._program = Program(avro, schema, names)
        self._steps = np.array([astuple(step) for step in self._program.steps], np.int64)
        fields = [field for field in schema.fields if names is None or field.name in names]
        self._target = pa.schema([arrow_field(field.name, field.schema) for field in fields])
        self._width = width(schema)
        self.names = self._target.names

    def read(self, payloads: pa.Array) -> tuple[pa.Table, Flags]:
        """A row for each payload that is one datum of the schema for certain, and no more; and which payloads are.

        Raises TooManyValues where several payloads become more values than may be held at once.
        """
        _, offsets, content = payloads.buffers()
        data = np.frombuffer(content or b"\0", np.uint8)
        bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
        entries, passed = self._walked(data, bounds)
        columns = [_array(node, entries, data) for node in self._program.children]
        if not columns:
            return pa.table({"": pa.nulls(int(passed.sum()))}).select([]), passed
        return pa.Table.from_arrays(columns, schema=self._target), passed

    def _walked(self, data: Bytes, bounds: npt.NDArray[np.int32]) -> tuple[list[Entries], Flags]:
        """The entries of all columns, and which payloads pass. Room is made for items that were read, whatever counts say."""
        row, rows, levels, steps = 0, len(bounds) - 1, self._program.levels, self._steps.copy()
        rooms = np.array([rows if wanted else UNBOUNDED for wanted in self._program.wanted], np.int64)
        counts, passed = np.zeros_like(rooms), np.empty(rows, bool)
        most = most_values_of_each(np.diff(bounds).astype(np.int64))
        batch = np.array([self._width, AT_ONCE if rows > 1 else UNBOUNDED], np.int64)
        entries = [Entries(np.empty(0, np.int64), np.empty(0, bool)) for _ in levels]
        while row < rows:
            entries = [kept.resized(counts[level], rooms[level]) for level, kept in zip(levels, entries, strict=True)]
            columns_at = np.array([[array.ctypes.data for array in kept] for kept in entries], np.int64).reshape(-1, 2)
            row = avro_loops.walk(data, bounds, row, steps, columns_at, counts, rooms, most, batch, passed)
            if row == avro_loops.TOO_MANY:
                raise TooManyValues
        pairs = zip(levels, entries, strict=True)
        return [Entries(kept.numbers[: counts[level]], kept.valid[: counts[level]]) for level, kept in pairs], passed


def columns_for(avro: Any, schema: ConnectSchema, fields: frozenset[str] | None = None) -> AvroColumns | None:
    """The reader of a writer schema (parsed JSON), with `fields` of those alone.

    None where it is not a record, or holds what only the slow path reads: decimals, small ints, and what takes no bytes.
    """
    kind = read_types(avro)
    return AvroColumns(kind, schema, fields) if kind.kind == "record" and is_columnar(kind, schema) else None


def _array(node: ColumnNode, entries: list[Entries], data: Bytes) -> pa.Array:
    """The entries of a node as Arrow has them. Where an optional record is null, its fields hold what means nothing."""
    children, kind, none = [_array(inner, entries, data) for inner in node.children], node.arrow, None
    if node.column == avro_loops.NONE:
        return pa.StructArray.from_arrays(children, fields=list(kind))
    numbers, valid = entries[node.column]
    if node.optional and not valid.all():
        none = ~valid
    match node.avro.kind:
        case "record" | "union":
            return pa.StructArray.from_arrays(
                children, fields=list(kind), mask=None if none is None else pa.array(none)
            )
        case "array" | "map":
            offsets = np.zeros(len(numbers) + 1, np.int32)
            offsets[1:] = np.maximum.accumulate(numbers)  # a null is a 0
            made = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
            return made.from_arrays(
                pa.array(offsets), *children, type=kind, mask=None if none is None else pa.array(none)
            )
    return _scalars(node, numbers, none, data)


def _scalars(node: ColumnNode, numbers: Longs, none: Flags | None, data: Bytes) -> pa.Array:
    match node.avro.kind:
        case "string" | "bytes" | "fixed":
            return _texts(numbers, none, data, node.arrow)
        case "enum":
            symbols = pa.array(node.avro.symbols or [""], node.arrow)  # where there are none, all are null
            indexes = pa.array(numbers.astype(np.int32), mask=none)
            return pa.DictionaryArray.from_arrays(indexes, symbols).cast(node.arrow)
        case "boolean":
            values: npt.NDArray[Any] = numbers == 1
        case "double":
            values = numbers.view(np.float64)
        case "float":
            values = numbers.astype(np.uint32).view(np.float32)
        case "int":
            values = numbers.astype(np.int32)
        case _:
            values = numbers
    return pa.array(values, mask=none).cast(node.arrow)


def _texts(texts: Longs, none: Flags | None, data: Bytes, kind: pa.DataType) -> pa.Array:
    valid = None if none is None else pa.py_buffer(np.packbits(~none, bitorder="little"))
    return pa.Array.from_buffers(kind, len(texts), [valid, *texts_in_place(data, texts)])


class AvroPayloads:
    """The payload decoder of a registered Avro schema. Raises SchemaError where the schema is broken.

    With `fields` only those are decoded, where that is cheaper: the bodies are written as they came, and all else is only checked.
    """

    def __init__(
        self,
        registered: RegisteredSchema,
        options: AvroOptions,
        *,
        version: int | None,
        fields: frozenset[str] | None = None,
    ) -> None:
        self._writer = parse_avro(registered.text, registered.references)
        self.schema = connect_schema_of_avro(self._writer, options=options, version=version)
        self._decode = decoder(self._writer, self.schema)
        self._measure = measuring_decoder(self._writer, self.schema)
        self._width = width(self.schema)
        self._check_depth = depth_check(self.schema)
        self._columns = None if self.schema is None else columns_for(self._writer, self.schema, fields)
        self._raw = self._writer == "bytes" or (isinstance(self._writer, dict) and self._writer == {"type": "bytes"})

    def decode_payloads(self, payloads: pa.Array) -> Payloads:
        """The values; a payload that is not a datum of the schema is a failure. Bytes after the datum are ignored, as in the original.

        Raises TooManyValues where several payloads become more values than may be held at once.
        """
        if self._raw:
            return Payloads(np.arange(len(payloads)), Plain(payloads))
        if self._columns is None or self.schema is None:
            rows, bodies, items, failures = self._one_by_one(payloads)
            return Payloads(rows, AvroBodies(bodies, self._writer, self._decode, items=items), failures)
        return self._in_columns(self._columns, payloads, self.schema)

    def _in_columns(self, columns: AvroColumns, payloads: pa.Array, schema: ConnectSchema) -> Payloads:
        """The columns, with a row for what is good though it did not pass: that is parsed one by one."""
        table, passed = columns.read(payloads)
        rows, bodies, failures = np.flatnonzero(passed), payloads, list[tuple[int, str]]()
        if len(rows) < len(payloads):
            others = np.flatnonzero(~passed)
            good, more, items, bad = self._one_by_one(payloads.take(pa.array(others)))
            rows = np.concatenate([rows, others[good]])
            order = pa.array(np.argsort(rows))
            rows = np.sort(rows)
            bodies = pa.concat_arrays([payloads.filter(pa.array(passed)), more]).take(order)
            table = pa.concat_tables([table, arrow_table(items, schema).select(columns.names)]).take(order)
            failures = [(int(others[row]), text) for row, text in bad]
        whole = len(columns.names) == len(schema.fields)
        values = AvroBodies(bodies, self._writer, self._decode, table if whole else None, some=None if whole else table)
        return Payloads(rows, values, failures)

    def _one_by_one(self, payloads: pa.Array) -> tuple[Longs, pa.Array, list[Any], list[tuple[int, str]]]:
        """Positions of good payloads, their bodies without trailing bytes, and their values; the failures."""
        found = decode_each(payloads, self._measured, lambda error: f"Error deserializing Avro message: {error}")
        bodies = pa.array([body for body, _ in found.items], pa.binary())
        return found.rows, bodies, [item for _, item in found.items], found.failures

    def _measured(self, payload: bytes) -> tuple[tuple[bytes, Any], int]:
        datum = Datum.of(payload)
        item, length = self._measure(datum)
        self._check_depth(item)
        return (payload[:length], item), self._width + datum.allowance.spent
