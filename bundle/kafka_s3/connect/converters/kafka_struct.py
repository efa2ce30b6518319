"""How does a row say where it comes from? A struct `_kafka` inside the value (`record.metadata.enable`); our extension.

Members: topic, partition, offset, timestamp, key (text with the string converter, else bytes) and headers (name and text). It is the last
field of structs and of JSON objects; a value without fields cannot take it and becomes a dead letter or stops the sink.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.converters.converter import KafkaBatch
from kafka_s3.connect.converters.headers import header_rows
from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, Longs, Objects, StructColumns, Values
from kafka_s3.connect.schemas.arrow import arrow_field
from kafka_s3.connect.schemas.connect import TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps, to_json
from kafka_s3.model.dead_letters import Failure, rejection
from kafka_s3.model.offsets import TopicPartition

FIELD: Final = "_kafka"
NO_FIELDS: Final = f"record.metadata.enable adds the field {FIELD} to values with fields; this value has none, or has that field already."
TEXT: Final = ConnectSchema(SchemaType.STRING, optional=True)
BYTES: Final = ConnectSchema(SchemaType.BYTES, optional=True)
NAMED_TEXTS: Final = ConnectSchema(
    SchemaType.ARRAY,
    optional=True,
    items=ConnectSchema(
        SchemaType.STRUCT, fields=(Field("key", ConnectSchema(SchemaType.STRING)), Field("value", TEXT))
    ),
)
"""The schema of headers here, where one without a value is no reason to refuse the record."""


@dataclass(frozen=True, slots=True)
class KafkaStruct:
    """Adds the struct to values of one topic-partition. `text_keys`: keys are UTF-8 text."""

    topic_partition: TopicPartition
    text_keys: bool

    @property
    def schema(self) -> ConnectSchema:
        """The struct's schema."""
        members = (
            Field("topic", ConnectSchema(SchemaType.STRING)),
            Field("partition", ConnectSchema(SchemaType.INT32)),
            Field("offset", ConnectSchema(SchemaType.INT64)),
            Field("timestamp", ConnectSchema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)),
            Field("key", TEXT if self.text_keys else BYTES),
            Field("headers", NAMED_TEXTS),
        )
        return ConnectSchema(SchemaType.STRUCT, name="kafka_s3.Kafka", fields=members)

    def add_struct(self, runs: list[Run], batch: KafkaBatch, keys: pa.Array | None) -> tuple[list[Run], list[Failure]]:
        """The runs with the struct in their values; failures of records whose values have no room for it."""
        out: list[Run] = []
        failures: list[Failure] = []
        for run in runs:
            good = _with_fields(run)
            if len(good) < len(run):
                failures += [rejection(int(offset), NO_FIELDS) for offset in np.delete(run.offsets, good)]
                run = run.take(good)
            if not len(run):
                continue
            places = np.searchsorted(batch.offsets, run.offsets)
            rows = self._rows(run, batch, places=places, keys=keys)
            schema = run.schema
            if schema is not None:
                schema = replace(schema, fields=(*schema.fields, Field(FIELD, self.schema)))
            out.append(replace(run, values=self._values(run, rows), schema=schema))
        return out, failures

    def _rows(self, run: Run, batch: KafkaBatch, *, places: Any, keys: pa.Array | None) -> list[dict[str, Any]]:
        indices = pa.array(places)
        names = keys.take(indices).to_pylist() if keys is not None else [None] * len(run)
        headers = header_rows(
            [one or [] for one in batch.headers.take(indices).to_pylist()]
            if batch.headers is not None
            else [[]] * len(run)
        )
        return [
            {
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
                "offset": offset,
                "timestamp": None if time == NO_TIMESTAMP else time,
                "key": name.decode("utf-8", "replace") if self.text_keys and name is not None else name,
                "headers": texts,
            }
            for offset, time, name, texts in zip(
                run.offsets.tolist(), run.timestamps.tolist(), names, headers, strict=True
            )
        ]

    def _values(self, run: Run, rows: list[dict[str, Any]]) -> Values:
        values = run.values
        if isinstance(values, JsonText):
            return JsonText(_texts(values.texts, rows, self.schema), self._table(values.table, rows))
        if isinstance(values, StructColumns):
            table = self._table(values.table, rows)
            assert table is not None
            return StructColumns(table)
        return Objects([{**value, FIELD: row} for value, row in zip(values.objects(), rows, strict=True)])

    def _table(self, table: pa.Table | None, rows: list[dict[str, Any]]) -> pa.Table | None:
        if table is None:
            return None
        field = arrow_field(FIELD, self.schema)
        # a record of the batch that has the field, and is a failure now, has left an empty column behind
        own = table.drop_columns([FIELD]) if FIELD in table.column_names else table
        return own.append_column(field, pa.array(rows, field.type))


def _with_fields(run: Run) -> Longs:
    """The rows whose values can take one more field."""
    if isinstance(run.values, JsonText):
        objects = pc.starts_with(run.values.texts, b"{").to_numpy(zero_copy_only=False)
        suspects = pc.match_substring(run.values.texts, FIELD.encode()).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(objects & suspects):
            objects[row] = FIELD not in json.loads(run.values.texts[row].as_py())
        rows: Longs = np.flatnonzero(objects)
        return rows
    takes_field = run.schema is not None and run.schema.kind is SchemaType.STRUCT and run.schema.field(FIELD) is None
    return np.arange(len(run) if takes_field else 0)


def _texts(texts: pa.Array, rows: list[dict[str, Any]], schema: ConnectSchema) -> pa.Array:
    out = []
    for text, row in zip(texts.to_pylist(), rows, strict=True):
        head = text.rstrip()[:-1].rstrip()
        comma = "" if head == b"{" else ","
        out.append(head + f'{comma}"{FIELD}":{dumps(to_json(row, schema))}'.encode() + b"}")
    return pa.array(out, pa.binary())
