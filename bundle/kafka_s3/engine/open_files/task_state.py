"""How do a task's open files become a state, and open again in another process? In one object below the sink's own ones."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from kafka_s3.connect.schemas.connect import ConnectSchema, schema_document, stored_schema
from kafka_s3.engine.log.state_paths import StatePaths
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles, OpenObject, Output
from kafka_s3.engine.open_files.small_files import SmallFiles
from kafka_s3.engine.open_files.state_object import (
    StateBytes,
    StateContent,
    StateUnusable,
    check_state,
    check_uploads,
    in_memory,
    opened_state,
)
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.errors import ObjectMissing
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.model.tasks import Assignment, OpenState
from kafka_s3.objects.format import CannotPause, Paused

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
    return {
        "records": open_files.records,
        "base_ms": open_files.base_ms,
        "directory": open_files.last_partition,
        "last_offset": open_files.last_offset,
        "files": [_paused_file(file, content, schemas) for file in open_files.files.values()],
        "small": open_files.small.pause(content),
        "schemas": [content.placed(schema_document(schema)) for _, schema in schemas.values()],
    }


def _resumed_files(paused: Paused, output: Output, topic_partition: TopicPartition) -> OpenFiles:
    """Open files that go on from a document. Raises StateUnusable, also where a file would have another name by now."""
    schemas = [stored_schema(in_memory(schema)) for schema in paused["schemas"]]
    files = [_resumed_file(file, schemas, output, topic_partition) for file in paused["files"]]
    return OpenFiles(
        {file.encoded_partition: file for file in files},
        paused["records"],
        paused["base_ms"],
        paused["directory"],
        paused["last_offset"],
        SmallFiles.resumed(paused["small"]),
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
        "schema": None if schema is None else schemas.setdefault(id(schema), (len(schemas), schema))[0],
        "encoder": encoder,
        "upload": target.upload.pause(content),
    }


def _resumed_object(paused: Mapping[str, Any], schemas: Sequence[ConnectSchema], output: Output) -> OpenObject:
    role, schema = Role(paused["role"]), None if paused["schema"] is None else schemas[paused["schema"]]
    encoder = output.new_encoder(role, schema)
    encoder.resume(in_memory(paused["encoder"]))
    upload = FileUpload.resumed(output.store, paused["upload"], part_size=output.part_size)
    return OpenObject(role, output.formats[role], encoder, upload)
