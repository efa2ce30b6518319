"""One behaviour, every format: however records are appended, compacted and taken, the file holds them all, in order."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, Objects, Plain, StructColumns, Values
from kafka_s3.connect.schemas.arrow import infer_table
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaType, read_schema
from kafka_s3.model.deflate import ENGINE_BYTES
from kafka_s3.objects import parquet
from kafka_s3.objects.format import Fitting, Format
from kafka_s3.objects.parquet import CODECS, RepeatedColumns, _layout, parquet_format
from kafka_s3.objects.text import json_format
from kafka_s3_testing.services.memory import MemoryRecord
from tests.support.configurations import TIME, TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World, pieces
from tests.support.runs import run_of

SCHEMA = read_schema({
    "type": "struct",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "s", "type": "string", "optional": True},
        {"field": "l", "type": "array", "optional": True, "items": {"type": "int32"}},
    ],
})  # fmt: skip
EMPTY_WITHIN = read_schema({
    "type": "struct",
    "fields": [{"field": "a", "type": "array", "items": {"type": "struct", "fields": [{"field": "e", "type": "struct"}]}}],
})  # fmt: skip
ROWS: list[Any] = [{"n": n, "s": f"ä{n}" if n % 3 else None, "l": [n, 1] if n % 2 else None} for n in range(200)]
Make = Callable[[list[Any]], Values]


def objects(rows: list[Any]) -> Values:
    return Objects(rows)


def json_text(rows: list[Any]) -> Values:
    return JsonText(
        pa.array([json.dumps(row, ensure_ascii=False).encode() for row in rows], pa.binary()),
        pa.Table.from_pylist(rows),
    )


def columns(rows: list[Any]) -> Values:
    kinds = [
        pa.field("n", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("l", pa.list_(pa.field("element", pa.int32(), nullable=False))),
    ]
    return StructColumns(pa.Table.from_pylist(rows, schema=pa.schema(kinds)))


FORMATS = [
    (json_format(gzip_level=None, decimals="BASE64"), json_text, None),
    (json_format(gzip_level=-1, decimals="BASE64"), json_text, None),
    (json_format(gzip_level=9, decimals="BASE64"), objects, SCHEMA),
    (json_format(gzip_level=None, decimals="NUMERIC"), objects, SCHEMA),
    *[(parquet_format(codec, AvroOptions()), columns, SCHEMA) for codec in CODECS],
    (parquet_format("zstd", AvroOptions()), objects, SCHEMA),
    (parquet_format("snappy", AvroOptions()), json_text, None),
]
ONE_BY_FORMAT = pytest.mark.parametrize(
    ("file_format", "make", "schema"),
    FORMATS,
    ids=lambda it: it.extension if isinstance(it, Format) else getattr(it, "__name__", ""),
)


def read(content: bytes, extension: str) -> list[Any]:
    if extension.endswith(".parquet"):
        return pq.read_table(io.BytesIO(content)).to_pylist()
    text = gzip.decompress(content) if extension.endswith(".gz") else content
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@ONE_BY_FORMAT
@settings(max_examples=examples(12))
@given(
    # from 2 on: with the first record alone, the list is null and its column, settled in the first row group, becomes text
    cuts=st.lists(st.integers(2, 200), max_size=8),
    steps=st.lists(st.sampled_from(["compact", "take", ""]), max_size=8),
)
def test_the_file_holds_what_was_appended(
    file_format: Format, make: Make, schema: ConnectSchema | None, cuts: list[int], steps: list[str]
) -> None:
    encoder, content = file_format.open(schema), b""
    for number, (start, stop) in enumerate(pieces(len(ROWS), cuts)):
        values = make(ROWS[start:stop])
        assume(not isinstance(encoder, Fitting) or encoder.fits(values))  # else the writer begins a new file
        encoder.append(values)
        step = steps[number] if number < len(steps) else ""
        if step == "compact":
            encoder.compact()
            assert encoder.pending() == 0
        content += encoder.take() if step == "take" else b""
        assert encoder.size() > 0
    encoder.finish()
    content += encoder.take()

    assert read(content, file_format.extension) == ROWS
    assert encoder.size() == len(content)
    assert encoder.take() == b""


def test_what_gzip_holds_counts_until_it_lets_go() -> None:
    """Ten thousand open files held 700 MB that nobody counted."""
    texts = JsonText(pa.array([b'"%d"' % (at * 7919) for at in range(10_000)]), None)
    gzip = json_format(gzip_level=-1, decimals="BASE64").open(None)
    gzip.append(texts)
    assert gzip.pending() >= ENGINE_BYTES
    gzip.compact()
    assert gzip.pending() == 0


@ONE_BY_FORMAT
def test_the_size_grows_with_what_is_encoded(file_format: Format, make: Make, schema: ConnectSchema | None) -> None:
    encoder, sizes = file_format.open(schema), []
    for _ in range(4):
        encoder.append(make(ROWS * 5))  # much: gzip holds small amounts back
        encoder.compact()
        sizes.append(encoder.size())

    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@pytest.mark.parametrize(
    "values", [["plain", 'quo"te', "back\\slash", "line\nbreak", "", "ä😀", "\x00"], [b"\x00\xff", b""]]
)
def test_plain_values_are_json_strings(values: list[Any]) -> None:
    array = pa.array(values)
    encoder = json_format(gzip_level=None, decimals="BASE64").open(None)
    encoder.append(Plain(array))
    encoder.finish()
    expected = ["AP8=", ""] if isinstance(values[0], bytes) else values

    assert read(bytes(encoder.take()), ".json") == expected


def inferred(rows: list[Any]) -> JsonText:
    return JsonText(pa.array([json.dumps(row).encode() for row in rows], pa.binary()), infer_table(rows))


@pytest.mark.parametrize(
    ("later", "fits"),
    [
        ({"a": 2}, True),
        ({}, True),
        ({"a": None, "b": None}, True),
        ({"a": "x"}, False),
        ({"a": 1.5}, False),
        ({"a": 1, "b": 1}, False),
    ],
)
def test_a_file_with_inferred_columns_takes_only_what_fits_its_first_row_group(later: Any, fits: bool) -> None:
    encoder: Any = parquet_format("zstd", AvroOptions()).open(None)
    encoder.append(inferred([{"a": 1}]))

    assert encoder.fits(inferred([{"a": "x"}]))
    encoder.compact()

    assert encoder.fits(inferred([{"a": 5}, later])) is fits


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(JsonText(pa.array([b"5"]), None), None), "schemaless"),
        (run_of(Plain(pa.array(["x"])), ConnectSchema(SchemaType.STRING)), "struct"),
        (run_of(Objects([{}]), ConnectSchema(SchemaType.STRUCT)), r"a struct without fields \(the value\)"),
        (
            run_of(Objects([{"a": [{"e": {}}]}]), EMPTY_WITHIN),
            r"a struct without fields \(a\[\]\.e\)\. Leave the field out",
        ),
        (run_of(Objects([{"n": 1, "s": "\ud800"}]), SCHEMA), "surrogates"),
        (run_of(Objects([{"n": 2**70, "s": "x"}]), SCHEMA), "n: .*large"),
        (run_of(Objects([{"n": 1}]), SCHEMA), None),
    ],
)
def test_parquet_says_why_it_cannot_hold_a_run(run: Run, reason: str | None) -> None:
    shown = parquet_format("none", AvroOptions()).accept(run)

    assert isinstance(shown, str) is (reason is not None)
    assert reason is None or re.search(reason, str(shown))


@pytest.mark.parametrize("form", ["avro.AvroFormat", "parquet.ParquetFormat"])
def test_half_a_surrogate_pair_in_a_schemas_text_is_a_question_mark_in_the_object(form: str) -> None:
    """Encoding it ended each task that met the record."""
    on = {"format.class": f"io.confluent.connect.s3.format.{form}", "flush.size": "1"}
    world = World({**on, **TOLERANT, "value.converter.schemas.enable": "true"})
    world.start()
    schema = {"type": "struct", "doc": "half: \ud800", "fields": [{"field": "n", "type": "int32", "doc": "\udfff"}]}
    content = json.dumps({"schema": schema, "payload": {"n": 5}}).encode()
    world.kafka.add(ORDERS, MemoryRecord(0, START_MS, None, content))
    world.sink.poll_and_commit()
    ((_, found),) = [(key, data) for key, data in world.store.objects.items() if key.startswith("topics/")]
    assert b"half: ?" in found


@pytest.mark.parametrize(
    ("scale", "precision"), [("-1", "64"), ("65", "64"), ("5", "4"), ("0", "77"), ("1", "x"), ("99999999999", "64")]
)
def test_a_decimal_that_parquet_has_no_type_for_is_a_dead_letter(scale: str, precision: str) -> None:
    """Its own error came when the file was opened, and ended each task that met the record."""
    parquet = {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "flush.size": "1"}
    world = World({**parquet, **TOLERANT, "value.converter.schemas.enable": "true"})
    world.start()
    number = {
        "field": "x", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": scale, "connect.decimal.precision": precision},
    }  # fmt: skip
    fields, values = [{"field": "n", "type": "int32"}], [{"n": 1}, {"n": 1, "x": "AQ=="}, {"n": 1}]
    for offset, value in enumerate(values):
        schema = {"type": "struct", "fields": [*fields, number] if "x" in value else fields}
        content = json.dumps({"schema": schema, "payload": value}).encode()
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, None, content))
    world.sink.poll_and_commit()
    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 1)]
    assert world.frontier() == 3


@pytest.mark.parametrize("envelopes", [{**TIME}, {}])
def test_a_value_that_parquet_cannot_hold_is_a_dead_letter_and_its_neighbours_are_written(
    envelopes: dict[str, str],
) -> None:
    amount = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "4"},
    }
    parquet = "io.confluent.connect.s3.format.parquet.ParquetFormat"
    on = {"format.class": parquet, "value.converter.schemas.enable": "true", "flush.size": "8"}
    world = World({**on, **TOLERANT, **envelopes})
    world.start()
    fields = [{"field": "n", "type": "int32"}, {"field": "x", **amount}]
    for n in range(9):
        document = {
            "schema": {"type": "struct", "fields": fields},
            "payload": {"n": n, "x": 123456.5 if n == 4 else n + 0.25},
        }
        world.kafka.add(ORDERS, MemoryRecord(n, START_MS, None, json.dumps(document).encode()))
    world.sink.poll_and_commit()

    (content,) = [data for key, data in world.store.objects.items() if key.endswith(".parquet")]
    assert [row["n"] for row in read(content, ".parquet")] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 4)]


def test_a_table_with_two_columns_of_one_name_is_laid_out_column_by_column() -> None:
    """An object's own bytes can name a column twice; what repeats is decided for each, and never raises."""
    table = pa.Table.from_arrays([pa.array(["a", "a"]), pa.array(["b", "c"])], names=["x", "x"])

    assert _layout(table, table.schema, RepeatedColumns()).schema.names == ["x", "x"]


def test_of_small_files_with_the_same_columns_one_of_many_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    repeated = parquet._repeated
    monkeypatch.setattr(parquet, "_repeated", lambda table: looked.append(table.num_rows) or repeated(table))
    known = RepeatedColumns()

    def names(rows: int, values: int, column: str = "x") -> tuple[str, ...]:
        return known.of(pa.table({column: [n % values for n in range(rows)]}))

    assert names(3, 1) == ("x",)
    assert names(2, 2) == ("x",)  # as in others of about its size
    assert names(9, 9) == ()  # few rows say nothing about more
    for _ in range(parquet.LOOK_EVERY):
        assert names(parquet.ENOUGH_ROWS, 10) == ("x",)
    assert looked == [3, 9, parquet.ENOUGH_ROWS]
    assert names(parquet.ENOUGH_ROWS, parquet.ENOUGH_ROWS) == ()
    assert names(3, 1) == ()  # as in the others
    assert names(3, 1, "y") == ("y",)
    assert names(parquet.MANY_ROWS, 10) == ("x",)  # many rows are worth a look of their own
    assert looked[3:] == [parquet.ENOUGH_ROWS, 3, parquet.MANY_ROWS]


def test_what_is_known_of_files_whose_columns_always_differ_is_bounded_in_bytes() -> None:
    known, row = RepeatedColumns(), pa.array([0] * parquet.ENOUGH_ROWS)
    most = 0
    for file in range(12):
        names = [f"{file}-{column}-{'x' * 90}" for column in range(1500)]
        assert known.of(pa.Table.from_arrays([row] * len(names), names=names)) == tuple(names)
        most = max(most, sum(schema.serialize().size for schema, _ in known._known))
    assert parquet.KNOWN_BYTES / 2 < most <= parquet.KNOWN_BYTES
