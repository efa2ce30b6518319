"""What does a chain of three transforms cost? Microseconds of CPU per record, over columns, over JSON text, and record by record."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from kafka_s3.connect.java.regex import compile_pattern
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import JsonText, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.connect.transforms.chain import Chain, ChainLink
from kafka_s3.connect.transforms.fields import InsertField, Insertion, ReplaceField
from kafka_s3.connect.transforms.record import RecordPart
from kafka_s3.connect.transforms.routers import RegexRouter
from kafka_s3.connect.transforms.type_changes import Cast
from kafka_s3.model.offsets import TopicPartition

pytestmark = pytest.mark.benchmark
RECORDS = 100_000
ROUNDS = 5
ORDERS = TopicPartition("orders", 0)
INSERT = InsertField(
    RecordPart.VALUE, (Insertion("offset", "o", True), Insertion("timestamp", "ts", True)), "", defaults=True
)
REPLACE = ReplaceField(RecordPart.VALUE, frozenset({"note"}), frozenset(), {"id": "order_id"}, defaults=True)
CAST = Cast(
    RecordPart.VALUE,
    {"order_id": SchemaType.STRING, "count": SchemaType.INT8, "price": SchemaType.INT64},
    None,
    defaults=True,
)
CHAIN = Chain((ChainLink("i", INSERT), ChainLink("r", REPLACE), ChainLink("c", CAST)))
ON_TEXT = Chain((ChainLink("i", INSERT), ChainLink("r", RegexRouter(compile_pattern("(.*)s"), "$1")), ChainLink("s", InsertField(
    RecordPart.VALUE, (Insertion("static", "from", True),), "kafka", defaults=True))))  # fmt: skip


def columns(count: int) -> Run:
    kinds = {"id": SchemaType.INT64, "count": SchemaType.INT32, "price": SchemaType.FLOAT64, "note": SchemaType.STRING}
    schema = ConnectSchema(
        SchemaType.STRUCT, name="Order", fields=tuple(Field(n, ConnectSchema(k)) for n, k in kinds.items())
    )
    numbers = np.arange(count)
    arrays = [
        pa.array(numbers),
        pa.array(numbers % 1000, pa.int32()),
        pa.array(numbers * 1.25),
        pa.array(["as agreed"] * count),
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(one.name, one.schema) for one in schema.fields]))
    return Run(numbers, numbers + 1_705_312_800_000, StructColumns(table), schema)


def text(count: int) -> Run:
    numbers = np.arange(count)
    texts = pa.array(
        [f'{{"id": {n}, "count": {n % 1000}, "price": {n * 1.25}, "note": "as agreed"}}'.encode() for n in numbers],
        pa.binary(),
    )
    return Run(numbers, numbers + 1_705_312_800_000, JsonText(texts, None), None)


def cost_us(chain: Chain, run: Run) -> float:
    """The least of some rounds."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        found = chain.transform_runs([run], ORDERS)
        spent.append(time.process_time() - begun)
        assert sum(len(one) for one in found.runs) == len(run)
    return min(spent) / len(run) * 1e6


def test_a_chain_of_three_over_columns() -> None:
    found = cost_us(CHAIN, columns(RECORDS))
    print(f"\nInsertField, ReplaceField, Cast over columns: {found:.3f} us a record")


def test_a_chain_of_three_over_json_text() -> None:
    found = cost_us(ON_TEXT, text(RECORDS))
    print(f"\nInsertField, RegexRouter, InsertField over JSON text: {found:.3f} us a record")


def test_what_no_columns_can_do_is_done_record_by_record_with_the_same_values() -> None:
    found = cost_us(CHAIN, text(RECORDS // 5))
    print(f"\nInsertField, ReplaceField, Cast of JSON without schema, record by record: {found:.1f} us a record")
    by_record, by_column = (
        [one.values.objects() for one in CHAIN.transform_runs([make(300)], ORDERS).runs] for make in (text, columns)
    )
    assert by_record == by_column
