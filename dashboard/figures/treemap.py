"""Where does each rectangle of a treemap go? Squarified: rows of rectangles as close to squares as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the unit square."""

    x: float
    y: float
    width: float
    height: float


def squarified(weights: Sequence[float]) -> list[Box]:
    """One box per weight, in the order given, which should be falling; areas are proportional to the weights, all positive."""
    boxes: list[Box] = []
    free = Box(0.0, 0.0, 1.0, 1.0)
    total = sum(weights)
    areas = [weight / total for weight in weights] if total > 0 else []
    while len(boxes) < len(areas):
        row = _row(areas[len(boxes) :], min(free.width, free.height))
        placed, free = _laid(row, free)
        boxes.extend(placed)
    return boxes


def _row(areas: Sequence[float], side: float) -> Sequence[float]:
    """As many areas as make a row along the side without its worst box becoming longer."""
    best = _worst(areas[0], areas[0], areas[0], side)
    total = areas[0]
    for count in range(1, len(areas)):
        total += areas[count]
        worst = _worst(max(areas[: count + 1]), min(areas[: count + 1]), total, side) if count < 64 else best + 1
        if worst > best:
            return areas[:count]
        best = worst
    return areas


def _worst(largest: float, smallest: float, total: float, side: float) -> float:
    square = max(side, 1e-12) ** 2
    return max(square * largest / total**2, total**2 / (square * max(smallest, 1e-15)))


def _laid(row: Sequence[float], free: Box) -> tuple[list[Box], Box]:
    """The row along the shorter side, and what is left."""
    total = sum(row)
    if free.width >= free.height:
        width = total / max(free.height, 1e-12)
        heights = [area / max(width, 1e-12) for area in row]
        boxes = [Box(free.x, free.y + sum(heights[:place]), width, height) for place, height in enumerate(heights)]
        return boxes, Box(free.x + width, free.y, max(free.width - width, 0.0), free.height)
    height = total / max(free.width, 1e-12)
    widths = [area / max(height, 1e-12) for area in row]
    boxes = [Box(free.x + sum(widths[:place]), free.y, width, height) for place, width in enumerate(widths)]
    return boxes, Box(free.x, free.y + height, free.width, max(free.height - height, 0.0))
