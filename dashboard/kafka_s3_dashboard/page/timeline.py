"""What do charts over time share? Marks where something changed, and a time that is chosen by dragging, for the whole page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.engine.control.status import state_history
from kafka_s3_dashboard.figures import charts, data
from kafka_s3_dashboard.figures.charts import Chart
from kafka_s3_dashboard.figures.marks import LOOKED_AT, marks
from kafka_s3_dashboard.page import parts
from kafka_s3_dashboard.page.controls import CUSTOM
from kafka_s3_dashboard.page.scene import Scene

MINUTE: Final = timedelta(minutes=1)
ZOOMED: Final = "zoomed"


def chart(scene: Scene, drawn: Chart, *, name: str, key: str) -> None:
    """A chart over the page's time. Dragging over it makes what was dragged over the page's range."""
    found = scene.kept("marks", lambda: _marks(scene), _states(scene))
    shown = found.assign(at=data.wall(found["at_ms"], scene.zone))
    chosen = scene.chosen
    place = (
        f"{key}-{chosen.since}-{chosen.until}" if chosen.span == CUSTOM else key
    )  # a new range begins without a frame
    parts.chart(
        charts.with_marks(drawn, shown, axis=scene.axis), name=name, key=place,
        on_select=lambda: _zoom(place), selection_mode=charts.ZOOM,
    )  # fmt: skip
    if ends := st.session_state.pop(ZOOMED, None):
        st.query_params.update(
            ends
        )  # Streamlit puts fields into the address when a reader changes them, not when a page does
        st.rerun()


def legend(scene: Scene) -> None:
    """Says once on a page what its marks mean; nothing where there are none."""
    found = scene.kept("marks", lambda: _marks(scene), _states(scene))
    kinds = [kind for kind in charts.MARKS if kind in set(found["kind"])]
    what = f"Marks: a change of {', '.join(kinds)}. " if kinds else ""
    st.caption(f"{what}Drag over a chart to choose its time.")


def _states(scene: Scene) -> tuple[object, ...]:
    known = scene.snapshot.known
    return () if known is None else tuple(state_history(known))


def _marks(scene: Scene) -> pd.DataFrame:
    known, notes = scene.snapshot.known, scene.snapshot.notes
    states = [] if known is None else state_history(known)
    return marks(scene.files(*LOOKED_AT), () if isinstance(notes, str) else notes, states, scene.window)


def _zoom(key: str) -> None:
    """The dragged time goes into the fields of the sidebar, in whole minutes, and so into the address."""
    found = st.session_state[key].selection.get(charts.ZOOM, {})
    ends = next((sorted(values) for values in found.values() if len(values) == 2), None)
    if ends is None:
        return
    since, until = (datetime.fromtimestamp(float(ms) / 1000, UTC).replace(tzinfo=None) for ms in ends)
    first = since.replace(second=0, microsecond=0)
    last = max(until.replace(second=0, microsecond=0) + MINUTE, first + MINUTE)
    texts = {"from": first.isoformat(timespec="minutes"), "to": last.isoformat(timespec="minutes")}
    st.session_state.update({"range": CUSTOM, "from": first, "to": last, ZOOMED: texts})
