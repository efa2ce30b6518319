"""Which columns does a Parquet file give a table, and do they fit those that the table has?

Types are in the form in which Delta's log writes them, for Iceberg tables, too: a name such as `long`, or a map for structs, arrays and
maps. Every column of ours is nullable: a later file may lack it. `compare_columns` says which columns of a file are new, which too wide,
and which of another kind. Columns that are `promoted` widen by Iceberg's rules, which are the narrower ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import pyarrow as pa

DeltaType: TypeAlias = str | Mapping[str, Any]
BY_DIRECTORY: Final = "kafka-s3.directory"
"""Marks a column whose values come from directories, among those that a task is given: records must not have it."""
FIXED: Final = "kafka-s3.fixed"
"""Marks a column whose type the table's writer cannot widen."""
PROMOTED: Final = "kafka-s3.promoted"
"""Marks a column whose type widens by Iceberg's rules alone."""
FIELD_ID: Final = "kafka-s3.field-id"
"""Says by which number Iceberg's readers find a column, in the table or in a file that has such numbers."""
IDS: Final = "kafka-s3.field-ids"
"""The same within a list or a map: of its element, or of its key and its value."""
EARLIER: Final = "kafka-s3.earlier-names"
"""Says which names a table's column had."""
PARQUET_ID: Final = "PARQUET:field_id"
"""What Arrow calls a column's number in a Parquet file."""
RESCUED: Final = "_rescued_data"
_NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
WHOLE: Final = ("byte", "short", "integer", "long")
_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_date32, "date"),
    # milliseconds of the day: what Connect's Time is, and what readers take the file's integers for
    (pa.types.is_time32, "integer"),
)

_ARROW: Final = {
    "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


class Mode(StrEnum):
    """What happens to columns that the table does not have (`delta.schema.evolution.mode`)."""

    ADD = "addNewColumns"
    FAIL = "failOnNewColumns"
    RESCUE = "rescue"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Evolution:
    """How tables follow their records; `fields` are those of a field partitioner, which a directory names, so that they must fit.

    `renames`: a field keeps its column under a newer name, as Iceberg's tables allow it.
    """

    mode: Mode
    fields: frozenset[str] = frozenset()
    renames: bool = False


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table or a file, in order: name to the field's map of Delta's log. `omitted` have no form in Delta, with reasons."""

    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()

    def schema_string(self) -> str:
        """The schema as Delta's log has it."""
        return json.dumps({"type": "struct", "fields": list(self.fields.values())}, separators=(",", ":"))

    def type_of(self, name: str) -> DeltaType | None:
        """The type of a column, None where there is none of that name."""
        found = self.fields.get(name)
        return None if found is None else found["type"]

    def by_directory(self, name: str) -> bool:
        """Whether the column's values come from directories (see `marked`)."""
        return BY_DIRECTORY in self.fields.get(name, {}).get("metadata", {})

    def marked(self, names: Iterable[str]) -> TableColumns:
        """With these columns marked as those of directories."""
        marks = {
            name: {**self.fields[name], "metadata": {BY_DIRECTORY: "true"}} for name in names if name in self.fields
        }
        return TableColumns({**self.fields, **marks}, self.omitted)

    def fixed(self) -> TableColumns:
        """With all columns marked as those whose types stay."""
        marks = {
            name: {**one, "metadata": {**one.get("metadata", {}), FIXED: "true"}} for name, one in self.fields.items()
        }
        return TableColumns(marks, self.omitted)

    def plain(self) -> TableColumns:
        """Names and types alone: nullable, without metadata."""
        return TableColumns.of({name: _plain(one["type"]) for name, one in self.fields.items()})

    @staticmethod
    def of(types: Mapping[str, DeltaType]) -> TableColumns:
        """Nullable columns of these types."""
        return TableColumns({name: delta_field(name, type_) for name, type_ in types.items()})


def read_columns(schema_string: str) -> TableColumns:
    """The columns of a schema in the form of Delta's log."""
    return TableColumns({one["name"]: one for one in json.loads(schema_string)["fields"]})


def rescuing(columns: TableColumns) -> TableColumns:
    """The columns, and the one that holds what has no column (mode `rescue`)."""
    return TableColumns({**columns.fields, **TableColumns.of({RESCUED: "string"}).fields}, columns.omitted)


def delta_field(name: str, type_: DeltaType) -> dict[str, Any]:
    """A nullable field."""
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


def file_columns(schema: pa.Schema) -> TableColumns:
    """The columns of a Parquet file.

    What Delta has no form for (decimals of more than 38 digits, names that need column mapping) is left out, and named in `omitted`.
    """
    omitted: list[str] = []
    return TableColumns({one["name"]: one for one in _fields(schema, "", omitted)}, tuple(omitted))


def iceberg_columns(schema: pa.Schema) -> TableColumns:
    """The columns of a Parquet file in an Iceberg table: none for times of day in milliseconds, which its readers do not know."""
    kept, omitted = [], []
    for one in schema:
        kind = _without_times(one.type)
        if kind is not None:
            kept.append(one.with_type(kind))
        if kind != one.type:
            omitted.append(f"{one.name}: a time of day in milliseconds has no form in Iceberg")
    found = file_columns(pa.schema(kept))
    own = {one.name: one for one in kept}
    fields = {name: _with_ids(one, own[name]) for name, one in found.fields.items()}
    return promoted(TableColumns(fields, (*found.omitted, *omitted)))


def _with_ids(one: Mapping[str, Any], own: pa.Field) -> Mapping[str, Any]:
    """The field with the numbers that it and what is within it have in the file."""
    number = _number(own)
    ids = {} if number is None else {FIELD_ID: number}
    return {**one, "type": _type_with_ids(one["type"], own.type), "metadata": {**one["metadata"], **ids}}


def _type_with_ids(type_: DeltaType, own: pa.DataType) -> DeltaType:
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return {**type_, "fields": [_with_ids(inner, own.field(inner["name"])) for inner in type_["fields"]]}
    array = type_["type"] == "array"
    parts = {"elementType": own.value_field} if array else {"keyType": own.key_field, "valueType": own.item_field}
    numbers = [_number(part) for part in parts.values()]
    ids = {} if None in numbers else {IDS: numbers}
    return {**type_, **{key: _type_with_ids(type_[key], part.type) for key, part in parts.items()}, **ids}


def _number(own: pa.Field) -> int | None:
    number = int((own.metadata or {}).get(PARQUET_ID.encode(), -1))
    return None if number < 0 else number


def _without_times(kind: pa.DataType) -> pa.DataType | None:
    """The type without times of day; None where nothing is left of it, or where they are in a list or a map."""
    if pa.types.is_time(kind):
        return None
    if pa.types.is_struct(kind):
        members = [(one, _without_times(one.type)) for one in kind]
        kept = [one.with_type(inner) for one, inner in members if inner is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_nested(kind):
        whole = all(_without_times(kind.field(n).type) == kind.field(n).type for n in range(kind.num_fields))
        return kind if whole else None
    return kind


def promoted(columns: TableColumns) -> TableColumns:
    """The columns, with all of them marked as those that widen by Iceberg's rules, members of structs, too."""
    return TableColumns({name: _promoted(one) for name, one in columns.fields.items()}, columns.omitted)


def _promoted(one: Mapping[str, Any]) -> dict[str, Any]:
    type_ = one["type"]
    if isinstance(type_, Mapping) and type_["type"] == "struct":
        type_ = {**type_, "fields": [_promoted(inner) for inner in type_["fields"]]}
    return {**one, "type": type_, "metadata": {**one.get("metadata", {}), PROMOTED: "true"}}


def is_name(name: str) -> bool:
    """Whether a column may be called so without column mapping."""
    return bool(name) and not _NOT_IN_NAMES.intersection(name)


def written_columns(schema: pa.Schema) -> str:
    """The columns of a Parquet file that was just finished, in the form of Delta's log."""
    return file_columns(schema).schema_string()


def written_iceberg_columns(schema: pa.Schema) -> str:
    """The same of a file that is for Iceberg tables alone, with the numbers of its columns."""
    return iceberg_columns(schema).schema_string()


def _fields(fields: Iterable[pa.Field], path: str, omitted: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    taken = set[str]()
    for one in fields:
        where = f"{path}{one.name}"
        if not is_name(one.name):
            omitted.append(f"{where!r}: Delta allows no such name without column mapping")
        elif one.name.lower() in taken:
            omitted.append(f"{where}: another column differs from it by case only")
        elif (type_ := _delta_type(one.type, where, omitted)) is not None:
            taken.add(one.name.lower())
            found.append(delta_field(one.name, type_))
    return found


def _delta_type(kind: pa.DataType, where: str, omitted: list[str]) -> DeltaType | None:
    for is_kind, name in _PLAIN:
        if is_kind(kind):
            return name
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = _fields(kind, f"{where}.", omitted)
        return {"type": "struct", "fields": fields} if fields else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _delta_type(kind.value_type, f"{where}.element", omitted)
        return None if element is None else {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(kind):
        key = _delta_type(kind.key_type, f"{where}.key", omitted)
        value = _delta_type(kind.item_type, f"{where}.value", omitted)
        if key is None or value is None:
            return None
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    omitted.append(f"{where}: {kind} has no form in Delta")
    return None


def _plain(type_: DeltaType) -> DeltaType:
    """The type with nullable members that have no metadata."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        members = [delta_field(one["name"], _plain(one["type"])) for one in type_["fields"]]
        return {"type": "struct", "fields": members}
    if type_["type"] == "array":
        return {"type": "array", "elementType": _plain(type_["elementType"]), "containsNull": True}
    if type_["type"] == "map":
        key, value = _plain(type_["keyType"]), _plain(type_["valueType"])
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    return type_


def delta_type(kind: pa.DataType) -> DeltaType | None:
    """The type of a column, None where Delta has no form for it."""
    return _delta_type(kind, "", [])


def arrow_of(type_: DeltaType) -> pa.DataType:
    """The Arrow type that a Parquet file's column has in a table's column of that type. Raises KeyError for a type unknown here."""
    if isinstance(type_, str):
        decimal = DECIMAL.fullmatch(type_)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW[type_]
    if type_["type"] == "struct":
        return pa.struct([pa.field(one["name"], arrow_of(one["type"])) for one in type_["fields"]])
    if type_["type"] == "array":
        return pa.list_(arrow_of(type_["elementType"]))
    return pa.map_(arrow_of(type_["keyType"]), arrow_of(type_["valueType"]))


def shown(type_: DeltaType) -> str:
    """A type for people."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return f"struct<{', '.join(one['name'] + ' ' + shown(one['type']) for one in type_['fields'])}>"
    if type_["type"] == "array":
        return f"array<{shown(type_['elementType'])}>"
    return f"map<{shown(type_['keyType'])}, {shown(type_['valueType'])}>"


@dataclass(slots=True)
class ColumnComparison:
    """How a file's columns lie to a table's. `columns` hold both, the table's first.

    `new` are columns that the table lacks, `wider` those whose type in the table is too narrow, `conflicts` those that no type of Delta
    holds together; nested ones by their path. Each with a text that names column and types.
    """

    columns: TableColumns
    new: dict[str, str] = field(default_factory=dict)
    wider: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)
    promotes: bool = False

    @property
    def exact(self) -> bool:
        """Whether the table holds the file as it is."""
        return not (self.new or self.wider or self.conflicts)

    def refusals(self, mode: Mode) -> list[str]:
        """What the table cannot take in a mode. New columns stay in the file alone where the mode neither adds nor refuses them."""
        refused = list(self.conflicts.values())
        if mode is not Mode.ADD:
            refused += self.wider.values()
        return [*refused, *self.new.values()] if mode is Mode.FAIL else refused


def compare_columns(table: TableColumns, file: TableColumns) -> ColumnComparison:
    """Compares a file's columns with a table's."""
    found = ColumnComparison(table)
    fields = _merged(table.fields, file.fields, "", found)
    found.columns = TableColumns({one["name"]: one for one in fields})
    return found


def _merged(
    table: Mapping[str, Mapping[str, Any]], file: Mapping[str, Mapping[str, Any]], path: str, found: ColumnComparison
) -> list[Mapping[str, Any]]:
    merged = dict(table)
    spelt = {name.lower(): name for name in table}
    for name, one in file.items():
        where = f"{path}{name}"
        known = table.get(name)
        if known is not None and BY_DIRECTORY in known.get("metadata", {}):
            found.conflicts[where] = f"column {where} is given by the directories of the table"
        elif known is not None and not _same_id(known, one):
            found.conflicts[where] = f"column {where} has another field id than the table's"
        elif known is not None:
            merged[name] = {**known, "type": _held(known, one["type"], where, found)}
        elif name.lower() in spelt:
            found.conflicts[where] = f"column {where} differs from the table's {spelt[name.lower()]} by case only"
        else:
            merged[name] = one
            spelt[name.lower()] = name
            found.new[where] = f"new column {where} {shown(one['type'])}"
    return list(merged.values())


def _same_id(known: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    mine, others = known.get("metadata", {}).get(FIELD_ID), one.get("metadata", {}).get(FIELD_ID)
    return mine is None or others is None or mine == others


def _held(known: Mapping[str, Any], file: DeltaType, where: str, found: ColumnComparison) -> DeltaType:
    """The type that holds both; where the table's cannot be widened, a wider one is a conflict."""
    own = ColumnComparison(found.columns, promotes=found.promotes or PROMOTED in known.get("metadata", {}))
    merged = _wider(known["type"], file, where, own)
    if own.wider and FIXED in known.get("metadata", {}):
        own.conflicts |= own.wider
        own.wider, merged = {}, known["type"]
    found.new |= own.new
    found.wider |= own.wider
    found.conflicts |= own.conflicts
    return merged


def _wider(table: DeltaType, file: DeltaType, where: str, found: ColumnComparison) -> DeltaType:
    """The type that holds both; the table's own where there is none."""
    if table == file:
        return table
    if isinstance(table, str) and isinstance(file, str):
        wider = _wider_plain(table, file)
        if found.promotes and wider is not None and not (_promotes(table, wider) and _promotes(file, wider)):
            wider = None
        if wider is None:
            found.conflicts[where] = _unlike(where, file, table)
        elif wider != table:
            found.wider[where] = _unlike(where, file, table)
        return wider or table
    if isinstance(table, Mapping) and isinstance(file, Mapping) and table["type"] == file["type"]:
        return _wider_nested(table, file, where, found)
    found.conflicts[where] = _unlike(where, file, table)
    return table


def _wider_nested(table: Mapping[str, Any], file: Mapping[str, Any], where: str, found: ColumnComparison) -> DeltaType:
    if table["type"] == "struct":
        mine, others = ({one["name"]: one for one in type_["fields"]} for type_ in (table, file))
        return {**table, "fields": _merged(mine, others, f"{where}.", found)}
    if table["type"] == "array":
        element = _wider(table["elementType"], file["elementType"], f"{where}.element", found)
        return {**table, "elementType": element}
    key = _wider(table["keyType"], file["keyType"], f"{where}.key", found)
    value = _wider(table["valueType"], file["valueType"], f"{where}.value", found)
    return {**table, "keyType": key, "valueType": value}


def _wider_plain(table: str, file: str) -> str | None:
    """The widenings of Delta's type widening that readers do on the fly: whole numbers, float, whole number to double, decimals."""
    if table in WHOLE and file in WHOLE:
        return max(table, file, key=WHOLE.index)
    pair = {table, file}
    if pair == {"float", "double"} or ("double" in pair and pair & {"byte", "short", "integer"}):
        return "double"
    mine, others = DECIMAL.fullmatch(table), DECIMAL.fullmatch(file)
    if mine is None or others is None:
        return None
    scale = max(int(mine[2]), int(others[2]))
    whole = max(int(mine[1]) - int(mine[2]), int(others[1]) - int(others[2]))
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def _promotes(narrow: str, wide: str) -> bool:
    """Whether Iceberg's readers take values of the narrow type for the wide one (its specification, schema evolution)."""
    if narrow == wide or (narrow in WHOLE and wide in WHOLE) or (narrow, wide) == ("float", "double"):
        return True
    mine, others = DECIMAL.fullmatch(narrow), DECIMAL.fullmatch(wide)
    return mine is not None and others is not None and mine[2] == others[2]


def _unlike(where: str, file: DeltaType, table: DeltaType) -> str:
    return f"column {where} is {shown(file)}, in the table {shown(table)}"
