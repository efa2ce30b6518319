"""Values that wait for their file's schema take little room in what is kept for another task."""

from __future__ import annotations

import json
from typing import Any

from kafka_s3.connect.records.values import Objects
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.engine.open_files.file_encoders import Unifying
from kafka_s3.objects.avro_container import avro_format

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
