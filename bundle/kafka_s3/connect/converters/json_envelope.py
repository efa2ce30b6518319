"""How are JSON values with an envelope decoded (`schemas.enable=true`)? One by one: each record carries its own schema."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.converter import KafkaBatch, without_tombstones
from kafka_s3.connect.converters.json_documents import bad_json, parse_document
from kafka_s3.connect.records.runs import Decoded, Run
from kafka_s3.connect.records.values import JsonText, Objects
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, read_schema
from kafka_s3.connect.schemas.expansion import Allowance, BatchAllowance
from kafka_s3.connect.schemas.json_form import dumps, from_json

ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)

MOST_CHARACTERS: Final = 16 << 20
"""Texts of schemas that are kept; where each record brings another one, all are forgotten now and then."""


class JsonEnvelope:
    """The JSON converter with `schemas.enable=true`."""

    def __init__(self) -> None:
        self._schemas: dict[str, ConnectSchema] = {}
        self._characters = 0

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Runs of records of one schema; a null schema gives schemaless values, a null payload a null value."""
        batch, nulls = without_tombstones(batch)
        decoded = Decoded(nulls=nulls)
        good: list[tuple[int, Any, ConnectSchema | None]] = []
        left = BatchAllowance(len(batch))
        for row, raw in enumerate(batch.values.to_pylist()):
            offset, allowance = int(batch.offsets[row]), Allowance(len(raw))
            try:
                value, schema = self._value(raw, allowance)
            except (ValueError, ArithmeticError, SchemaError, RecursionError) as error:
                decoded.failures.append(bad_json(offset, error))
                continue
            left.spend(allowance.spent, len(raw))
            if value is None:
                decoded.nulls.append(offset)
            else:
                good.append((row, value, schema))
        decoded.nulls.sort()
        decoded.runs.extend(_runs(batch, good))
        return decoded

    def _kept(self, text: str, schema: ConnectSchema) -> ConnectSchema:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            self._schemas, self._characters = {}, len(text)
        self._schemas[text] = schema
        return schema

    def _value(self, raw: bytes, allowance: Allowance) -> tuple[Any, ConnectSchema | None]:
        envelope, _ = parse_document(raw)
        if envelope is None:
            return None, None
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise SchemaError(ENVELOPE)
        if envelope["schema"] is None:
            return envelope["payload"], None
        text = json.dumps(envelope["schema"], sort_keys=True)
        schema = self._schemas.get(text) or self._kept(text, read_schema(envelope["schema"]))
        if envelope["payload"] is None and schema.optional and schema.default is None:
            return None, schema
        return from_json(envelope["payload"], schema, allowance=allowance), schema


def _runs(batch: KafkaBatch, good: list[tuple[int, Any, ConnectSchema | None]]) -> list[Run]:
    runs = []
    start = 0
    for end in range(1, len(good) + 1):
        if end == len(good) or good[end][2] != good[start][2]:
            rows = batch.take(np.array([row for row, _, _ in good[start:end]]))
            items, schema = [value for _, value, _ in good[start:end]], good[start][2]
            if schema is None:
                runs.append(
                    rows.run(JsonText(pa.array([dumps(item).encode() for item in items], pa.binary()), None), None)
                )
            else:
                runs.append(rows.run(Objects(items), schema))
            start = end
    return runs
