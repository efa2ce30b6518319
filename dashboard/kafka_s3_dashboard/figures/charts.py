"""How do the numbers look? Vega-Lite charts of frames, as plain data; pure functions, fit for the light and the dark theme.

Times come as a zone's wall clock labelled UTC (`data.wall`), and are drawn on UTC scales, so that no browser shifts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

PALETTE: Final = (
    "#3b82c4",
    "#d9772b",
    "#2f9e6e",
    "#b65fc4",
    "#c2544f",
    "#8a8f2a",
    "#3b92a4",
    "#9a6b4f",
    "#7a7fd1",
    "#808890",
)
"""Each at least 3:1 against white and against the dark background: adjacent things are distinguished by more than hue, by their order."""
BOX_COLOURS: Final = ("#1f6fb2", "#2a7a5f", "#7a4f9a", "#9a4a3f", "#5b6770")
"""Dark enough for white names."""
HEIGHT: Final = 260
BOXES: Final = 60
CELL: Final = 22
AROUND: Final = 90
"""What axes take of a chart's height."""
ALARM: Final = "#c2362f"
MARKS: Final = {"state": ALARM, "schema": "#7a4f9a", "settings": "#1f6fb2"}
"""The colours of marks, by what changed."""
ZOOM: Final = "zoom"
UNFINISHED: Final = "#9aa0a6"
"""Of a time that is not over yet."""
OTHERS: Final = "(others)"
ROWS: Final = "rows"
"""The name of a chart's data: the same for new numbers, so that the page updates the chart and does not draw it again."""
SHORT: Final = {"labelExpr": "format(datum.value, datum.value < 1 ? '~r' : '~s')"}
"""Each number by itself: a format would give all of an axis the unit of its largest, and 0 as 0k; half an hour is 0.5, not 500m."""
IEC: Final = (
    "datum.value < 1024 ? format(datum.value, '~r') + ' B' : datum.value < 1048576 ? format(datum.value / 1024, '.3~r') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '.3~r') + ' MiB' : format(datum.value / 1073741824, '.3~r') + ' GiB'"
)
"""How logarithmic axes tell bytes."""
DURATIONS: Final = (
    "datum.value < 1000 ? format(datum.value, '.2~r') + ' ms' : datum.value < 60000 ? format(datum.value / 1000, '.2~r') + ' s' : "
    "datum.value < 3600000 ? format(datum.value / 60000, '.2~r') + ' min' : datum.value < 86400000 ? "
    "format(datum.value / 3600000, '.2~r') + ' h' : format(datum.value / 86400000, '.2~r') + ' d'"
)
COUNTS: Final = "format(datum.value, ',.3~r')"
Chart = dict[str, Any]
"""A Vega-Lite document with its frames under `datasets`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A chart's time: the width of a bar in ms, and what is drawn, from one wall clock to another."""

    step_ms: int
    start: pd.Timestamp
    end: pd.Timestamp

    @property
    def format(self) -> str:
        """How the axis names times."""
        if self.end.normalize() == self.start.normalize():
            return "%H:%M:%S" if self.step_ms < 60_000 else "%H:%M"
        return "%m-%d %H:%M" if self.end - self.start < pd.Timedelta(days=6) else "%Y-%m-%d"


def bars_over_time(
    frame: pd.DataFrame, value: str, *, by: str, axis: Axis, titles: tuple[str, str], domain: Sequence[str]
) -> Chart:
    """Stacked bars: `at` (wall clock), `value`, coloured by `by`; `domain` fixes the order of the colours, the first one at the bottom.

    A bar leaves a tenth of its width free.
    """
    rank = {name: place for place, name in enumerate(domain)}
    rows = frame[["at", by, value]].assign(
        end=frame["at"] + pd.Timedelta(milliseconds=axis.step_ms * 9 // 10), rank=frame[by].map(rank)
    )
    bars = {
        "mark": {"type": "bar", "orient": "vertical"}, "data": {"name": ROWS},
        "encoding": {
            "x": _time("at", axis), "x2": {"field": "end"}, "y": _amount(value, titles[0], axis=SHORT, stack="zero"),
            "color": _colour(by, titles[1], domain), "order": {"field": "rank"},
            "tooltip": [_when("at"), _named(by, titles[1]), _amount(value, titles[0], format=",.2~f")],
        },
    }  # fmt: skip
    # a domain for a bar's two sides is refused by Vega-Lite with a warning, so points that nobody sees stretch the axis
    ends = {"mark": {"type": "point", "opacity": 0}, "data": {"name": "ends"}, "encoding": {"x": _time("at", axis)}}
    data = {ROWS: rows, "ends": pd.DataFrame({"at": [axis.start, axis.end]})}
    return {"layer": [bars, ends], "height": HEIGHT, "datasets": data}


def lines_over_time(
    frame: pd.DataFrame, *, axis: Axis, title: str, domain: Sequence[str], limit: float | None
) -> Chart:
    """Lines of `value` over `at` (wall clock), one for each `line` of the domain; what is above `limit` is too much, and red."""
    ends = {"mark": {"type": "point", "opacity": 0}, "data": {"name": "ends"}, "encoding": {"x": _time("at", axis)}}
    lines = {
        "mark": {"type": "line", "interpolate": "step-after", "point": {"size": 18}}, "data": {"name": ROWS},
        "encoding": {
            "x": _time("at", axis), "y": _amount("value", title, axis=SHORT, scale={"zero": True}),
            "color": _colour("line", "delay", domain),
            "tooltip": [_when("at"), _named("line", "delay"), _named("shown", title)],
        },
    }  # fmt: skip
    layers, data = [lines, ends], {ROWS: frame, "ends": pd.DataFrame({"at": [axis.start, axis.end]})}
    if limit is not None:
        rule = {"mark": {"type": "rule", "color": ALARM, "strokeDash": [6, 4]}, "data": {"name": "limit"},
                "encoding": {"y": _amount("limit", title)}}  # fmt: skip
        above = {"mark": {"type": "point", "filled": True, "size": 40, "color": ALARM}, "data": {"name": "above"},
                 "encoding": {"x": _time("at", axis), "y": _amount("value", title)}}  # fmt: skip
        layers += [rule, above]
        data |= {"limit": pd.DataFrame({"limit": [limit]}), "above": frame[frame["value"] > limit][["at", "value"]]}
    return {"layer": layers, "height": HEIGHT, "datasets": data}


def with_marks(drawn: Chart, marks: pd.DataFrame, *, axis: Axis) -> Chart:
    """A chart over time with a line for each mark (`at` as wall clock, `kind`, `text`), and a time that is chosen by dragging."""
    # Vega warns of an axis without any time, so where nothing is to be marked one mark is there that nobody sees
    rows = marks[["at", "kind", "text"]] if len(marks) else pd.DataFrame({"at": [axis.end], "kind": [""], "text": [""]})
    encoding = {
        "x": _time("at", axis), **_marked(),
        "tooltip": [_when("at") | {"title": "at"}, _named("kind", "changed"), _named("text", "what")],
    }  # fmt: skip
    line = {
        "mark": {"type": "rule", "strokeDash": [4, 3], "size": 1.5},
        "data": {"name": "marks"},
        "encoding": encoding,
    }
    head = {"mark": {"type": "point", "shape": "triangle-down", "filled": True, "size": 90, "yOffset": 4},
            "data": {"name": "marks"}, "encoding": {**encoding, "y": {"value": 0}}}  # fmt: skip
    first, *others = drawn["layer"]
    zoomed = {**first, "params": [{"name": ZOOM, "select": {"type": "interval", "encodings": ["x"]}}]}
    return {**drawn, "layer": [zoomed, *others, line, head], "datasets": {**drawn["datasets"], "marks": rows}}


def _marked() -> Chart:
    """The colours of marks, by conditions: a scale of their own would be mixed with that of the chart's legend."""
    *others, last = MARKS.items()
    tests = [{"test": f"datum.kind === '{kind}'", "value": colour} for kind, colour in others]
    unseen = {"condition": {"test": "datum.kind === ''", "value": 0}, "value": 1}
    return {"color": {"condition": tests, "value": last[1]}, "opacity": unseen}


def classes(frame: pd.DataFrame, *, title: str, texts: Sequence[str], labels: str) -> Chart:
    """A histogram of `rotations.histogram` over a logarithmic axis, whose ticks `labels` names (a Vega expression of `datum.value`).

    `texts` tell each class to who points at its bar.
    """
    scale = {"type": "log", "base": 2, "nice": False}
    drawn = {"labelExpr": labels, "labelOverlap": True, "values": sorted({*frame["lower"], *frame["upper"]})}
    encoding = {
        "x": {"field": "lower", "type": "quantitative", "title": None, "scale": scale, "axis": drawn}, "x2": {"field": "upper"},
        "y": _amount("files", "files", axis={"tickMinStep": 1}), "y2": {"datum": 0},
        "tooltip": [_named("text", title), _amount("files", "files", format=",")],
    }  # fmt: skip
    mark = {"type": "rect", "color": PALETTE[0], "stroke": "white", "strokeWidth": 0.5}
    return {**_bars(frame.assign(text=list(texts)), encoding, height=HEIGHT), "mark": mark}


def heat_map(cells: pd.DataFrame, value: str, *, titles: tuple[str, str, str], columns: Sequence[str]) -> Chart:
    """A cell of colour for each `row` and `column` of `figures.heat`; titles of rows, columns and value. `shown` is the value's text.

    A cell that is `open` has no colour of its own: what it will hold is not known yet.
    """
    rows = list(dict.fromkeys(cells["row"]))
    number = ",d" if cells[value].dtype.kind == "i" else ",.3~r"  # "~s" shows 25 beside 50,000 as "0k"
    encoding = {
        "x": {**_named("column", titles[1]), "sort": list(columns), "scale": {"domain": list(columns)}, "axis": {"labelAngle": 0}},
        "y": {**_named("row", titles[0]), "sort": rows, "axis": {"labelOverlap": False}},
        "color": {
            "condition": {"test": "datum.open", "value": UNFINISHED},
            **_amount(value, titles[2], scale={"scheme": "viridis"}, legend={"orient": "right", "format": number, "tickMinStep": 1}),
        },
        "tooltip": [_named("row", titles[0]), _named("column", titles[1]), _named("shown", titles[2]), _amount("files", "files")],
    }  # fmt: skip
    height = AROUND + CELL * max(len(rows), 3)
    shown = cells.assign(open=cells.get("open", False))[["row", "column", value, "shown", "files", "open"]]
    return {**_bars(shown, encoding, height=height), "mark": {"type": "rect"}}


def boxes(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The rectangles of a treemap: `name`, the value, `x`, `y`, `x2`, `y2`, `rank`; the smallest ones are put together."""
    rows = frame[frame[value] > 0].sort_values(value, ascending=False)[["name", value]].astype({"name": object})
    if len(rows) > BOXES:
        rest = pd.DataFrame({"name": [OTHERS], value: [rows[value].iloc[BOXES - 1 :].sum()]})
        rows = pd.concat([rows.iloc[: BOXES - 1], rest]).sort_values(value, ascending=False)
    placed = squarified(rows[value].astype(float).tolist())
    sides = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in placed]
    found = pd.DataFrame(sides, columns=["x", "y", "x2", "y2"])
    return found.assign(name=rows["name"].tolist(), rank=range(len(rows)), **{value: rows[value].tolist()})


def treemap(frame: pd.DataFrame, value: str, *, title: str, texts: Sequence[str]) -> Chart:
    """Rectangles of `boxes`, with their names where these fit."""
    rows = frame.assign(shown=list(texts), colour=[BOX_COLOURS[rank % len(BOX_COLOURS)] for rank in frame["rank"]])
    rows = rows.assign(middle_x=(rows["x"] + rows["x2"]) / 2, middle_y=(rows["y"] + rows["y2"]) / 2)
    drawn = {
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 1.5}, "data": {"name": ROWS},
        "encoding": {
            "x": _side("x", [0, 1]), "x2": {"field": "x2"}, "y": _side("y", [1, 0]), "y2": {"field": "y2"},
            "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
            "tooltip": [_named("name", "name"), _named("shown", title)],
        },
    }  # fmt: skip
    named = {
        "mark": {"type": "text", "fontSize": 11, "color": "white", "limit": 150}, "data": {"name": "named"},
        "encoding": {"x": _side("middle_x", [0, 1]), "y": _side("middle_y", [1, 0]), "text": {"field": "name", "type": "nominal"}},
    }  # fmt: skip
    large = rows[(rows["x2"] - rows["x"] > 0.09) & (rows["y2"] - rows["y"] > 0.06)]
    data = {ROWS: rows, "named": large[["name", "middle_x", "middle_y"]]}
    return {"layer": [drawn, named], "height": 340, "config": {"view": {"strokeWidth": 0}}, "datasets": data}


def _bars(rows: pd.DataFrame, encoding: Chart, *, height: int) -> Chart:
    return {"mark": {"type": "bar", "color": PALETTE[0]}, "data": {"name": ROWS}, "encoding": encoding, "height": height,
            "datasets": {ROWS: rows}}  # fmt: skip


def _time(column: str, axis: Axis) -> Chart:
    drawn = {"format": axis.format, "labelOverlap": True, "tickCount": 8}
    return {"field": column, "type": "temporal", "title": None, "scale": {"type": "utc"}, "axis": drawn}


def _when(column: str) -> Chart:
    return {"field": column, "type": "temporal", "timeUnit": "utcyearmonthdatehoursminutesseconds", "title": "from",
            "format": "%Y-%m-%d %H:%M:%S"}  # fmt: skip


def _named(column: str, title: str | None) -> Chart:
    return {"field": column, "type": "nominal", "title": title}


def _amount(column: str, title: str, **more: Any) -> Chart:
    return {"field": column, "type": "quantitative", "title": title, **more}


def _side(column: str, domain: Sequence[int]) -> Chart:
    return {"field": column, "type": "quantitative", "axis": None, "scale": {"domain": list(domain), "nice": False}}


def _colour(column: str, title: str, domain: Sequence[str]) -> Chart:
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(domain))]
    legend = {"orient": "bottom", "columns": {"expr": "width < 300 ? 2 : 3"}, "symbolLimit": 30, "labelLimit": 200}
    return {**_named(column, title), "scale": {"domain": list(domain), "range": colours}, "legend": legend}


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
