"""However Avro payloads are decoded, in columns or one by one, the records, values, failures and bodies are the same."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.converters.avro import FEW, AvroPayloads
from kafka_s3.converters.avro_columns import columns_of
from kafka_s3.converters.payload import Payloads
from kafka_s3.records.avro_bodies import AvroBodies
from kafka_s3.schemas.arrow import arrow_table, python_rows
from kafka_s3.schemas.avro_types import AvroOptions
from kafka_s3.schemas.avro_values import measuring_decoder
from kafka_s3.schemas.connect import SchemaError
from kafka_s3.schemas.registered import Language, RegisteredSchema
from tests.support.examples import examples

Typed = tuple[Any, st.SearchStrategy[Any]]
"""An Avro type and its data, as fastavro takes them."""
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SCALARS: list[Typed] = [
    ("long", LONG),
    ("int", INT),
    ("string", st.text(max_size=6)),
    ("bytes", st.binary(max_size=6)),
    ("double", st.floats()),
    ("float", st.floats(width=32)),
    ("boolean", st.booleans()),
    ({"type": "int", "logicalType": "date"}, INT),
    ({"type": "int", "logicalType": "time-millis"}, INT),
    ({"type": "long", "logicalType": "timestamp-millis"}, LONG),
]


def record(names: Iterator[int], members: list[Typed]) -> Typed:
    fields = [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(members)]
    data = st.fixed_dictionaries({f"f{number}": datum for number, (_, datum) in enumerate(members)})
    return {"type": "record", "name": f"R{next(names)}", "fields": fields}, data


def enum(names: Iterator[int]) -> Typed:
    symbols = ["RED", "GREEN", "BLUE"]
    return {"type": "enum", "name": f"E{next(names)}", "symbols": symbols}, st.sampled_from(symbols)


@st.composite
def types(draw: st.DrawFn, names: Iterator[int], depth: int) -> Typed:
    shape = draw(st.sampled_from(["scalar"] * 4 + ["enum"] + (["array", "record"] if depth else [])))
    match shape:
        case "enum":
            kind, datum = enum(names)
        case "array":
            item, data = draw(types(names, depth - 1))
            kind, datum = {"type": "array", "items": item}, st.lists(data, max_size=3)
        case "record":
            kind, datum = record(names, draw(st.lists(types(names, depth - 1), min_size=1, max_size=3)))
        case _:
            kind, datum = draw(st.sampled_from(SCALARS))
    if draw(st.booleans()):
        return ["null", kind] if draw(st.booleans()) else [kind, "null"], st.none() | datum
    return kind, datum


@st.composite
def records(draw: st.DrawFn, *, depth: int = 2) -> Typed:
    names = count()
    return record(names, draw(st.lists(types(names, depth), min_size=1, max_size=5)))


def plain(avro: Any) -> Any:
    """Without logical types, for which fastavro wants objects of its own."""
    if isinstance(avro, list):
        return [plain(one) for one in avro]
    if not isinstance(avro, dict):
        return avro
    if avro["type"] == "record":
        return {**avro, "fields": [{**field, "type": plain(field["type"])} for field in avro["fields"]]}
    if avro["type"] == "array":
        return {**avro, "items": plain(avro["items"])}
    return {key: value for key, value in avro.items() if key != "logicalType"}


def encoded(avro: Any, data: list[Any]) -> list[bytes]:
    schema, out = fastavro.parse_schema(plain(avro)), []
    for datum in data:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, datum)
        out.append(stream.getvalue())
    return out


def decoder(avro: Any, **options: bool) -> AvroPayloads:
    return AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(avro)), AvroOptions(**options), version=1)


def same(one: Any, other: Any) -> bool:
    """Equal, types included; NaN equals itself."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def one_by_one(avro: Any, payloads: list[bytes]) -> tuple[list[int], list[Any], list[bytes]]:
    """The positions, values and bodies of good payloads, by the plain decoder."""
    made = decoder(avro)
    read = measuring_decoder(made._writer, made.schema)
    rows, values, bodies = [], [], []
    for row, payload in enumerate(payloads):
        try:
            value, length = read(payload)
        except (SchemaError, ValueError, OverflowError):
            continue
        rows.append(row)
        values.append(value)
        bodies.append(payload[:length])
    return rows, values, bodies


def check(avro: Any, payloads: list[bytes], found: Payloads) -> None:
    rows, values, bodies = one_by_one(avro, payloads)
    assert found.rows.tolist() == rows
    assert isinstance(found.values, AvroBodies)
    assert same(found.values.objects(), values)
    assert found.values.bodies.to_pylist() == bodies
    assert [row for row, _ in found.failures] == [row for row in range(len(payloads)) if row not in rows]
    assert all(text for _, text in found.failures)


@settings(max_examples=examples(80))
@given(st.data())
def test_columns_hold_the_values_that_are_read_one_by_one(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    payloads = encoded(avro, data.draw(st.lists(datum, min_size=1, max_size=8)))
    found = decoder(avro).decode(pa.array(payloads, pa.binary()))

    assert isinstance(found.values, AvroBodies)
    assert found.values.table is not None
    assert columns_of(avro, decoder(avro).schema).read(pa.array(payloads, pa.binary())) is not None  # type: ignore[union-attr, arg-type]
    check(avro, payloads, found)


@settings(max_examples=examples(40))
@given(st.data())
def test_columns_are_written_as_parquet_like_the_values(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    made = decoder(avro)
    values = made.decode(
        pa.array(encoded(avro, data.draw(st.lists(datum, min_size=1, max_size=8))), pa.binary())
    ).values
    assert isinstance(values, AvroBodies)
    assert made.schema is not None
    assert values.table is not None
    columns, written = [values.table, arrow_table(values.objects(), made.schema)], []
    for table in columns:
        stream = io.BytesIO()
        pq.write_table(table, stream)
        written.append(pq.read_table(stream))

    assert written[0].schema == written[1].schema
    assert same(python_rows(written[0]), python_rows(written[1]))


@st.composite
def damaged(draw: st.DrawFn, payload: bytes, others: list[bytes]) -> bytes:
    """A payload as something unfriendly leaves it."""
    match draw(st.sampled_from(["cut", "tail", "joined", "none", "random"])):
        case "cut":
            return payload[: draw(st.integers(0, max(len(payload) - 1, 0)))]
        case "tail":
            return payload + draw(st.binary(min_size=1, max_size=5))
        case "joined":
            return payload + draw(st.sampled_from(others))
        case "random":
            return draw(st.binary(max_size=12))
    return b""


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(60))
@given(st.data())
def test_damaged_payloads_fail_exactly_where_the_plain_decoder_refuses_them(data: st.DataObject) -> None:
    avro, datum = data.draw(records(depth=1))
    some = encoded(avro, data.draw(st.lists(datum, min_size=2, max_size=5)))
    payloads = [some[number % len(some)] for number in range(FEW * 2 + 7)]
    for row in data.draw(st.lists(st.integers(0, len(payloads) - 1), min_size=1, max_size=3, unique=True)):
        payloads[row] = data.draw(damaged(payloads[row], some))

    check(avro, payloads, decoder(avro).decode(pa.array(payloads, pa.binary())))


FLAT = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "i", "type": ["null", "int"]},
        {"name": "s", "type": ["string", "null"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "d", "type": "double"},
    ],
}
GOOD = encoded(FLAT, [{"n": n, "i": n if n % 2 else None, "s": f"s{n}", "e": "AB"[n % 2], "l": [None, "x"], "d": n / 4}
                      for n in range(300)])  # fmt: skip


@pytest.mark.parametrize("place", range(12))
def test_every_changed_byte_is_seen_as_the_plain_decoder_sees_it(place: int) -> None:
    body, payloads = GOOD[1], []
    for value in range(256):
        changed = bytearray(body)
        changed[place % len(body)] = value
        payloads.append(bytes(changed))

    check(FLAT, payloads, decoder(FLAT).decode(pa.array(payloads, pa.binary())))


def test_a_bad_payload_among_many_costs_its_neighbours_nothing() -> None:
    payloads = [*GOOD[:150], b"\xff", *GOOD[150:]]
    found = decoder(FLAT).decode(pa.array(payloads, pa.binary()))

    assert [row for row, _ in found.failures] == [150]
    assert isinstance(found.values, AvroBodies)
    assert found.values.table is not None
    check(FLAT, payloads, found)


def test_bytes_after_the_datum_are_ignored_and_not_passed_on() -> None:
    payloads = [body + b"\x00\x01" if number % 100 == 7 else body for number, body in enumerate(GOOD)]
    found = decoder(FLAT).decode(pa.array(payloads, pa.binary()))

    assert found.failures == []
    assert isinstance(found.values, AvroBodies)
    assert found.values.bodies.to_pylist() == GOOD


@pytest.mark.parametrize(("start", "stop"), [(0, 300), (1, 2), (17, 211), (299, 300), (5, 5)])
def test_a_slice_of_an_array_is_read_where_it_begins(start: int, stop: int) -> None:
    whole = pa.array([b"in front", *GOOD], pa.binary()).slice(1)

    check(FLAT, GOOD[start:stop], decoder(FLAT).decode(whole.slice(start, stop - start)))


def test_positions_and_slices_of_bodies_keep_values_columns_and_bytes_together() -> None:
    values = decoder(FLAT).decode(pa.array(GOOD, pa.binary())).values
    for part in (values.slice(10, 13), values.take(np.array([10, 11, 12])), values.slice(5, 50).slice(5, 8)):
        assert isinstance(part, AvroBodies)
        assert [row["n"] for row in part.objects()] == [10, 11, 12]
        assert part.bodies.to_pylist() == GOOD[10:13]
        assert pa.array(part.column(["s"])).to_pylist() == ["s10", "s11", "s12"]
        assert len(part) == 3
        assert part.nbytes() > 0


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "long"},
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        ["null", "long", "string"],
        {"type": "int", "connect.type": "int8"},
        {"type": "record", "name": "Empty", "fields": []},
    ],
)
def test_types_that_columns_cannot_hold_exactly_are_read_one_by_one(kind: Any) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}

    assert columns_of(avro, decoder(avro).schema) is None  # type: ignore[arg-type]


def test_a_small_int_beyond_its_type_wraps_around_as_in_the_original() -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "f", "type": {"type": "int", "connect.type": "int8"}}]}

    assert decoder(avro).decode(pa.array([b"\xd8\x04"], pa.binary())).values.objects() == [{"f": 44}]


def test_a_null_with_a_default_is_the_same_on_both_paths() -> None:
    defaulted = {"type": "string", "connect.default": "x"}
    for kind in (["null", defaulted], [defaulted, "null"], ["string", "null"]):
        field = {"name": "f", "type": kind} | ({"default": "x"} if kind[0] == "string" else {})
        avro = {"type": "record", "name": "R", "fields": [field, {"name": "g", "type": "long"}]}
        payloads = encoded(avro, [{"f": None, "g": 1}, {"f": "y", "g": 2}])
        check(avro, payloads, decoder(avro).decode(pa.array(payloads, pa.binary())))


@pytest.mark.parametrize("avro", ["bytes", {"type": "bytes"}])
def test_a_plain_bytes_schema_takes_the_payload_as_it_is(avro: Any) -> None:
    found = decoder(avro).decode(pa.array([b"\x04ab", b""], pa.binary()))

    assert found.values.objects() == [b"\x04ab", b""]


@pytest.mark.parametrize(
    "avro", ["string", "long", {"type": "array", "items": "long"}, {"type": "map", "values": "string"}]
)
def test_values_that_are_no_records_are_read_one_by_one(avro: Any) -> None:
    data = (
        {"string": "ä", "long": -7}.get(avro)
        if isinstance(avro, str)
        else [1, 2]
        if avro["type"] == "array"
        else {"a": "b"}
    )
    payloads = [*encoded(avro, [data]), b""]

    check(avro, payloads, decoder(avro).decode(pa.array(payloads, pa.binary())))


def test_a_recursive_schema_is_refused_when_the_decoder_is_made() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}

    with pytest.raises(SchemaError, match="contains itself"):
        decoder(node)
