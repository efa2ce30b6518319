"""What of records may nobody see? Fields that the operator named are masked where letters are read, before anything is made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.text import MASK

HIDDEN: Final = MASK.encode()
_FROM_RECORDS: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
"""What messages may cite of a record."""
Mask = Callable[[DeadLetter], DeadLetter]


def mask_of(fields: frozenset[str]) -> Mask:
    """Masks the values of these fields, at any depth and of any letter case, and headers of these names; without fields, nothing.

    What is no JSON object or array cannot be taken apart, so it is hidden as a whole, as are citations and numbers in messages.
    """
    names = frozenset(name.casefold() for name in fields)

    def mask(letter: DeadLetter) -> DeadLetter:
        headers = tuple(
            (name, HIDDEN if value is not None and name.casefold() in names else value)
            for name, value in letter.headers
        )
        message = _FROM_RECORDS.sub(MASK, letter.message)
        key, value = _content(letter.key, names), _content(letter.value, names)
        return replace(letter, key=key, value=value, headers=headers, message=message)

    return mask if names else lambda letter: letter


def _content(raw: bytes | None, names: frozenset[str]) -> bytes | None:
    if raw is None:
        return None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return HIDDEN
    if not isinstance(found, dict | list):
        return HIDDEN
    return json.dumps(_masked(found, names), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _masked(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: MASK if name.casefold() in names else _masked(inner, names) for name, inner in value.items()}
    return [_masked(inner, names) for inner in value] if isinstance(value, list) else value
