"""What is an open file? The objects that grow together for one directory: values, and beside them keys and headers if they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, Longs, Values
from kafka_s3.connect.schemas.compatibility import SchemaDecision
from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.engine.open_files.file_encoders import FileEncoder, OneSchema, file_encoder
from kafka_s3.engine.open_files.lines import DirectoryLines
from kafka_s3.engine.open_files.schema_changes import SchemaRules
from kafka_s3.engine.open_files.small_files import SmallFiles
from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.format import Columnar, Format, Lined, Placed, SidecarObject, can
from kafka_s3.store.store import ObjectStore

FEW_TIMES: Final = 64
"""Of fewer numbers Python finds the least and the largest sooner than NumPy."""


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

    @property
    def lines(self) -> int:
        """As `Format.lines` says of the values' format."""
        return self.formats[Role.VALUE].lines

    @property
    def copies(self) -> bool:
        """Whether no open file keeps the values that are given to it: not while it looks for its schema, and not in columns."""
        return not self.schemas.unify and all(form.copies for form in self.formats.values())


@dataclass(slots=True)
class OpenObject:
    """One object of an open file."""

    role: Role
    format: Format
    encoder: FileEncoder
    upload: FileUpload

    @property
    def schema(self) -> ConnectSchema | None:
        """The schema of its values so far."""
        return self.encoder.schema

    def append(self, values: Values, schema: ConnectSchema | None, *, keys: Sidecar | None = None) -> None:
        """Adds values; a format that writes keys in front of them gets these."""
        self.encoder.append(values, schema, keys=keys)
        self.upload.add(self.encoder.take())

    def memory(self) -> int:
        """Bytes held in memory."""
        return self.encoder.pending() + self.upload.in_memory()

    def release(self, into: SpillFile) -> None:
        """Encodes and spills what is held in memory."""
        self.encoder.compact()
        self.upload.add(self.encoder.take())
        self.upload.spill(into)

    def finish(self) -> None:
        """Encodes the rest."""
        self.encoder.finish()
        self.upload.add(self.encoder.take())

    def columns(self) -> str:
        """The columns of this object, once it is finished; blank where no table asks for them."""
        encoder = self.encoder.inner
        if self.role is not Role.VALUE or not can(encoder, Columnar):
            return ""
        return self.format.columns(cast(Columnar, encoder).written_schema())

    def sidecar_objects(self, first_offset: int) -> list[SidecarObject]:
        """What is stored beside this object, once it is finished."""
        encoder = self.encoder.inner
        return [] if encoder is None else self.format.sidecar_objects(encoder, self.upload.key, first_offset)


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

    def decision(self, run: Run, rules: SchemaRules) -> SchemaDecision:
        """What to do with records of a run in this directory. Keys of another schema close the file, too."""
        for role, sidecar in run.sidecars.items():
            if role in self.objects and self.objects[role].schema != sidecar.schema:
                return SchemaDecision.ROLL
        values = self.objects.get(Role.VALUE)
        if values is None or run.tombstones:
            return SchemaDecision.WRITE if (values is None) == run.tombstones else SchemaDecision.ROLL
        return rules.decision(run.schema, values.encoder)

    def rolls(self, run: Run, rules: SchemaRules) -> bool:
        """Whether the file has to be closed before records of the run."""
        return self.decision(run, rules) is SchemaDecision.ROLL

    def widened_by(self, run: Run) -> bool:
        """Whether the file's schema is not settled yet, and gets wider by the run."""
        return self.values is not None and self.values.encoder.widens(run.schema)

    def fits(self, run: Run) -> bool:
        """Whether the columns of the file can hold the run's values."""
        values = self.objects.get(Role.VALUE)
        return values is None or values.encoder.fits(run.values)

    def append(self, run: Run) -> None:
        """Adds records of this file's directory, whose values fit its schema."""
        for role, target in self.objects.items():
            if role is Role.VALUE:
                if can(target.encoder.inner, Placed):
                    cast(Placed, target.encoder.inner).place(run.offsets)
                target.append(run.values, run.schema, keys=run.sidecars.get(Role.KEY))
            else:
                target.append(run.sidecars[role].values, run.sidecars[role].schema)
        self.last_offset = int(run.offsets[-1])
        self.records += len(run)
        self._note_times(run.timestamps)

    def append_lines(self, lines: DirectoryLines) -> None:
        """Adds lines of this file's directory, which has values in a `Lined` format and nothing beside them."""
        target = self.objects[Role.VALUE]
        # a copy: a view would keep what all the other files got of the text
        cast(Lined, target.encoder.inner).write(bytes(lines.text))
        target.upload.add(target.encoder.take())
        self.last_offset = lines.last_offset
        self.records += lines.records
        if lines.low is not None and lines.high is not None:
            self._note_span(lines.low, lines.high)

    def memory(self) -> int:
        """Bytes held in memory."""
        return sum(target.memory() for target in self.objects.values())

    def _note_times(self, times: Longs) -> None:
        low, high = _span(times)
        if low == NO_TIMESTAMP:
            times = times[times != NO_TIMESTAMP]
            if not len(times):
                return
            low, high = _span(times)
        self._note_span(low, high)

    def _note_span(self, low: int, high: int) -> None:
        self.min_timestamp = low if self.min_timestamp is None else min(low, self.min_timestamp)
        self.max_timestamp = high if self.max_timestamp is None else max(high, self.max_timestamp)

    def release(self, into: SpillFile) -> None:
        """Encodes and spills what is held in memory."""
        for target in self.objects.values():
            target.release(into)

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


@dataclass(slots=True)
class OpenFiles:
    """All that is open in a topic-partition, by encoded partition in first-seen order, and what the rotation rules look at.

    `records` were written since the last close, the first one's time is `base_ms` (epoch ms, None without a time partitioner); the last
    one had `last_offset` and went to `directory`. A directory's file is among `files`, or its lines are among the `small` ones.
    """

    files: dict[str, OpenFile] = field(default_factory=dict)
    records: int = 0
    base_ms: int | None = None
    directory: str = ""
    last_offset: int = -1
    small: SmallFiles = field(default_factory=SmallFiles)

    def count(self) -> int:
        """How many directories have a file."""
        return len(self.files) + len(self.small)

    def has(self, name: str) -> bool:
        """Whether a directory has a file."""
        return name in self.files or name in self.small

    def objects(self) -> list[tuple[OpenFile, OpenObject]]:
        """Every open object with its file but for small ones, in the order in which they are completed."""
        return [(file, target) for file in self.files.values() for target in file.objects.values()]

    def encoded_bytes(self, output: Output) -> int:
        """Encoded size of all open objects, in bytes."""
        return sum(target.encoder.size() for _, target in self.objects()) + self.small.bytes // max(1, output.lines)

    def fit(self, runs: list[tuple[str, Run]]) -> bool:
        """Whether each run fits the columns of its directory's open file."""
        return all(self.files[name].fits(run) for name, run in runs if name in self.files)

    def note(self, directory: str, *, records: int, last_offset: int) -> None:
        """Counts records that were written; the last one had that offset and went to that directory."""
        self.records += records
        self.directory, self.last_offset = directory, last_offset

    def memory(self) -> int:
        """Bytes held in memory."""
        return sum(file.memory() for file in self.files.values()) + self.small.memory()

    def uploads(self) -> list[FileUpload]:
        """The uploads of all open objects; small files have none."""
        return [target.upload for _, target in self.objects()]

    def abort(self) -> None:
        """Drops every upload that is not inherited."""
        self.small.drop()
        for upload in self.uploads():
            upload.abort()


def _span(times: Longs) -> tuple[int, int]:
    """The least and the largest of them, at least one."""
    if len(times) < FEW_TIMES:
        few = times.tolist()
        return min(few), max(few)
    return int(times.min()), int(times.max())


def open_file(
    output: Output,
    topic_partition: TopicPartition,
    name: str,
    *,
    first: int,
    schemas: Mapping[Role, ConnectSchema | None],
) -> OpenFile:
    """A new file of that directory, which begins with that offset: an object for each role that has a schema, be it none."""
    objects = {}
    for role, form in output.formats.items():
        if role not in schemas:
            continue
        key = output.naming.key(topic_partition, name, offset=first, extension=form.extension)
        schema, is_value = schemas[role], role is Role.VALUE
        encoder = file_encoder(output.schemas, form, schema) if is_value else OneSchema(form.open(schema), schema)
        upload = FileUpload(output.store, key, part_size=output.part_size)
        objects[role] = OpenObject(role, form, encoder, upload)
    return OpenFile(name, objects, first)
