"""How old is what the page shows, and does the dashboard see its bucket at all? Told within seconds, whatever pace the reader chose."""

from __future__ import annotations

import streamlit as st

from figures.text import ago, plain
from kafka_s3.model.timing import now_ms
from page import resources
from page.controls import Chosen
from reading.reader import SILENT_S

EVERY_S = 1.0


def render(variables: resources.Variables, chosen: Chosen) -> None:
    """A line under the title, drawn again by itself; with refresh off it is drawn with the page, once there is anything to draw."""
    blank = not _arrived(variables, chosen.sink)
    every = EVERY_S if blank or chosen.every_s is not None else None
    st.fragment(lambda: _tell(variables, chosen.sink, blank), run_every=every, key="freshness")()


def _arrived(variables: resources.Variables, sink: str) -> bool:
    return resources.history(variables, sink).snapshot.known is not None and bool(
        resources.watch(variables).sight.sinks
    )


def _tell(variables: resources.Variables, sink: str, blank: bool) -> None:
    if blank and _arrived(variables, sink):
        st.rerun()  # the page was drawn before anything had come
    history, waited = resources.history(variables, sink), resources.place(variables).reader.waiting_s
    snapshot, sight = history.ask(), resources.watch(variables).ask(0)
    seen = f"seen {ago(snapshot.looked_ms, now_ms())}" if snapshot.known is not None else "not seen yet"
    trouble = snapshot.trouble or sight.trouble
    if trouble or waited > SILENT_S:
        shown = f"what is shown is as it was {seen}." if snapshot.known is not None else "nothing was seen of it yet."
        blind(trouble, waited, f"This says nothing of the sink: {shown}")
    else:
        at = resources.place(variables).place
        st.caption(f"In {plain(at)}, {seen}")


def blind(trouble: str, waited_s: float, meaning: str) -> None:
    """Says that the bucket does not answer, or refuses, and what that means for the reader."""
    why = plain(trouble) if trouble else f"it has not answered for {waited_s:.0f} s."
    st.warning(f"**The dashboard does not see the bucket:** {why} {meaning}", icon=":material/visibility_off:")
