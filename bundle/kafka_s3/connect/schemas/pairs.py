"""What was found out about two schemas before? Remembered by identity: schemas are compared with each record of alternating versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kafka_s3.connect.schemas.connect import ConnectSchema

T = TypeVar("T")
MOST: Final = 1000


class SchemaPairs(Generic[T]):
    """Answers to a question about two schemas; the schemas are kept, so that their identities stay theirs."""

    def __init__(self, ask: Callable[[ConnectSchema, ConnectSchema], T]) -> None:
        self._ask = ask
        self._known: dict[tuple[int, int], tuple[ConnectSchema, ConnectSchema, T]] = {}

    def __call__(self, one: ConnectSchema, other: ConnectSchema) -> T:
        """The answer, asked for once. Raises what the question raises, each time."""
        key = (id(one), id(other))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            known = self._known[key] = (one, other, self._ask(one, other))
        return known[2]
