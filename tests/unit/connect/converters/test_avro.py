"""Are the columns of Avro payloads those of the values, and which steps walk them?"""

from __future__ import annotations

import io
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters import avro_loops as loops
from kafka_s3.connect.converters.avro import AvroColumns, AvroPayloads, Program, Step, columns_for
from kafka_s3.connect.converters.avro_loops import ARRAY, BRANCH, ITEM, LONG, NONE, RECORD, STRING, UNION
from kafka_s3.connect.converters.converter import Payloads
from kafka_s3.connect.records.values import AvroBodies
from kafka_s3.connect.schemas.arrow import arrow_table, python_rows
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions, read_types
from kafka_s3.connect.schemas.avro_values import Datum, long_bytes, measuring_decoder
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from tests.support.examples import examples

Typed = tuple[Any, st.SearchStrategy[Any]]
"""An Avro type and its data, as fastavro takes them."""
LONGS = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SCALARS: list[Typed] = [
    ("long", LONGS),
    ("int", INT),
    ("string", st.text(max_size=6)),
    ("bytes", st.binary(max_size=6)),
    ("double", st.floats()),
    ("float", st.floats(width=32)),
    ("boolean", st.booleans()),
    ({"type": "int", "logicalType": "date"}, INT),
    ({"type": "int", "logicalType": "time-millis"}, INT),
    ({"type": "long", "logicalType": "timestamp-millis"}, LONGS),
]


def record(names: Iterator[int], members: list[Typed]) -> Typed:
    fields = [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(members)]
    data = st.fixed_dictionaries({f"f{number}": datum for number, (_, datum) in enumerate(members)})
    return {"type": "record", "name": f"R{next(names)}", "fields": fields}, data


def enum(names: Iterator[int]) -> Typed:
    symbols = ["RED", "GREEN", "BLUE"]
    return {"type": "enum", "name": f"E{next(names)}", "symbols": symbols}, st.sampled_from(symbols)


def entries(names: Iterator[int], value: Typed) -> Typed:
    """A map whose keys are no strings, as Connect writes it."""
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value[0]}]
    entry = {"type": "record", "name": f"M{next(names)}", "connect.internal.type": "MapEntry", "fields": fields}
    return {"type": "array", "items": entry}, st.lists(
        st.fixed_dictionaries({"key": INT, "value": value[1]}), max_size=3
    )


def label(kind: Any) -> str:
    """What tells a branch of a union from others."""
    return kind.get("name", kind["type"]) if isinstance(kind, dict) else str(kind)


def union(branches: list[Typed]) -> Typed:
    """Several types, with data that name theirs."""
    kinds = {label(kind): (kind, datum) for kind, datum in branches}
    data = [datum.map(lambda value, name=name: (name, value)) for name, (_, datum) in kinds.items()]  # type: ignore[misc]
    return [kind for kind, _ in kinds.values()], st.one_of(data)


@st.composite
def bare(draw: st.DrawFn, names: Iterator[int], depth: int) -> Typed:
    deep = ["array", "array", "record", "record", "map", "entries", "union"] if depth else []
    shape = draw(st.sampled_from(["scalar"] * 4 + ["enum", "fixed", *deep]))
    match shape:
        case "enum":
            return enum(names)
        case "fixed":
            return {"type": "fixed", "name": f"F{next(names)}", "size": 3}, st.binary(min_size=3, max_size=3)
        case "array":
            item, data = draw(types(names, depth - 1))
            return {"type": "array", "items": item}, st.lists(data, max_size=3)
        case "map":
            item, data = draw(types(names, depth - 1))
            return {"type": "map", "values": item}, st.dictionaries(st.text(max_size=3), data, max_size=3)
        case "entries":
            return entries(names, draw(types(names, depth - 1)))
        case "record":
            return record(names, draw(st.lists(types(names, depth - 1), min_size=1, max_size=3)))
        case "union":
            members = st.lists(
                bare(names, depth - 1).filter(lambda one: not isinstance(one[0], list)), min_size=2, max_size=3
            )
            return union(draw(members))
    return draw(st.sampled_from(SCALARS))


@st.composite
def types(draw: st.DrawFn, names: Iterator[int], depth: int) -> Typed:
    kind, datum = draw(bare(names, depth))
    if draw(st.booleans()):
        branches = kind if isinstance(kind, list) else [kind]
        place = draw(st.integers(0, len(branches)))
        return [*branches[:place], "null", *branches[place:]], st.none() | datum
    return kind, datum


@st.composite
def records(draw: st.DrawFn, *, depth: int = 2) -> Typed:
    names = count()
    return record(names, draw(st.lists(types(names, depth), min_size=1, max_size=5)))


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    return bytes(long_bytes(number))


Draw = Callable[[st.SearchStrategy[Any]], Any]


def in_blocks(items: list[bytes], draw: Draw) -> bytes:
    """The items of an array in blocks of any number, some with their lengths in bytes before them: every form that Avro allows."""
    out = b""
    while items:
        size = draw(st.integers(1, len(items)))
        block, items = b"".join(items[:size]), items[size:]
        out += (long(-size) + long(len(block)) if draw(st.booleans()) else long(size)) + block
    return out + b"\0"


def in_one_block(items: list[bytes]) -> bytes:
    return (long(len(items)) + b"".join(items) if items else b"") + b"\0"


Blocks = Callable[[list[bytes]], bytes]


def body(avro: Any, datum: Any, blocks: Blocks = in_one_block) -> bytes:
    """A datum in Avro's binary form; of a union of several types it is a pair of a label and the value."""
    if isinstance(avro, list):
        labels = [label(kind) for kind in avro]
        name, value = datum if isinstance(datum, tuple) else (None, datum)
        name = "null" if value is None else name or next(one for one in labels if one != "null")
        index = labels.index(name)
        return long(index) + body(avro[index], value, blocks)
    match avro["type"] if isinstance(avro, dict) else avro:
        case "record":
            return b"".join(body(field["type"], datum[field["name"]], blocks) for field in avro["fields"])
        case "array":
            return blocks([body(avro["items"], item, blocks) for item in datum])
        case "map":
            pairs = datum.items()
            return blocks([body("string", key) + body(avro["values"], value, blocks) for key, value in pairs])
        case kind:
            stream = io.BytesIO()
            # without the logical type, for which fastavro wants an object of its own
            fastavro.schemaless_writer(stream, avro if kind in ("enum", "fixed") else kind, datum)
            return stream.getvalue()


def encoded(avro: Any, data: list[Any], blocks: Blocks = in_one_block) -> list[bytes]:
    return [body(avro, datum, blocks) for datum in data]


def decoder(avro: Any, **options: bool) -> AvroPayloads:
    return AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(avro)), AvroOptions(**options), version=1)


def columns(avro: Any, names: frozenset[str] | None = None) -> AvroColumns:
    """What reads the schema in columns, all fields or those of these names."""
    schema = decoder(avro).schema
    assert schema is not None
    found = columns_for(avro, schema, names)
    assert found is not None
    return found


def same(one: Any, other: Any) -> bool:
    """Equal, types included; NaN equals itself."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def one_by_one(avro: Any, payloads: list[bytes]) -> tuple[list[int], list[Any], list[bytes]]:
    """The positions, values and bodies of good payloads, by the plain decoder."""
    made = decoder(avro)
    read = measuring_decoder(made._writer, made.schema)
    rows, values, bodies = [], [], []
    for row, payload in enumerate(map(Datum.of, payloads)):
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
    found = decoder(avro).decode_payloads(pa.array(payloads, pa.binary()))

    assert isinstance(found.values, AvroBodies)
    assert found.values.table is not None
    assert columns(avro).read(pa.array(payloads, pa.binary()))[1].all()
    check(avro, payloads, found)


@settings(max_examples=examples(40))
@given(st.data())
def test_arrays_in_blocks_of_any_form_are_columns(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    payloads = encoded(avro, data.draw(st.lists(datum, min_size=1, max_size=5)), partial(in_blocks, draw=data.draw))

    plain = json.loads(json.dumps(avro).replace("logicalType", "meant"))  # fastavro refuses dates before the year 1
    for payload in payloads:
        stream = io.BytesIO(payload)
        fastavro.schemaless_reader(stream, plain, None)
        assert stream.read() == b""
    assert columns(avro).read(pa.array(payloads, pa.binary()))[1].all()
    check(avro, payloads, decoder(avro).decode_payloads(pa.array(payloads, pa.binary())))


@settings(max_examples=examples(40))
@given(st.data())
def test_some_fields_are_as_among_all(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    payloads = pa.array(encoded(avro, data.draw(st.lists(datum, min_size=1, max_size=8))), pa.binary())
    names = [field["name"] for field in avro["fields"] if data.draw(st.booleans())]
    whole, _ = columns(avro).read(payloads)
    some, passed = columns(avro, frozenset(names)).read(payloads)

    assert passed.all()
    assert some.num_rows == len(payloads)
    assert same(python_rows(some), python_rows(whole.select(names)))


@settings(max_examples=examples(40))
@given(st.data())
def test_columns_are_written_as_parquet_like_the_values(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    made = decoder(avro)
    values = made.decode_payloads(
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
    match draw(st.sampled_from(["cut", "tail", "joined", "none", "random", "changed"])):
        case "cut":
            return payload[: draw(st.integers(0, max(len(payload) - 1, 0)))]
        case "tail":
            return payload + draw(st.binary(min_size=1, max_size=5))
        case "joined":
            return payload + draw(st.sampled_from(others))
        case "random":
            return draw(st.binary(max_size=12))
        case "changed" if payload:
            place = draw(st.integers(0, len(payload) - 1))
            return payload[:place] + draw(st.binary(min_size=1, max_size=2)) + payload[place + 1 :]
    return b""


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(60))
@given(st.data())
def test_damaged_payloads_fail_exactly_where_the_plain_decoder_refuses_them(data: st.DataObject) -> None:
    avro, datum = data.draw(records())
    some = encoded(avro, data.draw(st.lists(datum, min_size=2, max_size=5)))
    payloads = [some[number % len(some)] for number in range(35)]
    for row in data.draw(st.lists(st.integers(0, len(payloads) - 1), min_size=1, max_size=3, unique=True)):
        payloads[row] = data.draw(damaged(payloads[row], some))

    check(avro, payloads, decoder(avro).decode_payloads(pa.array(payloads, pa.binary())))


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

    check(FLAT, payloads, decoder(FLAT).decode_payloads(pa.array(payloads, pa.binary())))


def test_a_bad_payload_among_many_costs_its_neighbours_nothing() -> None:
    payloads = [*GOOD[:150], b"\xff", *GOOD[150:]]
    found = decoder(FLAT).decode_payloads(pa.array(payloads, pa.binary()))

    assert [row for row, _ in found.failures] == [150]
    assert isinstance(found.values, AvroBodies)
    assert found.values.table is not None
    check(FLAT, payloads, found)


def test_payloads_that_do_not_pass_are_distinguished_from_their_neighbours() -> None:
    latin, beyond = GOOD[7].replace(b"s7", b"s\xe4"), GOOD[9].replace(long(9), long(2**31), 2)
    payloads = [*GOOD[:5], GOOD[5][:-1], GOOD[6] + b"\0", latin, GOOD[8], b"", beyond, GOOD[10]]
    table, passed = columns(FLAT).read(pa.array(payloads, pa.binary()))

    assert passed.tolist() == [True] * 5 + [False] * 3 + [True, False, False, True]
    assert table.column("n").to_pylist() == [0, 1, 2, 3, 4, 8, 10]
    check(FLAT, payloads, decoder(FLAT).decode_payloads(pa.array(payloads, pa.binary())))


@pytest.mark.parametrize("names", [frozenset(), frozenset({"n"}), frozenset({"l", "d"})])
def test_some_fields_are_there_of_payloads_that_were_read_by_themselves(names: frozenset[str]) -> None:
    payloads = [GOOD[0], GOOD[1] + b"\0", b"\xff", GOOD[2]]
    made = AvroPayloads(RegisteredSchema(Language.AVRO, json.dumps(FLAT)), AvroOptions(), version=1, fields=names)
    found = made.decode_payloads(pa.array(payloads, pa.binary()))

    assert isinstance(found.values, AvroBodies)
    assert found.values.some is not None
    assert set(found.values.some.column_names) == names
    assert [pa.array(found.values.column([name])).to_pylist() for name in ("n", "d")] == [[0, 1, 2], [0.0, 0.25, 0.5]]
    check(FLAT, payloads, found)


TREES = {
    "type": "record",
    "name": "Trees",
    "fields": [
        {"name": "a", "type": {"type": "array", "items": {"type": "array", "items": ["null", "int"]}}},
        {"name": "b", "type": {"type": "map", "values": "string"}},
    ],
}


def test_a_payload_may_hold_more_items_than_there_are_payloads() -> None:
    data = [
        {"a": [list(range(many)), [], [None] * many] * 3, "b": {str(key): "x" * many for key in range(many)}}
        for many in (0, 1, 70, 3, 1000)
    ]
    payloads = [*encoded(TREES, data), b"\x02"]

    check(TREES, payloads, decoder(TREES).decode_payloads(pa.array(payloads, pa.binary())))


@pytest.mark.parametrize("count", [2**20, 2**62, -(2**20), -(2**63), 2**63 - 1])
def test_room_is_made_for_what_is_there_not_for_what_a_count_says(count: int) -> None:
    sizes = long(1) if count < 0 else b""
    payloads = [long(count) + sizes + b"\0", b"\x02" + long(count) + sizes + b"\0\0", b"\0\0"]
    reader = columns(TREES)
    tracemalloc.start()
    _, passed = reader.read(pa.array(payloads, pa.binary()))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert passed.tolist() == [False, False, True]
    assert most < 100_000
    check(TREES, payloads, decoder(TREES).decode_payloads(pa.array(payloads, pa.binary())))


def test_an_enum_without_symbols_may_be_null() -> None:
    nothing = {"type": "enum", "name": "E", "symbols": []}
    inner = {"type": "record", "name": "I", "fields": [{"name": "e", "type": nothing}]}
    avro = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "i", "type": ["null", inner]}, {"name": "n", "type": ["null", "E"]}],
    }
    payloads = [b"\0\0", b"\x02\0\0", b"\0\x02\0"]

    check(avro, payloads, decoder(avro).decode_payloads(pa.array(payloads, pa.binary())))


def test_bytes_after_the_datum_are_ignored_and_not_passed_on() -> None:
    payloads = [body + b"\x00\x01" if number % 100 == 7 else body for number, body in enumerate(GOOD)]
    found = decoder(FLAT).decode_payloads(pa.array(payloads, pa.binary()))

    assert found.failures == []
    assert isinstance(found.values, AvroBodies)
    assert found.values.bodies.to_pylist() == GOOD


@pytest.mark.parametrize(("start", "stop"), [(0, 300), (1, 2), (17, 211), (299, 300), (5, 5)])
def test_a_slice_of_an_array_is_read_where_it_begins(start: int, stop: int) -> None:
    whole = pa.array([b"in front", *GOOD], pa.binary()).slice(1)

    check(FLAT, GOOD[start:stop], decoder(FLAT).decode_payloads(whole.slice(start, stop - start)))


def test_positions_and_slices_of_bodies_keep_values_columns_and_bytes_together() -> None:
    values = decoder(FLAT).decode_payloads(pa.array(GOOD, pa.binary())).values
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
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "string", "connect.name": "org.apache.kafka.connect.data.Timestamp"},
        {"type": "int", "connect.type": "int8"},
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}},
        ["null"],
        entries(count(), ("long", LONGS))[0]
        | {
            "items": {
                "type": "record",
                "name": "M",
                "connect.internal.type": "MapEntry",
                "fields": [{"name": "key", "type": ["null", "int"]}, {"name": "value", "type": "long"}],
            }
        },
    ],
)
def test_types_that_columns_cannot_hold_exactly_are_read_one_by_one(kind: Any) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}

    assert columns_for(avro, decoder(avro).schema) is None  # type: ignore[arg-type]


def test_a_small_int_beyond_its_type_wraps_around_as_in_the_original() -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "f", "type": {"type": "int", "connect.type": "int8"}}]}

    assert decoder(avro).decode_payloads(pa.array([b"\xd8\x04"], pa.binary())).values.objects() == [{"f": 44}]


def test_a_null_with_a_default_is_the_same_on_both_paths() -> None:
    defaulted = {"type": "string", "connect.default": "x"}
    for kind in (["null", defaulted], [defaulted, "null"], ["string", "null"]):
        field = {"name": "f", "type": kind} | ({"default": "x"} if kind[0] == "string" else {})
        avro = {"type": "record", "name": "R", "fields": [field, {"name": "g", "type": "long"}]}
        payloads = encoded(avro, [{"f": None, "g": 1}, {"f": "y", "g": 2}])
        check(avro, payloads, decoder(avro).decode_payloads(pa.array(payloads, pa.binary())))


@pytest.mark.parametrize("avro", ["bytes", {"type": "bytes"}])
def test_a_plain_bytes_schema_takes_the_payload_as_it_is(avro: Any) -> None:
    found = decoder(avro).decode_payloads(pa.array([b"\x04ab", b""], pa.binary()))

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

    check(avro, payloads, decoder(avro).decode_payloads(pa.array(payloads, pa.binary())))


def program(*fields: tuple[str, Any], names: frozenset[str] | None = None) -> Program:
    avro = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    schema = connect_schema_of_avro(avro, options=AvroOptions())
    assert schema is not None
    return Program(read_types(avro), schema, names)


def cells(line: str) -> list[str]:
    """A line of the docstring's table, whose columns are four to eight wide."""
    widths, found = (6, 8, 6, 8, 7, 6, 2), []
    for width in widths:
        cell, line = line[:width].strip(), line[width:]
        found.append(cell)
    return found


def test_the_steps_are_those_of_the_interpreters_docstring() -> None:
    assert loops.__doc__ is not None
    shown = [cells(line) for line in loops.__doc__.splitlines() if line[:2] in ("0 ", "1 ", "2 ", "3 ")][:4]
    kinds = {LONG: "LONG", ARRAY: "ARRAY", STRING: "STRING", ITEM: "ITEM"}
    made = program(("n", "long"), ("t", {"type": "array", "items": ["null", "string"]}))
    steps = [(at, kinds[s.kind], s.null, s.column, s.level, s.jump, s.of) for at, s in enumerate(made.steps)]

    assert [["" if cell == NONE else str(cell) for cell in row] for row in steps] == shown
    assert made.levels == [0, 0, 1]


def test_the_types_of_a_union_stand_each_behind_a_branch() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "s", "type": "string"}]}
    steps = program(("u", ["long", "null", inner])).steps

    assert steps == [
        Step(UNION, branches=3, null=1, size=0, column=0, level=0, jump=6, of=NONE),
        Step(BRANCH, branches=0, null=NONE, size=0, column=NONE, level=0, jump=3, of=0),
        Step(LONG, branches=0, null=NONE, size=0, column=1, level=0, jump=3, of=NONE),
        Step(BRANCH, branches=0, null=NONE, size=2, column=NONE, level=0, jump=6, of=0),
        Step(RECORD, branches=0, null=NONE, size=0, column=2, level=0, jump=6, of=NONE),
        Step(STRING, branches=0, null=NONE, size=0, column=3, level=0, jump=6, of=NONE),
    ]


def test_what_nobody_wants_is_walked_but_has_no_columns() -> None:
    made = program(("a", {"type": "array", "items": "long"}), ("b", "long"), names=frozenset({"b"}))

    assert [step.column for step in made.steps] == [NONE, NONE, NONE, 0]
    assert (made.levels, made.wanted, len(made.children)) == ([0], [True, False], 1)
