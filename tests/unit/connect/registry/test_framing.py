"""Does each serializer's prefix name the schema that it was written with, whatever the bytes are?"""

from __future__ import annotations

import uuid
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.registry.options import Framing
from kafka_s3.connect.registry.wire_format import (
    FAILURES,
    LARGEST_BYTES,
    UNKNOWN_MAGIC,
    MessageIndexes,
    SchemaName,
    framed,
    inflated,
    payloads,
    slices,
)
from tests.support.examples import examples

IDS = {Framing.APICURIO_4: 4, Framing.APICURIO_8: 8}


def parts(record: bytes, framing: Framing) -> tuple[SchemaName, bytes] | str:
    """What one record names, and its payload; or why it is refused."""
    values = pa.array([record], pa.binary())
    found = framed(values, headers=None, indexes=MessageIndexes.ABSENT, framing=framing)
    if found.failures:
        return found.failures[0][1]
    ((name, rows, starts),) = found.by_schema
    return name, payloads(values, rows, starts)[0].as_py()


@settings(max_examples=examples(50))
@given(st.sampled_from(list(IDS)), st.data(), st.binary(max_size=20))
def test_ids_of_apicurio_are_signed_numbers_of_their_size(
    framing: Framing, data: st.DataObject, payload: bytes
) -> None:
    bits = 8 * IDS[framing] - 1
    number = data.draw(st.integers(-(2**bits), 2**bits - 1))
    record = b"\0" + number.to_bytes(IDS[framing], "big", signed=True) + payload
    assert parts(record, framing) == (SchemaName(id=number), payload)


@pytest.mark.parametrize(("record", "name"), [
    (b"\0\0\0\0\x07abc", 7), (b"\0" + (7).to_bytes(8, "big") + b"abc", 7), (b"\0\0\0\0\0", 0), (b"\0\0\0\0\0abc", 0),
])  # fmt: skip
def test_an_id_of_either_size_has_eight_bytes_where_the_first_four_are_zero(record: bytes, name: int) -> None:
    found = parts(record, Framing.APICURIO_EITHER)
    assert not isinstance(found, str)
    assert found[0] == SchemaName(id=name)


def test_glue_names_a_version_by_its_id() -> None:
    version = uuid.uuid4()
    assert parts(b"\x03\x00" + version.bytes + b"abc", Framing.GLUE) == (SchemaName(guid=str(version)), b"abc")
    assert parts(b"\x03\x07" + version.bytes + b"abc", Framing.GLUE) == FAILURES[5]
    assert parts(b"\x00" + version.bytes + b"abc", Framing.GLUE) == UNKNOWN_MAGIC
    assert parts(b"\x03\x00" + version.bytes[:15], Framing.GLUE) == FAILURES[3]
    assert parts(b"", Framing.GLUE) == FAILURES[1]


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=50)) | st.none(), max_size=8))
def test_inflating_gives_what_would_have_been_written_without(records: list[tuple[bool, bytes] | None]) -> None:
    head = uuid.UUID(int=5).bytes
    plain = [None if one is None else b"\x03\x00" + head + one[1] for one in records]
    given = [
        None
        if one is None
        else b"\x03" + (b"\x05" + head + zlib.compress(one[1]) if one[0] else b"\x00" + head + one[1])
        for one in records
    ]
    found, failures = inflated(pa.array(given, pa.binary()), LARGEST_BYTES)
    assert (found.to_pylist(), failures) == (plain, [])


def compressed(size: int) -> bytes:
    return b"\x03\x05" + bytes(16) + zlib.compress(bytes(size))


def test_a_payload_that_grows_beyond_bounds_fails_alone() -> None:
    found, failures = inflated(pa.array([compressed(1001), compressed(1000)], pa.binary()), 1000)
    assert found.to_pylist() == [None, b"\x03\x00" + bytes(16) + bytes(1000)]
    assert failures == [
        (0, "The payload cannot be inflated: it has more than 1000 bytes, half of writer.memory.bytes.")
    ]


@settings(max_examples=examples(50))
@given(st.lists(st.none() | st.tuples(st.booleans(), st.integers(0, 3000)), min_size=1, max_size=20))
def test_records_are_taken_in_pieces_that_inflate_to_no_more_than_is_allowed_but_for_single_ones(
    sizes: list[tuple[bool, int] | None],
) -> None:
    budget = 2000
    records = [None if one is None else compressed(one[1]) if one[0] else bytes(one[1]) for one in sizes]
    held = [
        0 if one is None else len(r or b"") + min(one[1], budget) * one[0]
        for one, r in zip(sizes, records, strict=True)
    ]
    found = list(slices([pa.array(records, pa.binary())], budget))
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == len(records)
    if any(one and one[0] for one in sizes):
        assert all(sum(held[start:stop]) <= budget or stop - start == 1 for start, stop in found)
        assert all(sum(held[start : stop + 1]) > budget for start, stop in found[:-1])
    else:
        assert len(found) == 1


def test_keys_and_values_count_together() -> None:
    keys, values = (pa.array([compressed(600)] * 4, pa.binary()) for _ in range(2))
    assert list(slices([values], 2000)) == [(0, 3), (3, 4)]
    assert list(slices([keys, values], 2000)) == [(0, 1), (1, 2), (2, 3), (3, 4)]
