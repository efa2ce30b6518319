"""How does Java read numbers from text and write them? Rules that differ from Python's: bounds, widths, forms; and the hashes of texts."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Collection
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final


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


INTEGER: Final = re.compile(r"[+-]?[0-9]+")
FLOATING: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
TRIMMED: Final = "".join(map(chr, range(33)))
"""What `String.trim` takes away."""


def parse_integer(text: str, bits: int) -> int:
    """`Byte.parseByte` and its kin. Raises ValueError, also beyond the bounds."""
    if not INTEGER.fullmatch(text) or len(text) > 400:
        raise ValueError(f'For input string: "{text}"')
    number = int(text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f'Value out of range. Value:"{text}" Radix:10')
    return number


def parse_double(text: str) -> float:
    """`Double.parseDouble`: blanks around and a suffix are taken. Raises ValueError."""
    trimmed = text.strip(TRIMMED)
    if not FLOATING.fullmatch(trimmed):
        raise ValueError(f'For input string: "{text}"' if trimmed else "empty String")
    return float(trimmed.rstrip("fFdD") if "N" not in trimmed else trimmed)


def wrapped(number: int, bits: int) -> int:
    """The lower bits of an integer as a signed number."""
    low: int = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def truncated(number: float, bits: int) -> int:
    """A floating number as an integer: towards zero, at most what fits; fewer than 32 bits are cut from 32."""
    if math.isnan(number):
        return 0
    most = 64 if bits == 64 else 32
    bound = 2 ** (most - 1)
    whole = (bound - 1 if number > 0 else -bound) if math.isinf(number) else max(-bound, min(bound - 1, int(number)))
    return wrapped(whole, bits)


def narrow(number: float) -> float:
    """The nearest 32-bit number, infinite where there is none."""
    try:
        found: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


def double_text(number: float) -> str:
    """`Double.toString`."""
    return _plain_or_scientific(number, repr(number))


def float_text(number: float) -> str:
    """`Float.toString`: the shortest digits that mean this 32-bit number."""
    if not math.isfinite(number) or number == 0:
        return double_text(number)
    return _plain_or_scientific(
        number, next(t for n in range(1, 10) if narrow(float(t := f"{number:.{n}g}")) == number)
    )


def _plain_or_scientific(number: float, digits: str) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    exact = Decimal(digits)
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        plain = f"{exact:f}"
        return plain if "." in plain else f"{plain}.0"
    sign, figures, _ = exact.normalize().as_tuple()
    rest = "".join(map(str, figures[1:])) or "0"
    return f"{'-' if sign else ''}{figures[0]}.{rest}E{exact.adjusted()}"


def decimal_text(number: Decimal) -> str:
    """`BigDecimal.toString`, which Python's decimals share but for the sign of zero and the letter's case."""
    return str(number).upper()


def object_text(value: Any) -> str:
    """`toString` of a value without schema: `{a=1}` for a map, `[1, 2]` for a list."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={object_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(object_text, value)) + "]"
    if isinstance(value, float):
        return double_text(value)
    return decimal_text(value) if isinstance(value, Decimal) else str(value)
