"""What happens to a file when a record of another schema comes? It is closed, or the record is projected (SEMANTICS A6).

Our addition (`schema.compatibility.unify`): instead of closing at every flip, a file holds its first records back, finds the one schema
that holds them all, and projects onto it. So producers of alternating versions share files instead of making a file per record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kafka_s3.formats.format import Encoder
from kafka_s3.records.avro_bodies import AvroBodies
from kafka_s3.records.values import Longs, Objects, StructColumns, Values
from kafka_s3.schemas.compatibility import (
    VERSION_REQUIRED,
    Compatibility,
    SchemaDecision,
    decide,
    project_table,
    projection,
    unified,
)
from kafka_s3.schemas.connect import ConnectSchema, SchemaError
from kafka_s3.schemas.pairs import SchemaPairs
from kafka_s3.schemas.projection import Project

HELD_BYTES: Final = 4 << 20
"""How much of a file waits for its schema to settle."""


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """`schema.compatibility`, and whether compatible schemas share a file instead (`schema.compatibility.unify`)."""

    compatibility: Compatibility = Compatibility.NONE
    unify: bool = False
    _decisions: SchemaPairs[SchemaDecision] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        decisions = SchemaPairs(lambda record, file: decide(record, file, compatibility=self.compatibility))
        object.__setattr__(self, "_decisions", decisions)

    def decision(self, record: ConnectSchema | None, file: ConnectSchema | None, encoder: Encoder) -> SchemaDecision:
        """What to do with a record of one schema where a file of another is open."""
        if record is file:
            return SchemaDecision.WRITE
        if self.unify and isinstance(encoder, Unifying) and encoder.takes(record):
            return SchemaDecision.WRITE
        if record is None or file is None:
            return SchemaDecision.ROLL
        return self._decisions(record, file)

    @property
    def refusal(self) -> str:
        """Why a record without a schema version is refused."""
        return VERSION_REQUIRED.format(mode=self.compatibility)

    def opened(self, open_: Callable[[ConnectSchema | None], Encoder], schema: ConnectSchema | None) -> Encoder:
        """A new file's encoder."""
        return Unifying(open_, schema) if self.unify and schema is not None else open_(schema)


PROJECTIONS: Final[SchemaPairs[Project]] = SchemaPairs(projection)
UNIFIED: Final[SchemaPairs[ConnectSchema | None]] = SchemaPairs(unified)


def projected(values: Values, record: ConnectSchema, file: ConnectSchema) -> tuple[Values, list[tuple[int, str]]]:
    """The values in the file's schema, and the rows that cannot be projected, with the reason; those rows are left out."""
    if isinstance(values, StructColumns | AvroBodies) and values.table is not None:
        table = project_table(values.table, record, file)
        if table is not None:
            return StructColumns(table), []
    items, bad = [], []
    fit = PROJECTIONS(record, file)
    for row, value in enumerate(values.objects()):
        try:
            items.append(fit(value))
        except SchemaError as error:
            bad.append((row, str(error)))
    return Objects(items), bad


@dataclass(slots=True)
class Unifying:
    """An open file whose schema is the widest of its first records'. Later records are projected, or the writer rolls the file."""

    open: Callable[[ConnectSchema | None], Encoder]
    schema: ConnectSchema | None
    _held: list[tuple[Values, ConnectSchema]] = field(default_factory=list)
    _held_bytes: int = 0
    _inner: Encoder | None = None

    @property
    def inner(self) -> Encoder | None:
        """The encoder of the settled schema, None before it is settled."""
        return self._inner

    def takes(self, schema: ConnectSchema | None) -> bool:
        """Whether values of that schema can join the file."""
        if schema is None or self.schema is None:
            return schema == self.schema
        if schema is self.schema:
            return True
        wide = UNIFIED(self.schema, schema)
        return wide is not None and (self._inner is None or wide.unversioned() == self.schema.unversioned())

    def widens(self, schema: ConnectSchema | None) -> bool:
        """Whether values of a schema that the file `takes` would change its own."""
        if self._inner is not None or schema is None or self.schema is None or schema is self.schema:
            return False
        wide = UNIFIED(self.schema, schema)
        return wide != self.schema

    def append_as(self, values: Values, schema: ConnectSchema | None) -> None:
        """Adds values of a schema that the file `takes`."""
        if self._inner is None and schema is not None and self.schema is not None:
            self.schema = UNIFIED(self.schema, schema) or self.schema
            self._held.append((values, schema))
            self._held_bytes += values.nbytes()
            if self._held_bytes >= HELD_BYTES:
                self.compact()
        else:
            self._chosen().append(self._fitted(values, schema))

    def append(self, values: Values) -> None:
        """Adds values of the file's own schema."""
        self.append_as(values, self.schema)

    def size(self) -> int:
        """Encoded bytes; what is held back counts by a quarter."""
        return self._held_bytes // 4 + (self._inner.size() if self._inner is not None else 0)

    def pending(self) -> int:
        """Bytes of memory held."""
        return self._held_bytes + (self._inner.pending() if self._inner is not None else 0)

    def compact(self) -> None:
        """Settles the schema and encodes what was held back."""
        self._chosen().compact()

    def take(self) -> bytes:
        """The encoded bytes since the last take."""
        return self._inner.take() if self._inner is not None else b""

    def finish(self) -> None:
        """Settles and ends the file."""
        self._chosen().finish()

    def _chosen(self) -> Encoder:
        if self._inner is None:
            self._inner = self.open(self.schema)
            held, self._held, self._held_bytes = self._held, [], 0
            for values, schema in held:
                self._inner.append(self._fitted(values, schema))
        return self._inner

    def _fitted(self, values: Values, schema: ConnectSchema | None) -> Values:
        if schema == self.schema or schema is None or self.schema is None:
            return values
        fitted, bad = projected(values, schema, self.schema)
        if bad:  # `takes` has promised that it fits
            raise SchemaError(f"A value does not fit the unified schema {self.schema.label()}: {bad[0][1]}")
        return fitted


def kept(count: int, bad: list[tuple[int, str]]) -> Longs:
    """The rows of `count` that are not among the bad ones."""
    return np.delete(np.arange(count), [row for row, _ in bad])
