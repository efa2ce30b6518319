"""How do keys and headers fit a format made for values? Some need a record around them (SEMANTICS A8.5).

Parquet wraps a key as `RecordKey{key}` and headers as `RecordHeaders{headers}`, JSON wraps headers as an object with one member;
Avro and bytes take what there is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import Objects, Values
from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType
from kafka_s3.model.files import Role
from kafka_s3.objects.format import Format

INFIX: Final = {Role.KEY: ".keys", Role.HEADER: ".headers"}
WRAPPED: Final = {
    ("parquet", Role.KEY): ("RecordKey", "key"),
    ("parquet", Role.HEADER): ("RecordHeaders", "headers"),
    ("json", Role.HEADER): ("RecordHeaders", "headers"),
}


def sidecar(form: Format, role: Role) -> Format:
    """The format for objects of keys or headers beside the values'."""
    extension = INFIX[role] + form.extension
    if (form.name, role) not in WRAPPED:
        return replace(form, extension=extension)
    name, member = WRAPPED[form.name, role]

    def fit(run: Run) -> Values | str:
        values = Objects([{member: value} for value in run.values.objects()])
        return form.fit(replace(run, values=values, schema=_wrapper(run.schema, name, member)))

    return Format(form.name, extension, lambda schema: form.open(_wrapper(schema, name, member)), fit)


def _wrapper(schema: ConnectSchema | None, name: str, member: str) -> ConnectSchema | None:
    return None if schema is None else ConnectSchema(SchemaType.STRUCT, name=name, fields=(Field(member, schema),))
