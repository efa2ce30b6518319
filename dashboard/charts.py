"""How do the numbers look? Altair charts of frames; pure functions, fit for the light and the dark theme.

Times come as a zone's wall clock labelled UTC (`data.wall`), and are drawn on UTC scales, so that no browser shifts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt
import pandas as pd

from treemap import squarified

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
"""Each at least 3:1 against white and against the dark background: adjacent things are told apart by more than hue, by their order."""
BOX_COLOURS: Final = ("#1f6fb2", "#2a7a5f", "#7a4f9a", "#9a4a3f", "#5b6770")
"""Dark enough for white names."""
HEIGHT: Final = 260
BOXES: Final = 60
OTHERS: Final = "(others)"


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
) -> alt.LayerChart:
    """Stacked bars: `at` (wall clock), `value`, coloured by `by`; `domain` fixes the order of the colours, the first one at the bottom."""
    rows = stacked(frame, value, by=by, step_ms=axis.step_ms, domain=domain)
    bars = (
        alt.Chart(rows)
        .mark_rect()
        .encode(
            x=_time("at", axis),
            x2="end",
            y=alt.Y("low:Q", title=titles[0], axis=alt.Axis(format="~s"), scale=alt.Scale(zero=True)),
            y2="high:Q",
            color=_colour(by, titles[1], domain),
            tooltip=[
                _when("at"),
                alt.Tooltip(f"{by}:N", title=titles[1]),
                alt.Tooltip(f"{value}:Q", title=titles[0], format=","),
            ],
        )
    )
    # a domain for a rectangle's two sides is refused by Vega-Lite with a warning, so points that nobody sees stretch the axis
    ends = alt.Chart(pd.DataFrame({"at": [axis.start, axis.end]})).mark_point(opacity=0).encode(x=_time("at", axis))
    return (bars + ends).properties(height=HEIGHT)


def stacked(frame: pd.DataFrame, value: str, *, by: str, step_ms: int, domain: Sequence[str]) -> pd.DataFrame:
    """The rows with the corners of their bars: `at` to `end`, `low` to `high`. A bar leaves a tenth of its width free."""
    order = {name: place for place, name in enumerate(domain)}
    rows = frame.assign(rank=frame[by].map(order)).sort_values(["at", "rank"], kind="stable", ignore_index=True)
    high = rows.groupby("at")[value].cumsum()
    return rows.assign(low=high - rows[value], high=high, end=rows["at"] + pd.Timedelta(milliseconds=step_ms * 9 // 10))


def classes(frame: pd.DataFrame, *, title: str, texts: Sequence[str]) -> alt.Chart:
    """A histogram: one bar for each class of `rotations.histogram`, labelled by `texts`; `title` is for who points at a bar."""
    rows = frame.assign(text=list(texts), place=range(len(frame)))
    return (
        alt.Chart(rows)
        .mark_bar(color=PALETTE[0])
        .encode(
            x=alt.X("text:N", sort=None, title=None, axis=alt.Axis(labelAngle=-40, labelOverlap=True)),
            y=alt.Y("files:Q", title="files"),
            tooltip=[alt.Tooltip("text:N", title=title), alt.Tooltip("files:Q", format=",")],
        )
        .properties(height=HEIGHT)
    )


def ranked(frame: pd.DataFrame, value: str, *, by: str, titles: tuple[str, str]) -> alt.Chart:
    """Horizontal bars, largest first."""
    return (
        alt.Chart(frame)
        .mark_bar(color=PALETTE[0])
        .encode(
            y=alt.Y(f"{by}:N", sort="-x", title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X(f"{value}:Q", title=titles[0], axis=alt.Axis(format="~s")),
            tooltip=[alt.Tooltip(f"{by}:N", title=titles[1]), alt.Tooltip(f"{value}:Q", title=titles[0], format=",")],
        )
        .properties(height=max(22 * len(frame) + 40, 90))
    )


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


def treemap(frame: pd.DataFrame, value: str, *, title: str, texts: Sequence[str]) -> alt.LayerChart:
    """Rectangles of `boxes`, with their names where these fit."""
    rows = frame.assign(shown=list(texts), colour=[BOX_COLOURS[rank % len(BOX_COLOURS)] for rank in frame["rank"]])
    rows = rows.assign(middle_x=(rows["x"] + rows["x2"]) / 2, middle_y=(rows["y"] + rows["y2"]) / 2)
    corners = {
        "x": alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False)),
        "y": alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[1, 0], nice=False)),
    }
    drawn = alt.Chart(rows).mark_rect(stroke="white", strokeWidth=1.5)
    drawn = drawn.encode(
        **corners, x2="x2", y2="y2", color=alt.Color("colour:N", scale=None, legend=None),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("shown:N", title=title)],
    )  # fmt: skip
    large = rows[(rows["x2"] - rows["x"] > 0.09) & (rows["y2"] - rows["y"] > 0.06)]
    named = alt.Chart(large).mark_text(fontSize=11, color="white", limit=150)
    named = named.encode(x=alt.X("middle_x:Q", axis=None), y=alt.Y("middle_y:Q", axis=None), text="name:N")
    return (drawn + named).properties(height=340).configure_view(strokeWidth=0)


def _time(column: str, axis: Axis) -> alt.X:
    drawn = alt.Axis(format=axis.format, labelOverlap=True, tickCount=8)
    return alt.X(f"{column}:T", title=None, scale=alt.Scale(type="utc"), axis=drawn)


def _when(column: str) -> alt.Tooltip:
    return alt.Tooltip(f"utcyearmonthdatehoursminutesseconds({column}):T", title="from", format="%Y-%m-%d %H:%M:%S")


def _colour(column: str, title: str, domain: Sequence[str]) -> alt.Color:
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(domain))]
    legend = alt.Legend(orient="bottom", columns=3, symbolLimit=30, labelLimit=200)
    return alt.Color(f"{column}:N", title=title, scale=alt.Scale(domain=list(domain), range=colours), legend=legend)
