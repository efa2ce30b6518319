"""How is an Avro type written as JSON? As Avro's Java library does it: a name is defined once and referred to from then on."""

from __future__ import annotations

from typing import Any

from kafka_s3.connect.schemas.avro_types import PRIMITIVES, AvroType
from kafka_s3.connect.schemas.connect import SchemaError


def document(avro: AvroType) -> Any:
    """The schema as JSON. Raises SchemaError where two different types have one name."""
    return _document(avro, "", {})


def _document(avro: AvroType, space: str, defined: dict[str, AvroType]) -> Any:
    if avro.kind == "union":
        return [_document(branch, space, defined) for branch in avro.branches]
    if avro.name is not None:
        return _named(avro, avro.name, space, defined)
    if avro.kind in ("array", "map"):
        member = "items" if avro.kind == "array" else "values"
        return {"type": avro.kind, member: _document(avro.element(), space, defined), **avro.props}
    return {"type": avro.kind, **avro.props} if avro.props else avro.kind


def _named(avro: AvroType, full: str, space: str, defined: dict[str, AvroType]) -> Any:
    own_space, _, name = full.rpartition(".")
    if full in defined:
        if defined[full] is not avro and defined[full] != avro:
            raise SchemaError(f"Can't redefine: {full}. Two different types of the schema have this name; rename one.")
        return name if own_space in ("", space) and name not in PRIMITIVES else full
    defined[full] = avro
    props = dict(avro.props)
    made: dict[str, Any] = {"type": avro.kind, "name": name}
    if own_space != space:
        made["namespace"] = own_space
    if props.get("doc") is not None:
        made["doc"] = props.pop("doc")
    if avro.kind == "fixed":
        made["size"] = avro.size
    elif avro.kind == "enum":
        made["symbols"] = list(avro.symbols)
    else:
        made["fields"] = [
            {"name": member.name, "type": _document(member.type, own_space, defined), **member.props}
            for member in avro.fields
        ]
    return made | props
