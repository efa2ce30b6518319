"""What are a table's columns in Iceberg's form? Types, numbers and names of columns, from the form of Delta's log and back.

New columns get the number of their path (`connect.naming.field_ids`), known ones keep theirs, whoever gave it. The name mapping says for
files without numbers which column is which: by its name, and by every name that it had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

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

from kafka_s3.connect.naming.field_ids import field_id
from kafka_s3.engine.task.table_guard.columns import (
    DECIMAL,
    FIELD_ID,
    DeltaType,
    TableColumns,
    delta_field,
    promoted,
)
from kafka_s3.model.errors import TableRefused

_PLAIN: Final[Mapping[str, IcebergType]] = {
    "boolean": BooleanType(), "byte": IntegerType(), "short": IntegerType(), "integer": IntegerType(), "long": LongType(),
    "float": FloatType(), "double": DoubleType(), "string": StringType(), "binary": BinaryType(), "date": DateType(),
    "timestamp": TimestamptzType(), "timestamp_ntz": TimestampType(),
}  # fmt: skip
_NAMES: Final = {str(type_): name for name, type_ in _PLAIN.items() if name not in ("byte", "short")}
ELEMENT, KEY, VALUE = "element", "key", "value"


def columns_of(schema: Schema) -> TableColumns:
    """A table's columns, with their numbers, and marked as those that widen by Iceberg's rules."""
    return promoted(TableColumns({one.name: _field(one) for one in schema.fields}))


def _field(one: NestedField) -> dict[str, Any]:
    made = delta_field(one.name, _delta(one.field_type))
    return {**made, "nullable": not one.required, "metadata": {FIELD_ID: one.field_id}}


def _delta(type_: IcebergType) -> DeltaType:
    """The type in the form of Delta's log; one that no file of ours has keeps its own name."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [_field(one) for one in type_.fields]}
    if isinstance(type_, ListType):
        return {"type": "array", "elementType": _delta(type_.element_type), "containsNull": True}
    if isinstance(type_, MapType):
        key, value = _delta(type_.key_type), _delta(type_.value_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(str(type_), str(type_))


def schema_of(columns: TableColumns, base: Schema | None = None) -> Schema:
    """The schema of these columns; those of `base` keep numbers, comments and order. Raises TableRefused where a number is taken."""
    known = {} if base is None else {base.find_column_name(number) or "": number for number in base.field_ids}
    taken = {number: name for name, number in known.items()}
    own = {} if base is None else {one.name: one for one in base.fields}

    def number_of(path: str) -> int:
        if path in known:
            return known[path]
        number = field_id(path)
        if taken.setdefault(number, path) != path:
            raise TableRefused(
                f"Column {path} cannot be added: its field id {number} is that of column {taken[number]}. Was that one renamed by another "
                f"writer? Give it its old name back: ALTER TABLE ... RENAME COLUMN {taken[number]} TO {path}."
            )
        return number

    def made(name: str, type_: DeltaType) -> NestedField:
        before = own.get(name)
        if before is not None and _is(before, type_):
            return before
        return _nested(name, type_, name, number_of, None if before is None else before.doc)

    fields = [made(name, one["type"]) for name, one in columns.fields.items()]
    return Schema(*fields, schema_id=0 if base is None else base.schema_id + 1)


def _is(one: NestedField, type_: DeltaType) -> bool:
    """Whether a column has this type already; it may be one that only other writers have."""
    return TableColumns.of({"": _delta(one.field_type)}).plain() == TableColumns.of({"": type_}).plain()


Numbers: TypeAlias = Callable[[str], int]


def _nested(name: str, type_: DeltaType, path: str, number_of: Numbers, doc: str | None = None) -> NestedField:
    return NestedField(number_of(path), name, _iceberg(type_, path, number_of), required=False, doc=doc)


def _iceberg(type_: DeltaType, path: str, number_of: Numbers) -> IcebergType:
    if isinstance(type_, str):
        decimal = DECIMAL.fullmatch(type_)
        if decimal is None and type_ not in _PLAIN:
            raise TableRefused(
                f"Column {path} is of type {type_}, which only other writers know. Let them write a table of their own."
            )
        return DecimalType(int(decimal[1]), int(decimal[2])) if decimal else _PLAIN[type_]
    if type_["type"] == "struct":
        members = (_nested(one["name"], one["type"], f"{path}.{one['name']}", number_of) for one in type_["fields"])
        return StructType(*members)
    if type_["type"] == "array":
        inner = f"{path}.{ELEMENT}"
        return ListType(number_of(inner), _iceberg(type_["elementType"], inner, number_of), element_required=False)
    key, value = f"{path}.{KEY}", f"{path}.{VALUE}"
    return MapType(
        number_of(key), _iceberg(type_["keyType"], key, number_of),
        number_of(value), _iceberg(type_["valueType"], value, number_of), value_required=False,
    )  # fmt: skip


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


def name_mapping(schema: Schema, before: str | None) -> str:
    """The mapping of names for files without numbers; every name that an earlier mapping has stays."""
    old = _old_names(json.loads(before) if before else [])
    return json.dumps(_mapping(json.loads(schema.name_mapping.model_dump_json()), old), separators=(",", ":"))


def _old_names(fields: list[dict[str, Any]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in fields:
        if "field-id" in one:
            found[one["field-id"]] = list(one["names"])
        found |= _old_names(one.get("fields", []))
    return found


def _mapping(fields: list[dict[str, Any]], old: Mapping[int, list[str]]) -> list[dict[str, Any]]:
    taken = {name for one in fields for name in one["names"]}
    made = []
    for one in fields:
        more = [name for name in old.get(one["field-id"], []) if name not in taken]
        inner = {"fields": _mapping(one["fields"], old)} if one.get("fields") else {}
        made.append({"field-id": one["field-id"], "names": [*one["names"], *more], **inner})
    return made
