"""Whole columns and one record after the other give the same: for every class that has both ways."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.java.regex import compile_pattern
from kafka_s3.connect.java.simple_dates import SimpleDates
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Nulls, Objects, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_table
from kafka_s3.connect.schemas.connect import DATE, TIME, TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.connect.transforms.chain import Chain, ChainLink
from kafka_s3.connect.transforms.fields import (
    ExtractField,
    Flatten,
    HoistField,
    InsertField,
    Insertion,
    MaskField,
    ReplaceField,
    SetSchemaMetadata,
    ValueToKey,
)
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, Transform
from kafka_s3.connect.transforms.routers import (
    Drop,
    Filter,
    HasHeaderKey,
    RecordIsTombstone,
    RegexRouter,
    TimestampRouter,
    TombstoneHandler,
    TopicNameMatches,
)
from kafka_s3.connect.transforms.type_changes import SCHEMAS, Cast, TimestampConverter
from kafka_s3.model.dead_letters import rejection
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from tests.support.examples import NIGHTLY, examples

ORDERS = TopicPartition("orders", 2)
NAMES = ("a", "b", "c", "d")
KINDS = (
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN,
    SchemaType.STRING,
)  # fmt: skip
CASTS = st.sampled_from(KINDS)
BITS = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}
TEXTS = st.sampled_from(
    ["7", "-12", "x", "", "true", "2024-01-15 10:00:00.123", "1999-12-31 23:59:59.999", "300", "3.5"]
)
FULL = "yyyy-MM-dd HH:mm:ss.SSS"


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> ConnectSchema:
    optional = draw(st.booleans())
    which = draw(st.sampled_from([*KINDS, DATE, TIME, TIMESTAMP, *([SchemaType.STRUCT] if depth < 1 else [])]))
    if which == SchemaType.STRUCT:
        fields = tuple(
            Field(name, draw(schemas(depth=1)))
            for name in draw(st.lists(st.sampled_from("xyz"), min_size=1, unique=True))
        )
        return ConnectSchema(SchemaType.STRUCT, optional, fields=fields)
    if which in (DATE, TIME, TIMESTAMP):
        kind = SchemaType.INT64 if which == TIMESTAMP else SchemaType.INT32
        return ConnectSchema(kind, optional, name=which, version=1)
    kind = SchemaType(which)
    default = draw(
        st.sampled_from(
            [None, None, "true" if kind is SchemaType.BOOLEAN else '"7"' if kind is SchemaType.STRING else "5"]
        )
    )
    return ConnectSchema(kind, optional, default=default)


def values(schema: ConnectSchema) -> st.SearchStrategy[Any]:
    found: st.SearchStrategy[Any]
    if schema.kind is SchemaType.STRUCT:
        found = st.fixed_dictionaries({field.name: values(field.schema) for field in schema.fields})
    elif schema.name == TIME:
        found = st.integers(0, 86_399_999)
    elif schema.name == DATE:
        found = st.integers(-100_000, 100_000)
    elif schema.name == TIMESTAMP:
        found = st.integers(-(2**43), 2**45)
    elif schema.kind in BITS:
        found = st.integers(-(2 ** BITS[schema.kind]), 2 ** BITS[schema.kind] - 1)
    elif schema.kind is SchemaType.STRING:
        found = TEXTS
    elif schema.kind is SchemaType.BOOLEAN:
        found = st.booleans()
    else:
        found = st.floats(width=32 if schema.kind is SchemaType.FLOAT32 else 64, allow_nan=False)
    return st.none() | found if schema.optional else found


@st.composite
def runs(draw: st.DrawFn) -> Run:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    schema = ConnectSchema(
        SchemaType.STRUCT, draw(st.booleans()), "S", 3, fields=tuple(Field(name, draw(schemas())) for name in names)
    )
    rows = draw(st.lists(values(replace(schema, optional=False)), min_size=1, max_size=4))
    offsets = np.arange(len(rows), dtype=np.int64) * 3 + 7
    some = st.integers(1_705_312_800_000, 1_705_316_400_000) | st.just(NO_TIMESTAMP)
    times = np.array(draw(st.lists(some, min_size=len(rows), max_size=len(rows))), np.int64)
    headers = [[{"key": "skip", "value": "1"}] if draw(st.booleans()) else [] for _ in rows]
    sidecars = {
        Role.KEY: Sidecar(StructColumns(arrow_table(rows, schema)), schema),
        Role.HEADER: Sidecar(Objects(headers), None),
    }
    return Run(offsets, times, StructColumns(arrow_table(rows, schema)), schema, sidecars)


PARTS = st.sampled_from([RecordPart.KEY, RecordPart.VALUE])
SOME = st.lists(st.sampled_from([*NAMES, "zzz"]), min_size=1, max_size=3, unique=True)
FLAGS = st.booleans()
INSERTIONS = st.lists(
    st.builds(Insertion, st.sampled_from(["topic", "partition", "offset", "timestamp", "static"]), st.sampled_from(["a", "n", "m"]), FLAGS),
    min_size=1, max_size=3, unique_by=lambda one: one.what,
)  # fmt: skip
TRANSFORMS: dict[str, st.SearchStrategy[Any]] = {
    "cast": st.builds(Cast, PARTS, st.dictionaries(st.sampled_from([*NAMES, "zzz"]), CASTS, min_size=1), st.none(), FLAGS),
    "replace field": st.builds(
        ReplaceField, PARTS, SOME.map(frozenset) | st.just(frozenset()), SOME.map(frozenset) | st.just(frozenset()),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "b", "n"]), max_size=2), FLAGS),
    "extract field": st.builds(ExtractField, PARTS, st.sampled_from([("a",), ("b",)]), st.just("a"), FLAGS),
    "hoist field": st.builds(HoistField, PARTS, st.just("in")),
    "value to key": st.builds(ValueToKey, SOME.map(tuple), FLAGS),
    "flatten": st.builds(Flatten, PARTS, st.sampled_from([".", "_"])),
    "insert field": st.builds(InsertField, PARTS, INSERTIONS.map(tuple), st.just("x"), FLAGS),
    "mask field": st.builds(MaskField, PARTS, SOME.map(frozenset), st.sampled_from([None, "9", "***"]), FLAGS),
    "schema metadata": st.builds(SetSchemaMetadata, PARTS, st.just("N"), st.none() | st.just(4), FLAGS),
    "timestamp converter": st.builds(
        TimestampConverter, PARTS, st.sampled_from(NAMES), st.sampled_from(sorted(SCHEMAS)),
        st.sampled_from([FULL, "yyyyMMdd", "d.M.yy"]).map(lambda pattern: SimpleDates(pattern, now_ms=1_705_312_800_000)),
        st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"]), FLAGS),
    "filter": st.builds(Filter),
    "drop": st.builds(Drop, PARTS, st.sampled_from(["nullify", "retain", "validate", "force_optional"])),
    "tombstone handler": st.builds(TombstoneHandler, st.just("ignore")),
    "regex router": st.builds(RegexRouter, st.sampled_from(["(or).*", "x"]).map(compile_pattern), st.sampled_from(["$1-n", "$9"])),
    "timestamp router": st.builds(
        TimestampRouter, st.just("${topic}-${timestamp}"),
        st.sampled_from(["yyyyMMdd", "yyyyMMddHH", "yyyy", "HH"]).map(lambda pattern: SimpleDates(pattern, now_ms=0))),
}  # fmt: skip
PREDICATES = st.sampled_from(
    [None, HasHeaderKey("skip"), RecordIsTombstone(), TopicNameMatches(compile_pattern("ord.*"))]
)


PHASES = list(Phase) if os.environ.get(NIGHTLY) else [Phase.explicit, Phase.reuse, Phase.generate]
"""A found case is made small in the nightly run only: that takes a minute."""


class OneByOne:
    """A transform without its quick way."""

    def __init__(self, inner: Transform) -> None:
        self.apply = inner.apply


def outcome(chain: Chain, run: Run) -> Any:
    """What becomes of each record: topic, key, value and headers with their schemas, or why it is refused."""
    found = chain.transform_runs([run], ORDERS)
    records: dict[int, Any] = {}
    for one in found.runs:
        key, headers = (one.sidecars.get(role, Sidecar(Nulls(len(one)), None)) for role in (Role.KEY, Role.HEADER))
        rows = zip(one.values.objects(), key.values.objects(), headers.values.objects(), strict=True)
        for offset, (value, own_key, own_headers) in zip(one.offsets.tolist(), rows, strict=True):
            schema = None if isinstance(one.values, Nulls) else one.schema
            key_schema = None if own_key is None else key.schema
            records[offset] = (one.topic, repr(value), schema, repr(own_key), key_schema, own_headers or [])
    return records, found.failures, found.dropped


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(TRANSFORMS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_columns_give_what_records_give(name: str, data: st.DataObject) -> None:
    run, transform = data.draw(runs()), data.draw(TRANSFORMS[name])
    predicate, wanted = data.draw(PREDICATES), data.draw(st.booleans())
    quick, plain = (Chain((ChainLink("t", way, predicate, wanted),)) for way in (transform, OneByOne(transform)))
    assert outcome(quick, run) == outcome(plain, run)


@settings(max_examples=examples(40), phases=PHASES)
@given(data=st.data())
def test_chains_of_columns_give_what_chains_of_records_give(data: st.DataObject) -> None:
    run = data.draw(runs())
    names = data.draw(st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=1, max_size=3))
    chosen = [(data.draw(TRANSFORMS[name]), data.draw(PREDICATES), data.draw(st.booleans())) for name in names]
    quick, plain = (
        Chain(tuple(ChainLink("t", way(one), predicate, wanted) for one, predicate, wanted in chosen))
        for way in (lambda one: one, OneByOne)
    )
    assert outcome(quick, run) == outcome(plain, run)


INT64, TIMES = ConnectSchema(SchemaType.INT64), np.array([1_705_312_800_000, NO_TIMESTAMP], np.int64)
SOME_TIMES = Run(
    np.arange(2), TIMES, Objects([{"a": 1}, {"a": 2}]), ConnectSchema(SchemaType.STRUCT, fields=(Field("a", INT64),))
)


@pytest.mark.parametrize(
    "way", [lambda values, schema: StructColumns(arrow_table(values.items, schema)), lambda values, _: values]
)
def test_a_record_that_lacks_what_its_schema_requires_is_refused_before_a_writer_sees_it(way: Any) -> None:
    run = replace(SOME_TIMES, values=way(SOME_TIMES.values, SOME_TIMES.schema))
    required = InsertField(RecordPart.VALUE, (Insertion("timestamp", "n", optional=False),), "x", defaults=False)
    found = Chain((ChainLink("t", required),)).transform_runs([run], ORDERS)
    assert [one.values.objects() for one in found.runs] == [[{"a": 1, "n": 1_705_312_800_000}]]
    assert found.failures == [rejection(1, "n: null for a field that is required.")]


@settings(max_examples=examples(60), phases=PHASES)
@given(
    insertions=INSERTIONS,
    documents=st.lists(st.dictionaries(st.sampled_from(["a", "b"]), st.integers()), min_size=1, max_size=4),
)
def test_fields_spliced_into_json_text_are_those_of_its_records(
    insertions: list[Insertion], documents: list[dict[str, int]]
) -> None:
    import pyarrow as pa

    offsets = np.arange(len(documents), dtype=np.int64)
    texts = pa.array([dumps(document).encode() for document in documents], pa.binary())
    run = Run(offsets, offsets + 5, JsonText(texts, None), None)
    transform = InsertField(RecordPart.VALUE, tuple(insertions), 'x"y', defaults=True)
    quick, plain = (Chain((ChainLink("t", way),)) for way in (transform, OneByOne(transform)))
    assert outcome(quick, run) == outcome(plain, run)


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcdef", "\u00e9"])
@pytest.mark.parametrize("shift", range(5))
def test_a_field_that_a_document_has_already_is_put_in_its_place_wherever_it_is(name: str, shift: int) -> None:
    import pyarrow as pa

    transform = InsertField(RecordPart.VALUE, (Insertion("static", name, optional=True),), "new", defaults=True)
    for own in (name, f"{name}x", f"x{name}"):
        document = {"z" * shift: 0, own: 1}
        texts = pa.array([dumps(document).encode(), b'{"z":0}'], pa.binary())
        run = Run(np.arange(1), np.arange(1), JsonText(texts.slice(0, 1), None), None)
        found = Chain((ChainLink("t", transform),)).transform_runs([run], ORDERS).runs[0].values.objects()
        assert found == [document | {name: "new"}]


def test_a_tombstone_that_is_rewritten_is_a_record_with_a_mark_and_others_pass() -> None:
    record = ConnectRecord("orders", 0, 7, None, "k", None, None, None)
    assert TombstoneHandler("rewrite").apply(record) == replace(record, value={"__deleted": "true"})
    live = replace(record, value={"n": 1})
    assert TombstoneHandler("rewrite").apply(live) is live
