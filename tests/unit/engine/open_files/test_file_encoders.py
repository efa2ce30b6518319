"""Values that wait for their file's schema: what is kept of them for another task, and what the file holds once it settles."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaError, SchemaType
from kafka_s3.engine.open_files import file_encoders
from kafka_s3.engine.open_files.file_encoders import OneSchema, Unifying
from kafka_s3.objects.avro_container import avro_format
from kafka_s3.objects.format import CannotPause

WIDE = ConnectSchema(
    SchemaType.STRUCT, name="Wide", fields=tuple(Field(f"f{at}", ConnectSchema(SchemaType.INT64)) for at in range(100))
)


def paused(appends: int) -> tuple[Any, list[Any]]:
    """What an encoder keeps after so many appends of one record, and the records that another one goes on with."""
    form = avro_format("null", AvroOptions())
    encoder, other = Unifying(form.open, WIDE), Unifying(form.open, WIDE)
    for number in range(appends):
        encoder.append(Objects([{f"f{at}": number for at in range(100)}]), WIDE)
    kept = encoder.pause()
    other.resume(kept)
    return kept, [value for values, _ in other._held for value in values.objects()]


def test_a_record_more_takes_neither_a_schema_nor_a_stream_more() -> None:
    ten, _ = paused(10)
    many, values = paused(300)
    size = len(json.dumps(many, default=lambda data: "x" * len(data))) - len(
        json.dumps(ten, default=lambda data: "x" * len(data))
    )
    assert size < 290 * 100 * 8
    assert [value["f99"] for value in values] == [*range(300)]


FORM = avro_format("null", AvroOptions())
NARROW, WIDER = (
    ConnectSchema(
        SchemaType.STRUCT, name="Order", version=number,
        fields=(Field("n", ConnectSchema(SchemaType.INT64)), *more),
    )
    for number, more in ((1, ()), (2, (Field("text", ConnectSchema(SchemaType.STRING, optional=True)),)))
)  # fmt: skip


def read_back(content: bytes) -> list[Any]:
    return list(fastavro.reader(BytesIO(content)))


def appended(encoder: Unifying, rows: list[dict[str, Any]], schema: ConnectSchema | None) -> Unifying:
    encoder.append(Objects(rows), schema)
    return encoder


def test_a_file_settles_once_much_waits_and_later_schemas_are_projected_or_close_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_encoders, "HELD_BYTES", 1)
    encoder = appended(Unifying(FORM.open, NARROW), [{"n": 1}], NARROW)
    assert encoder.accepts(NARROW)
    assert not encoder.accepts(WIDER), "the columns are written"
    wide = appended(Unifying(FORM.open, WIDER), [{"n": 1, "text": "a"}], WIDER)
    assert wide.accepts(NARROW)
    appended(wide, [{"n": 2}], NARROW).finish()
    assert read_back(bytes(wide.take())) == [{"n": 1, "text": "a"}, {"n": 2, "text": None}]


def test_an_encoder_that_has_settled_goes_on_in_another_task() -> None:
    encoder = appended(Unifying(FORM.open, WIDER), [{"n": 1, "text": "a"}], WIDER)
    encoder.compact()
    kept, begun = encoder.pause(), bytes(encoder.take())
    other = Unifying(FORM.open, WIDER)
    other.resume(kept)
    appended(other, [{"n": 2}], NARROW).finish()
    assert read_back(begun + bytes(other.take())) == [{"n": 1, "text": "a"}, {"n": 2, "text": None}]


def test_structs_without_fields_are_as_many_in_the_next_task() -> None:
    empty = ConnectSchema(SchemaType.STRUCT, name="Nothing")
    encoder, other = Unifying(FORM.open, empty), Unifying(FORM.open, empty)
    appended(appended(encoder, [{}, {}], empty), [{}], empty)
    other.resume(encoder.pause())
    assert [len(values) for values, _ in other._held] == [2, 1]


def test_a_file_without_a_schema_takes_values_without_one_alone() -> None:
    encoder = Unifying(FORM.open, None)
    assert (encoder.accepts(None), encoder.accepts(NARROW)) == (True, False)
    assert not Unifying(FORM.open, NARROW).accepts(None)


def test_a_value_that_is_not_of_its_schema_is_an_error_with_the_reason() -> None:
    encoder = appended(Unifying(FORM.open, NARROW), [{"n": 1}], NARROW)
    appended(encoder, [{"n": 2, "text": "a"}], WIDER)
    appended(encoder, [{"n": None}], NARROW)
    with pytest.raises(SchemaError, match="does not fit the unified schema"):
        encoder.finish()


def test_what_cannot_be_kept_for_another_task_says_why() -> None:
    class Plain:
        """An encoder of the user's own, which has no pause."""

    with pytest.raises(CannotPause, match="files of Plain cannot be kept open"):
        OneSchema(Plain(), None).pause()  # type: ignore[arg-type]
    odd = appended(Unifying(FORM.open, NARROW), [{"n": "no number"}], NARROW)
    with pytest.raises(CannotPause, match="have no columns"):
        odd.pause()
