"""Records get their time as the original's extractors give it (SEMANTICS A5)."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Objects, Plain
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.engine.task.partitioning.timestamps import (
    Plausible,
    RecordField,
    RecordTimestamp,
    TimestampExtractor,
    TimeUnit,
    Wallclock,
)
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
        (pa.array(["1970-01-01T00:00:01.5Z", "oops", "1970-01-01T00:00:02Z"]), [1500, None, 2000]),
        (pa.array([None, "1970-01-01T00:00:01Z", "1970-01-01T01:00:01+01:00"]), [None, 1000, 1000]),
        (pa.array(["1970-01-01T00:00:01Z", "1970-02-30T00:00:01Z", "1970-01-01"]), [1000, None, 0]),
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
        ({"type": "int64", "name": "io.debezium.time.Timestamp"}, 5, 5),
        ({"type": "int32", "name": "a title"}, 5, 5),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "1970-01-01T00:00:01Z", 1000),
        ({"type": "int16"}, 5, None),
        ({"type": "double"}, 5.0, None),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, 5, None),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, 5, None),
        ({"type": "bytes"}, b"5", None),
        ({"type": "int64"}, None, None),
    ],
)
def test_a_field_with_a_schema_must_be_an_integer_of_whatever_name_a_timestamp_or_text(
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


AT = 1_705_312_800_123


@pytest.mark.parametrize(
    ("unit", "number", "time"),
    [
        ("s", 1705312800, 1705312800000), ("s", 1705312800.123, AT), ("s", -1, -1000), ("s", 2**62, None),
        ("us", 1705312800123456, AT), ("us", -1, -1), ("ns", 1705312800123456789, AT), ("ms", AT, AT),
        ("auto", 1705312800, 1705312800000), ("auto", AT, AT), ("auto", 1705312800123456, AT), ("auto", 1705312800123456789, AT),
        ("auto", 0, None), ("auto", 100_000_000_000, None), ("auto", -1705312800, None), ("auto", 2**63, None),
    ],
)  # fmt: skip
def test_numbers_count_in_the_unit_that_is_asked_for_whatever_holds_them(
    unit: str, number: float, time: int | None
) -> None:
    extractor = RecordField(["t"], default_zone=UTC, unit=TimeUnit(unit))
    assert times(extractor, schemaless({"t": number})) == [time]
    if isinstance(number, int) and number < 2**63:
        names = (None, "io.debezium.time.MicroTimestamp")
        kinds = [
            read_schema({"type": "struct", "fields": [{"field": "t", "type": "int64", "name": name}]}) for name in names
        ]
        runs = [run_of(Objects([{"t": number}]), kind) for kind in kinds]
        for run in (schemaless({"t": str(number)}), *runs, columns([number])):
            assert times(extractor, run) == [time]


def columns(numbers: list[int]) -> Run:
    return run_of(JsonText(pa.array([b"{}"] * len(numbers)), pa.table({"t": pa.array(numbers, pa.int64())})))


def test_a_unit_is_for_plain_numbers_and_not_for_timestamps_with_a_schema() -> None:
    stamp = {"field": "t", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
    run = run_of(Objects([{"t": AT}]), read_schema({"type": "struct", "fields": [stamp]}))
    assert times(RecordField(["t"], default_zone=UTC, unit=TimeUnit.S), run) == [AT]


def test_a_format_reads_every_text_also_digits() -> None:
    extractor = RecordField(["t"], default_zone=UTC, pattern=SimpleDates("yyyyMMdd HH:mm:ssX", now_ms=NOW))
    days = RecordField(["t"], default_zone=UTC, pattern=SimpleDates("yyyyMMdd", now_ms=NOW))

    assert times(extractor, schemaless({"t": "20240115 12:00:00+02"}, {"t": "20240115"})) == [1705312800000, None]
    assert times(days, schemaless({"t": "20240115"}, {"t": AT})) == [1705276800000, AT]


def test_a_time_that_nobody_means_is_reported_once_or_rejected(caplog: pytest.LogCaptureFixture) -> None:
    run = schemaless({"t": 1705312800}, {"t": AT}, {"t": 1705312801})
    warns, rejects = (Plausible(field(), rejects=rejects) for rejects in (False, True))

    assert times(warns, run) == times(warns, run) == [1705312800, AT, 1705312801]
    assert [message.count("1970-01-20T17:41:52.800Z") for message in caplog.messages] == [1]
    assert times(rejects, run) == [None, AT, None]
    assert "timestamp.field.unit" in rejects.extract(run, NOW).failures[0].message
    assert Plausible(field(), rejects=True).extract(schemaless({"t": AT}), NOW).failures == []
