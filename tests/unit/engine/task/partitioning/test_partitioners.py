"""Directories are called as the original calls them (SEMANTICS A4.2)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_s3.connect.joda.buckets import BucketNames
from kafka_s3.connect.joda.pattern import Pattern
from kafka_s3.connect.joda.zones import zone
from kafka_s3.connect.naming.keys import ConnectNames
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Nulls, Objects, Plain, StructColumns
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.engine.task.partitioning.partitioners import (
    Affix,
    DefaultPartitioner,
    FieldPartitioner,
    InsideOnly,
    Lookalikes,
    Partitioner,
    SchemaDirectory,
    Schemaless,
    TimePartitioner,
    TombstoneDirectory,
    encoded_each,
    may_hold,
)
from kafka_s3.model.offsets import TopicPartition
from tests.support.runs import run_of

ORDERS = TopicPartition("orders", 3)
FIELDS = [
    ("s", "string"), ("i", "int8"), ("l", "int64"), ("b", "boolean"), ("f", "double"), ("y", "bytes"),
]  # fmt: skip
STRUCT = {"type": "struct", "fields": [{"field": name, "type": kind, "optional": True} for name, kind in FIELDS]}
DAY = {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date"}
NESTED = {
    "field": "in",
    "type": "struct",
    "optional": True,
    "fields": [{"field": "s", "type": "string", "optional": True}],
}
SCHEMA = read_schema({**STRUCT, "fields": [*STRUCT["fields"], NESTED, DAY]})


def directories(partitioner: Partitioner, run: Run, times: list[int] | None = None) -> list[str | None]:
    found = partitioner.encode(ORDERS, run, np.array(times or [0] * len(run), np.int64))
    assert [failure.offset for failure in found.failures] == run.offsets[found.codes < 0].tolist()
    assert len(set(found.names)) == len(found.names)
    return [None if code < 0 else found.names[code] for code in found.codes]


def by(
    *names: str, encoding: str = "none", schemaless: Schemaless = Schemaless.REFUSE, delimiter: str = "/"
) -> FieldPartitioner:
    return FieldPartitioner(names, delimiter=delimiter, schemaless=schemaless, encoding=encoding)


def test_the_default_is_one_directory_per_kafka_partition() -> None:
    assert directories(DefaultPartitioner(), run_of(Objects([1, 2]), None)) == ["partition=3"] * 2


@pytest.mark.parametrize(
    ("names", "value", "directory"),
    [
        (["s"], {"s": "x"}, "s=x"),
        (["s"], {"s": "a/b c=%"}, "s=a/b c=%"),
        (["s"], {"s": ""}, "s="),
        (["s"], {"s": None}, "s=null"),
        (["i", "s"], {"i": -5, "s": "x"}, "i=-5/s=x"),
        (["s", "i"], {"i": -5, "s": "x"}, "s=x/i=-5"),
        (["l"], {"l": 2**62}, f"l={2**62}"),
        (["b"], {"b": True}, "b=true"),
        (["in.s"], {"in": {"s": "x"}}, "in.s=x"),
        (["in.s"], {"in": None}, "in.s=null"),
        (["f"], {"f": 1.5}, None),
        (["y"], {"y": b"x"}, None),
        (["in"], {"in": {"s": "x"}}, None),
        (["s"], {"s": "\ud800"}, None),
    ],
)
def test_a_field_gives_name_and_value(names: list[str], value: Any, directory: str | None) -> None:
    assert directories(by(*names), run_of(Objects([value]), SCHEMA)) == [directory]


@pytest.mark.parametrize("name", ["nothing", "in.nothing", "s.nothing", "day"])
def test_a_field_outside_the_schema_and_a_date_kill_the_original(name: str) -> None:
    encoded = by(name).encode(ORDERS, run_of(Objects([{"day": 1}]), SCHEMA), np.zeros(1, np.int64))

    assert [failure.stops_original for failure in encoded.failures] == [True]


def test_a_date_beyond_the_year_9999_is_refused_like_any_other_date() -> None:
    days = StructColumns(pa.table({"day": pa.array([2_932_897, None], pa.date32())}))
    assert directories(by("day"), run_of(days, SCHEMA)) == [None, "day=null"]


def test_values_without_fields_are_not_encodable() -> None:
    assert directories(by("s"), run_of(Plain(pa.array(["x"])), ConnectSchema(SchemaType.STRING))) == [None]
    assert directories(by("s"), run_of(JsonText(pa.array([b'{"s":"x"}']), None), None)) == [None]


@pytest.mark.parametrize("encoding", ["none", "percent"])
def test_beside_tables_no_text_shares_a_directory_with_null_or_with_other_fields(encoding: str) -> None:
    rows = [("null", 1), (None, 1), ("nul", 1), ("x/l=1", 2), ("x", 1), ("schema_name=y", 1), ("x/schema_name=y", 1)]
    values = pa.table({"s": [text for text, _ in rows], "l": pa.array([number for _, number in rows])})
    fields = FieldPartitioner(
        ["s", "l"], delimiter="/", schemaless=Schemaless.REFUSE, encoding=encoding, lookalikes=Lookalikes.APART
    )
    sign = "=" if encoding == "none" else "%3D"
    expected: list[str | None] = [
        "s=%6Eull/l=1", "s=null/l=1", "s=nul/l=1", "s=x%2Fl%3D1/l=2", "s=x/l=1", f"s=schema_name{sign}y/l=1", "s=x%2Fschema_name%3Dy/l=1",
    ]  # fmt: skip
    assert directories(fields, run_of(StructColumns(values), SCHEMA)) == expected
    assert directories(fields, run_of(Objects(values.to_pylist()), SCHEMA)) == expected
    for name in ("nul", "null"):
        assert directories(fields, run_of(Objects([{"s": name, "l": 1}]), SCHEMA)) == [
            f"s={'%6Eull' if name == 'null' else name}/l=1"
        ]


def test_without_tables_the_text_null_goes_where_null_goes_as_in_the_original() -> None:
    assert directories(by("s"), run_of(Objects([{"s": "null"}, {"s": None}]), SCHEMA)) == ["s=null", "s=null"]


def test_schemaless_fields_are_looked_up_where_allowed() -> None:
    texts = [
        b'{"s":"x"}',
        b'{"s":5}',
        b'{"s":1.5}',
        b"{}",
        b"7",
        b'{"s":null}',
        b'{"s":{}}',
        b'{"s":false}',
        b'{"s":"x"}',
    ]
    run = run_of(JsonText(pa.array(texts), None), None)

    expected = ["s=x", "s=5", None, "s=null", "s=null", "s=null", None, "s=false", "s=x"]
    assert directories(by("s", schemaless=Schemaless.LOOK_UP), run) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["x", None, "y", "x"]), ["s=x", "s=null", "s=y", "s=x"]),
        (pa.array([1, None, 2, 1]), ["s=1", "s=null", "s=2", "s=1"]),
        (pa.array([True, None, False, True]), ["s=true", "s=null", "s=false", "s=true"]),
        (pa.nulls(4), ["s=null"] * 4),
        (pa.array([1.5, None, 2.5, 1.5]), [None, "s=null", None, None]),
    ],
)
def test_parsed_columns_give_the_same_as_values_one_by_one(column: pa.Array, expected: list[str | None]) -> None:
    values = JsonText(pa.array([b"{}"] * 4), pa.table({"s": column}))

    assert directories(by("s", schemaless=Schemaless.LOOK_UP), run_of(values, None)) == expected


def test_field_tuples_with_one_path_are_one_directory() -> None:
    first, second = {"s": "x/i=1", "i": 2}, {"s": "x", "i": "1/i=2"}
    rows = [first, {"s": "y", "i": 1}, second, {"s": 1.5, "i": 1}, first]
    run = run_of(JsonText(pa.array([json.dumps(row).encode() for row in rows]), None), None)

    expected = ["s=x/i=1/i=2", "s=y/i=1", "s=x/i=1/i=2", None, "s=x/i=1/i=2"]
    assert directories(by("s", "i", schemaless=Schemaless.LOOK_UP), run) == expected


def test_values_are_percent_encoded_and_joined_as_configured() -> None:
    assert directories(
        by("s", "i", encoding="percent", delimiter="_"), run_of(Objects([{"s": "a/b ä", "i": 1}]), SCHEMA)
    ) == ["s=a%2Fb%20%C3%A4_i=1"]


def test_time_gives_the_bucket() -> None:
    utc = zone("UTC")
    pattern = Pattern("'year'=YYYY/'hour'=HH", locale="en", zone=utc)
    partitioner = TimePartitioner(BucketNames(pattern, duration_ms=3_600_000, zone=utc))
    hour = 3_600_000

    found = directories(partitioner, run_of(Objects([0] * 4), None), [0, hour - 1, hour, 0])
    assert found == ["year=1970/hour=00", "year=1970/hour=00", "year=1970/hour=01", "year=1970/hour=00"]


def test_null_is_a_directory_also_in_a_field_whose_type_is_not_taken() -> None:
    run = run_of(Objects([{"f": None}, {"f": 1.5}, {"f": None, "y": None}]), SCHEMA)
    assert directories(by("f"), run) == ["f=null", None, "f=null"]
    assert directories(by("y", "day"), run_of(Objects([{"y": None, "day": None}]), SCHEMA)) == ["y=null/day=null"]


def test_a_directory_is_judged_again_in_another_topic_and_a_refused_one_each_time() -> None:
    names = ConnectNames(topics_dir="topics", directory_delim="/", file_delim="+", pad_width=10)
    inside = InsideOnly(by("s"), names, ".json", "topics/hidden")
    for _ in range(2):
        run = run_of(Objects([{"s": "x"}, {"s": "x/../y"}, {"s": "/../z"}, {"s": "a/_delta_log/b"}]), SCHEMA)
        assert directories(inside, run) == ["s=x", None, None, None]
    assert directories(inside, run_of(Objects([{"s": "x"}, {"s": "new"}, {"s": ".."}]), SCHEMA)) == [
        "s=x",
        "s=new",
        "s=..",
    ]

    hidden = inside.encode(TopicPartition("hidden", 0), run_of(Objects([{"s": "x"}]), SCHEMA), np.zeros(1, np.int64))
    assert hidden.codes.tolist() == [-1]
    assert "the folder of the commit log" in hidden.failures[0].message


NAMED = read_schema({**STRUCT, "name": "com.acme.Order"})


@pytest.mark.parametrize(
    ("affix", "there"), [(Affix.PREFIX, "schema_name={}|s=x"), (Affix.SUFFIX, "s=x|schema_name={}")]
)
def test_a_schemas_name_goes_before_or_behind_and_says_whose_records_a_directory_may_hold(
    affix: Affix, there: str
) -> None:
    partitioner = SchemaDirectory(by("s"), affix, "|")
    named, bare = run_of(Objects([{"s": "x"}]), NAMED), run_of(Objects([{"s": "x"}]), SCHEMA)
    mine, null = there.format("com.acme.Order"), there.format("null")
    assert (directories(partitioner, named), directories(partitioner, bare)) == ([mine], [null])
    judged = [[may_hold(partitioner, one, run) for one in (mine, null)] for run in (named, bare)]
    assert judged == [[True, False], [False, True]]
    assert partitioner.uses_time is False


def test_null_values_have_one_directory_that_holds_nothing_else() -> None:
    partitioner = TombstoneDirectory(SchemaDirectory(by("s"), Affix.PREFIX, "/"), "tombstones")
    dead, alive = run_of(Nulls(2), None), run_of(Objects([{"s": "x"}]), NAMED)
    (mine,) = directories(partitioner, alive)
    assert directories(partitioner, dead) == ["tombstones"] * 2
    judged = [[may_hold(partitioner, one, run) for one in ("tombstones", str(mine), "else")] for run in (dead, alive)]
    assert judged == [[True, False, False], [False, True, False]]


def test_a_function_of_value_and_time_gives_directories_and_what_it_raises_is_the_reason_of_a_bad_record() -> None:
    def directory(value: Any, time: int) -> str:
        if value["s"] == "":
            raise ValueError("a blank has none")
        return f"s={value['s'].lower()}/t={time}"

    run = run_of(Objects([{"s": "A"}, {"s": ""}, {}, {"s": 5}, {"s": "a"}]), None)
    with pytest.raises(AttributeError):  # a mistake of the function itself, not of a record
        encoded_each(run, np.full(5, 7), directory)
    run = run_of(Objects([{"s": "A"}, {"s": ""}, {}, None, {"s": "a"}]), None)
    found = encoded_each(run, np.full(5, 7), directory)
    assert (found.codes.tolist(), found.names) == ([0, -1, -1, -1, 0], ["s=a/t=7"])
    assert [failure.message for failure in found.failures] == [
        "The record has no directory: a blank has none", "The record has no directory: KeyError: 's'",
        "The record has no directory: TypeError: 'NoneType' object is not subscriptable",
    ]  # fmt: skip
