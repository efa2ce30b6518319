"""What is a record's key, is it a deletion, which of two is newer? The texts of `state.key`, `state.delete.on`, `state.order.by`, and of
`state.unavailable.value.placeholder`.

`state.key`: `record key` is Kafka's own key, `record key.id` a field of one that is JSON, `customer.id` a field of the value.
`state.delete.on`: `tombstone`, or a field of the value with the text that it has in a deletion: `op=d`, `__deleted=true`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

Path = tuple[str, ...]
RECORD_KEY: Final = "record key"
TOMBSTONE: Final = "tombstone"
OFFSET: Final = "offset"
DELETED: Final = "__deleted"
"""The field that says `true` in a deletion, as Debezium's `delete.handling.mode=rewrite` has it."""
UNAVAILABLE: Final = "_unavailable"
"""The column that says which others are not the newest record's, because it holds a placeholder there."""
OWN: Final = ("_key", "_order", "_offset", "_kafka_partition", "_deleted", "_deleted_at", UNAVAILABLE)
"""Columns that a state table has of its own."""
HEX: Final = "hex:"
_FIELD: Final = re.compile(r"[^\s`,=]+")


@dataclass(frozen=True, slots=True)
class KeyTerm:
    """A part of a key: a field of the value, or of the record's key where `of_record`; there no path is the whole key."""

    path: Path
    of_record: bool = False

    @property
    def column(self) -> str:
        """The column that holds it."""
        return self.path[-1] if self.path else "_key"

    def __str__(self) -> str:
        """The term as a user writes it."""
        return ".".join([RECORD_KEY, *self.path] if self.of_record else self.path)


@dataclass(frozen=True, slots=True)
class DeleteMark:
    """A field of the value, and the text that it has in a deletion."""

    path: Path
    text: str

    def __str__(self) -> str:
        """The mark as a user writes it."""
        return f"{'.'.join(self.path)}={self.text}"


def path_of(text: str) -> Path:
    """The path of a field. Raises ValueError, with what is wrong with it."""
    found = tuple(text.split("."))
    if not all(map(_FIELD.fullmatch, found)):
        raise ValueError("is not a field: names are separated by dots, without blanks and quotes.")
    return found


def key_term(text: str) -> KeyTerm:
    """A part of `state.key`. Raises ValueError."""
    if text == RECORD_KEY:
        return KeyTerm((), of_record=True)
    if text.startswith(f"{RECORD_KEY}."):
        return KeyTerm(path_of(text.removeprefix(f"{RECORD_KEY}.")), of_record=True)
    return KeyTerm(path_of(text))


def key_terms(texts: tuple[str, ...]) -> tuple[KeyTerm, ...]:
    """The parts of a key. Raises ValueError where one is none, or two would share a column."""
    found = tuple(map(key_term, texts))
    columns = [term.column.lower() for term in found]
    if not found:
        raise ValueError("must name a key.")
    if len(set(columns)) < len(columns):
        raise ValueError("has two parts whose columns would have the same name.")
    return found


def delete_mark(text: str) -> DeleteMark:
    """A mark of `state.delete.on`. Raises ValueError."""
    if text == TOMBSTONE:
        return DeleteMark((DELETED,), "true")
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ValueError("is neither tombstone nor a field with a text, such as op=d.")
    return DeleteMark(path_of(name.strip()), value.strip())


def placeholder_octets(text: str) -> bytes:
    """Return the octets of `state.unavailable.value.placeholder`, written as at Debezium. Raises ValueError."""
    if not text.startswith(HEX):
        return text.encode()
    try:
        return bytes.fromhex(text.removeprefix(HEX))
    except ValueError:
        raise ValueError(f"has octets after {HEX} that are not hexadecimal.") from None


def order_path(text: str) -> Path | None:
    """The field of `state.order.by`, None for the offset. Raises ValueError."""
    return None if text == OFFSET else path_of(text)
