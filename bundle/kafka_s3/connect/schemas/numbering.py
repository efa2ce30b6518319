"""Which number has a column in a Parquet file? That of its path, with the first alias of a field in place of its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kafka_s3.connect.naming.field_ids import field_id, path_of
from kafka_s3.connect.schemas.connect import ConnectSchema


def numbered(schema: pa.Schema, known: ConnectSchema | None) -> pa.Schema:
    """The schema with a field id for each column; as it is where two columns would have the same one, so that names count instead."""
    given: list[int] = []
    found = pa.schema(list(_numbered_members(schema, known, "", given)))
    return found if len(set(given)) == len(given) else schema


def _numbered_members(
    fields: Iterable[pa.Field], known: ConnectSchema | None, folder: str, given: list[int]
) -> Iterator[pa.Field]:
    members = {} if known is None else {one.name: one for one in known.fields}
    for one in fields:
        own = members.get(one.name)
        first = one.name if own is None else next(iter(own.aliases), own.name)
        yield _numbered(one, own.schema if own is not None else None, path_of(folder, first), given)


def _numbered(one: pa.Field, known: ConnectSchema | None, path: str, given: list[int]) -> pa.Field:
    given.append(field_id(path))
    kind = one.type
    items, keys, values = (None, None, None) if known is None else (known.items, known.keys, known.values)
    if pa.types.is_struct(kind):
        kind = pa.struct(list(_numbered_members(kind, known, path, given)))
    elif pa.types.is_map(kind):
        key = _numbered(kind.key_field, keys, f"{path}.key", given)
        kind = pa.map_(key, _numbered(kind.item_field, values, f"{path}.value", given))
    elif pa.types.is_list(kind):
        kind = pa.list_(_numbered(kind.value_field, items, f"{path}.element", given))
    return pa.field(one.name, kind, one.nullable, {"PARQUET:field_id": str(field_id(path))})
