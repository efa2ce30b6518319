"""Which column of a table is a field that has another name by now? The same one, by its number: that of the path with the first names.

An Avro schema names a field's earlier names as aliases; a table knows the earlier names of its columns. Where `full_name` was `name` once,
tasks give it the number of `name` (`called`), and whoever compares a file with a table finds the column by it (`aligned`). The newer name
is the table's; the first one of all, and every one that the column had, is never taken for a newer one, so that records of an old schema
that come late change nothing. For example

    table                   file                      then
    name (7)                full_name (7)             full_name (7), which was name
    full_name (7), name     name (7)                  as it is: the file's column is full_name
    full_name (7), name     full_name (7), name (8)   both: a field with a name that another one had is a new column
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from kafka_s3.connect.naming.field_ids import field_id, path_of
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.task.table_guard.columns import EARLIER, FIELD_ID, DeltaType, TableColumns

Column: TypeAlias = Mapping[str, Any]
AGAIN: Final = "#2"
"""Ends the first name of a field whose own name was another field's."""


def earlier_names(column: Column) -> list[str]:
    """The names that a table's column had."""
    return list(column.get("metadata", {}).get(EARLIER, ()))


def number_of(column: Column) -> int | None:
    """The number of a column, None where it has none."""
    found = column.get("metadata", {}).get(FIELD_ID)
    return None if found is None else int(found)


def first_name(folder: str, number: int | None, names: Sequence[str]) -> str:
    """The name from which a column has its number; the first one that is given where it is of none of them."""
    every = [*names, *(f"{name}{AGAIN}" for name in names)]
    return next((name for name in every if field_id(path_of(folder, name)) == number), names[0])


class Newer(Enum):
    """What a newer name does: the table's column gets it, or keeps its own."""

    TAKEN = auto()
    LEFT = auto()


def aligned(table: TableColumns, file: TableColumns, newer: Newer = Newer.TAKEN) -> tuple[TableColumns, TableColumns]:
    """The columns of both in their order, with the same names where they are the same by number."""
    mine, others = _aligned(list(table.fields.values()), list(file.fields.values()), "", newer)
    return (
        replace(table, fields={one["name"]: one for one in mine}),
        replace(file, fields={one["name"]: one for one in others}),
    )


def _aligned(
    table: Sequence[Column], file: Sequence[Column], folder: str, newer: Newer
) -> tuple[list[Column], list[Column]]:
    mine, others = list(table), list[Column]()
    indexes = {one["name"]: index for index, one in enumerate(table)}
    numbers = {number_of(one): index for index, one in enumerate(table)}
    names = {one["name"] for one in file}
    for one in file:
        index = indexes.get(one["name"])
        if index is None and number_of(one) is not None:
            index = numbers.get(number_of(one))
            index = None if index is None or mine[index]["name"] in names else index
        if index is None:
            others.append(one)
            continue
        known = mine[index]
        first = first_name(folder, number_of(known), [known["name"], *earlier_names(known), one["name"], *indexes])
        if known["name"] != one["name"] and newer is Newer.TAKEN and _is_newer(one["name"], known, folder):
            known = renamed(known, one["name"])
        types = _aligned_types(known["type"], one["type"], path_of(folder, first), newer)
        mine[index] = {**known, "type": types[0]}
        others.append({**one, "name": known["name"], "type": types[1]})
    return mine, others


def _is_newer(name: str, known: Column, folder: str) -> bool:
    return name not in earlier_names(known) and field_id(path_of(folder, name)) != number_of(known)


def renamed(known: Column, name: str) -> Column:
    """A table's column under a newer name."""
    earlier = dict.fromkeys([known["name"], *earlier_names(known)])
    return {**known, "name": name, "metadata": {**known["metadata"], EARLIER: [one for one in earlier if one != name]}}


def _aligned_types(table: DeltaType, file: DeltaType, path: str, newer: Newer) -> tuple[DeltaType, DeltaType]:
    if isinstance(table, str) or isinstance(file, str) or table["type"] != file["type"]:
        return table, file
    if table["type"] == "struct":
        mine, others = _aligned(table["fields"], file["fields"], path, newer)
        return {**table, "fields": mine}, {**file, "fields": others}
    pairs = {
        key: _aligned_types(table[key], file[key], f"{path}.{name}", newer)
        for key, name in INNER.items()
        if key in table and key in file
    }
    return (
        {**table, **{key: pair[0] for key, pair in pairs.items()}},
        {**file, **{key: pair[1] for key, pair in pairs.items()}},
    )


INNER: Final = {"elementType": "element", "keyType": "key", "valueType": "value"}
"""The types within a list or a map, and what Iceberg calls their columns."""


def called(schema: ConnectSchema, table: TableColumns | None) -> tuple[ConnectSchema, TableColumns | None]:
    """The schema, whose fields have their first name as only alias where it is another one, and the table by the schema's own names."""
    if table is None:
        return schema, None
    work = _Calling()
    fields, columns = work.members(schema, list(table.fields.values()), "")
    if not work.changed:
        return schema, table
    return replace(schema, fields=fields), replace(table, fields={one["name"]: one for one in columns})


@dataclass(slots=True)
class _Calling:
    """The way through a schema and a table; `changed` says that anything has another name somewhere."""

    changed: bool = field(default=False)

    def members(
        self, schema: ConnectSchema, table: Sequence[Column], folder: str
    ) -> tuple[tuple[Field, ...], list[Column]]:
        columns = list(table)
        indexes = _partners(schema.fields, table, folder)
        taken = set[str]()
        made: dict[str, Field] = {}
        for one in sorted(schema.fields, key=lambda one: one.name not in indexes):
            index = indexes.get(one.name)
            known = None if index is None else columns[index]
            first = _first(
                one, known, [*(other.name for other in schema.fields), *(other["name"] for other in table)], folder
            )
            first = f"{first}{AGAIN}" if first in taken else first
            taken.add(first)
            inner, path = one.schema, path_of(folder, first)
            if known is not None and index is not None:
                inner, kind = self.type(one.schema, known["type"], path)
                columns[index] = {**known, "name": one.name, "type": kind}
                self.changed |= known["name"] != one.name
            aliases = (first,) if first != one.name else ()
            self.changed |= aliases != one.aliases
            made[one.name] = replace(one, schema=inner, aliases=aliases)
        return tuple(made[one.name] for one in schema.fields), columns

    def type(self, schema: ConnectSchema, table: DeltaType, path: str) -> tuple[ConnectSchema, DeltaType]:
        if isinstance(table, str):
            return schema, table
        if schema.kind is SchemaType.STRUCT and table["type"] == "struct":
            fields, columns = self.members(schema, table["fields"], path)
            return replace(schema, fields=fields), {**table, "fields": columns}
        if schema.items is not None and "elementType" in table:
            items, element = self.type(schema.items, table["elementType"], f"{path}.element")
            return replace(schema, items=items), {**table, "elementType": element}
        if schema.keys is not None and schema.values is not None and "keyType" in table:
            keys, key = self.type(schema.keys, table["keyType"], f"{path}.key")
            values, value = self.type(schema.values, table["valueType"], f"{path}.value")
            return replace(schema, keys=keys, values=values), {**table, "keyType": key, "valueType": value}
        return schema, table


def _partners(fields: Iterable[Field], table: Sequence[Column], folder: str) -> dict[str, int]:
    """Per field the index of the table's column that it is: by its name, by an earlier one, or by its number."""
    wanted = list(fields)
    names, found = {one.name for one in wanted}, {one["name"]: index for index, one in enumerate(table)}
    partners = {one.name: found[one.name] for one in wanted if one.name in found}
    for one in wanted:
        if one.name in partners:
            continue
        free = ((index, known) for index, known in enumerate(table) if index not in partners.values())
        index = next((index for index, known in free if known["name"] not in names and _is(one, known, folder)), None)
        if index is not None:
            partners[one.name] = index
    return partners


def _is(one: Field, known: Column, folder: str) -> bool:
    """Whether a field with another name is a column of the table."""
    had = {known["name"], *earlier_names(known)}
    return not had.isdisjoint((one.name, *one.aliases)) or number_of(known) == field_id(path_of(folder, one.name))


def _first(one: Field, known: Column | None, names: Sequence[str], folder: str) -> str:
    """The first name of a field; another one may have it by now."""
    if known is not None:
        candidates = [known["name"], *earlier_names(known), one.name, *one.aliases, *names]
        return first_name(folder, number_of(known), candidates)
    return next((alias for alias in one.aliases if alias not in names), one.name)
