"""How do open files become a document, and open again in another process?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kafka_s3.connect.schemas.connect import ConnectSchema
from kafka_s3.connect.schemas.stored import schema_document, stored_schema
from kafka_s3.engine.open_files.file_encoders import OneSchema, file_encoder
from kafka_s3.engine.open_files.open_files import OpenFile, OpenFiles, OpenObject, Output
from kafka_s3.engine.open_files.open_state import StateBytes, StateUnusable, in_memory
from kafka_s3.engine.open_files.small_files import SmallFiles
from kafka_s3.engine.open_files.uploads import FileUpload
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition
from kafka_s3.objects.format import Paused

Schemas: TypeAlias = dict[int, tuple[int, ConnectSchema]]
"""The schemas of files, each with its number; by `id`, for hundreds of files share one, and to compare them takes long."""


def paused_files(open_files: OpenFiles, content: StateBytes) -> Paused:
    """All that is open, as a document; nothing can be written afterwards. Raises CannotPause, LocalDiskError."""
    schemas: Schemas = {}
    return {
        "records": open_files.records,
        "base_ms": open_files.base_ms,
        "directory": open_files.directory,
        "last_offset": open_files.last_offset,
        "files": [_paused_file(file, content, schemas) for file in open_files.files.values()],
        "small": open_files.small.pause(content),
        "schemas": [content.placed(schema_document(schema)) for _, schema in schemas.values()],
    }


def resumed_files(paused: Paused, output: Output, topic_partition: TopicPartition) -> OpenFiles:
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


def _paused_file(file: OpenFile, content: StateBytes, schemas: Schemas) -> Paused:
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


def _paused_object(target: OpenObject, content: StateBytes, schemas: Schemas) -> Paused:
    encoder = content.placed(target.encoder.pause())
    target.upload.add(target.encoder.take())
    schema = target.schema
    return {
        "role": str(target.role),
        "schema": None if schema is None else schemas.setdefault(id(schema), (len(schemas), schema))[0],
        "encoder": encoder,
        "upload": target.upload.pause(content),
    }


def _resumed_object(paused: Mapping[str, Any], schemas: Sequence[ConnectSchema], output: Output) -> OpenObject:
    role = Role(paused["role"])
    form = output.formats[role]
    schema = None if paused["schema"] is None else schemas[paused["schema"]]
    is_value = role is Role.VALUE
    encoder = file_encoder(output.schemas, form, schema) if is_value else OneSchema(form.open(schema), schema)
    encoder.resume(in_memory(paused["encoder"]))
    upload = FileUpload.resumed(output.store, paused["upload"], part_size=output.part_size)
    return OpenObject(role, form, encoder, upload)
