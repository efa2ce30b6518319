"""Which column is a field that has another name by now? By names, aliases and numbers, in structs, lists and maps, whichever came first."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.connect.naming.field_ids import field_id
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType, schema_document, stored_schema
from kafka_s3.connect.schemas.numbering import numbered
from kafka_s3.engine.task.table_guard.columns import EARLIER, FIELD_ID, TableColumns, iceberg_columns
from kafka_s3.engine.task.table_guard.renames import AGAIN, Newer, aligned, called, earlier_names

TEXT = ConnectSchema(SchemaType.STRING, optional=True)


def struct(*fields: Field) -> ConnectSchema:
    return ConnectSchema(SchemaType.STRUCT, optional=True, fields=fields)


def listed(items: ConnectSchema) -> ConnectSchema:
    return ConnectSchema(SchemaType.ARRAY, optional=True, items=items)


def mapped(values: ConnectSchema) -> ConnectSchema:
    return ConnectSchema(SchemaType.MAP, optional=True, keys=ConnectSchema(SchemaType.STRING), values=values)


def columns(schema: ConnectSchema) -> TableColumns:
    """Those of a file of that schema."""
    arrow = pa.schema([arrow_field(one.name, one.schema) for one in schema.fields])
    return iceberg_columns(numbered(arrow, schema))


def number(found: TableColumns, name: str) -> int:
    return int(found.fields[name]["metadata"][FIELD_ID])


def written(schema: ConnectSchema, table: TableColumns | None) -> TableColumns:
    """A file as a task writes it that knows the table."""
    return columns(called(schema, table)[0])


def follow(table: TableColumns, file: TableColumns) -> TableColumns:
    return aligned(table, file)[0]


OLD = struct(Field("name", TEXT))
NEW = struct(Field("title", TEXT, ("name",)))
NEWEST = struct(Field("label", TEXT, ("title",)))


def test_a_renamed_field_has_the_number_of_its_first_name() -> None:
    assert number(columns(NEW), "title") == field_id("name")
    table = columns(OLD)
    assert number(written(NEW, table), "title") == field_id("name")
    table = follow(table, written(NEW, table))
    assert list(table.fields) == ["title"]
    assert earlier_names(table.fields["title"]) == ["name"]
    assert number(written(NEWEST, table), "label") == field_id("name")


@pytest.mark.parametrize("late", [OLD, NEW])
def test_a_name_that_the_column_had_is_not_a_newer_one(late: ConnectSchema) -> None:
    table = columns(OLD)
    for schema in (NEW, NEWEST, late):
        table = follow(table, written(schema, table))
    assert list(table.fields) == ["label"]


def test_columns_may_keep_their_names() -> None:
    table, file = columns(OLD), written(NEW, columns(OLD))
    assert [list(one.fields) for one in aligned(table, file, Newer.LEFT)] == [["name"], ["name"]]
    assert list(called(NEW, table)[1].fields) == ["title"]  # type: ignore[union-attr]


def test_what_is_within_structs_lists_and_maps_keeps_its_numbers() -> None:
    old, new = struct(Field("a", TEXT)), struct(Field("b", TEXT, ("a",)))

    def around(inner: ConnectSchema, name: str, *aliases: str) -> ConnectSchema:
        return struct(Field(name, struct(Field("list", listed(inner)), Field("map", mapped(inner))), aliases))

    table = columns(around(old, "at"))
    file = written(around(new, "place", "at"), table)
    after = follow(table, file)
    assert list(after.fields) == ["place"]
    assert _numbers(after) == _numbers(table)
    assert {"b"} == {one["name"] for one in _leaf_structs(after)}


def _leaf_structs(found: TableColumns) -> list[dict[str, Any]]:
    members = {one["name"]: one["type"] for one in found.fields["place"]["type"]["fields"]}  # type: ignore[index]
    return [*members["list"]["elementType"]["fields"], *members["map"]["valueType"]["fields"]]


def _numbers(found: TableColumns) -> list[str]:
    return sorted(part.split(",")[0].split("}")[0] for part in found.schema_string().split(FIELD_ID)[1:])


def test_a_field_with_a_name_that_another_one_had_is_a_column_of_its_own() -> None:
    table = follow(columns(OLD), written(NEW, columns(OLD)))
    again = struct(Field("title", TEXT), Field("name", TEXT))
    file = written(again, table)
    assert number(file, "title") == field_id("name")
    assert number(file, "name") == field_id(f"name{AGAIN}")


def test_two_fields_with_one_number_have_none() -> None:
    schema = struct(Field("a", TEXT), Field("b", TEXT, ("a",)))
    arrow = pa.schema([("a", pa.string()), ("b", pa.string())])
    assert numbered(arrow, schema) == arrow


def test_a_column_without_a_number_is_found_by_its_name_alone() -> None:
    table, file = columns(OLD).plain(), columns(NEW)
    assert aligned(table, file) == (table, file)


def test_schemas_are_compared_without_aliases_and_written_down_with_them() -> None:
    plain = struct(Field("title", TEXT))
    assert plain == NEW
    assert hash(plain) == hash(NEW)
    assert stored_schema(schema_document(NEW)).fields[0].aliases == ("name",)
    assert stored_schema(schema_document(plain)).fields[0].aliases == ()
    assert EARLIER not in columns(NEW).schema_string()
