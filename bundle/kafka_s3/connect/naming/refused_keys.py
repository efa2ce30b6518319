"""Which keys are never written? Those that would leave the sink's prefix, and those that others rely on.

A part of a key may come from a record: a field's value, a schema's name, whatever an own partitioner makes of a header. As in the
original it is written as it is (SEMANTICS A4.2), so a record could choose where its object goes. What S3 itself takes literally, readers
do not: to a file system, a query engine or a browser `a/../b` is `b`, and `a//b` is `a/b`. So keys are judged as such a reader sees them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

DELTA_LOG: Final = "_delta_log"
LONGEST_KEY: Final = 1024
SHOWN: Final = 120
_DOTS: Final = frozenset({".", ".."})
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def refusal(key: str, *, state_prefix: str) -> str | None:
    """Why an object of this key is never written, None where it may be. The text shows control characters in escaped form."""
    parts = [part for part in key.split("/") if part]
    reason = part_refusal(key)
    if reason is None and len(key.encode("utf-8", "surrogatepass")) > LONGEST_KEY:
        reason = f"has more than {LONGEST_KEY} bytes, which S3 takes in no key"
    state = [part for part in state_prefix.split("/") if part]
    if reason is None and state and parts[: len(state)] == state:
        reason = f"lies in {'/'.join(state)}/, the folder of the commit log"
    return f"The object's key {_quoted(key)} {reason}." if reason else None


def refusals(keys: Sequence[str], *, state_prefix: str) -> dict[int, str]:
    """The refusals by the places of their keys. Of most keys no rule could be about any, which one look at ten thousand of them says."""
    joint, first = "/" + "/".join(keys), state_prefix.strip("/").partition("/")[0]
    harmless = joint.isascii() and joint.isprintable() and max(map(len, keys), default=0) <= LONGEST_KEY
    if harmless and DELTA_LOG not in joint and "/." not in joint and not (first and f"/{first}" in joint):
        return {}
    judged = ((place, refusal(key, state_prefix=state_prefix)) for place, key in enumerate(keys))
    return {place: reason for place, reason in judged if reason is not None}


def part_refusal(text: str) -> str | None:
    """What makes a key with this text in it unwritable, None where nothing does."""
    control = _CONTROL.search(text)
    if control is not None:
        return f"holds the control character U+{ord(control[0]):04X}"
    parts = text.split("/")
    dots = next((part for part in parts if part in _DOTS), None)
    if dots is not None:
        return f"has the part {dots!r}, which leads readers out of its folder"
    if DELTA_LOG in parts:
        return f"has the part {DELTA_LOG!r}, which is the log of a Delta table"
    return None


def _quoted(key: str) -> str:
    shown = key if len(key) <= SHOWN else f"{key[:SHOWN]}..."
    return ascii(shown) if _CONTROL.search(shown) else repr(shown)
