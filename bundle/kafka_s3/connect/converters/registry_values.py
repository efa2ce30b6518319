"""How does a converter with a schema registry decode? Each record names its schema; the registry knows it; its payload decoder reads it.

What a record does wrong (an unknown magic byte or id, a payload that does not fit) fails that record. A registry that does not answer
fails the task, which the sink repeats: nothing is lost, and nothing is taken for bad that is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_s3.connect.converters.converter import KafkaBatch, PayloadDecoder, without_tombstones
from kafka_s3.connect.records.runs import Decoded, Run
from kafka_s3.connect.records.values import Longs
from kafka_s3.connect.registry.cache import BoundedCache
from kafka_s3.connect.registry.options import Framing, SubjectNameStrategy, subject
from kafka_s3.connect.registry.wire_format import (
    LARGEST_BYTES,
    Framed,
    MessageIndexes,
    SchemaName,
    framed,
    inflated,
    payloads,
    schema_id_headers,
)
from kafka_s3.connect.schemas.connect import SchemaError
from kafka_s3.connect.schemas.registered import Language, RegisteredSchema, SchemaRegistry
from kafka_s3.model.dead_letters import DATA_EXCEPTION, Failure, Stage
from kafka_s3.model.errors import UnknownSchema
from kafka_s3.model.files import Role

MakeDecoder: TypeAlias = Callable[[RegisteredSchema, tuple[int, ...], int | None], PayloadDecoder]
COMPONENTS: Final = {
    Language.AVRO: "io.confluent.connect.avro.AvroConverter",
    Language.JSON: "io.confluent.connect.json.JsonSchemaConverter",
    Language.PROTOBUF: "io.confluent.connect.protobuf.ProtobufConverter",
}


@dataclass(slots=True)
class SchemaCatalog:
    """The decoders of all schemas seen, shared by the tasks of a process; the least recently used goes first. Thread-safe.

    `framing` says how records name their schemas, `component` whom dead letters name; by default Confluent's converter of the language.
    A compressed payload has `largest` bytes at most.
    """

    registry: SchemaRegistry
    language: Language
    strategy: SubjectNameStrategy
    make: MakeDecoder
    size: int = 1000
    framing: Framing = Framing.CONFLUENT
    component: str = ""
    largest: int = LARGEST_BYTES
    _known: BoundedCache[PayloadDecoder] = field(init=False)

    def __post_init__(self) -> None:
        self._known = BoundedCache(self.size, clock=time.monotonic)

    @property
    def indexes(self) -> MessageIndexes:
        """What follows the name of a schema."""
        if self.language is not Language.PROTOBUF:
            return MessageIndexes.ABSENT
        return MessageIndexes.PLACE if self.framing is Framing.GLUE else MessageIndexes.FOLLOW

    def decoder(self, name: SchemaName, topic: str, *, role: Role) -> PayloadDecoder:
        """The decoder of a schema. Raises UnknownSchema and SchemaError for that schema, RegistryUnavailable, RegistryError."""
        key = (name, topic, role)
        found = self._known.get(key)
        if found is None:
            found = self._made(name, topic, role)
            self._known.put(key, found)
        return found

    def _made(self, name: SchemaName, topic: str, role: Role) -> PayloadDecoder:
        if name.guid is not None:
            registered = self.registry.by_guid(name.guid)
        else:
            assert name.id is not None
            registered = self.registry.by_id(name.id)
        if registered.language is not self.language:
            raise SchemaError(
                f"Schema {name.guid or name.id} is {registered.language}, but the converter reads {self.language}. Use the other converter."
            )
        indexes = name.indexes or ()
        unversioned = self.make(registered, indexes, None)
        version = self._version(registered, unversioned, topic=topic, role=role)
        return unversioned if version is None else self.make(registered, indexes, version)

    def _version(self, registered: RegisteredSchema, made: PayloadDecoder, *, topic: str, role: Role) -> int | None:
        """The schema's number in its subject; none where it is not registered there (SEMANTICS A6)."""
        record = made.schema.name if made.schema is not None else None
        try:
            return self.registry.version_of(subject(self.strategy, topic, record, role=role), registered)
        except (ValueError, UnknownSchema):
            return None


@dataclass(frozen=True, slots=True)
class RegistryValues:
    """The converter of one topic's values or keys."""

    catalog: SchemaCatalog
    topic: str
    role: Role

    def decode(self, batch: KafkaBatch) -> Decoded:
        """A run for each schema. Raises RegistryUnavailable, and RegistryError where the registry refuses us."""
        batch, nulls = without_tombstones(batch)
        if not len(batch):
            return Decoded(nulls=nulls)
        values, broken, found = self._framed(batch)
        decoded = Decoded([], [self._failure(batch, row, text) for row, text in (*broken, *found.failures)], nulls)
        for name, rows, starts in found.by_schema:
            decoded.runs.extend(self._part(batch, name, payloads(values, rows, starts), rows, decoded))
        decoded.runs.sort(key=lambda run: int(run.offsets[0]))
        decoded.nulls.sort()
        return decoded

    def schema_names(self, batch: KafkaBatch) -> list[str]:
        """Per record the id or GUID of the schema that it names, blank where it names none; no registry is asked."""
        _, _, found = self._framed(batch)
        names = [""] * len(batch)
        for name, rows, _ in found.by_schema:
            for row in rows.tolist():
                names[row] = str(name.guid or name.id)
        return names

    def _framed(self, batch: KafkaBatch) -> tuple[pa.Array, list[tuple[int, str]], Framed]:
        """The values, unpacked where Glue's serializers packed them; those that cannot be unpacked; where each names its schema."""
        catalog, values, broken = self.catalog, batch.values, list[tuple[int, str]]()
        if catalog.framing is Framing.GLUE:
            values, broken = inflated(values, catalog.largest)
        headers = self._headers(batch)
        return values, broken, framed(values, headers=headers, indexes=catalog.indexes, framing=catalog.framing)

    def _headers(self, batch: KafkaBatch) -> pa.Array | None:
        """The records' headers that name schemas, which only Confluent's serializers write; None where there are none."""
        if self.catalog.framing is not Framing.CONFLUENT:
            return None
        named = schema_id_headers(batch.headers, self.role) if batch.headers is not None else batch.schema_names
        return None if named is None or named.null_count == len(named) else named

    def _part(
        self, batch: KafkaBatch, name: SchemaName, payloads: pa.Array, rows: Longs, decoded: Decoded
    ) -> list[Run]:
        """The records of one schema as a run, however far apart they are."""
        try:
            decoder = self.catalog.decoder(name, self.topic, role=self.role)
        except (UnknownSchema, SchemaError) as error:
            decoded.failures.extend(self._failure(batch, int(row), str(error)) for row in rows)
            return []
        result = decoder.decode_payloads(payloads)
        decoded.failures.extend(self._failure(batch, int(rows[at]), text) for at, text in result.failures)
        decoded.nulls.extend(int(batch.offsets[rows[at]]) for at in result.nulls)
        good = rows[result.rows]
        return [Run(batch.offsets[good], batch.timestamps[good], result.values, decoder.schema)] if len(good) else []

    def _failure(self, batch: KafkaBatch, row: int, text: str) -> Failure:
        component = self.catalog.component or COMPONENTS[self.catalog.language]
        return Failure(int(batch.offsets[row]), Stage.VALUE_CONVERTER, component, DATA_EXCEPTION, text)
