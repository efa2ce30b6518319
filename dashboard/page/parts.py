"""What do several pages show in the same way? Tables, charts with a name for screen readers, rows of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import streamlit as st

from figures import data
from figures.charts import Chart
from figures.text import cells, size_unit

SHOWN_ROWS: Final = 1000
TIME: Final = "YYYY-MM-DD HH:mm:ss"
PAINTED: Final = {"embedOptions": {"renderer": "canvas"}}
"""A picture is drawn several times as quickly as an element for each bar and each of its labels."""


def table(frame: pd.DataFrame, columns: Mapping[str, Any], *, name: str, key: str, **more: Any) -> Any:
    """The columns of a frame as a table, in this order, under these titles (or column settings); texts are made harmless."""
    shown, settings = cells(frame[list(columns)]), {}
    for column, title in columns.items():
        settings[column] = st.column_config.Column(title) if isinstance(title, str) else title
        if isinstance(title, Size):
            unit, word = size_unit(float(shown[column].max() or 0) if len(shown) else 0.0)
            shown = shown.assign(**{column: shown[column] / unit})
            settings[column] = st.column_config.NumberColumn(
                f"{title.title}, {word}", format="%.0f" if word == "B" else "%.1f"
            )
    return st.dataframe(
        shown,
        column_config=settings,
        hide_index=True,
        width="stretch",
        alt=name,
        key=key,
        placeholder="unknown",
        **more,
    )


def timed(frame: pd.DataFrame, zone: str, *columns: str) -> pd.DataFrame:
    """The frame with these columns of epoch ms as times of the zone; `x_ms` becomes `x`."""
    return frame.assign(**{column.removesuffix("_ms"): data.local(frame[column], zone) for column in columns})


def time_column(title: str, zone: str, help_text: str | None = None) -> Any:
    """A column of times."""
    return st.column_config.DatetimeColumn(title, format=TIME, timezone=zone, help=help_text)


def number_column(title: str, help_text: str | None = None) -> Any:
    """A column of whole numbers with separators."""
    return st.column_config.NumberColumn(title, format="localized", help=help_text)


@dataclass(frozen=True, slots=True)
class Size:
    """A column of bytes, shown in the one of IEC's units that fits its largest value."""

    title: str


def chart(drawn: Chart, *, name: str, key: str) -> None:
    """A chart as wide as its place, with a description for those who cannot see it.

    The description is a part of the chart: while it stays the same, new numbers are put into the chart that is there, else a new one is
    made.
    """
    st.vega_lite_chart({**drawn, "usermeta": PAINTED}, width="stretch", alt=name, key=key)


def figures(values: Sequence[tuple[str, str, str]]) -> None:
    """Figures side by side, wrapped where the screen is narrow: label, value, explanation."""
    with st.container(horizontal=True, gap="small"):
        for label, value, explanation in values:
            st.metric(label, value, help=explanation or None, border=True, width=168)


def box(label: str, *, key: str) -> Any:
    """A closed box; gives its place once it is open, None until then: what nobody sees is neither worked out nor sent."""
    made = st.expander(label, key=key, on_change="rerun")
    return made if made.open else None


def counted(number: int, noun: str) -> str:
    """A number of things: `1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cut_note(total: int, *, first: str = "first") -> None:
    """Says that a table does not show all, and which rows come `first`."""
    if total > SHOWN_ROWS:
        st.caption(f"The {first} {SHOWN_ROWS:,} of {total:,} rows. A shorter time, or fewer topics, shows the others.")
