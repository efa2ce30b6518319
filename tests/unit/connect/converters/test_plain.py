"""The converters of single values: every length and every byte is either a value or a failure, in order."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.plain import BYTES, NUMBERS, STRING, ByteArrayConverter, Numbers, Strings
from kafka_s3.model.dead_letters import Stage
from kafka_s3.objects.text import json_format
from tests.support.examples import examples

CODES = {"short": ">h", "integer": ">i", "long": ">q", "float": ">f", "double": ">d"}


def batch(values: list[bytes | None], *, first: int = 100, in_front: int = 0) -> KafkaBatch:
    """Offsets with a gap after each; `in_front` more values before the slice begins."""
    count = len(values)
    array = pa.array([b"????"] * in_front + values, pa.binary()).slice(in_front)
    return KafkaBatch(np.arange(count) * 2 + first, np.arange(count) + 5_000, array)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("short", -(2**15)),
        ("integer", 2**31 - 1),
        ("integer", -1),
        ("long", -(2**63)),
        ("long", 2**63 - 1),
        ("float", 1.5),
        ("double", -0.1),
        ("double", math.inf),
    ],
)
def test_numbers_are_big_endian(name: str, value: Any) -> None:
    (run,) = Numbers(name).decode(batch([struct.pack(CODES[name], value)])).runs

    assert run.values.objects() == [value]
    assert (run.schema is not None, run.schema and run.schema.kind, run.schema and run.schema.optional) == (
        True, NUMBERS[name][0], True,
    )  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=examples(25))
@given(values=st.lists(st.none() | st.binary(max_size=9), max_size=30), in_front=st.integers(0, 3))
def test_each_offset_is_a_value_a_failure_or_a_null(name: str, values: list[bytes | None], in_front: int) -> None:
    size = {"short": 2, "boolean": 1}.get(name, 4 if name in ("integer", "float") else 8)
    fits = [v is not None and len(v) == size and (name != "boolean" or v in (b"\0", b"\1")) for v in values]
    decoded = Numbers(name).decode(batch(values, in_front=in_front))
    offsets = [100 + 2 * row for row in range(len(values))]

    assert [int(o) for run in decoded.runs for o in run.offsets] == [
        o for o, ok in zip(offsets, fits, strict=True) if ok
    ]
    assert decoded.nulls == [o for o, v in zip(offsets, values, strict=True) if v is None]
    assert [f.offset for f in decoded.failures] == [
        o for o, v, ok in zip(offsets, values, fits, strict=True) if v is not None and not ok
    ]
    for run in decoded.runs:
        assert [int(time) - 5_000 for time in run.timestamps] == [row for row, ok in enumerate(fits) if ok]
        expected = [
            raw == b"\1" if name == "boolean" else struct.unpack(CODES[name], raw)[0]
            for raw, ok in zip(values, fits, strict=True)
            if ok and raw is not None
        ]
        assert repr(run.values.objects()) == repr(expected)


def test_a_failure_names_the_stage_the_converter_and_the_length_that_it_takes() -> None:
    (failure,) = Numbers("integer").decode(batch([b"abc"])).failures

    assert (failure.offset, failure.stage) == (100, Stage.VALUE_CONVERTER)
    assert failure.component == "org.apache.kafka.connect.converters.IntegerConverter"
    assert "4 byte" in failure.message


def test_a_boolean_that_is_neither_0_nor_1_fails_and_its_neighbours_do_not() -> None:
    decoded = Numbers("boolean").decode(batch([b"\1", b"\2", b"\0", b"\xff"]))

    assert decoded.runs[0].values.objects() == [True, False]
    assert [failure.offset for failure in decoded.failures] == [102, 106]


@pytest.mark.parametrize(
    ("name", "raw", "line"),
    [
        ("long", [struct.pack(">q", -5), struct.pack(">q", 7)], b"-5\n7\n"),
        ("boolean", [b"\1", b"\0"], b"true\nfalse\n"),
        ("float", [struct.pack(">f", 0.1)], b"0.1\n"),
        ("double", [struct.pack(">d", math.nan), struct.pack(">d", -math.inf)], b'"NaN"\n"-Infinity"\n'),
    ],
)
def test_numbers_are_written_as_json_scalars(name: str, raw: list[bytes], line: bytes) -> None:
    (run,) = Numbers(name).decode(batch(list(raw))).runs
    encoder = json_format(gzip_level=None, decimals="BASE64").open(run.schema)
    encoder.append(run.values)
    encoder.finish()

    assert encoder.take() == line


@given(st.lists(st.none() | st.binary(max_size=6), max_size=12))
def test_the_string_converter_takes_any_bytes(values: list[bytes | None]) -> None:
    decoded = Strings().decode(batch(values))
    known = [value for value in values if value is not None]

    assert decoded.failures == []
    assert [text for run in decoded.runs for text in run.values.objects()] == [
        v.decode("utf-8", "replace") for v in known
    ]
    assert len(decoded.nulls) == len(values) - len(known)
    assert all(run.schema == STRING for run in decoded.runs)


@given(st.lists(st.none() | st.binary(max_size=6), max_size=12))
def test_the_byte_array_converter_leaves_bytes_as_they_are(values: list[bytes | None]) -> None:
    decoded = ByteArrayConverter().decode(batch(values))

    assert [raw for run in decoded.runs for raw in run.values.objects()] == [v for v in values if v is not None]
    assert all(run.schema == BYTES for run in decoded.runs)
