"""May a record join an open file that has another schema? `decide` answers by the rules of SEMANTICS A6.

`unified` goes beyond the original: a schema that holds the values of two, so that records whose versions alternate can share a file.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, StrEnum, auto
from typing import Final

from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType, in_order
from kafka_s3.connect.schemas.projection import NUMBERS, mismatch, parameters_fit, project, project_table, projection

__all__ = [
    "SWITCHED", "VERSION_REQUIRED", "Compatibility", "SchemaDecision", "mismatch", "project", "project_table", "projection",
    "schema_decision", "unified",
]  # fmt: skip

VERSION_REQUIRED: Final = "Schema version required for {mode} compatibility"
SWITCHED: Final = "Switch between schema-based and schema-less data is not supported"
"""Why the check itself refuses a value without schema where the file has one, and the other way round; no writer asks it that."""
EXACT: Final = {
    SchemaType.FLOAT32: {SchemaType.INT8, SchemaType.INT16, SchemaType.FLOAT32},
    SchemaType.FLOAT64: {SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.FLOAT32, SchemaType.FLOAT64},
}
"""Which numbers a float holds without rounding."""


class Compatibility(StrEnum):
    """The values of `schema.compatibility`; FULL acts as BACKWARD."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"

    @classmethod
    def named(cls, text: str) -> Compatibility:
        """The compatibility of that name; any other text acts as NONE (SEMANTICS A1.1)."""
        return cls(text) if text in cls.__members__ else cls.NONE


class SchemaDecision(Enum):
    """What happens to a record: written as it is, into a new file after this one is committed, projected to the file's schema, or
    not at all (`VERSION_REQUIRED` or `SWITCHED` says why).
    """

    WRITE = auto()
    ROLL = auto()
    PROJECT = auto()
    REJECT = auto()


def schema_decision(
    record: ConnectSchema | None, file: ConnectSchema | None, compatibility: Compatibility
) -> SchemaDecision:
    """What happens to a record of one schema at a file that holds records of another. Equal schemas count as the same object.

    Where only one side has a schema, the check refuses the record in every mode, as in the original; writers close the file before they
    ask (SEMANTICS A3.2).
    """
    if record == file:
        return SchemaDecision.WRITE
    if record is None or file is None:
        return SchemaDecision.REJECT
    if compatibility is Compatibility.NONE:
        return SchemaDecision.ROLL
    if record.version is None or file.version is None:
        return SchemaDecision.REJECT
    older, newer = record.version < file.version, record.version > file.version
    if mismatch(record, file) or (older if compatibility is Compatibility.FORWARD else newer):
        return SchemaDecision.ROLL
    return SchemaDecision.PROJECT


def unified(left: ConnectSchema, right: ConnectSchema) -> ConnectSchema | None:
    """The schema that holds the values of both without loss, None where there is none; both project to it.

    Left's fields come first, then those that only right has; a field of one side alone becomes optional unless it has a default.
    Absorbing: a schema that went into a unified one does not change it any more, but for the version, which is the greater one.
    """
    if left == right:
        return left
    kind, parameters, fields = (
        _common(left.kind, right.kind),
        _joined_parameters(left, right),
        _joined_fields(left, right),
    )
    if kind is None or parameters is None or fields is None or left.name != right.name:
        return None
    if left.kind is not right.kind and left.name:
        return None  # a named number, like a Timestamp, has no wider form
    pairs = ((left.items, right.items), (left.keys, right.keys), (left.values, right.values))
    items, keys, values = (unified(ours, theirs) if ours and theirs else None for ours, theirs in pairs)
    if any(found is None and ours is not None for found, (ours, _) in zip((items, keys, values), pairs, strict=True)):
        return None
    agreed = left.default == right.default
    return replace(
        left,
        kind=kind,
        # where only one has a default, records may lack the value: so it may be null once the default is gone
        optional=left.optional or right.optional or not agreed,
        version=max((v for v in (left.version, right.version) if v is not None), default=None),
        doc=left.doc if left.doc is not None else right.doc,
        parameters=parameters,
        default=left.default if agreed else None,
        fields=fields,
        items=items,
        keys=keys,
        values=values,
    )


def _common(left: SchemaType, right: SchemaType) -> SchemaType | None:
    """The narrowest type that holds the values of both exactly."""
    if left is right or left not in NUMBERS or right not in NUMBERS:
        return left if left is right else None
    wider = max(left, right, key=NUMBERS.index)
    if wider not in EXACT or {left, right} <= EXACT[wider]:
        return wider
    return SchemaType.FLOAT64 if {left, right} <= EXACT[SchemaType.FLOAT64] else None


def _joined_parameters(left: ConnectSchema, right: ConnectSchema) -> tuple[tuple[str, str], ...] | None:
    ours = dict(left.parameters)
    joined = in_order((*left.parameters, *(pair for pair in right.parameters if pair[0] not in ours)))
    widest = replace(left, parameters=joined)
    return joined if parameters_fit(left, widest) and parameters_fit(right, widest) else None


def _joined_fields(left: ConnectSchema, right: ConnectSchema) -> tuple[Field, ...] | None:
    ours, theirs = ({field.name: field.schema for field in side.fields} for side in (left, right))
    joined = []
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            both = unified(ours[name], theirs[name])
        else:
            alone = ours[name] if name in ours else theirs[name]
            both = alone if alone.default is not None else replace(alone, optional=True)
        if both is None:
            return None
        joined.append(Field(name, both))
    return tuple(joined)
