"""How is a topic's table put together, and which columns do its objects have? Parquet's footer, Avro's header, the first lines of JSON.

A few range requests, never a whole object. Of several objects the columns are put together, as a table over all of them would have it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from kafka_s3.connect.schemas.arrow import arrow_field, final_type, infer_table
from kafka_s3.connect.schemas.avro_schemas import connect_schema_of_avro, parse_avro
from kafka_s3.connect.schemas.avro_types import AvroOptions
from kafka_s3.connect.schemas.connect import DATE, DECIMAL, TIME, TIMESTAMP, ConnectSchema, SchemaError, SchemaType
from kafka_s3.engine.task.table_guard.columns import TableColumns, compare_columns, file_columns
from kafka_s3.followers.ddl.table import (
    LOOKED_INTO,
    ExternalTable,
    LoggedObject,
    NoTable,
    TopicObjects,
    clashes,
    partition_keys,
)
from kafka_s3.followers.delta.planner import read_footer
from kafka_s3.model.deflate import GZIP
from kafka_s3.model.files import Role
from kafka_s3.objects.batches import parse_row, shallow_columns
from kafka_s3.store.store import ObjectStore

HEAD_BYTES: Final = 1 << 20
MOST_TEXT: Final = 8 << 20
AVRO_MAGIC: Final = b"Obj\x01"
_NUMBERS: Final = {TIMESTAMP: pa.int64(), DATE: pa.int32(), TIME: pa.int32()}


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns of some objects; `avro_schema` is the newest Avro object's writer schema, blank for other formats."""

    columns: TableColumns
    avro_schema: str = ""


def object_columns(store: ObjectStore, objects: Sequence[LoggedObject]) -> FoundColumns:
    """The columns of objects, the newest first, whose order and types win. Raises NoTable, StorageError, ObjectMissing."""
    found: FoundColumns | None = None
    for facts in objects[:LOOKED_INTO]:
        one = _columns(store, facts)
        if found is None:
            found = one
            continue
        merged = compare_columns(found.columns, one.columns).columns
        omitted = dict.fromkeys((*found.columns.omitted, *one.columns.omitted))
        found = replace(found, columns=TableColumns(merged.fields, tuple(omitted)))
    if found is None or not found.columns.fields:
        raise NoTable("The topic's newest objects hold no column. Write records with fields.")
    return found


def json_columns(schema: ConnectSchema, *, decimals: str) -> TableColumns:
    """The columns that values of a schema have as JSON lines; `decimals` is json.decimal.format. Raises NoTable for other than structs."""
    if schema.kind is not SchemaType.STRUCT:
        raise NoTable(
            f"Values of type {schema.kind} have no fields, so there are no columns. Read the objects line by line."
        )
    fields = [pa.field(one.name, _json_type(one.schema, decimals)) for one in schema.fields]
    return file_columns(pa.schema(fields))


def _columns(store: ObjectStore, facts: LoggedObject) -> FoundColumns:
    match facts.format:
        case "parquet":
            return FoundColumns(file_columns(read_footer(store, facts.key, facts.size).schema))
        case "avro":
            return _avro(store.get_range(facts.key, 0, HEAD_BYTES - 1), facts.key)
        case "json":
            return FoundColumns(_sampled(store.get_range(facts.key, 0, HEAD_BYTES - 1), facts))
    raise NoTable(
        f"Objects of format {facts.format} have no columns that an engine could know. Write Parquet, Avro or JSON; "
        "kafka-s3 seek reads Block-GZIP objects."
    )


def _avro(head: bytes, key: str) -> FoundColumns:
    """The writer schema in an object's header."""
    try:
        text = _avro_metadata(head)[b"avro.schema"].decode()
        schema = connect_schema_of_avro(parse_avro(text), options=AvroOptions())
    except (KeyError, ValueError, IndexError, SchemaError) as error:
        raise NoTable(f"The header of {key} cannot be read as Avro's: {error}. Was the object written over?") from error
    if schema is None or schema.kind is not SchemaType.STRUCT:
        raise NoTable(f"{key} holds no records with fields, so there are no columns. Read it as it is.")
    try:
        arrow = pa.schema([arrow_field(one.name, one.schema) for one in schema.fields])
    except SchemaError as error:
        raise NoTable(f"The records of {key} have no columns that a table could have: {error}") from error
    return FoundColumns(file_columns(arrow), text)


def _avro_metadata(head: bytes) -> dict[bytes, bytes]:
    """The map in front of the first block. Raises ValueError, IndexError."""
    if not head.startswith(AVRO_MAGIC):
        raise ValueError("it does not begin as an Avro object file")
    at = len(AVRO_MAGIC)
    found: dict[bytes, bytes] = {}
    while True:
        count, at = _long(head, at)
        if not count:
            return found
        if count < 0:
            _, at = _long(head, at)
        for _ in range(abs(count)):
            name, at = _bytes(head, at)
            found[name], at = _bytes(head, at)


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError(f"it is longer than {HEAD_BYTES} bytes, or cut off")
    return data[at : at + size], at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _sampled(head: bytes, facts: LoggedObject) -> TableColumns:
    """The columns of the whole lines at an object's beginning."""
    try:
        text = zlib.decompressobj(GZIP).decompress(head, MOST_TEXT) if facts.key.endswith(".gz") else head
        lines = text.split(b"\n")
        rows = [parse_row(line) for line in lines[:-1]]
    except (zlib.error, ValueError, RecursionError) as error:
        raise NoTable(f"{facts.key} does not hold JSON lines: {error}. Was the object written over?") from error
    if not rows:
        raise NoTable(f"The first record of {facts.key} is longer than {HEAD_BYTES} bytes: its columns are not known.")
    columns = shallow_columns(infer_table(rows).schema)
    return file_columns(pa.schema([pa.field(one.name, final_type(one.type)) for one in columns]))


def _json_type(schema: ConnectSchema, decimals: str) -> pa.DataType:
    """The type of a value in Connect's JSON: times are numbers, bytes are base64, maps with keys that are not text are lists of pairs."""
    if schema.name in _NUMBERS:
        return _NUMBERS[schema.name]
    if schema.name == DECIMAL:
        return pa.float64() if decimals == "NUMERIC" else pa.string()
    match schema.kind:
        case SchemaType.STRUCT:
            return pa.struct([pa.field(one.name, _json_type(one.schema, decimals)) for one in schema.fields])
        case SchemaType.ARRAY:
            assert schema.items is not None
            return pa.list_(_json_type(schema.items, decimals))
        case SchemaType.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            values = _json_type(schema.values, decimals)
            text = schema.keys.kind is SchemaType.STRING and not schema.keys.optional
            return pa.map_(pa.string(), values) if text else pa.list_(pa.list_(pa.string()))
        case SchemaType.BYTES | SchemaType.STRING:
            return pa.string()
        case _:
            return arrow_field("value", schema).type


_BESIDE = {Role.KEY: "keys", Role.HEADER: "headers"}


def table_of(
    store: ObjectStore, objects: TopicObjects, *, bucket: str, delta: bool | None, known: TableColumns | None = None
) -> ExternalTable:
    """The table over a topic's objects. `known` are columns that need not be looked for.

    `delta` says whether the sink keeps a Delta table there; None: the bucket is asked. Raises NoTable where the objects cannot be a
    table, StorageError.
    """
    found = FoundColumns(known) if known is not None else object_columns(store, objects.newest)
    is_delta = has_delta_log(store, objects) if delta is None else delta
    keys = partition_keys(objects.encoded_partitions, found.columns.fields)
    hidden = clashes(keys, found.columns.fields)
    shown = {name: one for name, one in found.columns.fields.items() if name not in hidden}
    return ExternalTable(
        topic=objects.topic,
        location=f"s3://{bucket}/{objects.folder}",
        format=objects.newest[0].format,
        columns=TableColumns(shown),
        keys=keys,
        delta=is_delta,
        avro_schema=found.avro_schema,
        notes=() if is_delta else tuple(_notes(objects, hidden, found.columns.omitted)),
    )


def has_delta_log(store: ObjectStore, objects: TopicObjects) -> bool:
    """Whether a Delta table lies over the topic's objects. Raises StorageError."""
    return next(iter(store.list(f"{objects.folder}_delta_log/")), None) is not None


def _notes(objects: TopicObjects, hidden: list[str], omitted: tuple[str, ...]) -> list[str]:
    notes = [
        f"{name} is a directory and a column of the records: the table has the directory's value, the other stays in the objects."
        for name in hidden
    ]
    notes += [f"Not in the table: {text}." for text in omitted]
    if objects.sidecars:
        names = " and ".join(_BESIDE[role] for role in objects.sidecars)
        notes.append(f"Objects with {names} lie in the same folders, and are read as values.")
    return notes
