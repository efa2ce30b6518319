"""Which schema does each record name, whoever's serializers wrote it, and where does its payload begin?"""

from __future__ import annotations

import json
import uuid
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.registry.options import Framing, SubjectNameStrategy, strategy_of, subject
from kafka_s3.connect.registry.wire_format import (
    FAILURES,
    LARGEST_BYTES,
    MOST_INDEXES,
    UNKNOWN_MAGIC,
    Framed,
    MessageIndexes,
    SchemaName,
    framed,
    inflated,
    payloads,
    schema_id_headers,
    slices,
)
from kafka_s3.model.files import Role
from tests.support.examples import examples

GUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
TEXT = str(GUID)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def classic(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def parse(records: list[bytes | None], *, indexes: MessageIndexes = MessageIndexes.ABSENT, headers=None) -> Framed:
    return framed(pa.array(records, pa.binary()), headers=headers, indexes=indexes)


def one(record: bytes, *, indexes: MessageIndexes = MessageIndexes.ABSENT, header: bytes | None = None):
    """Schema name and payload of one record, or the reason why it has none."""
    result = parse([record], indexes=indexes, headers=[header])
    if result.failures:
        assert not result.by_schema
        return result.failures[0][1]
    [(name, rows, starts)] = result.by_schema
    return name, payloads(pa.array([record]), rows, starts)[0].as_py()


def zigzag(number: int) -> bytes:
    raw, out = (number << 1) ^ (number >> 63), bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def listed(*indexes: int) -> bytes:
    return b"".join(map(zigzag, (len(indexes), *indexes)))


def test_the_published_vectors_hold():
    name, payload = one(bytes.fromhex("00000000010c76616c756531"))
    assert (name, payload.hex()) == (SchemaName(id=1), "0c76616c756531")
    name, payload = one(bytes.fromhex("00000000030402000a0676616c756531"), indexes=MessageIndexes.FOLLOW)
    assert (name, payload.hex()) == (SchemaName(id=3, indexes=(1, 0)), "0a0676616c756531")
    assert "Empty bytes" in one(b"")


def test_a_guid_comes_before_the_payload():
    assert one(b"\1" + GUID.bytes + b"abc") == (SchemaName(guid=TEXT), b"abc")
    assert one(b"\1" + GUID.bytes + b"\0abc", indexes=MessageIndexes.FOLLOW) == (
        SchemaName(guid=TEXT, indexes=(0,)),
        b"abc",
    )


def test_with_a_guid_in_the_header_the_whole_record_is_payload():
    header = b"\1" + GUID.bytes
    assert one(b"\0\0\0\0\7abc", header=header) == (SchemaName(guid=TEXT), b"\0\0\0\0\7abc")
    assert one(b"", header=header) == (SchemaName(guid=TEXT), b"")
    assert one(b"abc", header=header + listed(2, 1), indexes=MessageIndexes.FOLLOW) == (
        SchemaName(guid=TEXT, indexes=(2, 1)),
        b"abc",
    )


def test_a_bad_header_is_a_failure_even_if_the_record_names_a_schema():
    assert one(classic(1, b"x"), header=b"\7" + GUID.bytes) == UNKNOWN_MAGIC
    assert "end within the schema id" in one(classic(1, b"x"), header=b"\1short")


@pytest.mark.parametrize(
    ("indexes", "path"),
    [(b"\0", (0,)), (listed(0), (0,)), (listed(3), (3,)), (listed(1, 200, 70000), (1, 200, 70000))],
)
def test_message_indexes_are_zigzag_varints(indexes, path):
    assert one(classic(9, indexes + b"rest"), indexes=MessageIndexes.FOLLOW) == (
        SchemaName(id=9, indexes=path),
        b"rest",
    )


@pytest.mark.parametrize(
    "indexes",
    [
        b"", b"\x80", b"\xff\xff\xff\xff\xff\x01", listed(-1), zigzag(-1), zigzag(2) + zigzag(0), zigzag(1),
        zigzag(MOST_INDEXES + 1) + b"\0" * (MOST_INDEXES + 1), listed(2**31),
    ],
)  # fmt: skip
def test_malformed_message_indexes_are_failures(indexes):
    assert one(classic(9, indexes), indexes=MessageIndexes.FOLLOW) == FAILURES[4]


def test_a_list_ends_with_its_record_even_if_the_next_one_would_complete_it():
    result = parse([classic(1, b"\x80"), b"\1" + GUID.bytes + b"\0"], indexes=MessageIndexes.FOLLOW)
    assert [row for row, _ in result.failures] == [0]
    assert result.names == [SchemaName(guid=TEXT, indexes=(0,))]


def test_failures_and_nulls_have_their_places():
    result = parse([b"{}", None, b"", b"\0\0\0\1", classic(5, b""), b"\1" + GUID.bytes[:15]])
    assert result.failures == [(0, UNKNOWN_MAGIC), (2, FAILURES[1]), (3, FAILURES[3]), (5, FAILURES[3])]
    assert result.rows.tolist() == [4]


def test_an_id_is_read_as_java_reads_it():
    assert one(b"\0\xff\xff\xff\xff")[0] == SchemaName(id=-1)
    assert one(b"\0\x7f\xff\xff\xff")[0] == SchemaName(id=2**31 - 1)


def test_all_records_of_one_schema_form_a_group():
    result = parse([classic(1, b"a"), classic(1, b"b"), b"?", classic(1, b"c"), classic(2, b"d"), classic(1, b"e")])
    assert [(name.id, rows.tolist()) for name, rows, _ in result.by_schema] == [(1, [0, 1, 3, 5]), (2, [4])]


def test_an_empty_batch_has_no_groups():
    result = parse([])
    assert (result.by_schema, result.failures) == ([], [])
    assert len(payloads(pa.array([], pa.binary()), result.rows, result.starts)) == 0


def test_payloads_of_different_prefixes_keep_their_order():
    records = [
        classic(3, b"\0one"),
        classic(3, listed(0) + b"two"),
        b"",
        classic(3, b"\0"),
        classic(3, listed(0) + b"4"),
    ]
    result = parse(records, indexes=MessageIndexes.FOLLOW)
    [(_, rows, starts)] = result.by_schema
    assert starts.tolist() == [6, 7, 6, 7]
    assert payloads(pa.array(records), rows, starts).to_pylist() == [b"one", b"two", b"", b"4"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_slices_of_every_binary_type_are_read(kind):
    array = (
        pa.array([b"zzzz", classic(1, b"a"), classic(2, b"bb"), classic(2, b""), b"zz"], pa.binary())
        .cast(kind)
        .slice(1, 3)
    )
    result = framed(array, headers=None, indexes=MessageIndexes.ABSENT)
    assert [(name.id, rows.tolist()) for name, rows, _ in result.by_schema] == [(1, [0]), (2, [1, 2])]
    cut = payloads(array, result.rows, result.starts)
    assert (cut.type, cut.to_pylist()) == (pa.binary(), [b"a", b"bb", b""])
    assert payloads(array, np.array([2, 0]), np.array([5, 5])).to_pylist() == [b"", b"a"]


def test_only_headers_named_exactly_so_count_and_the_last_one_wins():
    rows = [
        [("__value_schema_id", b"first"), ("__value_schema_id", b"last"), ("other", b"x")],
        None,
        [],
        [("__key_schema_id", b"key"), ("__VALUE_SCHEMA_ID", b"no"), ("__value_schema_id ", b"no")],
        [("__value_schema_id", b"v")],
    ]
    array = pa.array(rows, HEADERS)
    assert schema_id_headers(array, Role.VALUE).to_pylist() == [b"last", None, None, None, b"v"]
    assert schema_id_headers(array.slice(1, 3), Role.KEY).to_pylist() == [None, None, b"key"]
    assert schema_id_headers(array.slice(1, 3), Role.VALUE) is None


def test_records_with_and_without_a_header_mix():
    records = pa.array([b"whole", classic(4, b"cut"), None])
    headers = pa.array(
        [[("__value_schema_id", b"\1" + GUID.bytes)], [], [("__value_schema_id", b"\1" + GUID.bytes)]], HEADERS
    )
    result = framed(records, headers=schema_id_headers(headers, Role.VALUE), indexes=MessageIndexes.ABSENT)
    assert [name for name, _, _ in result.by_schema] == [SchemaName(guid=TEXT), SchemaName(id=4)]
    assert payloads(records, result.rows, result.starts).to_pylist() == [b"whole", b"cut"]
    assert 2 not in result.rows


def expected(record: bytes, follow: MessageIndexes) -> tuple[SchemaName, bytes] | None:
    """The rules once more, a byte at a time."""
    size = {0: 5, 1: 17}.get(record[0]) if record else None
    if size is None or len(record) < size:
        return None
    prefix, rest = record[1:size], record[size:]
    path = None
    if follow is MessageIndexes.PLACE:
        try:
            place, rest = raw_varint(rest)
        except IndexError:
            return None
        if place >= 2**31:
            return None
        path = [place]
    elif follow is MessageIndexes.FOLLOW:
        try:
            count, rest = varint(rest)
            if not 0 <= count <= MOST_INDEXES:
                return None
            path = [] if count else [0]
            for _ in range(count):
                index, rest = varint(rest)
                if not 0 <= index < 2**31:
                    return None
                path.append(index)
        except IndexError:
            return None
    indexes = None if path is None else tuple(path)
    if size == 5:
        return SchemaName(id=int.from_bytes(prefix, "big", signed=True), indexes=indexes), rest
    return SchemaName(guid=str(uuid.UUID(bytes=prefix)), indexes=indexes), rest


def varint(rest: bytes) -> tuple[int, bytes]:
    raw, rest = raw_varint(rest)
    return (raw >> 1) ^ -(raw & 1), rest


def raw_varint(rest: bytes) -> tuple[int, bytes]:
    raw = 0
    for place in range(5):
        raw |= (rest[place] & 0x7F) << 7 * place
        if rest[place] < 0x80:
            return raw, rest[place + 1 :]
    raise IndexError


RECORDS = st.lists(
    st.none()
    | st.binary(max_size=30)
    | st.builds(lambda i, b: classic(i, b), st.integers(0, 2), st.binary(max_size=8))
    | st.builds(
        lambda p, b: classic(1, listed(*p) + b), st.lists(st.integers(0, 300), max_size=3), st.binary(max_size=3)
    )
    | st.builds(lambda b: b"\1" + GUID.bytes + b, st.binary(max_size=8)),
    max_size=12,
)


@given(
    records=RECORDS,
    headers=st.lists(st.none() | st.binary(max_size=20), min_size=12, max_size=12),
    skip=st.integers(0, 3),
)
@pytest.mark.parametrize("indexes", MessageIndexes)
def test_whatever_the_bytes_every_record_is_read_as_by_the_rules(indexes, records, headers, skip):
    array, given_headers = pa.array(records, pa.binary()).slice(skip), pa.array(headers, pa.binary()).slice(skip)
    given_headers = given_headers.slice(0, len(array))
    result = framed(array, headers=given_headers, indexes=indexes)
    wanted = {}
    for row, (record, header) in enumerate(zip(records[skip:], headers[skip:], strict=False)):
        if record is not None:
            named = expected(record if header is None else header, indexes)
            wanted[row] = named and (named[0], named[1] if header is None else record)
    assert [row for row, _ in result.failures] == [row for row, found in wanted.items() if found is None]
    found = {}
    for name, rows, starts in result.by_schema:
        found |= {int(row): (name, cut.as_py()) for row, cut in zip(rows, payloads(array, rows, starts), strict=True)}
    assert found == {row: good for row, good in wanted.items() if good is not None}
    assert len({name for name, _, _ in result.by_schema}) == len(result.by_schema)


def test_subjects_follow_the_published_vectors():
    assert subject("TopicNameStrategy", "orders", "com.acme.Order", role=Role.VALUE) == "orders-value"
    assert subject("TopicNameStrategy", "orders", None, role=Role.KEY) == "orders-key"
    assert subject("TopicRecordNameStrategy", "orders", "com.acme.Order", role=Role.VALUE) == "orders-com.acme.Order"
    assert subject("RecordNameStrategy", "orders", "com.acme.Order", role=Role.KEY) == "com.acme.Order"


@pytest.mark.parametrize("strategy", SubjectNameStrategy)
def test_a_strategy_is_known_by_its_java_class_too(strategy):
    assert strategy_of(f"io.confluent.kafka.serializers.subject.{strategy}") is strategy


def test_an_unknown_strategy_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"'com.acme.Mine'.*TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy"
    ):
        subject("com.acme.Mine", "orders", "x", role=Role.VALUE)


def test_a_schema_without_a_name_has_no_subject_by_its_name():
    with pytest.raises(ValueError, match=r"RecordNameStrategy needs the name.*topic orders"):
        subject("RecordNameStrategy", "orders", None, role=Role.VALUE)


def test_a_json_record_without_the_wire_format_is_an_unknown_magic_byte():
    assert one(json.dumps({"f": 1}).encode()) == "Unknown magic byte!"


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
