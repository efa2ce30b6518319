"""How are all sinks of the bucket? A table, the worst first; a row opens its sink."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from figures.fleet import URGENCY, by_urgency, fleet
from figures.text import plain
from kafka_s3.engine.control.status import SinkState
from page import parts
from page.scene import Scene

COLOURS: Final = {
    SinkState.FAILED: "red", SinkState.STALE: "red", SinkState.UNKNOWN: "orange", SinkState.DEGRADED: "red",
    SinkState.PROVISIONING: "blue", SinkState.PAUSED: "gray", SinkState.RUNNING: "green", SinkState.STOPPED: "gray",
}  # fmt: skip
KEY: Final = "fleet"


def render(scene: Scene) -> None:
    """The table of all sinks."""
    own = scene.snapshot.known  # the page has read all of its log, and may know of more damage than a glance
    sinks = by_urgency([own if own is not None and own.name == one.name else one for one in scene.sight.sinks])
    st.subheader(f"Sinks in this bucket ({len(scene.sight.names)})", anchor=False)
    if not sinks:
        st.caption("They are being read ..." if not scene.sight.trouble else plain(scene.sight.trouble))
        return
    names = [known.name for known in sinks]
    picked = parts.table(
        parts.timed(fleet(sinks), scene.zone, "last_ms"),
        _columns(scene.zone),
        name="Sinks of the bucket, the one that needs a look first",
        key=KEY,
        on_select=lambda: _open(names),
        selection_mode="single-row",
    )
    if picked.selection.rows and st.session_state.get("sink") == names[picked.selection.rows[0]] != scene.chosen.sink:
        st.rerun()  # the whole page: it is another sink's


def _columns(zone: str) -> dict[str, Any]:
    return {
        "state": st.column_config.MultiselectColumn(
            "State", options=list(map(str, URGENCY)), color=[COLOURS[state] for state in URGENCY], width=130
        ),
        "sink": st.column_config.Column("Sink", width=140),
        "lag": st.column_config.Column(
            "Lag", help="Records between what is in objects and the heads of the topics.", width=80
        ),
        "delay": st.column_config.Column(
            "Delay, 95 %", help="Of the records of the last commit, from their own time to it.", width=85
        ),
        "letters": parts.number_column("Dead letters", "Those of the whole log that were not settled."),
        "day": st.column_config.BarChartColumn("Read, last 24 h", width=120, y_min=0),
        "reason": st.column_config.Column("Why", width=230),
        "last": parts.time_column("Last commit", zone),
    }


def _open(names: list[str]) -> None:
    rows = st.session_state[KEY].selection.rows
    if rows and rows[0] < len(names):
        st.session_state["sink"] = names[rows[0]]
