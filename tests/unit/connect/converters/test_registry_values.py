"""What a record says of its schema is looked up once; what it says wrong fails that record alone."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_s3.connect.converters.avro import AvroPayloads
from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.json_schema import JsonSchemaPayloads
from kafka_s3.connect.converters.registry_values import MakeDecoder, RegistryValues, SchemaCatalog
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.connect.registry.options import SubjectNameStrategy
from kafka_s3.connect.registry.wire_format import UNKNOWN_MAGIC
from kafka_s3.connect.schemas.avro_types import CONVERTER_OPTIONS
from kafka_s3.connect.schemas.json_schema import JsonSchemaOptions
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema
from kafka_s3.model.dead_letters import Stage
from kafka_s3.model.errors import RegistryError, RegistryUnavailable, UnknownSchema
from kafka_s3.model.files import Role
from kafka_s3_testing.services.memory import HEADER
from tests.support.examples import examples


def avro_schema(name: str, *fields: str) -> RegisteredSchema:
    members = [{"name": member, "type": "long"} for member in fields]
    return RegisteredSchema(
        Language.AVRO, json.dumps({"type": "record", "name": name, "namespace": "com.example", "fields": members})
    )


V1, V2 = avro_schema("Order", "n"), avro_schema("Order", "n", "m")
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}
JSON = RegisteredSchema(Language.JSON, json.dumps({"oneOf": [{"type": "null"}, OBJECT]}))
BROKEN = RegisteredSchema(Language.AVRO, '{"type": "record"}')
GUID = "11112222-3333-4444-5555-666677778888"


@dataclass
class Shelf:
    """A schema registry in memory; `fails` is raised instead of an answer. `asked` lists the requests."""

    schemas: dict[int, RegisteredSchema] = field(default_factory=lambda: {1: V1, 2: V2, 3: JSON, 4: BROKEN})
    guids: dict[str, RegisteredSchema] = field(default_factory=lambda: {GUID: V2})
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    fails: Exception | None = None
    asked: list[Any] = field(default_factory=list)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        return self._answer(self.schemas, schema_id)

    def by_guid(self, guid: str) -> RegisteredSchema:
        return self._answer(self.guids, guid)

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        self.asked.append(subject)
        return self.versions.get((subject, schema.text))

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        raise UnknownSchema(subject)

    def _answer(self, known: dict[Any, RegisteredSchema], name: Any) -> RegisteredSchema:
        self.asked.append(name)
        if self.fails is not None:
            raise self.fails
        if name not in known:
            raise UnknownSchema(f"Schema {name} not found.")
        return known[name]


def avro(schema: RegisteredSchema, indexes: tuple[int, ...], version: int | None) -> AvroPayloads:
    return AvroPayloads(schema, CONVERTER_OPTIONS, version=version)


def json_schema(schema: RegisteredSchema, indexes: tuple[int, ...], version: int | None) -> JsonSchemaPayloads:
    return JsonSchemaPayloads(schema, JsonSchemaOptions(), version=version)


def converter(
    shelf: Shelf,
    *,
    strategy: SubjectNameStrategy = SubjectNameStrategy.TOPIC,
    role: Role = Role.VALUE,
    size: int = 1000,
) -> RegistryValues:
    return RegistryValues(SchemaCatalog(shelf, Language.AVRO, strategy, avro, size), "orders", role)


def batch(values: list[bytes | None], headers: list[list[tuple[str, bytes | None]]] | None = None) -> KafkaBatch:
    heads = None if headers is None else pa.array(
        [[{"key": name, "value": raw} for name, raw in one] for one in headers], pa.list_(HEADER)
    )  # fmt: skip
    count = len(values)
    return KafkaBatch(np.arange(count) * 3 + 7, np.arange(count), pa.array(values, pa.binary()), heads)


def message(schema_id: int, *numbers: int) -> bytes:
    return b"\0" + struct.pack(">i", schema_id) + bytes(number << 1 for number in numbers)


def by_offset(decoded: Decoded) -> dict[int, Any]:
    return {
        int(offset): value
        for run in decoded.runs
        for offset, value in zip(run.offsets, run.values.objects(), strict=True)
    }


def test_a_schema_is_asked_for_once_however_many_records_name_it() -> None:
    shelf = Shelf()
    values = converter(shelf)
    for _ in range(3):
        decoded = values.decode(batch([message(1, 5), message(1, 6)]))

    assert by_offset(decoded) == {7: {"n": 5}, 10: {"n": 6}}
    assert shelf.asked == [1, "orders-value"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (message(9, 1), "Schema 9 not found"),
        (message(3, 1), "is JSON, but the converter reads AVRO"),
        (message(4, 1), "Avro"),
        (b"\x05" + message(1, 1), UNKNOWN_MAGIC),
        (b"", "Empty bytes"),
        (b"\0\0\0", "end within the schema id"),
        (message(1), "ends too early"),
        (b"\x01" + uuid.UUID(int=7).bytes + b"\x02", "not found"),
    ],
)
def test_what_a_record_does_wrong_fails_that_record(value: bytes, text: str) -> None:
    decoded = converter(Shelf()).decode(batch([message(1, 1), value, message(1, 3)]))
    (failure,) = decoded.failures

    assert by_offset(decoded) == {7: {"n": 1}, 13: {"n": 3}}
    assert (failure.offset, failure.stage) == (10, Stage.VALUE_CONVERTER)
    assert failure.component == "io.confluent.connect.avro.AvroConverter"
    assert text in failure.message


@pytest.mark.parametrize("error", [RegistryUnavailable("no answer"), RegistryError("403")])
def test_a_registry_that_does_not_answer_fails_the_task_and_no_record(error: Exception) -> None:
    shelf = Shelf(fails=error)
    values = converter(shelf)
    with pytest.raises(type(error)):
        values.decode(batch([message(1, 1)]))
    shelf.fails = None

    assert by_offset(values.decode(batch([message(1, 1)]))) == {7: {"n": 1}}


def test_an_unknown_schema_is_asked_for_again_once_it_may_be_registered() -> None:
    shelf = Shelf()
    values = converter(shelf)
    assert values.decode(batch([message(9, 1)])).failures
    shelf.schemas[9] = V1

    assert by_offset(values.decode(batch([message(9, 1)]))) == {7: {"n": 1}}


def test_nulls_do_not_go_to_the_registry() -> None:
    shelf = Shelf(fails=RegistryUnavailable("down"))

    assert converter(shelf).decode(batch([None, None])).nulls == [7, 10]


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from([1, 1, 2, 9, None]), max_size=20))
def test_interleaved_schemas_give_a_run_each_in_offset_order(ids: list[int | None]) -> None:
    numbers = {1: (5,), 2: (5, 6), 9: (1,)}
    decoded = converter(Shelf()).decode(batch([None if one is None else message(one, *numbers[one]) for one in ids]))
    offsets = [7 + 3 * row for row in range(len(ids))]
    written = [run.offsets.tolist() for run in decoded.runs]

    known = [one for one in dict.fromkeys(ids) if one in (1, 2)]
    assert written == [[offset for offset, other in zip(offsets, ids, strict=True) if other == one] for one in known]
    assert decoded.nulls == [offset for offset, one in zip(offsets, ids, strict=True) if one is None]
    assert [failure.offset for failure in decoded.failures] == [
        o for o, one in zip(offsets, ids, strict=True) if one == 9
    ]
    expected = {1: {"n": 5}, 2: {"n": 5, "m": 6}}
    assert by_offset(decoded) == {o: expected[one] for o, one in zip(offsets, ids, strict=True) if one in (1, 2)}
    for run in decoded.runs:
        assert run.timestamps.tolist() == [(offset - 7) // 3 for offset in run.offsets.tolist()]


def test_a_guid_names_a_schema_in_the_bytes_or_in_a_header() -> None:
    prefix = b"\x01" + uuid.UUID(GUID).bytes
    name = ("__value_schema_id", prefix)
    decoded = converter(Shelf()).decode(
        batch(
            [prefix + b"\x02\x04", b"\x06\x08", message(1, 9), b"\x02\x04"],
            [[], [("other", None), name], [("__key_schema_id", prefix)], [("__value_schema_id", b"\x01short")]],
        )
    )

    assert by_offset(decoded) == {7: {"n": 1, "m": 2}, 10: {"n": 3, "m": 4}, 13: {"n": 9}}
    assert [failure.offset for failure in decoded.failures] == [16]


@pytest.mark.parametrize(
    ("strategy", "role", "subject"),
    [
        (SubjectNameStrategy.TOPIC, Role.VALUE, "orders-value"),
        (SubjectNameStrategy.TOPIC, Role.KEY, "orders-key"),
        (SubjectNameStrategy.RECORD, Role.VALUE, "com.example.Order"),
        (SubjectNameStrategy.TOPIC_RECORD, Role.VALUE, "orders-com.example.Order"),
    ],
)
def test_the_version_is_that_of_the_schema_in_its_subject(
    strategy: SubjectNameStrategy, role: Role, subject: str
) -> None:
    shelf = Shelf(versions={(subject, V2.text): 6})
    (run,) = converter(shelf, strategy=strategy, role=role).decode(batch([message(2, 1, 2)])).runs

    assert run.schema is not None
    assert (run.schema.version, shelf.asked) == (6, [2, subject])


@pytest.mark.parametrize("strategy", SubjectNameStrategy)
def test_a_schema_that_its_subject_does_not_have_gives_values_without_a_version(strategy: SubjectNameStrategy) -> None:
    shelf = Shelf()
    shelf.schemas[5] = RegisteredSchema(Language.AVRO, '"long"')  # it has no name, either
    runs = converter(shelf, strategy=strategy).decode(batch([message(5, 1), message(1, 1)])).runs

    assert [run.values.objects() for run in runs] == [[1], [{"n": 1}]]
    assert [run.schema.version for run in runs if run.schema is not None] == [None, None]


def test_the_least_recently_used_schemas_are_forgotten() -> None:
    shelf = Shelf({n: avro_schema(f"S{n}", "n") for n in range(10)})
    values = converter(shelf, size=3)
    for one in (0, 1, 2, 0, 3, 0, 1):
        values.decode(batch([message(one, 1)]))

    assert [name for name in shelf.asked if isinstance(name, int)] == [0, 1, 2, 3, 1]
    assert len(values.catalog._known) == 3


def test_more_schemas_in_a_batch_than_the_catalog_holds_are_all_decoded() -> None:
    shelf = Shelf({n: avro_schema(f"S{n}", "n") for n in range(10)})
    decoded = converter(shelf, size=2).decode(batch([message(n % 10, n) for n in range(40)]))

    assert [value["n"] for _, value in sorted(by_offset(decoded).items())] == list(range(40))


def test_a_null_document_of_json_schema_is_a_null_value() -> None:
    make: MakeDecoder = json_schema
    values = RegistryValues(
        SchemaCatalog(Shelf(), Language.JSON, SubjectNameStrategy.TOPIC, make), "orders", Role.VALUE
    )
    prefix = b"\0" + struct.pack(">i", 3)
    decoded = values.decode(batch([prefix + b'{"n": 1}', None, prefix + b"null", prefix + b"{"]))

    assert by_offset(decoded) == {7: {"n": 1}}
    assert (decoded.nulls, [failure.offset for failure in decoded.failures]) == ([10, 13], [16])
