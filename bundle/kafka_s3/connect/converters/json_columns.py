"""How is schemaless JSON read under a schema that the user gives (`value.schema`)? Straight into Arrow columns; our extension.

A record that does not fit (a wrong type, a required field that is missing) is a failure of that record. Fields that the schema does not
name are left out, by the user's choice of schema.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_s3.connect.converters.converter import KafkaBatch, merged, without_tombstones
from kafka_s3.connect.converters.json_documents import bad_json, check_for_columns, parse_document
from kafka_s3.connect.converters.json_members import Members
from kafka_s3.connect.converters.json_values import ONE_BY_ONE, read_known
from kafka_s3.connect.records.runs import Decoded
from kafka_s3.connect.records.values import StructColumns
from kafka_s3.connect.schemas.arrow import arrow_table, arrow_type
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, SchemaType
from kafka_s3.connect.schemas.expansion import Allowance, BatchAllowance, width
from kafka_s3.connect.schemas.json_form import from_json
from kafka_s3.model.dead_letters import Failure

AS_THEY_ARE = frozenset(
    {SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.STRING}
)


class JsonColumns:
    """The JSON converter with `schemas.enable=false` and a schema of ours."""

    def __init__(self, schema: ConnectSchema) -> None:
        self._schema, self._width = schema, width(schema)
        plain = all(field.schema.kind in AS_THEY_ARE and field.schema.name is None for field in schema.fields)
        simple = plain and all(field.schema.default is None for field in schema.fields)
        self._arrow = pa.schema([(field.name, arrow_type(field.schema)) for field in schema.fields]) if simple else None
        self._required = [field.name for field in schema.fields if not field.schema.optional]
        self._empty = arrow_table([], schema).schema

    def decode(self, batch: KafkaBatch) -> Decoded:
        """Columns of the schema; flat schemas of plain types are read a whole batch at a time, others record by record."""
        batch, nulls = without_tombstones(batch)
        decoded = self._decode(batch) if len(batch) else Decoded()
        return Decoded(decoded.runs, decoded.failures, sorted(nulls + decoded.nulls))

    def _decode(self, batch: KafkaBatch) -> Decoded:
        table = self._read(batch.values, self._arrow) if self._arrow is not None else None
        if table is not None and not any(table.column(name).null_count for name in self._required):
            return Decoded([batch.run(StructColumns(table.cast(self._empty)), self._schema)])
        if len(batch) <= ONE_BY_ONE or self._arrow is None:
            return self._one_by_one(batch)
        middle = len(batch) // 2
        return merged([self._decode(batch.slice(0, middle)), self._decode(batch.slice(middle, len(batch)))])

    def _read(self, values: pa.Array, schema: pa.Schema) -> pa.Table | None:
        """The columns of every document, None where one does not fit; Arrow's reader is asked where a text has escapes."""
        found = Members(values, schema.names)
        columns = [] if found.refused else [found.column(number, field.type) for number, field in enumerate(schema)]
        if found.refused or any(column is None for column in columns):
            return read_known(values, schema)
        return pa.Table.from_arrays(columns, schema=schema)

    def _one_by_one(self, batch: KafkaBatch) -> Decoded:
        rows, items, nulls = [], [], []
        failures: list[Failure] = []
        left = BatchAllowance(len(batch))
        for row, raw in enumerate(batch.values.to_pylist()):
            offset, allowance = int(batch.offsets[row]), Allowance(len(raw))
            try:
                document, text = parse_document(raw)
                check_for_columns(document, text)
                value = None if document is None else from_json(document, self._schema, allowance=allowance)
            except (ValueError, ArithmeticError, SchemaError, RecursionError) as error:
                failures.append(bad_json(offset, error))
                continue
            left.spend(self._width + allowance.spent, len(raw))
            if value is None:
                nulls.append(offset)
            else:
                rows.append(row)
                items.append(value)
        if not rows:
            return Decoded([], failures, nulls)
        values = StructColumns(arrow_table(items, self._schema))
        return Decoded([batch.take(np.array(rows)).run(values, self._schema)], failures, nulls)
