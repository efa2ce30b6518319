"""What does `InsertField` add? Topic, partition, offset, timestamp of a record and a fixed text, as fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_s3.connect.records.runs import Run
from kafka_s3.connect.records.values import NO_TIMESTAMP, JsonText
from kafka_s3.connect.schemas.arrow import arrow_type
from kafka_s3.connect.schemas.connect import TIMESTAMP, ConnectSchema, Field, SchemaType
from kafka_s3.connect.schemas.json_form import dumps
from kafka_s3.connect.transforms.columns import Struct, constant, mapped, put_values
from kafka_s3.connect.transforms.fields import distinct
from kafka_s3.connect.transforms.record import ConnectRecord, RecordPart, bare, field_value, require_map, require_struct
from kafka_s3.model.offsets import TopicPartition

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
