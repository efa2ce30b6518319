"""What is open in a topic-partition, how do records go in, what leaves memory, and what becomes of files that close?

An open file is the objects that grow together for one directory: values, and beside them keys and headers if they are stored. Records go
in by directory, in the schema of the directory's file (SEMANTICS A6). A closed file is an uncompleted upload, and a row of facts for the
commit log. What is still open at a task's end becomes a state, one object below the sink's own ones, and opens again in another process.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from kafka_s3.connect.naming.keys import ObjectNames
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, Longs, Values
from kafka_s3.connect.schemas.compatibility import SchemaDecision
from kafka_s3.connect.schemas.connect import ConnectSchema, schema_document, stored_schema
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.batch import MixedBatch, joined
from kafka_s3.engine.open_files.file_encoders import FileEncoder, OneSchema, SchemaRules, file_encoder, projected
from kafka_s3.engine.open_files.row_forms import RowForm, resumed_form
from kafka_s3.engine.open_files.small_files import ENTRY_BYTES, DirectoryRows, RowsByDirectory, SmallFiles
from kafka_s3.engine.open_files.spill import SpillFile
from kafka_s3.engine.open_files.states import (
    StateBytes,
    StateContent,
    StateUnusable,
    check_state,
    check_uploads,
    in_memory,
    opened_state,
)
from kafka_s3.engine.open_files.uploads import FileUpload, upload_whole
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.files import DataFile, Reason, Role, Upload
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.process import ThreadPool
from kafka_s3.model.tasks import Assignment, OpenState
from kafka_s3.objects.format import CannotPause, Columnar, Format, Paused, SidecarObject, WithOffsets, can
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
    folder: PathLike[str]

    @property
    def in_bulk(self) -> int:
        """As `Format.in_bulk` says of the values' format."""
        return self.formats[Role.VALUE].in_bulk

    def new_encoder(self, role: Role, schema: ConnectSchema | None) -> FileEncoder:
        """The encoder of a new object: only values of several schemas can share one."""
        form = self.formats[role]
        return file_encoder(self.schemas, form, schema) if role is Role.VALUE else OneSchema(form.open(schema), schema)


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
        self.send_encoded()

    def send_encoded(self) -> None:
        """Hands what is encoded to the upload."""
        if encoded := self.encoder.take():
            self.upload.add(encoded)

    def memory(self) -> int:
        """Bytes held in memory."""
        return self.encoder.pending() + self.upload.in_memory()

    def release(self, into: SpillFile) -> None:
        """Encodes and spills what is held in memory."""
        self.encoder.compact()
        self.send_encoded()
        self.upload.spill(into)

    def finish(self) -> None:
        """Encodes the rest."""
        self.encoder.finish()
        self.send_encoded()

    def columns(self) -> str:
        """The columns of this object, once it is finished; blank where no table asks for them."""
        encoder = self.encoder.inner
        if self.role is not Role.VALUE or self.format.columns is None or not can(encoder, Columnar):
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
        if self.values is None or run.tombstones:
            return SchemaDecision.WRITE if (self.values is None) == run.tombstones else SchemaDecision.ROLL
        return rules.decision(run.schema, self.values.encoder)

    def rolls(self, run: Run, rules: SchemaRules) -> bool:
        """Whether the file has to be closed before records of the run."""
        return self.decision(run, rules) is SchemaDecision.ROLL

    def widened_by(self, run: Run) -> bool:
        """Whether the file's schema is not settled yet, and gets wider by the run."""
        return self.values is not None and self.values.encoder.widens(run.schema)

    def has_columns_for(self, run: Run) -> bool:
        """Whether the columns of the file can hold the run's values."""
        return self.values is None or self.values.encoder.has_columns_for(run.values)

    def takes_as_it_is(self, run: Run) -> bool:
        """Whether values of a run can join those of this file as they are: they have its very schema, and it has their columns."""
        return self.values is not None and self.values.schema is run.schema and self.has_columns_for(run)

    def append(self, run: Run) -> None:
        """Adds records of this file's directory, whose values fit its schema."""
        for role, target in self.objects.items():
            if role is Role.VALUE:
                if can(target.encoder.inner, WithOffsets):
                    cast(WithOffsets, target.encoder.inner).set_offsets(run.offsets)
                target.append(run.values, run.schema, keys=run.sidecars.get(Role.KEY))
            else:
                target.append(run.sidecars[role].values, run.sidecars[role].schema)
        self.last_offset = int(run.offsets[-1])
        self.records += len(run)
        self._note_times(run.timestamps)

    def append_rows(self, rows: DirectoryRows, form: RowForm) -> None:
        """Adds rows that waited in a form, of this file's directory, which has values of its schema and nothing beside them."""
        target = self.objects[Role.VALUE]
        form.append(rows.table, target.encoder)
        target.send_encoded()
        self.last_offset = rows.last_offset
        self.records += rows.records
        if rows.low is not None and rows.high is not None:
            self._note_span(rows.low, rows.high)

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
    one had `last_offset` and went to `last_partition`. Its file is among `files`, or its row is among
    those of the `small` ones. Of batches with `shared_bytes` files may keep parts; a part keeps all of a batch in memory.
    """

    files: dict[str, OpenFile] = field(default_factory=dict)
    records: int = 0
    base_ms: int | None = None
    last_partition: str = ""
    last_offset: int = -1
    small: SmallFiles = field(default_factory=SmallFiles)
    shared_bytes: int = 0

    def count(self) -> int:
        """How many directories have a file."""
        return len(self.files) + len(self.small)

    def has(self, name: str) -> bool:
        """Whether a directory has a file."""
        return name in self.files or name in self.small

    def objects(self) -> list[OpenObject]:
        """Every open object but for small ones, in the order in which they are completed."""
        return [target for file in self.files.values() for target in file.objects.values()]

    def encoded_bytes(self, output: Output) -> int:
        """Encoded size of all open objects, in bytes."""
        return sum(target.encoder.size() for target in self.objects()) + self.small.bytes // max(1, output.in_bulk)

    def have_columns_for(self, runs: list[tuple[str, Run]]) -> bool:
        """Whether the columns of each encoded partition's open file can hold its run's values."""
        return all(self.files[name].has_columns_for(run) for name, run in runs if name in self.files)

    def count_written(self, records: int, *, last_offset: int, last_partition: str) -> None:
        """Counts records that were written; the last one had that offset and went to that encoded partition."""
        self.records += records
        self.last_offset, self.last_partition = last_offset, last_partition

    def detach(self) -> None:
        """Has files copy what they keep of batches."""
        for target in self.objects():
            target.encoder.detach()
        self.shared_bytes = 0

    def memory(self) -> int:
        """Bytes held in memory."""
        return sum(file.memory() for file in self.files.values()) + self.small.memory()

    def abort(self) -> None:
        """Drops every upload that is not inherited."""
        self.small.drop()
        for target in self.objects():
            target.upload.abort()


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
        if role in schemas:
            key = output.naming.key(topic_partition, name, offset=first, extension=form.extension)
            upload = FileUpload(output.store, key, part_size=output.part_size)
            objects[role] = OpenObject(role, form, output.new_encoder(role, schemas[role]), upload)
    return OpenFile(name, objects, first)


LARGE: Final = 1 << 20
"""Bytes of a file that are worth a file on local disk of their own."""
FILE_BYTES: Final = 1 << 10
"""What Python takes for an open file beside its content."""


def waiting_budget(memory: int) -> int:
    """Of so many bytes for a task those that may wait in memory; the rest is for the batch in work, its bad records, and room to grow."""
    return memory * 2 // 5


def release_largest(several: Collection[OpenFiles], output: Output) -> None:
    """Where files hold more than the task's budget, those that hold most are encoded and spilled first, down to half of it.

    Before them the small ones, also where they hold half of it: their rows are written in one go.

    What holds much has a file of its own on local disk, for that is gone as soon as its part is sent; the others share one.
    """
    held = [(file.memory(), file) for one in several for file in one.files.values()]
    small, entries = sum(one.small.memory() for one in several), sum(len(one.small) for one in several)
    total = small + sum(size for size, _ in held)
    beside = len(held) * FILE_BYTES + entries * ENTRY_BYTES
    budget = max(waiting_budget(output.memory) - beside, output.memory // 4)
    if total > budget or small > budget // 2:
        for one in several:
            one.small.release(output.folder)
        total -= small
    if len(held) < 2 or total <= budget:
        return
    shared = SpillFile(output.folder)
    for size, file in sorted(held, key=lambda one: -one[0]):
        file.release(SpillFile(output.folder) if size >= LARGE else shared)
        total -= size
        if total <= budget // 2:
            break


def detach_parts(several: Collection[OpenFiles], output: Output) -> None:
    """Where files may keep parts of more than an eighth of the task's memory in batches, they copy their parts."""
    if sum(one.shared_bytes for one in several) > output.memory // 8:
        for one in several:
            one.detach()


@dataclass(slots=True)
class FileRuns:
    """Runs by encoded partition, in the schemas of the open files; and the positions of records that have no such form, with the reason.

    Or, in place of runs, rows of many directories in a form that all their files take.
    """

    runs: list[tuple[str, Run]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    rows: RowsByDirectory | None = None


def file_runs(batch: MixedBatch, start: int, stop: int, *, open_files: OpenFiles, output: Output) -> FileRuns:
    """Records `[start, stop)`, none of which rolls a file.

    Version 1 has the open file, and records come as v1 v2 v1, of which v2 is projected: one run of version 1 with three records, in the
    order of their offsets. A field of v2 that has no value in version 1 makes that record bad, and the run has two.
    """
    by_partition = batch.runs_by_partition(start, stop)
    if len(batch.runs) == 1 and batch.runs[0].schema is None:  # nothing to project, nothing to refuse
        return FileRuns([(name, run) for name, [(run, _)] in by_partition])
    found = FileRuns()
    for name, runs in by_partition:
        pieces: list[tuple[Run, Longs]] = []
        for run, own in runs:
            run, bad = _in_file_schema(run, open_files.files.get(name), output.schemas, others=len(runs) - 1)
            found.rejected += [(int(own[row]), text) for row, text in bad]
            pieces.append((run, np.delete(own, [row for row, _ in bad]) if bad else own))
        found.runs += [(name, run) for run in joined(pieces)]
    found.rejected.sort()
    return found


def _in_file_schema(
    run: Run, file: OpenFile | None, rules: SchemaRules, *, others: int
) -> tuple[Run, list[tuple[int, str]]]:
    """The run in its file's schema, and the rows that have no such form; `others` are runs that come to the file with it."""
    if file is None:
        return run, []
    decision, values = file.decision(run, rules), file.values
    if decision is SchemaDecision.REJECT:
        return run.slice(0, 0), [(row, rules.refusal) for row in range(len(run))]
    if values is None or not (decision is SchemaDecision.PROJECT or (values.encoder.unifies and others)):
        return run, []
    schema = values.schema
    if run.schema is None or schema is None or run.schema is schema:
        return run, []
    projection, bad = projected(run.values, run.schema, schema)
    run = run.take(np.delete(np.arange(len(run)), [row for row, _ in bad])) if bad else run
    return replace(run, values=projection, schema=schema), bad


SHARES: Final = 16
"""So many shares of the work each thread gets: uploads differ in size."""


@dataclass(slots=True)
class Closed:
    """Closed objects in the order in which they are completed, and the different columns of their tables."""

    files: list[DataFile] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)


def close_files(open_files: OpenFiles, topic_partition: TopicPartition, output: Output, *, reason: Reason) -> Closed:
    """Finishes every open object, the uploads side by side; what there is to commit, in the order of first records."""
    found = Closed()
    with ThreadPool(output.threads) as pool:
        for files in _in_shares(open_files, topic_partition, output):
            objects = [(file, target) for file in files for target in file.objects.values()]
            for _, target in objects:
                target.finish()
            uploads = _finished([target.upload for _, target in objects], pool, output.threads)
            for (file, target), upload in zip(objects, uploads, strict=True):
                data = file.data_file(topic_partition, target, upload, reason=reason)
                found.columns |= dict.fromkeys(filter(None, [target.columns()]))
                beside = target.sidecar_objects(file.first_offset)
                found.files += [data, *(_beside(data, extra, output) for extra in beside)]
    found.files.sort(key=lambda file: file.first_offset)  # a file that was small at first is opened late
    open_files.small.drop()
    return found


def _in_shares(open_files: OpenFiles, topic_partition: TopicPartition, output: Output) -> Iterator[list[OpenFile]]:
    """All open files: first those that are there, then some of the small ones at a time, which become files only now."""
    yield [*open_files.files.values()]
    form = open_files.small.form
    for share in open_files.small.shares():
        assert form is not None
        files = []
        for name, rows in share:
            file = open_file(output, topic_partition, name, first=rows.first_offset, schemas={Role.VALUE: form.schema})
            file.append_rows(rows, form)
            files.append(file)
        yield files


def _finished(uploads: list[FileUpload], pool: ThreadPool, threads: int) -> list[Upload]:
    """Sends what is left of each; of thousands a thread gets several at a time, for to hand it one takes as long as to send it."""
    size = max(1, len(uploads) // (threads * SHARES))
    shares = [uploads[first : first + size] for first in range(0, len(uploads), size)]
    return [upload for share in pool.each(lambda some: [one.finish() for one in some], shares) for upload in share]


def _beside(data: DataFile, extra: SidecarObject, output: Output) -> DataFile:
    """The facts of an object that goes with another one, once it is uploaded."""
    sent = upload_whole(output.store, extra.key, extra.content, part_size=output.part_size)
    return replace(data, key=extra.key, role=extra.role, format=str(extra.role), upload=sent, bytes=sent.size)


SchemaNumbers: TypeAlias = dict[int, tuple[int, ConnectSchema]]
"""The schemas of files, each with its number; by `id`, for hundreds of files share one, and to compare them takes long."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """What one task leaves to the next: the open files, and the counts of records read and skipped since the frontier."""

    open: OpenFiles
    examined: Paused
    skipped: Paused


@dataclass(frozen=True, slots=True)
class TaskStates:
    """Writes and reads the states of one assignment, under the fingerprint of the pipeline's configuration."""

    assignment: Assignment
    paths: StatePaths
    fingerprint: str

    def write_state(self, task: TaskState, output: Output, *, epoch: int, frontier: int, until: int) -> OpenState:
        """Writes a state for a driver of that epoch: of what is open above the frontier, up to the first offset that was not read.

        Raises CannotPause, StorageError, LocalDiskError.
        """
        held = StateBytes(output.folder)
        files = _paused_files(task.open, held)
        uploads = [target.upload for target in task.open.objects() if target.upload.id is not None]
        document = {
            **self._facts(epoch, frontier, until),
            "uploads": [[upload.key, upload.id] for upload in uploads],
            "begun": [[upload.key, upload.id] for upload in uploads if not upload.inherited],
            "open": files,
            "examined_records": task.examined,
            "skipped": task.skipped,
        }
        content = StateContent(document, held)
        tp, unique = self.assignment.topic_partition, uuid.uuid4().hex
        key = self.paths.open_state(tp, epoch=epoch, offset=until, unique=unique)
        output.store.put(key, content)
        return OpenState(key, len(content), epoch, frontier, until)

    def read_state(self, state: OpenState, output: Output) -> TaskState:
        """What a state holds, open again. Raises StateUnusable, StorageUnavailable, LocalDiskError."""
        try:
            with opened_state(output.store, state, output.folder) as document:
                check_state(document, self._facts(state.epoch, self.assignment.start, state.examined))
                if state.epoch != self.assignment.keep:  # of an earlier driver: who knows what happened since
                    check_uploads(((key, upload_id) for key, upload_id in document["uploads"]), output.store)
                open_files = _resumed_files(document["open"], output, self.assignment.topic_partition)
                return TaskState(open_files, document["examined_records"], document["skipped"])
        except ObjectMissing:
            raise StateUnusable("it is gone") from None
        except (KeyError, TypeError, ValueError, pa.ArrowException, CannotPause) as error:
            raise StateUnusable(f"it cannot be read ({type(error).__name__}: {error})") from error

    def _facts(self, epoch: int, frontier: int, until: int) -> dict[str, Any]:
        """What a state has to say of itself to be continued."""
        return {
            "identity": self.fingerprint,
            "table": hashlib.sha256((self.assignment.table or "").encode()).hexdigest(),
            "topic_partition": list(self.assignment.topic_partition),
            "epoch": epoch,
            "frontier": frontier,
            "examined": until,
        }


def _paused_files(open_files: OpenFiles, content: StateBytes) -> Paused:
    """All that is open, as a document; nothing can be written afterwards. Raises CannotPause, LocalDiskError."""
    schemas: SchemaNumbers = {}
    form = open_files.small.form
    return {
        "records": open_files.records,
        "base_ms": open_files.base_ms,
        "directory": open_files.last_partition,
        "last_offset": open_files.last_offset,
        "files": [_paused_file(file, content, schemas) for file in open_files.files.values()],
        "form": None if form is None else content.placed(form.paused()),
        "small_schema": None if form is None else _number_of(form.schema, schemas),
        "small": open_files.small.pause(content),
        "schemas": [content.placed(schema_document(schema)) for _, schema in schemas.values()],
    }


def _resumed_files(paused: Paused, output: Output, topic_partition: TopicPartition) -> OpenFiles:
    """Open files that go on from a document. Raises StateUnusable, also where a file would have another name by now."""
    schemas = [stored_schema(in_memory(schema)) for schema in paused["schemas"]]
    files = [_resumed_file(file, schemas, output, topic_partition) for file in paused["files"]]
    form, number = in_memory(paused["form"]), paused["small_schema"]
    form = None if form is None else resumed_form(form, None if number is None else schemas[number])
    return OpenFiles(
        {file.encoded_partition: file for file in files},
        paused["records"],
        paused["base_ms"],
        paused["directory"],
        paused["last_offset"],
        SmallFiles.resumed(paused["small"], form),
    )


def _paused_file(file: OpenFile, content: StateBytes, schemas: SchemaNumbers) -> Paused:
    return {
        "encoded_partition": file.encoded_partition,
        "first_offset": file.first_offset,
        "last_offset": file.last_offset,
        "records": file.records,
        "min_timestamp": file.min_timestamp,
        "max_timestamp": file.max_timestamp,
        "objects": [_paused_object(target, content, schemas) for target in file.objects.values()],
    }


def _resumed_file(
    paused: Mapping[str, Any], schemas: Sequence[ConnectSchema], output: Output, topic_partition: TopicPartition
) -> OpenFile:
    facts = {name: value for name, value in paused.items() if name != "objects"}
    objects = [_resumed_object(target, schemas, output) for target in paused["objects"]]
    for target in objects:
        naming, name, first = (
            output.naming.with_time_of(target.upload.key),
            facts["encoded_partition"],
            facts["first_offset"],
        )
        if target.upload.key != naming.key(topic_partition, name, offset=first, extension=target.format.extension):
            raise StateUnusable(f"{target.upload.key} would have another name by now")
    return OpenFile(objects={target.role: target for target in objects}, **facts)


def _paused_object(target: OpenObject, content: StateBytes, schemas: SchemaNumbers) -> Paused:
    encoder = content.placed(target.encoder.pause())
    target.send_encoded()
    schema = target.schema
    return {
        "role": str(target.role),
        "schema": _number_of(schema, schemas),
        "encoder": encoder,
        "upload": target.upload.pause(content),
    }


def _number_of(schema: ConnectSchema | None, schemas: SchemaNumbers) -> int | None:
    return None if schema is None else schemas.setdefault(id(schema), (len(schemas), schema))[0]


def _resumed_object(paused: Mapping[str, Any], schemas: Sequence[ConnectSchema], output: Output) -> OpenObject:
    role, schema = Role(paused["role"]), None if paused["schema"] is None else schemas[paused["schema"]]
    encoder = output.new_encoder(role, schema)
    encoder.resume(in_memory(paused["encoder"]))
    upload = FileUpload.resumed(output.store, paused["upload"], part_size=output.part_size)
    return OpenObject(role, output.formats[role], encoder, upload)
