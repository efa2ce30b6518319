"""What happens to a file when a record of another schema comes? It is closed, or the record is projected (SEMANTICS A6).

Our addition (`schema.compatibility.unify`): instead of closing at every flip, a file holds its first records back, finds the one schema
that holds them all, and projects onto it. So producers of alternating versions share files instead of making a file per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from kafka_s3.connect.records.runs import Sidecar
from kafka_s3.connect.records.values import AvroBodies, Objects, StructColumns, Values, stream_of, table_of
from kafka_s3.connect.schemas.arrow import arrow_table
from kafka_s3.connect.schemas.compatibility import (
    VERSION_REQUIRED,
    Compatibility,
    Project,
    SchemaDecision,
    SchemaPairs,
    project_table,
    projection,
    schema_decision,
    unified,
)
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError, schema_document, stored_schema
from kafka_s3.model.deflate import Bytes
from kafka_s3.objects.format import CannotPause, Encoder, Fitting, Format, Keeping, Keyed, Paused, Pausing, can


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """`schema.compatibility`, and whether compatible schemas share a file instead (`schema.compatibility.unify`)."""

    compatibility: Compatibility = Compatibility.NONE
    unify: bool = False
    _decisions: SchemaPairs[SchemaDecision] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        decisions = SchemaPairs(lambda record, file: schema_decision(record, file, compatibility=self.compatibility))
        object.__setattr__(self, "_decisions", decisions)

    def decision(self, record: ConnectSchema | None, file: FileEncoder) -> SchemaDecision:
        """What to do with a record of one schema where a file of another is open."""
        if file.accepts(record):
            return SchemaDecision.WRITE
        if record is None or file.schema is None:
            return SchemaDecision.ROLL
        return self._decisions(record, file.schema)

    @property
    def refusal(self) -> str:
        """Why a record without a schema version is refused."""
        return VERSION_REQUIRED.format(mode=self.compatibility)


PROJECTIONS: Final[SchemaPairs[Project]] = SchemaPairs(projection)
UNIFIED: Final[SchemaPairs[ConnectSchema | None]] = SchemaPairs(unified)


def projected(values: Values, record: ConnectSchema, file: ConnectSchema) -> tuple[Values, list[tuple[int, str]]]:
    """The values in the file's schema, and the rows that cannot be projected, with the reason; those rows are left out."""
    if isinstance(values, StructColumns | AvroBodies) and values.table is not None:
        table = project_table(values.table, record, file)
        if table is not None:
            return StructColumns(table), []
    items, bad = [], []
    project = PROJECTIONS(record, file)
    for row, value in enumerate(values.objects()):
        try:
            items.append(project(value))
        except SchemaError as error:
            bad.append((row, str(error)))
    return Objects(items), bad


HELD_BYTES: Final = 4 << 20
"""How much of a file waits for its schema to settle."""


@dataclass(slots=True)
class OneSchema:
    """An open file of one schema; `unifies` says whether values of several schemas may be appended, each with its own."""

    inner: Encoder
    schema: ConnectSchema | None
    unifies: bool = field(default=False, init=False)

    def accepts(self, schema: ConnectSchema | None) -> bool:
        """Whether it is the very schema of the file."""
        return schema is self.schema

    def widens(self, schema: ConnectSchema | None) -> bool:
        """Never."""
        return False

    def has_columns_for(self, values: Values) -> bool:
        """As the encoder says, where its columns settle late."""
        return not can(self.inner, Fitting) or cast(Fitting, self.inner).fits(values)

    def append(self, values: Values, schema: ConnectSchema | None, *, keys: Sidecar | None = None) -> None:
        """Adds values, with their keys where the encoder holds such."""
        if keys is not None and isinstance(self.inner, Keyed):
            self.inner.append_keyed(values, keys.values.objects())
        else:
            self.inner.append(values)

    def size(self) -> int:
        """Encoded bytes so far, by estimate where they wait."""
        return self.inner.size()

    def pending(self) -> int:
        """Bytes of memory held."""
        return self.inner.pending()

    def detach(self) -> None:
        """Copies what is kept of batches."""
        _detach(self.inner)

    def compact(self) -> None:
        """Encodes what is pending."""
        self.inner.compact()

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        return self.inner.take()

    def finish(self) -> None:
        """Encodes the rest and the file's end."""
        self.inner.finish()

    def pause(self) -> Paused:
        """What a new encoder of the same format and schema needs to go on; a last `take` follows. Raises CannotPause."""
        return _pausing(self.inner).pause()

    def resume(self, paused: Paused) -> None:
        """Goes on for the paused encoder. Raises CannotPause where this one cannot."""
        _pausing(self.inner).resume(paused)


@dataclass(slots=True)
class Unifying:
    """An open file whose schema is the widest of its first records'. Later records are projected, or the writer rolls the file."""

    open: Callable[[ConnectSchema | None], Encoder]
    schema: ConnectSchema | None
    unifies: bool = field(default=True, init=False)
    _held: list[tuple[Values, ConnectSchema]] = field(default_factory=list)
    _held_bytes: int = 0
    _copied: int = field(default=0, init=False)
    inner: Encoder | None = field(default=None, init=False)
    """The encoder of the settled schema, None before it is settled."""

    def accepts(self, schema: ConnectSchema | None) -> bool:
        """Whether values of that schema can join the file."""
        if schema is None or self.schema is None:
            return schema == self.schema
        if schema is self.schema:
            return True
        wide = UNIFIED(self.schema, schema)
        return wide is not None and (self.inner is None or wide.unversioned() == self.schema.unversioned())

    def widens(self, schema: ConnectSchema | None) -> bool:
        """Whether values of a schema that the file `accepts` would change its own."""
        if self.inner is not None or schema is None or self.schema is None or schema is self.schema:
            return False
        return UNIFIED(self.schema, schema) != self.schema

    def has_columns_for(self, values: Values) -> bool:
        """Always: what the file `accepts` is projected."""
        return True

    def append(self, values: Values, schema: ConnectSchema | None, *, keys: Sidecar | None = None) -> None:
        """Adds values of a schema that the file `accepts`; a file that unifies holds no keys in front of them."""
        if self.inner is None and schema is not None and self.schema is not None:
            self.schema = UNIFIED(self.schema, schema) or self.schema
            self._held.append((values, schema))
            self._held_bytes += values.nbytes()
            if self._held_bytes >= HELD_BYTES:
                self.compact()
        else:
            self._settled().append(self._projected(values, schema))

    def size(self) -> int:
        """Encoded bytes; what is held back counts by a quarter."""
        return self._held_bytes // 4 + (self.inner.size() if self.inner is not None else 0)

    def pending(self) -> int:
        """Bytes of memory held."""
        return self._held_bytes + (self.inner.pending() if self.inner is not None else 0)

    def detach(self) -> None:
        """Copies what is kept of batches."""
        later = self._held[self._copied :]
        self._held[self._copied :] = [(values.take(np.arange(len(values))), schema) for values, schema in later]
        self._copied = len(self._held)
        if self.inner is not None:
            _detach(self.inner)

    def compact(self) -> None:
        """Settles the schema and encodes what was held back."""
        self._settled().compact()

    def take(self) -> Bytes:
        """The encoded bytes since the last take."""
        return self.inner.take() if self.inner is not None else b""

    def finish(self) -> None:
        """Settles and ends the file."""
        self._settled().finish()

    def pause(self) -> Paused:
        """The values that are held back, in columns, with their schemas; and the encoder, if there is one. Raises CannotPause."""
        schemas = {id(schema): schema for _, schema in self._held}
        number = {key: at for at, key in enumerate(schemas)}
        return {
            "schemas": [schema_document(schema) for schema in schemas.values()],
            "held": [{"schema": number[key], "rows": stream_of(table)} for key, table in self._held_tables()],
            "held_bytes": self._held_bytes,
            "inner": None if self.inner is None else _pausing(self.inner).pause(),
        }

    def resume(self, paused: Paused) -> None:
        """Goes on for the paused encoder, whose schema this one was opened with."""
        schemas = [stored_schema(schema) for schema in paused["schemas"]]
        self._held = [(StructColumns(table_of(one["rows"])), schemas[one["schema"]]) for one in paused["held"]]
        self._held_bytes, self._copied = paused["held_bytes"], len(self._held)
        if paused["inner"] is not None:
            self.inner = self.open(self.schema)
            _pausing(self.inner).resume(paused["inner"])

    def _held_tables(self) -> Iterator[tuple[int, pa.Table]]:
        """The values that are held back in columns, neighbours of one schema (by its `id`) together."""
        tables = ((id(schema), _columns(values, schema)) for values, schema in self._held)
        for (key, columns), group in groupby(tables, key=lambda pair: (pair[0], pair[1].schema)):
            if len(columns):
                yield key, pa.concat_tables([table for _, table in group])
            else:  # tables without columns lose their number of rows when joined
                yield from group

    def _settled(self) -> Encoder:
        if self.inner is None:
            self.inner = self.open(self.schema)
            held, self._held, self._held_bytes, self._copied = self._held, [], 0, 0
            for values, schema in held:
                self.inner.append(self._projected(values, schema))
        return self.inner

    def _projected(self, values: Values, schema: ConnectSchema | None) -> Values:
        if schema == self.schema or schema is None or self.schema is None:
            return values
        fitted, bad = projected(values, schema, self.schema)
        if bad:  # `accepts` has promised that it has this form
            raise SchemaError(f"A value does not fit the unified schema {self.schema.label()}: {bad[0][1]}")
        return fitted


FileEncoder: TypeAlias = OneSchema | Unifying
"""A format's encoder with the schema of its file; bytes and sizes as `objects.format.Encoder` says."""


def file_encoder(rules: SchemaRules, form: Format, schema: ConnectSchema | None) -> FileEncoder:
    """A new file's encoder: one that unifies, where that is configured and there is a schema."""
    if rules.unify and schema is not None:
        return Unifying(form.open, schema)
    return OneSchema(form.open(schema), schema)


def _detach(encoder: Encoder) -> None:
    if can(encoder, Keeping):
        cast(Keeping, encoder).detach()


def _pausing(encoder: Encoder) -> Pausing:
    if not isinstance(encoder, Pausing):
        raise CannotPause(f"files of {type(encoder).__name__} cannot be kept open between two tasks")
    return encoder


def _columns(values: Values, schema: ConnectSchema) -> pa.Table:
    """Structs that are held back, in columns. Raises CannotPause."""
    if isinstance(values, StructColumns | AvroBodies) and values.table is not None:
        return values.table
    try:
        return arrow_table(values.objects(), schema)
    except (SchemaError, ValueError, pa.ArrowException) as error:
        raise CannotPause(
            f"values of {schema.label()} that wait for their file's schema have no columns: {error}"
        ) from None
