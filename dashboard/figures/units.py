"""How are sizes and durations told? Sizes in IEC's units, everywhere the same."""

from __future__ import annotations

from typing import Final

from figures.data import DAY_MS

UNITS: Final = (("d", DAY_MS), ("h", DAY_MS / 24), ("min", DAY_MS / 1440), ("s", 1000))


def size_text(size: float) -> str:
    """A size for people."""
    unit, name = size_unit(size)
    return f"{size / unit:.0f} B" if name == "B" else f"{size / unit:.1f} {name}"


def size_unit(size: float) -> tuple[float, str]:
    """IEC's unit (its bytes, and its name) in which sizes up to this one read well."""
    power = next((power for power in range(4) if abs(size) < 1024 ** (power + 1)), 4)
    return 1024.0**power, ("B", "KiB", "MiB", "GiB", "TiB")[power]


def unit_of(ms: float) -> tuple[float, str]:
    """The unit (its ms, and its name) in which durations up to this one read well."""
    return next(((length, unit) for unit, length in UNITS if ms >= 2 * length), (1, "ms"))


def duration_text(ms: float) -> str:
    """A duration for people: two digits and the fitting unit."""
    for unit, length in UNITS:
        if ms >= length:
            return f"{ms / length:.0f} {unit}" if ms >= 10 * length or ms % length == 0 else f"{ms / length:.1f} {unit}"
    return f"{ms:.0f} ms"
