"""Does a JSON value fit a column's type? Values whose types are inferred are placed one by one where a whole column does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kafka_s3.connect.schemas.arrow import as_text

Fits: TypeAlias = Callable[[Any, pa.DataType], bool]


def placed(value: Any, kind: pa.DataType) -> Any:
    """The value as Arrow takes it for that type; anything has a place in text, as JSON. Raises ValueError where it has none."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return as_text(value)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        members = {one.name: one.type for one in kind}
        if any(inner is not None for name, inner in value.items() if name not in members):
            raise ValueError
        return {name: placed(value.get(name), type_) for name, type_ in members.items()}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [placed(inner, kind.value_type) for inner in value]
    if any(is_kind(kind) and fits(value, kind) for is_kind, fits in _PLAIN):
        return value
    raise ValueError


def split(value: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """What of a value has a place in the type, and the rest; None for nothing."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        members = {one.name: one.type for one in kind}
        parts = {name: split(value.get(name), type_) for name, type_ in members.items()}
        rest = {name: left for name, (_, left) in parts.items() if left is not None}
        rest |= {name: inner for name, inner in value.items() if name not in members and inner is not None}
        return {name: kept for name, (kept, _) in parts.items()}, rest or None
    try:
        return placed(value, kind), None
    except ValueError:
        return None, value


def kind_text(value: Any) -> str:
    """What a JSON value is, for people."""
    names = {bool: "true or false", str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "of another type")


def without_null_members(kind: pa.DataType) -> pa.DataType:
    """The type without members that are null throughout; null itself stays, and lists and objects of nothing are text."""
    if pa.types.is_struct(kind):
        members = [pa.field(one.name, without_null_members(one.type)) for one in kind]
        kept = [one for one in members if not pa.types.is_null(one.type)]
        return pa.struct(kept) if kept else pa.string()
    if pa.types.is_list(kind):
        inner = without_null_members(kind.value_type)
        return pa.list_(pa.string() if pa.types.is_null(inner) else inner)
    return kind


def _whole(value: Any, kind: pa.DataType) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    bound = 2 ** (kind.bit_width - 1)
    return is_whole and not isinstance(value, bool) and -bound <= value < bound


_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], Fits], ...]] = (
    (pa.types.is_boolean, lambda value, _: isinstance(value, bool)),
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_floating, lambda value, _: isinstance(value, int | float) and not isinstance(value, bool)),
)
