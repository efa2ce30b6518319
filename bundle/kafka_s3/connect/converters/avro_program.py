"""Which program walks the payloads of an Avro schema, and which columns does it fill? What its steps mean is told in `avro_loops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from kafka_s3.connect.converters import avro_loops as loops
from kafka_s3.connect.schemas.arrow import arrow_type
from kafka_s3.connect.schemas.avro_defaults import part
from kafka_s3.connect.schemas.avro_types import AvroType, is_map_entry, nullable
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaType
from kafka_s3.connect.schemas.expansion import entry_width, width

KINDS: Final = {
    "boolean": (loops.BOOLEAN, SchemaType.BOOLEAN), "int": (loops.INT, SchemaType.INT32), "long": (loops.LONG, SchemaType.INT64),
    "float": (loops.FLOAT, SchemaType.FLOAT32), "double": (loops.DOUBLE, SchemaType.FLOAT64),
    "bytes": (loops.BYTES, SchemaType.BYTES), "string": (loops.STRING, SchemaType.STRING), "enum": (loops.ENUM, SchemaType.STRING),
    "fixed": (loops.FIXED, SchemaType.BYTES), "record": (loops.RECORD, SchemaType.STRUCT), "union": (loops.UNION, SchemaType.STRUCT),
    "array": (loops.ARRAY, SchemaType.ARRAY), "map": (loops.ARRAY, SchemaType.MAP),
}  # fmt: skip
"""The steps of Avro's types, and the Connect types that their columns hold."""
TIMES: Final = {DATE: "int", TIME: "int", TIMESTAMP: "long"}
SIZES: Final = {"boolean": 1, "float": 4, "double": 8}
Pair: TypeAlias = tuple[AvroType, ConnectSchema]


@dataclass(frozen=True, slots=True)
class Part:
    """A type, without null, with the `column` of its entries and the `parts` in it: fields, items, keys and values, or types of a union.

    A record that is never null has no column, but NONE. `optional`: an entry may be null.
    """

    avro: AvroType
    arrow: pa.DataType
    column: int
    optional: bool
    parts: list[Part]


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


class _Place(NamedTuple):
    """Where the columns of a type stand, if they are wanted."""

    level: int
    wanted: bool


class Program:
    """The `steps` that walk the payloads of a record, and the `parts` of those of its fields that are wanted.

    `levels` says of each column which level it is of, `wanted` of each level whether it has columns.
    """

    def __init__(self, avro: AvroType, schema: ConnectSchema, names: frozenset[str] | None) -> None:
        self.steps: list[Step] = []
        self.levels: list[int] = []
        self.wanted = [True]
        self.parts: list[Part] = []
        for field, pair in zip(avro.fields, _inside(avro, schema), strict=True):
            wanted = names is None or field.name in names
            self.parts += [self._add(*pair, _Place(0, wanted))] * wanted

    def _add(self, avro: AvroType, schema: ConnectSchema, place: _Place, *, branch: bool = False) -> Part:
        """Adds the steps of a type, which may be the branch of a union of several."""
        union, avro = avro.branches, nullable(avro) or avro
        optional = branch or _has_null(union)
        if avro.kind == "record" and not optional:
            return Part(avro, arrow_type(schema), loops.NONE, optional, self._all(avro, schema, place))
        column = self._column(place)
        size = len(avro.symbols) or avro.size or SIZES.get(avro.kind, 0)
        step = self._step(KINDS[avro.kind][0], place, column=column, size=size, union=union)
        match avro.kind:
            case "array" | "map":
                parts = self._items(avro, schema, place, column=column)
            case "union":
                parts = self._branches(avro, schema, place, union=len(self.steps) - 1)
            case _:
                parts = self._all(avro, schema, place)
        step.jump = len(self.steps)
        return Part(avro, arrow_type(schema), column, optional, parts)

    def _all(self, avro: AvroType, schema: ConnectSchema, place: _Place) -> list[Part]:
        return [self._add(*pair, place) for pair in _inside(avro, schema)]

    def _items(self, avro: AvroType, schema: ConnectSchema, place: _Place, *, column: int) -> list[Part]:
        level, first = len(self.wanted), len(self.steps)
        self.wanted.append(place.wanted)
        parts = self._all(avro, schema, _Place(level, place.wanted))
        each = entry_width(schema) if schema.kind is SchemaType.MAP else width(schema.items)
        self._step(loops.ITEM, place, column=column, size=each, of=level).jump = first
        return parts

    def _branches(self, avro: AvroType, schema: ConnectSchema, place: _Place, *, union: int) -> list[Part]:
        parts = []
        indexes = (index for index, branch in enumerate(avro.branches) if branch.kind != "null")
        for index, pair in zip(indexes, _inside(avro, schema), strict=True):
            step = self._step(loops.BRANCH, place, size=index, of=union)
            parts.append(self._add(*pair, place, branch=True))
            step.jump = len(self.steps)
        return parts

    def _column(self, place: _Place) -> int:
        if not place.wanted:
            return loops.NONE
        self.levels.append(place.level)
        return len(self.levels) - 1

    def _step(
        self,
        kind: int,
        place: _Place,
        *,
        column: int = loops.NONE,
        size: int = 0,
        union: Sequence[AvroType] = (),
        of: int = loops.NONE,
    ) -> Step:
        null = next((index for index, branch in enumerate(union) if branch.kind == "null"), loops.NONE)
        step = Step(kind, len(union), null, size, column, place.level, len(self.steps) + 1, of)
        self.steps.append(step)
        return step


def reads(avro: AvroType, schema: ConnectSchema) -> bool:
    """Whether columns hold the values of a type just as the decoder of single payloads reads them."""
    if _has_null(avro.branches) and (not schema.optional or schema.default is not None):
        return False  # a null with a default is the default, which a column of the writer's nulls does not say
    avro = nullable(avro) or avro
    meant = SchemaType.MAP if _is_map(avro) else KINDS.get(avro.kind, (0, None))[1]
    if meant is not schema.kind or schema.name == DECIMAL or TIMES.get(schema.name or "", avro.kind) != avro.kind:
        return False
    pairs = _inside(avro, schema)
    if (avro.kind in ("record", "union") and not pairs) or (avro.kind == "fixed" and not 0 < avro.size < 1 << 31):
        return False  # it takes no bytes, or more than there are
    return all(reads(*pair) for pair in pairs) and not (meant is SchemaType.MAP and part(schema.keys).optional)


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
            return [(AvroType("string"), part(schema.keys)), (avro.element(), part(schema.values))]
        case "array" if _is_map(avro):
            key, value = (field.type for field in avro.element().fields)
            return [(key, part(schema.keys)), (value, part(schema.values))]
        case "array":
            return [(avro.element(), part(schema.items))]
    return []
