"""What is an open file? The objects that grow together for one directory: values, and beside them keys and headers if they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_s3.formats.format import AppendKeyed, Encoder, Format, SidecarObject
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.naming.keys import ObjectNames
from kafka_s3.records.runs import Run, Sidecar
from kafka_s3.records.values import NO_TIMESTAMP, Values
from kafka_s3.schemas.connect import ConnectSchema
from kafka_s3.storage.store import ObjectStore
from kafka_s3.task.schema_changes import SchemaRules, Unifying
from kafka_s3.task.uploads import FileUpload


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how files are written: a format per role, values first; `memory` is the budget in bytes for all a task holds open."""

    store: ObjectStore
    naming: ObjectNames
    formats: Mapping[Role, Format]
    schemas: SchemaRules
    part_size: int
    memory: int
    threads: int
    folder: Path


@dataclass(slots=True)
class OpenObject:
    """One object of an open file; `schema` is that of its values."""

    role: Role
    format: Format
    schema: ConnectSchema | None
    encoder: Encoder
    upload: FileUpload

    def append(self, values: Values, schema: ConnectSchema | None, *, keys: Sidecar | None = None) -> None:
        """Adds values; a format that writes keys in front of them gets these."""
        append_keyed: AppendKeyed | None = getattr(self.encoder, "append_keyed", None)
        if append_keyed is not None and keys is not None:
            append_keyed(values, keys.values.objects())
        elif isinstance(self.encoder, Unifying):
            self.encoder.append_as(values, schema)
            self.schema = self.encoder.schema
        else:
            self.encoder.append(values)
        self.upload.add(self.encoder.take())

    def memory(self) -> int:
        """Bytes held in memory."""
        return self.encoder.pending() + self.upload.in_memory()

    def release(self) -> None:
        """Encodes and spills what is held in memory."""
        self.encoder.compact()
        self.upload.add(self.encoder.take())
        self.upload.spill()

    def finish(self) -> None:
        """Encodes the rest."""
        self.encoder.finish()
        self.upload.add(self.encoder.take())

    def columns(self) -> str:
        """The columns of this object, once it is finished; blank where no table asks for them."""
        encoder = self.encoder.inner if isinstance(self.encoder, Unifying) else self.encoder
        return self.format.columns(encoder) if encoder is not None and self.role is Role.VALUE else ""

    def sidecar_objects(self, first_offset: int) -> list[SidecarObject]:
        """What is stored beside this object, once it is finished."""
        return self.format.sidecar_objects(self.encoder, self.upload.key, first_offset)


@dataclass(slots=True)
class OpenFile:
    """One directory's open objects, in the order in which they are completed, and what has gone in so far."""

    encoded_partition: str
    objects: dict[Role, OpenObject]
    first_offset: int
    last_offset: int = -1
    records: int = 0
    min_timestamp: int | None = None
    max_timestamp: int | None = None

    @property
    def values(self) -> OpenObject | None:
        """The object of values; a directory of tombstones has none."""
        return self.objects.get(Role.VALUE)

    def append(self, run: Run) -> None:
        """Adds records of this file's directory, whose values fit its schema."""
        for role, target in self.objects.items():
            if role is Role.VALUE:
                target.append(run.values, run.schema, keys=run.sidecars.get(Role.KEY))
            else:
                target.append(run.sidecars[role].values, run.sidecars[role].schema)
        self.last_offset = int(run.offsets[-1])
        self.records += len(run)
        known = run.timestamps[run.timestamps != NO_TIMESTAMP]
        if len(known):
            low, high = int(known.min()), int(known.max())
            self.min_timestamp = low if self.min_timestamp is None else min(low, self.min_timestamp)
            self.max_timestamp = high if self.max_timestamp is None else max(high, self.max_timestamp)

    def memory(self) -> int:
        """Bytes held in memory."""
        return sum(target.memory() for target in self.objects.values())

    def release(self) -> None:
        """Encodes and spills what is held in memory."""
        for target in self.objects.values():
            target.release()

    def data_file(
        self, topic_partition: TopicPartition, target: OpenObject, upload: Upload, *, reason: Reason
    ) -> DataFile:
        """The facts of one closed object."""
        return DataFile(
            key=upload.key,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            records=self.records,
            bytes=upload.size,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            encoded_partition=self.encoded_partition,
            schema=target.schema.label() if target.schema is not None else "",
            format=target.format.name,
            reason=reason,
            upload=upload,
            role=target.role,
        )


def open_file(output: Output, topic_partition: TopicPartition, name: str, *, run: Run) -> OpenFile:
    """A new file of that directory, for the schemas of the run."""
    first, objects = int(run.offsets[0]), {}
    for role, form in output.formats.items():
        if role is Role.VALUE and run.tombstones:
            continue
        key = output.naming.key(topic_partition, name, offset=first, extension=form.extension)
        schema = run.schema if role is Role.VALUE else run.sidecars[role].schema
        encoder = output.schemas.opened(form.open, schema) if role is Role.VALUE else form.open(schema)
        upload = FileUpload(output.store, key, part_size=output.part_size, folder=output.folder)
        objects[role] = OpenObject(role, form, schema, encoder, upload)
    return OpenFile(name, objects, first)
