"""Directories of keys and headers, and of fields and time together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.joda.pattern import Pattern
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import Nulls, Objects
from kafka_s3.connect.schemas.connect import read_schema
from kafka_s3.engine.task.partitioning.partitioners import (
    DirectoryForm,
    FieldAndTimePartitioner,
    FieldPartitioner,
    HeaderPartitioner,
    KeyPartitioner,
    Schemaless,
    TimePartitioner,
)
from kafka_s3.model.files import Role
from tests.support.runs import run_of
from tests.unit.engine.task.partitioning.test_partitioners import directories

PLAIN = {"delimiter": "/", "encoding": "none"}
KEYS = read_schema({"type": "struct", "fields": [
    {"field": "id", "type": "int32"}, {"field": "in", "type": "struct", "optional": True, "fields": [{"field": "s", "type": "string"}]},
]})  # fmt: skip
HOUR = 3_600_000


def beside(role: Role, items: list[Any], schema: Any = None) -> Run:
    values = Nulls(len(items)) if items == [None] * len(items) else Objects(items)
    return replace(run_of(Objects([1] * len(items)), None), placed_by={role: Sidecar(values, schema)})


def headers(*rows: dict[str, str | None]) -> Run:
    return beside(Role.HEADER, [[{"key": key, "value": text} for key, text in row.items()] for row in rows])


def test_headers_are_directories_and_null_where_there_are_none() -> None:
    run = headers({"t": "a/b", "r": "eu"}, {"r": "us"}, {}, {"t": None})
    assert directories(HeaderPartitioner(["t", "r"], **PLAIN), run) == [
        "t=a/b/r=eu", "t=null/r=us", "t=null/r=null", "t=null/r=null",
    ]  # fmt: skip
    assert directories(HeaderPartitioner(["t"], delimiter="/", encoding="percent"), run)[0] == "t=a%2Fb"


def test_the_last_header_of_a_name_counts() -> None:
    run = beside(Role.HEADER, [[{"key": "t", "value": "1"}, {"key": "t", "value": "2"}]])
    assert directories(HeaderPartitioner(["t"], **PLAIN), run) == ["t=2"]


def test_without_headers_and_keys_all_is_null() -> None:
    run = run_of(Objects([1, 2]), None)
    assert directories(HeaderPartitioner(["t"], **PLAIN), run) == ["t=null"] * 2
    assert directories(KeyPartitioner([], **PLAIN), run) == ["key=null"] * 2


@pytest.mark.parametrize(
    ("key", "name"), [("k", "k"), (7, "7"), (True, "true"), (None, "null"), ({"id": 1}, None), (b"k", None)]
)
def test_a_key_is_its_text(key: Any, name: str | None) -> None:
    assert directories(KeyPartitioner([], **PLAIN), beside(Role.KEY, [key])) == [name and f"key={name}"]


def test_fields_of_a_key_are_directories() -> None:
    run = beside(Role.KEY, [{"id": 1, "in": {"s": "x"}}, {"id": 2, "in": None}], KEYS)
    assert directories(KeyPartitioner(["in.s", "id"], **PLAIN), run) == ["in.s=x/id=1", "in.s=null/id=2"]


@pytest.mark.parametrize(("kind", "first"), [(DirectoryForm.NAMED, "c=DE/s=1"), (DirectoryForm.BARE, "DE/1")])
def test_fields_come_above_time_as_in_the_plugin(kind: DirectoryForm, first: str) -> None:
    fields = FieldPartitioner(
        ["c", "s"], delimiter="/", schemaless=Schemaless.LOOK_UP, encoding="none", directories=kind
    )
    hours = TimePartitioner(
        BucketNames(Pattern("'h'=HH", locale="en", zone=zone("UTC")), duration_ms=HOUR, zone=zone("UTC"))
    )
    run = run_of(
        Objects(
            [{"c": "DE", "s": 1}, {"c": "FR", "s": 1}, {"c": "DE", "s": 1}, {"c": [], "s": 1}, {"c": "DE", "s": 1}]
        ),
        None,
    )
    found = directories(FieldAndTimePartitioner(fields, hours, delimiter="_"), run, [HOUR, HOUR, 2 * HOUR, HOUR, HOUR])
    assert found == [f"{first}_h=01", first.replace("DE", "FR") + "_h=01", f"{first}_h=02", None, f"{first}_h=01"]
