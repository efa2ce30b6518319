"""What happens to a file when a record of another schema comes? It is closed, or the record is projected (SEMANTICS A6).

Our addition (`schema.compatibility.unify`): instead of closing at every flip, a file holds its first records back, finds the one schema
that holds them all, and projects onto it. So producers of alternating versions share files instead of making a file per record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from kafka_s3.connect.records.values import AvroBodies, Longs, Objects, StructColumns, Values
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
from kafka_s3.connect.schemas.connect import ConnectSchema, SchemaError


class OpenSchema(Protocol):
    """The schema of an open file, and what it says of records of other schemas."""

    @property
    def schema(self) -> ConnectSchema | None:
        """The file's schema so far."""
        ...

    def takes(self, schema: ConnectSchema | None) -> bool:
        """Whether values of that schema can join the file as they are."""
        ...


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """`schema.compatibility`, and whether compatible schemas share a file instead (`schema.compatibility.unify`)."""

    compatibility: Compatibility = Compatibility.NONE
    unify: bool = False
    _decisions: SchemaPairs[SchemaDecision] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        decisions = SchemaPairs(lambda record, file: schema_decision(record, file, compatibility=self.compatibility))
        object.__setattr__(self, "_decisions", decisions)

    def decision(self, record: ConnectSchema | None, file: OpenSchema) -> SchemaDecision:
        """What to do with a record of one schema where a file of another is open."""
        if file.takes(record):
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
    fit = PROJECTIONS(record, file)
    for row, value in enumerate(values.objects()):
        try:
            items.append(fit(value))
        except SchemaError as error:
            bad.append((row, str(error)))
    return Objects(items), bad


def kept(count: int, bad: list[tuple[int, str]]) -> Longs:
    """The rows of `count` that are not among the bad ones."""
    return np.delete(np.arange(count), [row for row, _ in bad])
