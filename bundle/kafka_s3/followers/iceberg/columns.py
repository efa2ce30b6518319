"""What are a table's columns in Iceberg's form? Types, numbers and names of columns, from the form of Delta's log and back.

New columns get the number of their path (`connect.naming.field_ids`), known ones keep theirs, whoever gave it. The name mapping says for
files without numbers which column is which: by its name, and by every name that it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from kafka_s3.connect.naming.field_ids import field_id, path_of
from kafka_s3.engine.task.table_guard.columns import (
    DECIMAL,
    EARLIER,
    FIELD_ID,
    IDS,
    DeltaType,
    TableColumns,
    delta_field,
    promoted,
)
from kafka_s3.engine.task.table_guard.renames import INNER, earlier_names
from kafka_s3.model.errors import TableRefused

_PLAIN: Final[Mapping[str, IcebergType]] = {
    "boolean": BooleanType(), "byte": IntegerType(), "short": IntegerType(), "integer": IntegerType(), "long": LongType(),
    "float": FloatType(), "double": DoubleType(), "string": StringType(), "binary": BinaryType(), "date": DateType(),
    "timestamp": TimestamptzType(), "timestamp_ntz": TimestampType(),
}  # fmt: skip
_NAMES: Final = {str(type_): name for name, type_ in _PLAIN.items() if name not in ("byte", "short")}
ELEMENT, KEY, VALUE = "element", "key", "value"


def columns_of(schema: Schema, mapping: str | None = None) -> TableColumns:
    """A table's columns, with their numbers and earlier names, and marked as those that widen by Iceberg's rules."""
    names = _mapped_names(json.loads(mapping) if mapping else [])
    return promoted(TableColumns({one.name: _field(one, names) for one in schema.fields}))


def _field(one: NestedField, names: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    made = delta_field(one.name, _delta(one.field_type, names))
    earlier = [name for name in names.get(one.field_id, ()) if name != one.name]
    marks = {FIELD_ID: one.field_id, **({EARLIER: earlier} if earlier else {})}
    return {**made, "nullable": not one.required, "metadata": marks}


def _delta(type_: IcebergType, names: Mapping[int, Sequence[str]]) -> DeltaType:
    """The type in the form of Delta's log; one that no file of ours has keeps its own name."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [_field(one, names) for one in type_.fields]}
    if isinstance(type_, ListType):
        inner = {"elementType": _delta(type_.element_type, names), "containsNull": True}
        return {"type": "array", **inner, IDS: [type_.element_id]}
    if isinstance(type_, MapType):
        inner = {"keyType": _delta(type_.key_type, names), "valueType": _delta(type_.value_type, names)}
        return {"type": "map", **inner, "valueContainsNull": True, IDS: [type_.key_id, type_.value_id]}
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(str(type_), str(type_))


def schema_of(columns: TableColumns, base: Schema | None = None) -> Schema:
    """The schema of these columns; those of `base` keep numbers, comments and order. Raises TableRefused where a number is taken."""
    own = {} if base is None else {one.field_id: one for one in base.fields}
    numbers = _Numbers()

    def made(one: Mapping[str, Any]) -> NestedField:
        before = own.get(one["metadata"].get(FIELD_ID, -1))
        if before is None:
            return numbers.member(one, "")
        if before.name == one["name"] and _is(before, one["type"]):
            return numbers.kept(before)
        return numbers.member(one, "", before.doc)

    fields = [made(one) for one in columns.fields.values()]
    return Schema(*fields, schema_id=0 if base is None else base.schema_id + 1)


def _is(one: NestedField, type_: DeltaType) -> bool:
    """Whether a column has this type already; it may be one that only other writers have."""
    return TableColumns.of({"": _delta(one.field_type, {})}).plain() == TableColumns.of({"": type_}).plain()


@dataclass(slots=True)
class _Numbers:
    """Makes columns of a schema, each with the number that it has already, else that of its path."""

    taken: dict[int, str] = field(default_factory=dict)

    def kept(self, one: NestedField) -> NestedField:
        """A column as it is."""
        alone = Schema(one)
        for number in alone.field_ids:
            self._take(number, alone.find_column_name(number) or "")
        return one

    def member(self, one: Mapping[str, Any], folder: str, doc: str | None = None) -> NestedField:
        """A column, or a member of a struct."""
        path = path_of(folder, one["name"])
        number = self._take(one["metadata"].get(FIELD_ID) or field_id(path), path)
        return NestedField(number, one["name"], self._type(one["type"], path), required=False, doc=doc)

    def _take(self, number: int, path: str) -> int:
        if self.taken.setdefault(number, path) != path:
            raise TableRefused(
                f"Column {path} cannot be added: its field id {number} is that of column {self.taken[number]}. Was that one renamed by "
                f"another writer? Give it its old name back: ALTER TABLE ... RENAME COLUMN {self.taken[number]} TO {path}."
            )
        return number

    def _type(self, type_: DeltaType, path: str) -> IcebergType:
        if isinstance(type_, str):
            decimal = DECIMAL.fullmatch(type_)
            if decimal is None and type_ not in _PLAIN:
                raise TableRefused(
                    f"Column {path} is of type {type_}, which only other writers know. Let them write a table of their own."
                )
            return DecimalType(int(decimal[1]), int(decimal[2])) if decimal else _PLAIN[type_]
        if type_["type"] == "struct":
            return StructType(*(self.member(one, path) for one in type_["fields"]))
        parts = (ELEMENT,) if type_["type"] == "array" else (KEY, VALUE)
        paths = [path_of(path, part) for part in parts]
        given = type_.get(IDS) or [field_id(inner) for inner in paths]
        numbers = [self._take(number, inner) for number, inner in zip(given, paths, strict=True)]
        if type_["type"] == "array":
            return ListType(numbers[0], self._type(type_["elementType"], paths[0]), element_required=False)
        key, value = self._type(type_["keyType"], paths[0]), self._type(type_["valueType"], paths[1])
        return MapType(numbers[0], key, numbers[1], value, value_required=False)


def leaves(schema: Schema) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    """The columns with a plain type that are in no list and no map, by their paths."""
    yield from _leaves(schema.fields, ())


def _leaves(fields: tuple[NestedField, ...], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    for one in fields:
        if isinstance(one.field_type, StructType):
            yield from _leaves(one.field_type.fields, (*path, one.name))
        elif one.field_type.is_primitive:
            yield (*path, one.name), one


def obstacles(schema: Schema) -> list[str]:
    """Why files of ours cannot be added to a table of that schema: columns that a file need not have."""
    return [f"column {one.name} is NOT NULL" for one in schema.fields if one.required]


def name_mapping(schema: Schema, columns: TableColumns, before: str | None) -> str:
    """The mapping of names for files without numbers: the table's, and every name that a column had."""
    old = _mapped_names(json.loads(before) if before else [])
    for number, names in _earlier(columns.fields.values()):
        old[number] = [*dict.fromkeys([*old.get(number, ()), *names])]
    return json.dumps(_mapping(json.loads(schema.name_mapping.model_dump_json()), old), separators=(",", ":"))


def _earlier(fields: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, list[str]]]:
    for one in fields:
        if earlier := earlier_names(one):
            yield one["metadata"][FIELD_ID], earlier
        types = [one["type"]]
        while types:
            if isinstance(type_ := types.pop(), Mapping):
                yield from _earlier(type_.get("fields", ()))
                types += [type_[key] for key in INNER if key in type_]


def _mapped_names(fields: list[dict[str, Any]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in fields:
        if "field-id" in one:
            found[one["field-id"]] = list(one["names"])
        found |= _mapped_names(one.get("fields", []))
    return found


def _mapping(fields: list[dict[str, Any]], old: Mapping[int, list[str]]) -> list[dict[str, Any]]:
    taken = {name for one in fields for name in one["names"]}
    made = []
    for one in fields:
        more = [name for name in old.get(one["field-id"], []) if name not in taken]
        inner = {"fields": _mapping(one["fields"], old)} if one.get("fields") else {}
        made.append({"field-id": one["field-id"], "names": [*one["names"], *more], **inner})
    return made


def current_names(columns: TableColumns) -> dict[str, str]:
    """What each column is called now that had another name."""
    return {name: one["name"] for one in columns.fields.values() for name in earlier_names(one)}
