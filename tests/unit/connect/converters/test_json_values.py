"""The JSON converters take what Jackson takes, one bad record spoils no other, and batches may be cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.converter import Converter, KafkaBatch
from kafka_s3.connect.converters.json_values import JsonColumns, JsonEnvelope, JsonTables, JsonValues
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.connect.records.values import MISSING, JsonText
from kafka_s3.connect.schemas.arrow import unify
from kafka_s3.connect.schemas.connect import read_schema
from kafka_s3.model.dead_letters import Stage
from kafka_s3.objects.text import json_format
from tests.support.examples import examples
from tests.support.memory_world import pieces

Good = dict[int, Any]
SCHEMA = read_schema({
    "type": "struct",
    "fields": [
        {"field": "a", "type": "string"},
        {"field": "b", "type": "int32", "optional": True},
        {"field": "c", "type": "double", "optional": True},
    ],
})  # fmt: skip


def batch(values: list[bytes | None]) -> KafkaBatch:
    count = len(values)
    return KafkaBatch(np.arange(count), np.zeros(count, np.int64), pa.array(values, pa.binary()))


def decode(*values: bytes | None, converter: Converter | None = None) -> Decoded:
    return (converter or JsonValues()).decode(batch(list(values)))


def written(decoded: Decoded) -> dict[int, bytes]:
    """Offset to the line that a JSON file holds of the record."""
    lines = {}
    for run in decoded.runs:
        file = json_format(gzip_level=None, decimals="BASE64").open(run.schema)
        file.append(run.values)
        file.finish()
        lines.update(zip(run.offsets.tolist(), bytes(file.take()).removesuffix(b"\n").split(b"\n"), strict=True))
    return lines


TAKEN = {
    b'{"a":1}': b'{"a":1}',
    b'  {"a": 1}\t': b'{"a": 1}',
    b"{}": b"{}",
    b"5": b"5",
    b"-0.5e-3": b"-0.5e-3",
    b'"x"': b'"x"',
    b"true": b"true",
    b"[1, {}]": b"[1, {}]",
    b'{"a":1} trailing': b'{"a":1}',
    b'{"a":1}}': b'{"a":1}',
    b'{"a":1} {"b":2}': b'{"a":1}',
    b'{"a":1} null': b'{"a":1}',
    b'{"a":\n 1}': b'{"a":1}',
    b'{"a":1}\r\n': b'{"a":1}',
    b'{\n "a" : 0.1000000000000000000001,\r\n\t"b" : 1e400 }': b'{"a":0.1000000000000000000001,"b":1e400}',
    b'{"c":\n"x \\" { \\\\" }': b'{"c":"x \\" { \\\\"}',
    b'{"a":1,\n"a":2}': b'{"a":1,"a":2}',
    b'{"a":' + b"9" * 4300 + b"}": b'{"a":' + b"9" * 4300 + b"}",
    b'{"a":"' + b"9" * 5000 + b'"}': b'{"a":"' + b"9" * 5000 + b'"}',
    b'{"a":0.' + b"9" * 5000 + b"}": b'{"a":0.' + b"9" * 5000 + b"}",
    b'{"a":\r1}': b'{"a":1}',
    b'{"a":1,"a":2}': b'{"a":1,"a":2}',
    b'{"a":123456789012345678901234567890}': b'{"a":123456789012345678901234567890}',
    b'{"a":0.1000000000000000000001}': b'{"a":0.1000000000000000000001}',
    b'{"a":"\\ud800"}': b'{"a":"\\ud800"}',
    b'{"a":"\\ud83d\\ude00"}': b'{"a":"\\ud83d\\ude00"}',
    '{"ä":"😀\u2028"}'.encode(): '{"ä":"😀\u2028"}'.encode(),
    b'\xef\xbb\xbf{"a":1}': b'{"a":1}',
    b'{"a":"NaN"}': b'{"a":"NaN"}',
    b'{"a":"} null"}': b'{"a":"} null"}',
    b'{"a":' * 300 + b"1" + b"}" * 300: b'{"a":' * 300 + b"1" + b"}" * 300,
}
REFUSED = [
    b"{", b"}", b"[1", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{a:1}", b"{'a':1}", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":[-Infinity]}',
    b"NaN", b"tru", b"nullx", b"5x", b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}', b'{"a":"\t"}', b'{"a":"\x00"}', b'{"a":"\\x"}',
    b'{"a":/**/1}', b'{"a":"\xff"}', b"\xff", b'{"a":"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"[" * 100_000,
    b'{"a":' + b"9" * 4301 + b"}", b'{"b":[-' + b"1" * 5000 + b"]}",
]  # fmt: skip
SHORT = [text for text in REFUSED if len(text) < 6000]
NULLS = [None, b"", b" \n", b"null", b" null "]


@pytest.mark.parametrize(("text", "line"), TAKEN.items(), ids=lambda text: repr(text[:30]))
def test_what_jackson_takes_is_taken_on_one_line(text: bytes, line: bytes) -> None:
    assert written(decode(text)) == {0: line}
    assert written(decode(b'{"x":1}', text, b'{"x":1}')) == {0: b'{"x":1}', 1: line, 2: b'{"x":1}'}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:30]))
@pytest.mark.parametrize("converter", [JsonValues, JsonTables, lambda: JsonColumns(SCHEMA), JsonEnvelope])
def test_what_is_no_json_fails_alone(text: bytes, converter: Any) -> None:
    decoded = decode(text, converter=converter())

    assert decoded.runs == []
    assert [(failure.offset, failure.stage) for failure in decoded.failures] == [(0, Stage.VALUE_CONVERTER)]


@pytest.mark.parametrize("value", NULLS)
@pytest.mark.parametrize("converter", [JsonValues, JsonTables, lambda: JsonColumns(SCHEMA), JsonEnvelope])
def test_null_and_nothing_are_null_values(value: bytes | None, converter: Any) -> None:
    assert decode(value, converter=converter()) == Decoded(nulls=[0])


@pytest.mark.parametrize("beside", [[], [b'{"a":1}'] * 3, [b'{"a":1}', b"{"]])
def test_a_number_without_end_is_refused_whatever_is_beside_it(beside: list[bytes]) -> None:
    decoded = decode(*beside, b'{"a":' + b"9" * 5000 + b"}")

    assert decoded.failures[-1].offset == len(beside)
    assert "a whole number of 5000 digits, of which 4300 are read at most" in decoded.failures[-1].message
    assert list(written(decoded)) == [offset for offset, value in enumerate(beside) if value != b"{"]


def test_documents_that_only_complete_each_other_are_refused() -> None:
    decoded = decode(b'{"a":', b'{"b":1}}', b'{"x":1} {"y":2}')

    assert [failure.offset for failure in decoded.failures] == [0]
    assert written(decoded) == {1: b'{"b":1}', 2: b'{"x":1}'}


def test_one_bad_record_in_ten_thousand_is_the_only_one_that_fails() -> None:
    values = [b'{"n":%d}' % n for n in range(10_000)]
    values[7_777] = b'{"n":'
    decoded = decode(*values, converter=JsonValues([("n",)]))

    assert [failure.offset for failure in decoded.failures] == [7_777]
    assert len(written(decoded)) == 9_999
    assert sum(len(run) for run in decoded.runs if isinstance(run.values, JsonText) and run.values.table) > 9_900


# ------------------------------------------------------------ batches may be cut anywhere

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abtu"), inner, max_size=3), max_leaves=6
)  # fmt: skip
RECORDS = st.dictionaries(st.sampled_from("abtu"), DOCUMENTS, max_size=4).map(lambda value: json.dumps(value).encode())
VALUES = st.lists(
    RECORDS | RECORDS | DOCUMENTS.map(lambda value: json.dumps(value, indent=1).encode()) | st.sampled_from([*SHORT, *NULLS])
    | st.sampled_from(list(TAKEN)), min_size=1, max_size=150,
)  # fmt: skip
CUTS = st.lists(st.integers(0, 200), max_size=5)


def outcome(
    values: list[bytes | None], cuts: list[int], converter: Converter, paths: list[tuple[str, ...]]
) -> list[Any]:
    """Everything that a converter says of each record, however the records are cut into batches."""
    whole = batch(values)
    found: dict[int, Any] = {}
    for start, stop in pieces(len(values), cuts):
        decoded = converter.decode(whole.slice(start, stop))
        found |= dict.fromkeys(decoded.nulls, "null") | {failure.offset: "failure" for failure in decoded.failures}
        for run in decoded.runs:
            columns = [run.values.column(path) for path in paths]
            plain = [column.to_pylist() if isinstance(column, pa.Array) else column for column in columns]
            fields = [[None if item is MISSING else item for item in column] for column in plain]
            assert list(run.offsets) == sorted(run.offsets)
            if isinstance(run.values, JsonText):
                fields.append(run.values.texts.to_pylist())
            found |= dict(zip(run.offsets.tolist(), map(repr, zip(*fields, strict=True)), strict=True))
    assert sorted(found) == list(range(len(values)))
    return [found[offset] for offset in range(len(values))]


@settings(max_examples=examples(80))
@given(VALUES, CUTS)
def test_the_slicing_of_batches_does_not_show_in_texts_and_wanted_fields(
    values: list[bytes | None], cuts: list[int]
) -> None:
    paths = [("a",), ("t", "u")]

    assert outcome(values, cuts, JsonValues(paths), paths) == outcome(values, [], JsonValues(paths), paths)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"a": SCALARS, "b": SCALARS, "c": SCALARS, "d": SCALARS}),
        max_size=150,
        min_size=1,
    ),
    CUTS,
)
def test_the_slicing_of_batches_does_not_show_under_a_given_schema(documents: list[Any], cuts: list[int]) -> None:
    values = [json.dumps(document).encode() for document in documents]
    paths = [("a",), ("b",), ("c",)]

    assert outcome(values, cuts, JsonColumns(SCHEMA), paths) == outcome(values, [], JsonColumns(SCHEMA), paths)


# ------------------------------------------------------------ wanted fields


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ([1, 2], [1, 2]),
        (["x", "y"], ["x", "y"]),
        ([1.5, None], [1.5, None]),
        ([1, 2.5], [1, 2.5]),
        ([1, "x"], [1, "x"]),
        ([2**63, 1], [2**63, 1]),
        ([True, False], [True, False]),
        (["2024-01-15T10:00:00Z", "2024-01-15"], ["2024-01-15T10:00:00Z", "2024-01-15"]),
        ([{"x": 1}, [1]], [{"x": 1}, [1]]),
    ],
)
def test_a_wanted_field_keeps_its_values_whatever_their_types(values: list[Any], fields: list[Any]) -> None:
    documents = [json.dumps({"a": value}).encode() for value in values]
    (run,) = decode(*documents, converter=JsonValues([("a",)])).runs
    column = run.values.column(("a",))
    found = column.to_pylist() if isinstance(column, pa.Array) else column

    assert list(map(repr, found)) == list(map(repr, fields))


def test_a_nested_field_is_null_below_null_and_missing_below_what_is_no_object() -> None:
    documents = [b'{"a":{"b":1}}', b'{"a":{}}', b'{"a":null}', b'{"a":7}', b"{}"]
    (run,) = decode(*documents, converter=JsonValues([("a", "b")])).runs

    assert run.values.column(("a", "b")) == [1, MISSING, None, MISSING, MISSING]


def test_several_wanted_fields_are_parsed_in_one_go() -> None:
    paths = [("a",), ("t", "u"), ("t", "v"), ("x",)]
    (run,) = decode(b'{"a":1,"t":{"u":"y","v":2.5},"z":[1]}', converter=JsonValues(paths)).runs

    assert isinstance(run.values, JsonText)
    assert run.values.table is not None
    assert [run.values.column(path).to_pylist() for path in paths] == [[1], ["y"], [2.5], [None]]


# ------------------------------------------------------------ inferred columns


def inferred(*groups: list[Any]) -> tuple[dict[str, str], list[Any]]:
    """The types and rows that the documents give, one batch per group."""
    converter, tables = JsonTables(), []
    for group in groups:
        for run in decode(*[json.dumps(document).encode() for document in group], converter=converter).runs:
            assert isinstance(run.values, JsonText)
            assert run.values.table is not None
            tables.append(run.values.table)
    table = unify(tables)
    return {field.name: str(field.type) for field in table.schema}, table.to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "rows"),
    [
        ([1, 2], "int64", [1, 2]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([1, "x"], "string", ["1", "x"]),
        ([True, 1], "string", ["true", "1"]),
        ([True, None], "bool", [True, None]),
        ([None, None], "string", [None, None]),
        (["2024-01-15", "x"], "string", ["2024-01-15", "x"]),
        (["2024-01-15T10:00:00Z", "2024-01-15T10:00:00Z"], "string", ["2024-01-15T10:00:00Z"] * 2),
        ([{"x": 1}, {"y": 2.5}], "struct<x: int64, y: double>", [{"x": 1, "y": None}, {"x": None, "y": 2.5}]),
        ([{}, {}], "string", ["{}", "{}"]),
        ([{"x": 1}, [1]], "string", ['{"x":1}', "[1]"]),
        ([[1], [2.5, None]], "list<item: double>", [[1.0], [2.5, None]]),
        ([[], []], "list<item: string>", [[], []]),
    ],
)
def test_a_field_gets_the_narrowest_type_that_holds_its_values(values: list[Any], kind: str, rows: list[Any]) -> None:
    documents = [{"k": 1, "a": value} for value in values]
    expected = ({"k": "int64", "a": kind}, [{"k": 1, "a": row} for row in rows])

    assert inferred(documents) == expected
    assert inferred(*[[document] for document in documents]) == expected


def test_fields_that_come_later_are_null_before() -> None:
    assert inferred([{"a": 1}], [{"b": "x"}])[1] == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


@pytest.mark.parametrize("bad", [b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":' * 600 + b"1" + b"}" * 600])
@pytest.mark.parametrize("converter", [JsonTables, lambda: JsonColumns(SCHEMA)])
def test_what_columns_cannot_hold_fails_alone(bad: bytes, converter: Any) -> None:
    decoded = decode(b'{"a":"x"}', bad, b'{"a":"y"}', converter=converter())

    assert [failure.offset for failure in decoded.failures] == [1]
    assert [list(run.offsets) for run in decoded.runs] == [[0, 2]]


@pytest.mark.parametrize("converter", [JsonTables, lambda: JsonColumns(SCHEMA)])
def test_bad_records_among_many_do_not_cut_the_others_into_runs(converter: Any) -> None:
    values = [b"no JSON" if n % 97 == 3 else b'{"a":"x%d"}' % n for n in range(500)]
    decoded = decode(*values, converter=converter())

    good = [n for n in range(500) if n % 97 != 3]
    assert [failure.offset for failure in decoded.failures] == [n for n in range(500) if n % 97 == 3]
    (run,) = decoded.runs
    assert (run.offsets.tolist(), len(run.timestamps)) == (good, len(good))
    assert run.values.column(("a",)).to_pylist() == [f"x{n}" for n in good]  # type: ignore[union-attr]
    if isinstance(run.values, JsonText):
        assert run.values.texts.to_pylist() == [b'{"a":"x%d"}' % n for n in good]


def test_objects_without_members_keep_their_number_beside_a_bad_record() -> None:
    decoded = decode(*[b"no JSON" if n == 70 else b"{}" for n in range(200)], converter=JsonTables())

    assert sum(len(run) for run in decoded.runs) == sum(len(run.values) for run in decoded.runs) == 199


def test_records_that_do_not_fit_a_given_schema_fail_alone() -> None:
    values = [
        b'{"a":"x"}',
        b'{"a":1}',
        b'{"b":1}',
        b'{"a":"y","b":2147483648}',
        b'{"a":"z","b":7,"c":1,"more":[]}',
        b"5",
    ]
    decoded = decode(*values, converter=JsonColumns(SCHEMA))

    assert [failure.offset for failure in decoded.failures] == [1, 2, 3, 5]
    (run,) = decoded.runs
    assert run.values.table.to_pylist() == [{"a": "x", "b": None, "c": None}, {"a": "z", "b": 7, "c": 1.0}]  # type: ignore[attr-defined]


# ------------------------------------------------------------ envelopes


def envelope(kind: dict[str, Any], payload: Any) -> bytes:
    return json.dumps(
        {"schema": {"type": "struct", "fields": [{"field": "x", **kind}]}, "payload": {"x": payload}}
    ).encode()


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
MAP = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}


@pytest.mark.parametrize(
    ("kind", "payload", "line"),
    [
        ({"type": "int8"}, 127, b'{"x":127}'),
        (DECIMAL, 1.25, b'{"x":"fQ=="}'),
        (DECIMAL, -1, b'{"x":"nA=="}'),
        ({"type": "bytes"}, "AQI=", b'{"x":"AQI="}'),
        (MAP, {"k": 1}, b'{"x":{"k":1}}'),
        ({**MAP, "keys": {"type": "int32"}}, [[1, 2]], b'{"x":[[1,2]]}'),
        ({"type": "string", "optional": True}, None, b'{"x":null}'),
        ({"type": "string", "default": "d"}, None, b'{"x":"d"}'),
    ],
)
def test_an_envelope_gives_connect_values(kind: dict[str, Any], payload: Any, line: bytes) -> None:
    assert written(decode(envelope(kind, payload), converter=JsonEnvelope())) == {0: line}


@pytest.mark.parametrize(
    "bad",
    [
        envelope({"type": "int8"}, 128), envelope({"type": "string"}, None), envelope(DECIMAL, 1.239), envelope(DECIMAL, True),
        envelope(MAP, [1]), envelope(MAP, [["a", 1, 2]]), envelope({"type": "bytes"}, "ä"), envelope({"type": "what"}, 1),
        envelope({"type": ["x"]}, 1), envelope({"type": "string", "name": ["x"]}, "1"), envelope({"type": "int8", "parameters": 5}, 1),
        b'{"schema":{"type":"struct","fields":5},"payload":{}}', b'{"schema":5,"payload":5}', b'{"a":1}', b"5",
        b'{"schema":null,"payload":1,"x":1}', b'{"schema":{"type":"array"},"payload":[]}',
    ],
)  # fmt: skip
def test_a_bad_envelope_fails_alone(bad: bytes) -> None:
    good = envelope({"type": "int8"}, 1)
    decoded = decode(good, bad, good, converter=JsonEnvelope())

    assert [failure.offset for failure in decoded.failures] == [1]
    assert written(decoded) == {0: b'{"x":1}', 2: b'{"x":1}'}
