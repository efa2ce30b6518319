"""Records get their time as the original's extractors give it (SEMANTICS A5)."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.records.runs import Run
from kafka_s3.records.values import NO_TIMESTAMP, JsonText, Objects, Plain
from kafka_s3.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.task.timestamps import RecordField, RecordTimestamp, TimestampExtractor, Wallclock
from tests.support.runs import run_of

NOW = 1_700_000_000_000


def times(extractor: TimestampExtractor, run: Run) -> list[int | None]:
    found = extractor.extract(run, NOW)
    assert [failure.offset for failure in found.failures] == run.offsets[~found.valid].tolist()
    return [int(time) if valid else None for time, valid in zip(found.times, found.valid, strict=True)]


def field(path: str = "t") -> RecordField:
    return RecordField(path.split("."), default_zone=UTC)


def schemaless(*values: Any) -> Run:
    return run_of(JsonText(pa.array([json.dumps(value).encode() for value in values]), None))


def test_wallclock_is_the_delivery() -> None:
    assert times(Wallclock(), schemaless(1, 2)) == [NOW, NOW]


def test_record_is_the_record_timestamp_or_a_failure_that_may_be_skipped() -> None:
    run = run_of(Objects([1, 2]), timestamps=[7, NO_TIMESTAMP])

    assert times(RecordTimestamp(), run) == [7, None]
    assert [failure.stops_original for failure in RecordTimestamp().extract(run, NOW).failures] == [False]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (1705312800000, 1705312800000),
        (-5, -5),
        (1.9e3, 1900),
        (7.9, 7),
        ("1705312800000", 1705312800000),
        ("-5", -5),
        ("2024", 2024),
        ("2024-01-15T10:00:00Z", 1705312800000),
        ("2024-01-15T12:00:00.123456+02:00", 1705312800123),
        ("2024-01-15", 1705276800000),
        ("2024-01-15 10:00:00", None),
        ("", None),
        ("99999999999999999999", None),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (1e400, None),
        (True, None),
        (None, None),
        ([1], None),
        ({"x": 1}, None),
    ],
)
def test_a_schemaless_field_is_a_number_or_a_text(value: Any, time: int | None) -> None:
    text = json.dumps({"t": value}).replace("Infinity", "1e400").encode()

    assert times(field(), run_of(JsonText(pa.array([text]), None))) == [time]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3]), [1, 2, 3]),
        (pa.array([1, None, 3]), [1, None, 3]),
        (pa.array([1.5, None, 3.0]), [1, None, 3]),
        (pa.array(["5", None, "oops"]), [5, None, None]),
        (pa.array([True, None, False]), [None, None, None]),
        (pa.nulls(3), [None, None, None]),
    ],
)
def test_parsed_columns_give_the_same_as_values_one_by_one(column: pa.Array, expected: list[int | None]) -> None:
    assert times(field(), run_of(JsonText(pa.array([b"{}"] * 3), pa.table({"t": column})))) == expected


@pytest.mark.parametrize(
    ("kind", "value", "time"),
    [
        ({"type": "int64"}, 5, 5),
        ({"type": "int32"}, 5, 5),
        ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 5, 5),
        ({"type": "string"}, "1970-01-01T00:00:01Z", 1000),
        ({"type": "int16"}, 5, None),
        ({"type": "double"}, 5.0, None),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, 5, None),
        ({"type": "bytes"}, b"5", None),
        ({"type": "int64"}, None, None),
    ],
)
def test_a_field_with_a_schema_must_be_an_integer_a_timestamp_or_text(
    kind: dict[str, Any], value: Any, time: int | None
) -> None:
    schema = read_schema({"type": "struct", "fields": [{"field": "t", "optional": True, **kind}]})

    assert times(field(), run_of(Objects([{"t": value}]), schema)) == [time]


def test_nested_missing_and_fieldless_values() -> None:
    assert times(field("a.t"), schemaless({"a": {"t": 5}}, {"a": None}, {"a": 5}, {}, 7, "2024")) == [
        5,
        None,
        None,
        None,
        None,
        None,
    ]
    assert times(field(), run_of(Plain(pa.array(["x"])), ConnectSchema(SchemaType.STRING))) == [None]


def test_a_field_without_a_time_kills_the_original() -> None:
    assert [failure.stops_original for failure in field().extract(schemaless({}), NOW).failures] == [True]
