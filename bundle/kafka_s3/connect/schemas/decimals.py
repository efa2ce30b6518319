"""How is a decimal held as bytes? As its unscaled integer, in big-endian two's complement; all digits are kept."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from kafka_s3.connect.schemas.connect import SchemaError

# The default context would round to 28 digits.
EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
MOST_DIGITS: Final = 10_000


def decimal_at(raw: bytes, scale: int) -> Decimal:
    """The number that the bytes hold at a scale. Raises SchemaError beyond 10,000 digits."""
    if len(raw) > MOST_DIGITS // 3:
        raise SchemaError(f"A decimal has {len(raw)} bytes; the most that are read are {MOST_DIGITS // 3}.")
    return EXACT.scaleb(Decimal(int.from_bytes(raw, "big", signed=True)), -scale)


def unscaled_bytes(value: Any, scale: int) -> bytes:
    """The shortest bytes that hold a number at a scale. Raises SchemaError where digits would be lost, or where it is no decimal:
    a schema may have that name and another type.
    """
    if not isinstance(value, Decimal):
        raise SchemaError(
            f"{str(value)[:60]} is no decimal, as its schema is called, but of type {type(value).__name__}."
        )
    if not value.is_finite() or value.adjusted() + scale > MOST_DIGITS:
        raise SchemaError(f"{str(value)[:60]} cannot be written as a decimal: it is not finite or too large.")
    scaled = EXACT.scaleb(value, scale)
    number = int(scaled)
    if number != scaled:
        raise SchemaError(f"{str(value)[:60]} has more digits after the point than the scale {scale} of its schema.")
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
