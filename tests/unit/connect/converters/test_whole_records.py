"""Key, value and headers of a record stay together, and each record comes out exactly once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.converter import Converter, KafkaBatch
from kafka_s3.connect.converters.json_values import JsonEnvelope, JsonValues
from kafka_s3.connect.converters.plain import Numbers, Strings
from kafka_s3.connect.converters.whole_records import RecordConverter
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.model.dead_letters import SINK_TASK, Stage
from kafka_s3.model.files import Role
from kafka_s3_testing.services.memory import HEADER, MemoryRecord
from tests.support.configurations import TOLERANT
from tests.support.examples import examples
from tests.support.memory_world import ORDERS, START_MS, World

KEYS, HEADERS = frozenset({Role.KEY}), frozenset({Role.HEADER})
ALL = KEYS | HEADERS
Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Key, value, headers."""


def envelope(kind: str, payload: Any, name: str | None = None) -> bytes:
    return json.dumps({"schema": {"type": kind, "optional": True, "name": name}, "payload": payload}).encode()


def decode(converter: RecordConverter, records: list[Record], *, first: int = 0) -> Decoded:
    """The records at every second offset."""
    count = len(records)
    keys = pa.array([key for key, _, _ in records], pa.binary())
    values = pa.array([value for _, value, _ in records], pa.binary())
    heads = [[{"key": name, "value": raw} for name, raw in found] for _, _, found in records]
    batch = KafkaBatch(np.arange(count) * 2 + first, np.arange(count) + 1000, values, pa.array(heads, pa.list_(HEADER)))
    return converter.decode_records(batch, keys)


def rows(decoded: Decoded) -> list[tuple[int, Any, Any, Any]]:
    """Offset, value, key and headers of every record, in the order of the runs."""
    found = []
    for run in decoded.runs:
        sidecars = [
            run.sidecars[role].values.objects() if role in run.sidecars else [None] * len(run)
            for role in (Role.KEY, Role.HEADER)
        ]
        assert len(run.values) == len(run) == len(sidecars[0]) == len(sidecars[1]) == len(run.timestamps)
        assert run.timestamps.tolist() == [offset // 2 + 1000 for offset in run.offsets.tolist()]
        found += zip(run.offsets.tolist(), run.values.objects(), *sidecars, strict=True)
    return found


def test_keys_and_headers_travel_with_their_values() -> None:
    converter = RecordConverter(JsonValues(), Strings(), ALL)
    decoded = decode(converter, [(f"k{n}".encode(), str(n).encode(), [("h", b"%d.50" % n)]) for n in range(4)])

    assert rows(decoded) == [(2 * n, n, f"k{n}", [{"key": "h", "value": f"{n}.5"}]) for n in range(4)]
    assert len(decoded.runs) == 1


def test_another_schema_of_the_key_cuts_the_run() -> None:
    keys = [envelope("string", "a"), envelope("string", "b"), envelope("int32", 3), envelope("string", "d")]
    decoded = decode(RecordConverter(JsonValues(), JsonEnvelope(), KEYS), [(key, b"{}", []) for key in keys])

    assert [run.offsets.tolist() for run in decoded.runs] == [[0, 2], [4], [6]]
    assert [key for _, _, key, _ in rows(decoded)] == ["a", "b", 3, "d"]
    assert [str(run.sidecars[Role.KEY].schema.kind) for run in decoded.runs] == ["string", "int32", "string"]


def test_keys_that_are_not_stored_cut_no_run_but_fail_their_records() -> None:
    keys = [envelope("string", "a"), b"{bad", envelope("int32", 3), None]
    decoded = decode(RecordConverter(JsonValues(), JsonEnvelope()), [(key, b"{}", []) for key in keys])

    assert [run.offsets.tolist() for run in decoded.runs] == [[0, 4, 6]]
    assert [(failure.offset, failure.stage) for failure in decoded.failures] == [(2, Stage.KEY_CONVERTER)]
    assert decoded.runs[0].sidecars == {}


def test_a_record_whose_key_fails_is_not_looked_at_again() -> None:
    decoded = decode(
        RecordConverter(JsonValues(), Numbers("long"), KEYS), [(b"short", b"{bad", []), (b"short", None, [])]
    )

    assert [(failure.offset, failure.stage) for failure in decoded.failures] == [
        (0, Stage.KEY_CONVERTER), (2, Stage.KEY_CONVERTER),
    ]  # fmt: skip
    assert (decoded.runs, decoded.nulls) == ([], [])


@pytest.mark.parametrize(
    ("stores", "record", "text"),
    [
        (KEYS, (None, b"1", []), "Key cannot be null"),
        (HEADERS, (b"k", b"1", []), "Headers cannot be missing"),
        (HEADERS, (b"k", b"1", [("a", b"1"), ("b", None)]), "without a value"),
    ],
)
def test_a_record_without_what_is_to_be_stored_is_rejected(stores: frozenset[Role], record: Record, text: str) -> None:
    good: Record = (b"k", b"2", [("a", b"1")])
    decoded = decode(RecordConverter(JsonValues(), Strings(), stores), [good, record, good])
    (failure,) = decoded.failures

    assert (failure.offset, failure.stage, failure.component) == (2, Stage.TASK_PUT, SINK_TASK)
    assert text in failure.message
    assert [offset for offset, *_ in rows(decoded)] == [0, 4]


def test_tombstones_stand_between_the_values_in_offset_order() -> None:
    values = [None, b"1", None, None, b"2", b"3", None]
    decoded = decode(
        RecordConverter(JsonValues(), Strings(), KEYS, tombstones=True),
        [(b"k%d" % n, v, []) for n, v in enumerate(values)],
    )

    assert [(run.offsets.tolist(), run.tombstones) for run in decoded.runs] == [
        ([0], True), ([2], False), ([4, 6], True), ([8, 10], False), ([12], True),
    ]  # fmt: skip
    assert decoded.nulls == []
    assert [key for _, _, key, _ in rows(decoded)] == [f"k{n}" for n in range(7)]


SOME_KEYS = [b"7", None, b"{bad", b'"x"', b"null"]
ENVELOPES = [envelope("string", "a"), envelope("int32", 3), None, b"{bad", envelope("string", None)]
HEADS: list[list[tuple[str, bytes | None]]] = [[("a", b"1")], [], [("a", b"1"), ("b", b"x")], [("a", None)]]


@settings(max_examples=examples(150))
@given(
    records=st.lists(
        st.tuples(
            st.sampled_from(SOME_KEYS + ENVELOPES),
            st.sampled_from([b"1", b'{"a": 1}', None, b"{bad", b"null", envelope("string", "v"), envelope("int32", 5)]),
            st.sampled_from([HEADS[0], *HEADS]),
        ),
        max_size=14,
    ),
    keys=st.sampled_from([None, Strings(), JsonValues(), JsonEnvelope(), Numbers("short")]),
    values=st.sampled_from([JsonValues(), JsonEnvelope(), Strings()]),
    stores=st.sampled_from([frozenset(), KEYS, HEADERS, ALL]),
    tombstones=st.booleans(),
)
def test_each_record_is_a_value_a_tombstone_a_failure_or_a_null_once(
    records: list[Record], keys: Converter | None, values: Converter, stores: frozenset[Role], tombstones: bool
) -> None:
    if keys is None:
        stores -= KEYS
    decoded = decode(RecordConverter(values, keys, stores, tombstones), records, first=10)
    written = [int(offset) for run in decoded.runs for offset in run.offsets]

    assert written == sorted(written)
    reported = written + [failure.offset for failure in decoded.failures] + decoded.nulls
    assert sorted(reported) == [10 + 2 * n for n in range(len(records))]
    assert not (tombstones and decoded.nulls)
    for run in decoded.runs:
        assert set(run.sidecars) == stores
        plain_values = values.decode(KafkaBatch(*_only(run.offsets, records))).runs
        if run.tombstones:
            assert plain_values == []
        else:
            assert [value for found in plain_values for value in found.values.objects()] == run.values.objects()
        if Role.KEY in stores and keys is not None:
            plain_keys = keys.decode(KafkaBatch(*_only(run.offsets, records, part=0))).runs
            assert [key for found in plain_keys for key in found.values.objects()] == run.sidecars[
                Role.KEY
            ].values.objects()
        if Role.HEADER in stores:
            names = [[head["key"] for head in one] for one in run.sidecars[Role.HEADER].values.objects()]
            assert names == [[name for name, _ in records[(offset - 10) // 2][2]] for offset in run.offsets]


def _only(offsets: Any, records: list[Record], *, part: int = 1) -> tuple[Any, Any, Any]:
    some = pa.array([records[(offset - 10) // 2][part] for offset in offsets], pa.binary())
    return offsets, offsets, some


@pytest.mark.nightly  # it compares two durations
def test_many_changes_of_both_schemas_take_no_square_of_the_time() -> None:
    import time

    keys = [envelope("string", "a"), envelope("int32", 3)]
    values = [envelope("string", "v"), envelope("int32", 5)]

    def spent(count: int) -> float:
        records: list[Record] = [(keys[n % 2], values[n % 2], []) for n in range(count)]
        begun = time.process_time()
        decoded = decode(RecordConverter(JsonEnvelope(), JsonEnvelope(), KEYS), records)
        assert len(decoded.runs) == count
        return time.process_time() - begun

    assert spent(4000) < 10 * spent(1000)  # by the square it would be sixteen times


def test_null_keys_and_missing_headers_reach_no_object() -> None:
    on = {"store.kafka.keys": "true", "store.kafka.headers": "true", "key.converter": "org.apache.kafka.connect.storage.StringConverter",
          "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat", "flush.size": "2",
          "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat"}  # fmt: skip
    world = World({**TOLERANT, **on})
    world.start()
    heads = (("h", b"1"),)
    for offset, (key, headers) in enumerate([(None, heads), (b"a", heads), (b"b", ()), (b"c", heads)]):
        world.kafka.add(ORDERS, MemoryRecord(offset, START_MS, key, b'{"n": %d}' % offset, headers))
    world.sink.poll_and_commit()
    name = "topics/orders/partition=0/orders+0+0000000001"

    assert world.objects() == {
        f"{name}.json": [{"n": 1}, {"n": 3}],
        f"{name}.keys.json": ["a", "c"],
        f"{name}.headers.json": [{"headers": [{"key": "h", "value": "1"}]}] * 2,
    }
    assert [message.origin for message in world.kafka.produced["dlq"]] == [("orders", 0, 0), ("orders", 0, 2)]
