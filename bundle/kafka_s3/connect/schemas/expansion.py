"""How many values may a record become? Its bytes are no measure: an item of one byte can be null in two hundred columns.

A value is one entry of a column: about 20 bytes in Arrow, 60 as a Python object. What is counted are the items of arrays and maps, and
structs inside of themselves, each with all values of its type, null or not; a record's own fields are as many as its schema says. Beyond
the bound a record is a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafka_s3.connect.schemas.connect import ConnectSchema, Recursion, SchemaError, nested_schemas

ANY_RECORD: Final = 1 << 13
"""The items of any record may be so many values,"""
PER_BYTE: Final = 128
"""and so many more for each of its bytes,"""
SMALL_RECORD: Final = 1 << 20
"""together at most so many, unless it is large:"""
PER_BYTE_OF_LARGE: Final = 8
"""then it may be so many for each of its bytes."""
AT_ONCE: Final = 1 << 22
"""Values that a batch may become beyond one for each of its bytes. A single record may pass it."""
MOST_PARTS: Final = 100_000
"""Types in a schema, each counted wherever it is used."""
MOST_LEVELS: Final = 150
"""Of structs, lists and maps in each other, if a type contains itself: whatever goes through a value has a stack of 1,000 calls."""
DEFAULT_BYTES: Final = 4
"""Characters of a default that count as one value."""


def check_parts(count: int) -> None:
    """Raises SchemaError for a schema of so many parts: ten types that each use the next ten times are 10,000,000,000 columns."""
    if count > MOST_PARTS:
        raise SchemaError(
            f"The schema has more than {MOST_PARTS:,} parts with all its references resolved. Take a narrower one."
        )


class TooManyValues(Exception):
    """The records of a batch become too many values at once: decode fewer of them."""


def most_values(size: int) -> int:
    """How many values the items of a record of so many bytes may be: 128 for each byte, 8 for each where it has more than 128 KiB."""
    return max(min(ANY_RECORD + PER_BYTE * size, SMALL_RECORD), PER_BYTE_OF_LARGE * size)


def most_values_of_each(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """`most_values` of many records."""
    return np.maximum(np.minimum(ANY_RECORD + PER_BYTE * sizes, SMALL_RECORD), PER_BYTE_OF_LARGE * sizes)


def width(schema: ConnectSchema | None) -> int:
    """The values that one value of the schema is, with all that is nested in it but items of arrays and maps, and recursions."""
    if schema is None:
        return 1
    default = len(schema.default or "") // DEFAULT_BYTES
    fields = () if isinstance(schema.fields, Recursion) else schema.fields
    return 1 + default + sum(width(field.schema) for field in fields)


@lru_cache(maxsize=256)
def recursion_width(schema: ConnectSchema) -> int:
    """Return the values of a struct inside of itself."""
    return width(schema.unrolled())


def depth_check(schema: ConnectSchema | None) -> Callable[[Any], None]:
    """Return the function that raises SchemaError for a value of the schema that is nested too deeply."""
    if schema is None or not any(isinstance(inner.fields, Recursion) for inner in nested_schemas(schema)):
        return _accept_depth
    return _check_depth


def _accept_depth(value: Any) -> None:
    """Take any value: types that do not contain themselves are no deeper than their schema."""


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inner: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                inner += container.values()
            elif isinstance(container, list | tuple):
                inner += container
        if not inner:
            return
        level = inner
    raise SchemaError(
        f"The value is nested deeper than {MOST_LEVELS} levels of structs, lists and maps, which is not supported."
    )


def entry_width(schema: ConnectSchema) -> int:
    """The values of one entry of a map."""
    return width(schema.keys) + width(schema.values)


class Allowance:
    """What is left of the values that one record may become."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._most = self._left = most_values(size)

    def spend(self, count: int, each: int) -> None:
        """Counts so many items of so many values each. Raises SchemaError where they are too many."""
        self._left -= count * each
        if self._left < 0:
            raise SchemaError(
                f"The record of {self._size:,} bytes would become more than {self._most:,} values, by {count:,} items of {each:,} each, "
                "nulls counted. Split the record, or leave such items out of it."
            )

    @property
    def spent(self) -> int:
        """The values of all items so far."""
        return self._most - self._left


def spend_items(allowance: Allowance | None, items: Collection[Any], schema: ConnectSchema) -> None:
    """Counts the items of an array or a map, where there is an allowance. Raises SchemaError."""
    if allowance is not None and items:
        allowance.spend(len(items), entry_width(schema) if schema.items is None else width(schema.items))


class BatchAllowance:
    """What is left of the values that a batch of records may become at once."""

    def __init__(self, records: int) -> None:
        self._left = AT_ONCE if records > 1 else None

    def spend(self, values: int, size: int) -> None:
        """Counts a record of so many values and bytes. Raises TooManyValues where others in the batch are to wait."""
        if self._left is not None:
            self._left -= max(0, values - size)
            if self._left < 0:
                raise TooManyValues
