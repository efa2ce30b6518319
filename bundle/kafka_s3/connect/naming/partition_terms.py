"""How is a table to be partitioned? `iceberg.partition.by`, in Spark's spelling and in that of Iceberg's connector.

For example `day(ts), bucket(16, id), country`: names of columns or directories, and transforms of columns. Both orders are taken in
`bucket(16, id)` and `bucket(id, 16)`, both forms in `day(ts)` and `days(ts)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TIMES: Final = ("year", "month", "day", "hour")
SIZED: Final = ("bucket", "truncate")
_TERM: Final = re.compile(r"([a-z]+)\(([^()]*)\)")
_BETWEEN: Final = re.compile(r",(?![^()]*\))")
_COLUMN: Final = re.compile(r"[^\s,()'\"`]+")


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One term: a column's path and Iceberg's name of the transform, such as `identity`, `day` or `bucket[16]`."""

    transform: str
    column: str

    def __str__(self) -> str:
        """The term as a user writes it."""
        if self.transform == "identity":
            return self.column
        kind, _, size = self.transform.partition("[")
        return f"{kind}({size.rstrip(']')}, {self.column})" if size else f"{kind}({self.column})"


def partition_terms(text: str) -> tuple[PartitionTerm, ...]:
    """The terms of a text. Raises ValueError, with what is wrong with it."""
    found = tuple(_term(part.strip()) for part in _BETWEEN.split(text)) if text.strip() else ()
    doubled = next((term for n, term in enumerate(found) if term in found[:n]), None)
    if doubled is not None:
        raise ValueError(f"names {doubled} twice.")
    return found


def _term(text: str) -> PartitionTerm:
    call = _TERM.fullmatch(text)
    if call is None:
        return PartitionTerm("identity", _column(text))
    name, inside = call[1], [part.strip() for part in call[2].split(",")]
    name = name.removesuffix("s") if name.removesuffix("s") in TIMES else name
    if name in TIMES and len(inside) == 1:
        return PartitionTerm(name, _column(inside[0]))
    if name in SIZED and len(inside) == 2:
        column, size = (inside[1], inside[0]) if inside[0].isdigit() else (inside[0], inside[1])
        if size.isdigit() and 0 < int(size) < 2**31:
            return PartitionTerm(f"{name}[{int(size)}]", _column(column))
    raise ValueError(
        f"has {text!r}, which is not a transform; known are {', '.join(TIMES)}(column) and {', '.join(SIZED)}(size, column)."
    )


def _column(text: str) -> str:
    if not _COLUMN.fullmatch(text):
        raise ValueError(f"has {text!r}, which is not a name of a column.")
    return text
