"""How are the fields of keys and values changed? Replaced, extracted, hoisted, copied into the key, inserted, flattened, masked.

`ReplaceField`, `ExtractField`, `HoistField`, `ValueToKey`, `InsertField`, `Flatten`, `MaskField`, and `SetSchemaMetadata` for their struct.
Debezium's `ExtractNewRecordState` makes a row of a change event: as it is now, with what is asked of the event beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.java.numbers import hash_order, narrow, parse_double, wrapped
from kafka_s3.connect.naming.state_terms import DELETED
from kafka_s3.connect.records.runs import Run, Sidecar
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText, StructColumns
from kafka_s3.connect.schemas.arrow import arrow_field, arrow_type
from kafka_s3.connect.schemas.connect import DECIMAL, TIMESTAMP, ConnectSchema, Field, Recursion, SchemaType
from kafka_s3.connect.schemas.json_form import default_value, dumps, to_json
from kafka_s3.connect.transforms.record import (
    ILLEGAL,
    NESTED,
    ConnectRecord,
    Header,
    JavaDate,
    RecordPart,
    Refused,
    Schema,
    Struct,
    bare,
    constant,
    field_value,
    field_values,
    java_class,
    put_values,
    require_fields,
    require_map,
    require_struct,
    scalar,
    struct_of,
    with_changed_columns,
)
from kafka_s3.model.files import Role
from kafka_s3.model.offsets import TopicPartition

DUPLICATE: Final = "org.apache.kafka.connect.errors.SchemaBuilderException"
REPLACEMENT: Final = "field replacement"
EXTRACTION: Final = "field extraction"
NESTED_ACCESS: Final = "nested field access"
TO_KEY: Final = "copying fields from value to key"


def distinct_fields(fields: list[Field]) -> tuple[Field, ...]:
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
        value, schema = self.part.value_of(record)
        if value is None:
            return record
        if schema is None:
            found = require_map(value, REPLACEMENT)
            return self.part.put(record, {self._name(name): found[name] for name in self._order(found)}, None)
        members = require_struct(value, schema, REPLACEMENT)
        other = bare(schema, fields=distinct_fields(self._renamed(schema)))
        out = {field.name: self._value(members, schema, field) for field in other.fields}
        return self.part.put(record, out, other)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return with_changed_columns(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        kept = self._renamed(value.schema)
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

    def _renamed(self, schema: ConnectSchema) -> list[Field]:
        return [replace(field, name=self._name(field.name)) for field in self._kept(schema)]

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
        value, schema = self.part.value_of(record)
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

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """The members of a struct in place of the struct, where no row lacks it; other fields go one by one."""
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
        changed = Struct(found.schema, tuple(table.columns))
        return with_changed_columns(run, self.part, lambda _: changed, defaults=False)


@dataclass(frozen=True, slots=True)
class HoistField:
    """Puts the whole part into a field of a new struct, or map; null, too."""

    part: RecordPart
    field: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value, schema = self.part.value_of(record)
        if schema is None:
            return self.part.put(record, {self.field: value}, None)
        if value is None and not schema.optional and schema.default is None:
            raise Refused(null_used(Field(self.field, schema)))
        return self.part.put(record, {self.field: value}, self._schema(schema))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return with_changed_columns(run, self.part, self._columns, defaults=False)

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
        return replace(record, key=key, key_schema=ConnectSchema(SchemaType.STRUCT, fields=distinct_fields(chosen)))

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
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
        value, schema = self.part.value_of(record)
        if value is None and schema is None:
            return record
        if schema is None:
            raise Refused("Schema required for [updating schema metadata]")
        other = self._schema(require_fields(schema))
        if value is not None:
            value = field_values(value, schema, defaults=self.defaults)
        return self.part.put(record, value, other)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return with_changed_columns(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct:
        return Struct(self._schema(value.schema), value.arrays)

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        name = schema.name if self.name is None else self.name
        return replace(schema, name=name, version=schema.version if self.version is None else self.version)


INSERTION: Final = "field insertion"
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
        value, schema = self.part.value_of(record)
        if value is None:
            return record
        added = [
            (one.name, self.static if one.what == "static" else getattr(record, one.what)) for one in self.insertions
        ]
        if schema is None:
            known = {name: found for name, found in added if found is not None}
            return self.part.put(record, {**require_map(value, INSERTION), **known}, None)
        members = require_struct(value, schema, INSERTION)
        other = bare(schema, fields=distinct_fields([*schema.fields, *(one.field for one in self.insertions)]))
        own = field_values(members, schema, defaults=self.defaults)
        return self.part.put(record, {**own, **dict(added)}, other)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """More columns; JSON text is added to as text."""
        if self.part is RecordPart.VALUE and isinstance(run.values, JsonText):
            return self._spliced(run, run.values, topic_partition)
        return with_changed_columns(
            run, self.part, lambda value: self._columns(value, run, topic_partition), defaults=self.defaults
        )

    def _columns(self, value: Struct, run: Run, topic_partition: TopicPartition) -> Struct | None:
        fields = [
            (one.field, array) for one, array in zip(self.insertions, self._arrays(run, topic_partition), strict=True)
        ]
        if any(array.null_count for field, array in fields if not field.schema.optional):
            return None  # the records without a timestamp fail, later
        own = list(zip(value.schema.fields, value.arrays, strict=True))
        names = [field.name for field, _ in (*own, *fields)]
        return value.with_fields([*own, *fields], bare(value.schema)) if len(set(names)) == len(names) else None

    def _arrays(self, run: Run, topic_partition: TopicPartition) -> Iterator[pa.ChunkedArray]:
        for one in self.insertions:
            match one.what:
                case "offset":
                    yield pa.chunked_array([pa.array(run.offsets)])
                case "timestamp":
                    missing = run.timestamps == NO_TIMESTAMP
                    yield pa.chunked_array([pa.array(run.timestamps, mask=missing).cast(arrow_type(one.field.schema))])
                case "partition":
                    yield constant(topic_partition.partition, pa.int32(), len(run))
                case what:
                    yield constant(topic_partition.topic if what == "topic" else self.static, pa.string(), len(run))

    def _spliced(self, run: Run, values: JsonText, topic_partition: TopicPartition) -> Run | None:
        """The fields written behind those of each document; None where a document may have one of them already, or is not an object."""
        texts, names = values.texts, [one.name for one in self.insertions]
        objects = pc.and_(pc.starts_with(texts, b"{"), pc.ends_with(texts, b"}"))
        if not pc.all(objects).as_py() or len(set(names)) < len(names) or _may_hold(texts, names):
            return None
        if not pc.all(pc.match_substring(texts, b'"')).as_py():  # an object without any name
            return None
        arrays = [array.combine_chunks() for array in self._arrays(run, topic_partition)]
        if any(array.null_count for array in arrays):
            return None  # a record without a timestamp gets no field, not a null
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
    _, ends, content = texts.buffers()
    first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
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
    return _plain(array).cast(pa.string()).cast(pa.binary())


FLATTENING: Final = "flattening"


@dataclass(frozen=True, slots=True)
class Flatten:
    """Flattens a part; arrays stay as they are."""

    part: RecordPart
    delimiter: str

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record on one level; null stays null."""
        value, schema = self.part.value_of(record)
        if value is None:
            return record
        if schema is None:
            return self.part.put(record, dict(self._members(require_map(value, FLATTENING), "")), None)
        members = require_struct(value, schema, FLATTENING)
        other = self._schema(schema)
        out = dict.fromkeys((field.name for field in other.fields), None) | dict(self._values(members, schema, ""))
        return self.part.put(record, out, other)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        return with_changed_columns(run, self.part, self._columns, defaults=False)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.delimiter}{name}" if prefix else name

    def _members(self, value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, member in value.items():
            name = self._name(prefix, key)
            if isinstance(member, JavaDate | Decimal):
                known = "which is not supported by Connect's data API"
                raise Refused(f"Flatten transformation was passed a value of type class {java_class(member)} {known}")
            if isinstance(member, dict):
                yield from self._members(member, name)
            else:
                yield name, member

    def _schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = list(self._fields(schema, "", optional=schema.optional, default=default_value(schema)))
        return bare(schema, fields=distinct_fields(fields))

    def _fields(self, schema: ConnectSchema, prefix: str, *, optional: bool, default: Any) -> Iterator[Field]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            looser = optional or field.schema.optional
            own = default_value(field.schema)
            if own is None and default is not None:
                own = field_value(default, field.name, field.schema, defaults=True)
            if isinstance(field.schema.fields, Recursion):
                raise Refused(
                    f"Flatten transformation does not support types that contain themselves (for field {name})."
                )
            if field.schema.kind is SchemaType.STRUCT:
                yield from self._fields(field.schema, name, optional=looser, default=own)
            elif field.schema.kind is SchemaType.MAP:
                kind = java_kind(field.schema)
                raise Refused(
                    f"Flatten transformation does not support {kind} for record with schemas (for field {name})."
                )
            else:
                text = None if own is None else json.dumps(to_json(own, field.schema))
                yield Field(name, replace(field.schema, optional=looser, default=text))

    def _values(self, value: Any, schema: ConnectSchema, prefix: str) -> Iterator[tuple[str, Any]]:
        if value is None:
            return
        for field in schema.fields:
            name = self._name(prefix, field.name)
            member = field_value(value, field.name, field.schema, defaults=True)
            if field.schema.kind is SchemaType.STRUCT:
                yield from self._values(member, field.schema, name)
            else:
                yield name, member

    def _columns(self, value: Struct) -> Struct | None:
        try:
            schema = self._schema(value.schema)
        except Refused:
            return None
        arrays: list[pa.ChunkedArray] = []
        for field, array in zip(value.schema.fields, value.arrays, strict=True):
            if not _flattened(field.schema, array, None, arrays):
                return None
        return Struct(schema, tuple(arrays))


def _flattened(
    schema: ConnectSchema, array: pa.ChunkedArray, inside: pa.ChunkedArray | None, out: list[pa.ChunkedArray]
) -> bool:
    """Adds the leaves of a column; False where a default is nested. `inside` says which rows have the struct around it."""
    if schema.default is not None and array.null_count:
        if schema.kind in NESTED:
            return False
        filled = array.fill_null(scalar(default_value(schema), array.type))
        array = filled if inside is None else pc.if_else(inside, filled, pa.scalar(None, array.type))
    if schema.kind is not SchemaType.STRUCT:
        out.append(array)
        return True
    here = array.is_valid() if array.null_count else inside
    return all(_flattened(field.schema, pc.struct_field(array, field.name), here, out) for field in schema.fields)


MASKING: Final = "mask fields"
BITS: Final = {"java.lang.Byte": 8, "java.lang.Short": 16, "java.lang.Integer": 32, "java.lang.Long": 64}
EMPTY: Final[dict[str, Any]] = {
    "java.lang.Boolean": False, "java.lang.Byte": 0, "java.lang.Short": 0, "java.lang.Integer": 0, "java.lang.Long": 0,
    "java.lang.Float": 0.0, "java.lang.Double": 0.0, "java.math.BigDecimal": Decimal(0), "java.util.Date": 0, "java.lang.String": "",
    "java.util.ArrayList": [], "java.util.HashMap": {},
}  # fmt: skip
REPLACEMENTS: Final[dict[str, Callable[[str], Any]]] = {
    "java.lang.Float": lambda text: narrow(parse_double(text)),
    "java.lang.Double": parse_double,
    "java.math.BigDecimal": Decimal,
    "java.lang.String": str,
}


@dataclass(frozen=True, slots=True)
class MaskField:
    """Masks fields of a part; `replacement` None stands for each type's zero. The schema stays as it is."""

    part: RecordPart
    fields: frozenset[str]
    replacement: str | None
    defaults: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with masked fields; null stays null, and a value without schema gets the fields that it lacks as null."""
        value, schema = self.part.value_of(record)
        if schema is None:
            found = dict(require_map(value, MASKING))
            found |= {name: self._masked(found.get(name), None) for name in self.fields}
            return self.part.put(record, found, None)
        members = require_struct(value, schema, MASKING)
        out = field_values(members, schema, defaults=self.defaults)
        masked = (field for field in schema.fields if field.name in self.fields)
        out |= {field.name: self._masked(out[field.name], field.schema) for field in masked}
        return self.part.put(record, out, schema)

    def columns(self, run: Run, topic_partition: TopicPartition) -> Run | None:
        """One value in each masked column, but where it is null."""
        return with_changed_columns(run, self.part, self._columns, defaults=self.defaults)

    def _columns(self, value: Struct) -> Struct | None:
        arrays = [
            self._column(field, array) if field.name in self.fields else array
            for field, array in zip(value.schema.fields, value.arrays, strict=True)
        ]
        return None if any(array is None for array in arrays) else Struct(value.schema, tuple(arrays))

    def _column(self, field: Field, array: pa.ChunkedArray) -> pa.ChunkedArray | None:
        if field.schema.kind in (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP, SchemaType.BYTES):
            return None
        try:
            mask = self._masked("" if field.schema.kind is SchemaType.STRING else 0, field.schema)
        except Refused:
            return None
        kind = arrow_type(field.schema)
        return pc.if_else(array.is_valid(), scalar(mask, kind), pa.scalar(None, kind))

    def _masked(self, value: Any, schema: Schema) -> Any:
        if value is None:
            return None
        java = java_class(value, schema)
        if self.replacement is not None:
            return self._replaced(java)
        if java not in EMPTY:
            raise Refused(f"Cannot mask value of type: class {java}")
        if java == "java.util.HashMap":
            return {} if schema is None else []
        if schema is not None and schema.name == DECIMAL:
            return Decimal(0)
        return JavaDate(0) if isinstance(value, JavaDate) else EMPTY[java]

    def _replaced(self, java: str) -> Any:
        text = self.replacement or ""
        try:
            if java in BITS:
                # as Connect's `Values` reads it: towards zero, and cut to the bits
                return wrapped(int(Decimal(text.strip())), BITS[java])
            if java in REPLACEMENTS:
                return REPLACEMENTS[java](text)
        except (ValueError, InvalidOperation, OverflowError):
            number = "a number" if java in BITS else "number"
            raise Refused(f"Unable to convert {text} (class java.lang.String) to {number}") from None
        raise Refused(f"Cannot mask value of type class {java} with custom replacement.")


ENVELOPE: Final = ".Envelope"
WITHIN: Final = {
    **dict.fromkeys(("op", "ts_ms", "ts_us", "ts_ns"), None),
    **dict.fromkeys(("id", "total_order", "data_collection_order"), "transaction"),
    "updateDescription": "updateDescription",
}
"""Where fields are that are named without their struct; all others are in `source`."""
STRING: Final = ConnectSchema(SchemaType.STRING)


class Deletes(StrEnum):
    """What becomes of delete events and of the tombstones that follow them (`delete.tombstone.handling.mode`, and the older keys')."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"
    DROP_WITH_TOMBSTONE = "drop, tombstones stay"
    BOTH = "delete to null, tombstones stay"


REWRITING: Final = (Deletes.REWRITE, Deletes.REWRITE_WITH_TOMBSTONE)
DROPPING: Final = (Deletes.DROP, Deletes.DROP_WITH_TOMBSTONE)
KEEPING: Final = (
    Deletes.REWRITE_WITH_TOMBSTONE, Deletes.DROP_WITH_TOMBSTONE, Deletes.BOTH,
)  # fmt: skip


class FieldReference(NamedTuple):
    """A field of the event (`within` None) or of one of its structs, and the name that it gets."""

    within: str | None
    field: str
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        return (self.field,) if self.within is None else (self.within, self.field)


def reference(text: str, prefix: str) -> FieldReference:
    """`field`, `struct.field`, each with `:name` if wanted. Raises ValueError."""
    path, _, wanted = text.strip().partition(":")
    parts = path.split(".")
    if len(parts) > 2 or not all(parts):
        raise ValueError(f"Unexpected field value: {path}")
    within = parts[0] if len(parts) == 2 else WITHIN.get(path, "source")
    return FieldReference(within, parts[-1], prefix + (wanted or "_".join(parts)))


@dataclass(frozen=True, slots=True)
class ExtractNewRecordState:
    """Unwraps change events, recognised by their schema's name; everything else passes. `route` names the field that says the topic."""

    deletes: Deletes
    route: str
    fields: tuple[FieldReference, ...]
    headers: tuple[FieldReference, ...]
    drop_header: str
    drop_from_key: bool
    keep_compatible: bool

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The row, or what the delete mode makes of a delete; None for what it drops."""
        schema = record.value_schema
        if record.value is None:
            return self._tombstone(record) if self.deletes in KEEPING else None
        if schema is None or not is_envelope(schema):
            return record
        event = record.value
        record = replace(record, headers=(*record.headers, *self._headers(event, schema)))
        after, before = event.get("after"), event.get("before")
        if after is None and before is None:
            return None
        if after is not None:
            row = self._marked(replace(record, value=after, value_schema=_state(schema, "after")), "false")
            row = self._routed(row, row.value, row.value_schema)
            return self._without(self._with_fields(row, event, schema))
        if self.deletes in DROPPING:
            return None
        if self.deletes in REWRITING:
            row = self._marked(replace(record, value=before, value_schema=_state(schema, "before")), "true")
            row = self._routed(row, before, _state(schema, "before"))
            return self._with_fields(self._without(row), event, schema)
        other = None if self.deletes is Deletes.DELETE_TO_TOMBSTONE else _state(schema, "after")
        gone = replace(record, value=None, value_schema=other)
        return self._without(self._routed(gone, before, _state(schema, "before")))

    def _tombstone(self, record: ConnectRecord) -> ConnectRecord:
        """The tombstone, with the only header that it can have."""
        added = (Header(one.name, "d", STRING) for one in self.headers if one.path == ("op",))
        return replace(record, headers=(*record.headers, *added))

    def _headers(self, event: dict[str, Any], schema: ConnectSchema) -> Iterator[Header]:
        for one in self.headers:
            found = schema.at_path(one.path)
            if found is not None:
                yield Header(one.name, _event_value(one, event), replace(bare_value(found), optional=True))

    def _marked(self, row: ConnectRecord, deleted: str) -> ConnectRecord:
        """The row with `__deleted`, where deletes are rewritten."""
        if self.deletes not in REWRITING:
            return row
        mark = InsertField(RecordPart.VALUE, (Insertion("static", DELETED, True),), deleted, defaults=True)
        return mark.apply(row)

    def _routed(self, record: ConnectRecord, row: dict[str, Any], schema: Schema) -> ConnectRecord:
        if not self.route:
            return record
        field = schema.field(self.route) if schema is not None else None
        if field is None:
            raise Refused(f"{self.route} is not a valid field name")
        if field.schema.kind is not SchemaType.STRING:
            raise Refused(f"Field '{self.route}' is not of type STRING")
        topic = field_value(row, self.route, field.schema, defaults=True)
        return record if topic is None else replace(record, topic=topic)

    def _with_fields(self, row: ConnectRecord, event: dict[str, Any], schema: ConnectSchema) -> ConnectRecord:
        """The row with fields of the event behind its own; those that the event does not have are left out."""
        inner = row.value_schema
        assert inner is not None
        known = [(one, found) for one in self.fields if (found := schema.at_path(one.path)) is not None]
        fields = [Field(one.name, replace(bare_value(found), optional=True)) for one, found in known]
        other = bare(inner, fields=distinct_fields([*inner.fields, *fields]))
        values = {one.name: _event_value(one, event) for one, _ in known}
        return replace(row, value={**row.value, **values}, value_schema=other)

    def _without(self, row: ConnectRecord) -> ConnectRecord:
        """The row, and the key where asked, without the fields that a header names."""
        header = next((one for one in reversed(row.headers) if one.key == self.drop_header), None)
        if not self.drop_header or header is None or not isinstance(header.value, list) or not header.value:
            return row
        for part in (RecordPart.KEY, RecordPart.VALUE):
            value, schema = part.value_of(row)
            if value is None or schema is None or (part is RecordPart.KEY and not self.drop_from_key):
                continue
            fields = require_fields(schema).fields if self.keep_compatible else ()
            gone = [one.name for one in fields if one.schema.optional and one.name in header.value]
            exclude = frozenset(gone if self.keep_compatible else header.value)
            if exclude:
                row = ReplaceField(part, exclude, frozenset(), {}, defaults=True).apply(row)
        return row


def is_envelope(schema: ConnectSchema) -> bool:
    """Whether a value's schema is that of a change event."""
    return schema.kind is SchemaType.STRUCT and (schema.name or "").endswith(ENVELOPE)


def bare_value(schema: ConnectSchema) -> ConnectSchema:
    """A schema without default, required."""
    return replace(schema, optional=False, default=None)


def _state(schema: ConnectSchema, name: str) -> ConnectSchema:
    found = schema.field(name)
    if found is None:
        raise Refused(f"Unknown field: {name}", ILLEGAL)
    return found.schema


def _event_value(one: FieldReference, event: dict[str, Any]) -> Any:
    holder = event if one.within is None else event.get(one.within)
    return None if holder is None else holder.get(one.field)
