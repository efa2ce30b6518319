"""What do several pages show in the same way? Tables, charts with a name for screen readers, rows of figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import streamlit as st

from kafka_s3_dashboard.figures import data
from kafka_s3_dashboard.figures.charts import Chart
from kafka_s3_dashboard.figures.export import as_csv, as_parquet
from kafka_s3_dashboard.figures.text import cells, size_unit

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
    offer(name, shown, {column: _title(settings[column], column) for column in columns})
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


OFFERED: Final = "offered"
"""Where a page that is being drawn keeps what it shows, by name, for the export at its end."""


def offer(name: str, frame: pd.DataFrame, titles: Mapping[str, str] | None = None) -> None:
    """Something that the page shows can be exported under this name."""
    st.session_state.setdefault(OFFERED, {})[name] = (frame, titles or {})


def _title(setting: Any, column: str) -> str:
    return str(setting.get("label") or column)


def begin_export() -> None:
    """A page begins: nothing of it is shown yet."""
    st.session_state[OFFERED] = {}


def export(sink: str) -> None:
    """A box at the end of a page: each table and chart that it shows as CSV and as Parquet, made when it is asked for."""
    offered: dict[str, tuple[pd.DataFrame, Mapping[str, str]]] = st.session_state.get(OFFERED, {})
    place = box("Export what is shown", key="export-box") if offered else None
    if place is None:
        return
    with place:
        name = str(st.selectbox("What", list(offered), key="export-what"))
        frame, titles = offered[name]
        file = re.sub(r"[^\w.-]+", "-", f"{sink} {name}").strip("-.")[:120]
        with st.container(horizontal=True, gap="small"):
            for label, ending, mime, made in (
                ("CSV", "csv", "text/csv", lambda: as_csv(frame, titles)),
                ("Parquet", "parquet", "application/vnd.apache.parquet", lambda: as_parquet(frame, titles)),
            ):
                st.download_button(
                    label,
                    made,
                    f"{file}.{ending}",
                    mime,
                    icon=":material/download:",
                    on_click="ignore",
                    key=f"export-{ending}",
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


def chart(drawn: Chart, *, name: str, key: str, **more: Any) -> None:
    """A chart as wide as its place, with a description for those who cannot see it.

    The description is a part of the chart: while it stays the same, new numbers are put into the chart that is there, else a new one is
    made.
    """
    st.vega_lite_chart({**drawn, "usermeta": PAINTED}, width="stretch", alt=name, key=key, **more)
    offer(name, next(iter(drawn["datasets"].values())))


def figures(values: Sequence[tuple[str, str, str]]) -> None:
    """Figures side by side, wrapped where the screen is narrow: label, value, explanation."""
    key = f"tiles-{len(values)}-{re.sub(r'[^a-z]+', '-', values[0][0].lower())}"
    st.html(f"<style>{even_rows(len(values), key)}</style>")
    with st.container(horizontal=True, gap=None, key=key):
        for label, value, explanation in values:
            st.metric(label, value, help=explanation or None, border=True, width="stretch")


TILE_PX: Final = 160
TILES_GAP_PX: Final = 10


def even_rows(count: int, key: str) -> str:
    """The style of so many tiles of one width: where they need several rows, none is shorter than another by more than what must be."""
    rules = []
    for rows in range(count, 0, -1):
        columns = -(-count // rows)
        wide = columns * (TILE_PX + TILES_GAP_PX) if columns > 2 else 0
        rules.append(
            f"@container (min-width: {wide}px) {{ .st-key-{key} {{ grid-template-columns: repeat({columns}, 1fr) !important; }} }}"
        )
    grid = f".st-key-{key} {{ display: grid !important; gap: {TILES_GAP_PX}px !important; }}"
    around = f":has(> .st-key-{key}) {{ container-type: inline-size; }}"
    return " ".join([grid, around, *dict.fromkeys(rules)])


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
