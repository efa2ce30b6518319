"""Which message type does a registered Protobuf schema mean? Its descriptor, from .proto text or a serialized file, with all imports.

Every schema gets a descriptor pool of its own, so that two schemas may define the same name in different ways.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.registered import RegisteredSchema

ROOT: Final = "kafka-s3/registered.proto"
ALL: Final = "kafka-s3/references.proto"
META_NUMBER: Final = 1088
WELL_KNOWN = re.compile(r"google/(protobuf|type)/([a-z_]+)\.proto")
IMPORT = re.compile(r"""\bimport\s+(?:public\s+|weak\s+)?["']([^"']+)["']""")
MAP_ENTRY = re.compile(r"option\s+map_entry\s*=\s*true\s*;")
Proto = descriptor_pb2.FileDescriptorProto
Types = descriptor_pb2.FieldDescriptorProto


def message_type(registered: RegisteredSchema, indexes: tuple[int, ...]) -> Descriptor:
    """The message type at these indexes: a top-level message, then messages nested in it (SEMANTICS A11).

    Map entries that `map<K, V>` implies are not counted in .proto text, as in Confluent's Java classes; in a serialized file they are
    messages like any other, as in Confluent's Python client. Raises SchemaError where a text, an import or an index is wrong.
    """
    root, implied = _root(registered)
    level = list(root.message_types_by_name.values())
    found: Descriptor | None = None
    for depth, index in enumerate(indexes):
        if not 0 <= index < len(level):
            raise SchemaError(
                f"The Protobuf schema has no message at the indexes {list(indexes)}: index {depth} is {index}, and there are "
                f"{len(level)} messages to choose from. The record was written with another schema than the one it names."
            )
        found = level[index]
        level = [nested for nested in found.nested_types if not (implied and nested.GetOptions().map_entry)]
    if found is None:
        raise SchemaError("The message indexes of a Protobuf record are an empty list; one index at least is needed.")
    return found


def message_type_at(registered: RegisteredSchema, index: int) -> Descriptor:
    """The message type at this place among all of the file, nested ones and map entries too, by their full names: AWS Glue's numbers.

    Raises SchemaError where a text, an import or the place is wrong.
    """
    root, _ = _root(registered)
    found = list(root.message_types_by_name.values())
    for message in found:  # the list grows while it is walked
        found.extend(message.nested_types)
    if index >= len(found):
        raise SchemaError(
            f"The Protobuf schema has {len(found)} message types, and none at the place {index}. "
            "The record was written with another schema than the one it names."
        )
    return sorted(found, key=lambda message: message.full_name)[index]


def _root(registered: RegisteredSchema) -> tuple[FileDescriptor, bool]:
    """The file of a schema, and whether it was given as .proto text."""
    files, texts = _sources(registered)
    as_text = ROOT in texts
    _add_well_known(files, texts)
    if texts:
        files |= _compiled(texts, files)
    pool = descriptor_pool.DescriptorPool()
    _load(pool, ROOT, files, loaded=set(), path=())
    return pool.FindFileByName(ROOT), as_text


def field_params(field: FieldDescriptor) -> Mapping[str, str]:
    """The params of a field's option `confluent.field_meta`, empty where it has none."""
    if not field.has_options:
        return {}
    options = _meta_reader().FromString(field.GetOptions().SerializeToString())
    return dict(options.meta.params)


def is_proto2(file: FileDescriptor) -> bool:
    """Whether a file is written in proto2, the syntax of files that name none."""
    proto = Proto()
    file.CopyToProto(proto)
    return proto.syntax in ("", "proto2")


def _sources(registered: RegisteredSchema) -> tuple[dict[str, Any], dict[str, str]]:
    files: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, text in [*((r.name, r.text) for r in registered.references), (ROOT, registered.text)]:
        binary = _serialized(name, text)
        if binary is None:
            texts[name] = MAP_ENTRY.sub("", text)  # protoc refuses it, Confluent's serializers register it
        else:
            files[name] = binary
    return files, texts


def _serialized(name: str, text: str) -> Any:
    # No .proto text is valid base64: it has at least a semicolon or a brace.
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        proto = Proto.FromString(raw)
    except DecodeError:
        raise SchemaError(
            f"The Protobuf schema {_title(name)} is base64 text, but not of a serialized FileDescriptorProto."
        ) from None
    proto.name = name
    return proto


def _title(name: str) -> str:
    return "as registered" if name == ROOT else f"referred to as {name!r}"


def _load(pool: Any, name: str, files: Mapping[str, Any], *, loaded: set[str], path: tuple[str, ...]) -> None:
    if name in loaded:
        return
    if name in path:
        raise SchemaError(f"Protobuf files import each other in a circle: {' -> '.join((*path[1:], name))}.")
    if name not in files:
        raise SchemaError(
            f"The Protobuf schema {_title(path[-1])} imports {name!r}, which is neither among its references nor a well-known file; "
            "register the file, and refer to it under this name."
        )
    for imported in files[name].dependency:
        _load(pool, imported, files, loaded=loaded, path=(*path, name))
    try:
        pool.AddSerializedFile(files[name].SerializeToString())
    except (TypeError, ValueError) as error:
        raise SchemaError(f"The Protobuf schema {_title(name)} is not valid: {error}.") from None
    loaded.add(name)


def _compiled(texts: Mapping[str, str], files: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kafka-s3-proto-") as folder:
        entrance = {} if ROOT in texts else {ALL: _importing(texts)}
        for name, text in {**texts, **entrance}.items():
            _write(Path(folder, "source", _safe(name)), name, text)
        known, result = Path(folder, "known.pb"), Path(folder, "result.pb")
        known.write_bytes(descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString())
        arguments = [f"--proto_path={folder}/source", f"--descriptor_set_in={known}", f"--descriptor_set_out={result}"]
        _protoc([*arguments, "--include_imports", ROOT if ROOT in texts else ALL])
        compiled = descriptor_pb2.FileDescriptorSet.FromString(result.read_bytes())
    return {file.name: file for file in compiled.file}


def _importing(names: Iterable[str]) -> str:
    """A file that imports those of these names: as arguments protoc would take some of them for options, or for files of options (`@`)."""
    return 'syntax = "proto3";' + "".join(
        f"import public {json.dumps(name, ensure_ascii=False)};" for name in sorted(names)
    )


def _write(path: Path, name: str, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except (OSError, UnicodeError) as error:
        raise SchemaError(
            f"A Protobuf reference is named {name!r}, which is not a file's path beside the others: {error}."
        ) from None


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if not name or name.startswith(("/", "-")) or ".." in path.parts or "\0" in name or "\\" in name:
        raise SchemaError(f"A Protobuf reference is named {name!r}; it must be a relative path as an import names it.")
    return path


def _protoc(arguments: list[str]) -> None:
    try:
        from grpc_tools import protoc
    except ImportError:
        raise SchemaError(
            "The schema is .proto text, and the package grpcio-tools that reads it is not installed; install it where the "
            "schemas are read."
        ) from None
    if protoc.main(["protoc", *arguments]):
        raise SchemaError(f"The Protobuf schema is not valid: {_protoc_errors(arguments)}")


def _protoc_errors(arguments: list[str]) -> str:
    # Within a process protoc complains on the standard error only, which a child's output shows.
    try:
        command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, ValueError, subprocess.SubprocessError):
        output = ""
    output = re.sub(r"\S*/source/", "", output).replace(ROOT, "schema")
    lines = [line for line in output.splitlines() if line.strip() and "warning:" not in line]
    return "; ".join(lines[:5]) or "protoc refuses it; its reasons are on the standard error of this process."


def _add_well_known(files: dict[str, Any], texts: Mapping[str, str]) -> None:
    pending = [name for file in files.values() for name in file.dependency]
    pending += [name for text in texts.values() for name in IMPORT.findall(text)]
    if texts:
        pending.append("google/protobuf/descriptor.proto")  # protoc reads options by it
    while pending:
        name = pending.pop()
        known = None if name in files or name in texts else _well_known(name)
        if known is not None:
            files[name] = known
            pending += known.dependency


def _well_known(name: str | bytes) -> Any:
    if isinstance(name, bytes):  # what is no UTF-8: no file has such a name
        return None
    if name in _own():
        return _own()[name]
    match = WELL_KNOWN.fullmatch(name)
    if match is None:
        return None
    try:
        module = importlib.import_module(f"google.{match[1]}.{match[2]}_pb2")
    except ImportError:
        return None
    return Proto.FromString(module.DESCRIPTOR.serialized_pb)


@cache
def _own() -> dict[str, Any]:
    """Files that every registry client knows, and that come with no package of ours."""
    whole = Types.TYPE_INT32
    date = [("year", whole), ("month", whole), ("day", whole)]
    time = [("hours", whole), ("minutes", whole), ("seconds", whole), ("nanos", whole)]
    decimal = [("value", Types.TYPE_BYTES), ("precision", Types.TYPE_UINT32), ("scale", whole)]
    files = [
        _file("google/type/date.proto", "Date", date),
        _file("google/type/timeofday.proto", "TimeOfDay", time),
        _file("confluent/type/decimal.proto", "Decimal", decimal),
        _meta(),
    ]
    return {file.name: file for file in files}


def _file(path: str, message: str, fields: Iterable[tuple[str, Any]]) -> Any:
    package = ".".join(PurePosixPath(path).parent.parts)
    file = Proto(name=path, package=package, syntax="proto3")
    _add_fields(file.message_type.add(name=message), fields)
    return file


def _add_fields(message: Any, fields: Iterable[tuple[str, Any]]) -> None:
    for number, (name, kind) in enumerate(fields, start=1):
        message.field.add(name=name, number=number, type=kind, label=Types.LABEL_OPTIONAL)


def _meta() -> Any:
    file = _file("confluent/meta.proto", "Meta", [("doc", Types.TYPE_STRING)])
    file.dependency.append("google/protobuf/descriptor.proto")
    meta = file.message_type[0]
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    _add_fields(entry, [("key", Types.TYPE_STRING), ("value", Types.TYPE_STRING)])
    many, params = Types.LABEL_REPEATED, ".confluent.Meta.ParamsEntry"
    meta.field.add(name="params", number=2, type=Types.TYPE_MESSAGE, type_name=params, label=many)
    meta.field.add(name="tags", number=3, type=Types.TYPE_STRING, label=many)
    for owner in ("File", "Message", "Field", "Enum", "EnumValue"):
        name = f"{re.sub('(?<=[a-z])(?=[A-Z])', '_', owner).lower()}_meta"
        _add_meta_field(file.extension, name, extendee=f".google.protobuf.{owner}Options")
    return file


def _add_meta_field(fields: Any, name: str, **more: str) -> None:
    kind, label = Types.TYPE_MESSAGE, Types.LABEL_OPTIONAL
    fields.add(name=name, number=META_NUMBER, type=kind, type_name=".confluent.Meta", label=label, **more)


@cache
def _meta_reader() -> Any:
    """A message class that has the option as a plain field: reading it so needs no registered extension."""
    file = _meta()
    file.ClearField("extension")
    file.ClearField("dependency")
    _add_meta_field(file.message_type.add(name="Options").field, "meta")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("confluent.Options"))
