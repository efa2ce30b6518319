"""In which order does a `java.util.HashMap` go through its keys? It decides which of two fields that get one name wins."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache


def hash_order(names: Collection[str]) -> list[str]:
    """The names as a map to which they were added in this order goes through them."""
    capacity = 16
    while len(names) > capacity * 3 // 4:
        capacity *= 2
    return sorted(names, key=lambda name: _spread(_hash(name)) & (capacity - 1))


@lru_cache(maxsize=10_000)
def _hash(text: str) -> int:
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return found


def _spread(code: int) -> int:
    return code ^ code >> 16
