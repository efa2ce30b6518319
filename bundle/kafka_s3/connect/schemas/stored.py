"""How is a schema written down whole, so that it reads back equal? For open files that another process goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_s3.connect.schemas.connect import ConnectSchema, Field, SchemaType

PLAIN: Final = ("optional", "name", "version", "doc", "default")
INNER: Final = ("items", "keys", "values")


def schema_document(schema: ConnectSchema) -> dict[str, Any]:
    """The schema as JSON takes it."""
    inner = {name: getattr(schema, name) for name in INNER}
    return {
        "kind": str(schema.kind),
        **{name: getattr(schema, name) for name in PLAIN},
        "parameters": [list(pair) for pair in schema.parameters],
        "fields": [[field.name, schema_document(field.schema)] for field in schema.fields],
        **{name: None if found is None else schema_document(found) for name, found in inner.items()},
    }


def stored_schema(document: Mapping[str, Any]) -> ConnectSchema:
    """The schema of a document. Raises KeyError, TypeError or ValueError where it is none."""
    items, keys, values = (None if document[name] is None else stored_schema(document[name]) for name in INNER)
    return ConnectSchema(
        kind=SchemaType(document["kind"]),
        **{name: document[name] for name in PLAIN},
        parameters=tuple((name, value) for name, value in document["parameters"]),
        fields=tuple(Field(name, stored_schema(schema)) for name, schema in document["fields"]),
        items=items,
        keys=keys,
        values=values,
    )
