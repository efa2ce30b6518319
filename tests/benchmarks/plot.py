"""How do series of a long run become a picture? As one SVG of small panels, drawn by hand: a committed picture needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 360
HEIGHT: Final = 130
MARGIN: Final = 46
COLUMNS: Final = 2


@dataclass(frozen=True, slots=True)
class Panel:
    """One series over minutes, with its name and unit."""

    name: str
    values: Sequence[float]


def svg(title: str, minutes: Sequence[float], panels: Sequence[Panel]) -> str:
    """The picture; every axis begins at zero, so that what is flat looks flat."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + MARGIN) + MARGIN
    drawn = [_panel(panel, minutes, at) for at, panel in enumerate(panels)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="{MARGIN}" y="20" font-size="14">{title}</text>',
            *drawn,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, minutes: Sequence[float], at: int) -> str:
    left, top = MARGIN + at % COLUMNS * (WIDTH + MARGIN), MARGIN + at // COLUMNS * (HEIGHT + MARGIN)
    most, last = max(*panel.values, 1.0) * 1.1, max(minutes[-1], 0.001)
    points = " ".join(
        f"{left + minute / last * WIDTH:.1f},{top + HEIGHT - value / most * HEIGHT:.1f}"
        for minute, value in zip(minutes, panel.values, strict=True)
    )
    axes = f"M{left},{top}V{top + HEIGHT}H{left + WIDTH}"
    return "\n".join(
        [
            f'<text x="{left}" y="{top - 6}">{panel.name}</text>',
            f'<path d="{axes}" fill="none" stroke="#888"/>',
            f'<text x="{left - 4}" y="{top + 8}" text-anchor="end">{most:,.0f}</text>',
            f'<text x="{left - 4}" y="{top + HEIGHT}" text-anchor="end">0</text>',
            f'<text x="{left + WIDTH}" y="{top + HEIGHT + 14}" text-anchor="end">{last:.0f} min</text>',
            f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.3"/>',
        ]
    )
