"""How does a schema get another name or version? `SetSchemaMetadata`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.transforms.columns import Struct, mapped
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, Refused, field_value, require_fields
from kafka_s3.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Names a part's schema; None leaves name or version as they are. The original takes structs only, and so does this."""

    part: RecordPart
    name: str | None
    version: int | None
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record under the other schema; a tombstone without schema stays as it is."""
        value, schema = self.part.of(record)
        if value is None and schema is None:
            return record
        if schema is None:
            raise Refused("Schema required for [updating schema metadata]")
        other = self._schema(require_fields(schema))
        if value is not None:
            value = {f.name: field_value(value, f.name, f.schema, defaults=self.defaults) for f in schema.fields}
        return self.part.put(record, value, other)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The same columns."""
        return mapped(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct:
        return Struct(self._schema(value.schema), value.arrays)

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        name = schema.name if self.name is None else self.name
        return replace(schema, name=name, version=schema.version if self.version is None else self.version)
