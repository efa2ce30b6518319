"""How are fields replaced, extracted, hoisted, copied into the key and inserted, and their struct named?

`ReplaceField`, `ExtractField`, `HoistField`, `ValueToKey`, `InsertField`, `SetSchemaMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.java.numbers import hash_order
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.connect.transforms.record import (
    ILLEGAL,
    ConnectRecord,
    RecordPart,
    Refused,
    Schema,
    Struct,
    bare,
    constant,
    field_value,
    java_class,
    mapped,
    put_values,
    require_fields,
    require_map,
    require_struct,
    struct_of,
)  # fmt: skip
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

DUPLICATE: Final = "org.apache.kafka.connect.errors.SchemaBuilderException"
REPLACEMENT: Final = "field replacement"
EXTRACTION: Final = "field extraction"
NESTED_ACCESS: Final = "nested field access"
TO_KEY: Final = "copying fields from value to key"


def distinct(fields: list[Field]) -> tuple[Field, ...]:
    """The fields of a struct, whose names must differ. Raises Refused."""
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise Refused(f"Cannot create field because of field name duplication {field.name}", DUPLICATE)
        seen.add(field.name)
    return tuple(fields)


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Leaves fields out, or keeps only some, and renames."""

    part: RecordPart
    exclude: frozenset[str]
    include: frozenset[str]
    renames: Mapping[str, str]
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with other fields, in the order of its schema."""
        value, schema = self.part.of(record)
        if value is None:
            return record
        if schema is None:
            found = require_map(value, REPLACEMENT)
            return self.part.put(record, {self._name(name): found[name] for name in self._order(found)}, None)
        members = require_struct(value, schema, REPLACEMENT)
        other = bare(
            schema, fields=distinct([Field(self._name(field.name), field.schema) for field in self._kept(schema)])
        )
        out = {field.name: self._value(members, schema, field) for field in other.fields}
        return self.part.put(record, out, other)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """Other columns."""
        return mapped(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        kept = [Field(self._name(field.name), field.schema) for field in self._kept(value.schema)]
        arrays = [value.named(field.name) for field in self._kept(value.schema)]
        new = set(self.renames.values())
        if len({field.name for field in kept}) < len(kept) or any(
            f.name in new and not self._own(f, value.schema) for f in kept
        ):
            return None
        return value.with_fields(list(zip(kept, arrays, strict=True)), bare(value.schema))

    def _own(self, field: Field, schema: ConnectSchema) -> bool:
        """Whether a field of the new struct is the renamed one, and no other one that has its name."""
        old = [one for one, new in self.renames.items() if new == field.name]
        return len(old) == 1 and self._stays(old[0]) and schema.field(old[0]) is not None

    def _value(self, members: dict[str, Any], schema: ConnectSchema, field: Field) -> Any:
        """The value of a field of the new struct, looked for as the original does: under the old name of its name, whatever that holds."""
        name = {new: old for old, new in self.renames.items()}.get(field.name, field.name)
        source = schema.field(name)
        if source is None:
            raise Refused(f"{name} is not a valid field name")
        found = field_value(members, name, source.schema, defaults=self.defaults)
        if found is None and not field.schema.optional and field.schema.default is None:
            raise Refused(null_used(field))
        if found is not None and java_class(found, source.schema) != java_class(found, field.schema):
            kind, java = java_kind(field.schema), java_class(found, source.schema)
            raise Refused(f'Invalid Java object for schema with type {kind}: class {java} for field: "{field.name}"')
        return found

    def _order(self, found: dict[str, Any]) -> list[str]:
        """The names that stay; as Java's maps go through them where two get one name, and the last one wins."""
        stay = [name for name in found if self._stays(name)]
        clash = bool(self.renames) and len({self._name(name) for name in stay}) < len(stay)
        return [name for name in hash_order(found) if name in stay] if clash else stay

    def _stays(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)

    def _kept(self, schema: ConnectSchema) -> list[Field]:
        return [field for field in schema.fields if self._stays(field.name)]

    def _name(self, name: str) -> str:
        return self.renames.get(name, name)


@dataclass(frozen=True, slots=True)
class ExtractField:
    """Puts one field in the place of the whole part; `path` has several names with version 2 of the syntax, `text` is it as given."""

    part: RecordPart
    path: tuple[str, ...]
    text: str
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the field's value, null below null."""
        value, schema = self.part.of(record)
        if schema is None:
            return self.part.put(record, self._from_map(value), None)
        if value is not None:
            require_struct(value, schema, EXTRACTION)
        elif schema.kind is not SchemaType.STRUCT:
            raise Refused("Cannot look up fields on non-struct type")
        found = self._field(schema)
        if found is None:
            raise Refused(f"Unknown field: {self.text}", ILLEGAL)
        return self.part.put(record, self._from_struct(value, schema), found.schema)

    def _from_map(self, value: Any) -> Any:
        for depth, name in enumerate(self.path):
            if value is None:
                return None
            value = require_map(value, NESTED_ACCESS if depth else EXTRACTION).get(name)
        return value

    def _field(self, schema: ConnectSchema) -> Field | None:
        found: Field | None = None
        for name in self.path:
            inner = schema if found is None else found.schema
            if inner.kind is not SchemaType.STRUCT:
                raise Refused("Cannot look up fields on non-struct type")
            found = inner.field(name)
            if found is None:
                return None
        return found

    def _from_struct(self, value: Any, schema: ConnectSchema) -> Any:
        for name in self.path:
            field = schema.field(name)
            if value is None or field is None:
                return None
            value, schema = field_value(value, name, field.schema, defaults=self.defaults), field.schema
        return value

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The members of a struct in place of the struct, where no row lacks it; other fields are values of their own, one by one."""
        struct = struct_of(run, self.part)
        found = struct.schema.field(self.path[0]) if struct is not None and len(self.path) == 1 else None
        if (
            struct is None
            or found is None
            or found.schema.kind is not SchemaType.STRUCT
            or found.schema.default is not None
        ):
            return None
        array = struct.named(found.name)
        if array.null_count or not found.schema.fields:
            return None
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in array.chunks])
        arrays = tuple(table.columns)
        changed = Struct(found.schema, arrays)
        return mapped(run, self.part, lambda _: changed, defaults=False)


@dataclass(frozen=True, slots=True)
class HoistField:
    """Puts the whole part into a field of a new struct, or map; null, too."""

    part: RecordPart
    field: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record one level deeper."""
        value, schema = self.part.of(record)
        if schema is None:
            return self.part.put(record, {self.field: value}, None)
        if value is None and not schema.optional and schema.default is None:
            raise Refused(null_used(Field(self.field, schema)))
        return self.part.put(record, {self.field: value}, self._schema(schema))

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """One column of structs."""
        return mapped(run, self.part, self._columns, defaults=False)

    def _columns(self, value: Struct) -> Struct:
        fields = [arrow_field(field.name, field.schema) for field in value.schema.fields]
        arrays = [array.combine_chunks() for array in value.arrays]
        array = pa.StructArray.from_arrays(arrays, fields=fields)
        return Struct(self._schema(value.schema), (pa.chunked_array([array]),))

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        return ConnectSchema(SchemaType.STRUCT, fields=(Field(self.field, schema),))


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """Copies fields of the value into a new key."""

    fields: tuple[str, ...]
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with that key; a field that a value without schema does not have is null in it."""
        schema = record.value_schema
        if schema is None:
            found = require_map(record.value, TO_KEY)
            return replace(record, key={name: found.get(name) for name in self.fields}, key_schema=None)
        members = require_struct(record.value, schema, TO_KEY)
        chosen = [self._field(schema, name) for name in self.fields]
        key = {field.name: field_value(members, field.name, field.schema, defaults=self.defaults) for field in chosen}
        return replace(record, key=key, key_schema=ConnectSchema(SchemaType.STRUCT, fields=distinct(chosen)))

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """The value's columns as the key's."""
        struct = struct_of(run, RecordPart.VALUE)
        struct = struct.with_defaults() if struct is not None and self.defaults else struct
        chosen = [] if struct is None else [struct.schema.field(name) for name in self.fields]
        fields = [field for field in chosen if field is not None]
        if struct is None or len(fields) < len(self.fields) or len(set(self.fields)) < len(self.fields):
            return None
        table = pa.Table.from_arrays(
            [struct.named(field.name) for field in fields],
            schema=pa.schema([arrow_field(field.name, field.schema) for field in fields]),
        )
        sidecar = Sidecar(StructColumns(table), ConnectSchema(SchemaType.STRUCT, fields=tuple(fields)))
        return replace(run, sidecars={**run.sidecars, Role.KEY: sidecar})

    @staticmethod
    def _field(schema: ConnectSchema, name: str) -> Field:
        found = require_fields(schema).field(name)
        if found is None:
            raise Refused(f"Field does not exist: {name}")
        return found


def null_used(field: Field) -> str:
    """What Connect says of a null where none may be."""
    return f'Invalid value: null used for required field: "{field.name}", schema type: {java_kind(field.schema)}'


def java_kind(schema: Schema) -> str:
    """A type as Java's enum names it."""
    if schema is None:
        return java_class(None)
    return {SchemaType.FLOAT32: "FLOAT32", SchemaType.FLOAT64: "FLOAT64"}.get(schema.kind, schema.kind.upper())


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


PURPOSE: Final = "field insertion"
SCHEMAS: Final = {
    "topic": ConnectSchema(SchemaType.STRING),
    "partition": ConnectSchema(SchemaType.INT32),
    "offset": ConnectSchema(SchemaType.INT64),
    "timestamp": ConnectSchema(SchemaType.INT64, name=TIMESTAMP, version=1),
    "static": ConnectSchema(SchemaType.STRING),
}


class Insertion(NamedTuple):
    """A field to add: what of a record it says (a name of `SCHEMAS`), its own name, and whether it is optional."""

    what: str
    name: str
    optional: bool

    @property
    def field(self) -> Field:
        """The field with its schema."""
        plain = SCHEMAS[self.what]
        return Field(self.name, ConnectSchema(plain.kind, self.optional, plain.name, plain.version))


@dataclass(frozen=True, slots=True)
class InsertField:
    """Adds fields to a part, behind those that it has; `static` is the fixed text. `partition` is Kafka's."""

    part: RecordPart
    insertions: tuple[Insertion, ...]
    static: str
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the fields; null stays null."""
        value, schema = self.part.of(record)
        if value is None:
            return record
        said = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
        }
        added = [(one.name, (said | {"static": self.static})[one.what]) for one in self.insertions]
        if schema is None:
            known = {name: said for name, said in added if said is not None}
            return self.part.put(record, {**require_map(value, PURPOSE), **known}, None)
        members = require_struct(value, schema, PURPOSE)
        other = bare(schema, fields=distinct([*schema.fields, *(one.field for one in self.insertions)]))
        own = {f.name: field_value(members, f.name, f.schema, defaults=self.defaults) for f in schema.fields}
        return self.part.put(record, {**own, **dict(added)}, other)

    def columns(self, run: Run, place: TopicPartition) -> Run | None:
        """More columns; JSON text is added to as text."""
        if self.part is RecordPart.VALUE and isinstance(run.values, JsonText):
            return self._spliced(run, run.values, place)
        return mapped(run, self.part, lambda value: self._columns(value, run, place), defaults=self.defaults)

    def _columns(self, value: Struct, run: Run, place: TopicPartition) -> Struct | None:
        fields = [(one.field, array) for one, array in zip(self.insertions, self._arrays(run, place), strict=True)]
        if any(array.null_count for field, array in fields if not field.schema.optional):
            return None  # the records without a timestamp fail, later
        own = list(zip(value.schema.fields, value.arrays, strict=True))
        names = [field.name for field, _ in (*own, *fields)]
        return value.with_fields([*own, *fields], bare(value.schema)) if len(set(names)) == len(names) else None

    def _arrays(self, run: Run, place: TopicPartition) -> Iterator[pa.ChunkedArray]:
        for one in self.insertions:
            match one.what:
                case "offset":
                    yield pa.chunked_array([pa.array(run.offsets)])
                case "timestamp":
                    missing = run.timestamps == NO_TIMESTAMP
                    yield pa.chunked_array([pa.array(run.timestamps, mask=missing).cast(arrow_type(one.field.schema))])
                case "partition":
                    yield constant(place.partition, pa.int32(), len(run))
                case what:
                    yield constant(place.topic if what == "topic" else self.static, pa.string(), len(run))

    def _spliced(self, run: Run, values: JsonText, place: TopicPartition) -> Run | None:
        """The fields written behind those of each document; None where a document may have one of them already, or is no object."""
        texts, names = values.texts, [one.name for one in self.insertions]
        objects = pc.and_(pc.starts_with(texts, b"{"), pc.ends_with(texts, b"}"))
        if not pc.all(objects).as_py() or len(set(names)) < len(names) or _may_hold(texts, names):
            return None
        if not pc.all(pc.match_substring(texts, b'"')).as_py():  # an object without any name
            return None
        arrays = [array.combine_chunks() for array in self._arrays(run, place)]
        pieces, fixed = list[Any]([pc.binary_slice(texts, 0, -1)]), b""
        for name, array in zip(names, arrays, strict=True):
            fixed += f",{dumps(name)}:".encode()
            written = _written(array)
            if isinstance(written, bytes):
                fixed += written
            else:
                pieces += [pa.scalar(fixed), written]
                fixed = b""
        spliced = pc.binary_join_element_wise(*pieces, pa.scalar(fixed + b"}"), pa.scalar(b""))
        table = values.table
        for name, array in zip(names, arrays, strict=True):
            table = table.append_column(name, _plain(array)) if table is not None else None
        return put_values(run, self.part, JsonText(spliced, table), None)


def _may_hold(texts: pa.Array, names: list[str]) -> bool:
    """Whether a document may have a member of one of these names: its text holds the name, or an escape that could mean it."""
    if texts.type != pa.binary():
        return True
    _, places, content = texts.buffers()
    first, last = np.frombuffer(places, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
    data = np.frombuffer(content, np.uint8)[first:last] if content is not None else np.zeros(0, np.uint8)
    return _holds(data, b"\\u") or any(_holds(data, dumps(name).encode()) for name in names)


def _holds(data: npt.NDArray[np.uint8], pattern: bytes) -> bool:
    """Whether bytes hold a pattern of two or more. Numpy looks for its first two or four, ten times as quick as a search; that confirms."""
    kind = np.uint32 if len(pattern) >= 4 else np.uint16
    width = np.dtype(kind).itemsize
    wanted = np.frombuffer(pattern[:width], kind)[0]
    shifted = (data[start : start + (len(data) - start) // width * width] for start in range(min(width, len(data))))
    return any((some.view(kind) == wanted).any() for some in shifted) and pattern in data.tobytes()


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array


def _written(array: pa.Array) -> pa.Array | bytes:
    """Each value as JSON; once for all where it is a text, which is the same for all."""
    if pa.types.is_string(array.type):
        return dumps(array[0].as_py()).encode() if len(array) else b""
    return pc.fill_null(_plain(array).cast(pa.string()), "null").cast(pa.binary())
