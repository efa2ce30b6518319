"""The dashboard: is my data arriving, why do my files look like this, what went wrong, how is the bucket laid out? Read from commit logs.

Start it with `kafka-s3 dashboard CONFIG`, or `streamlit run app.py` with `KAFKA_S3_BUCKET` set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import streamlit as st
from streamlit.errors import StreamlitAPIException

from kafka_s3 import __version__
from kafka_s3.model.errors import SinkError
from kafka_s3_dashboard.figures import data
from kafka_s3_dashboard.figures.fleet import by_urgency
from kafka_s3_dashboard.figures.text import plain
from kafka_s3_dashboard.page import controls, parts, resources, states
from kafka_s3_dashboard.page.scene import scene
from kafka_s3_dashboard.reading.background import PAGES_FIRST
from kafka_s3_dashboard.reading.bucket import LOGIN, surroundings
from kafka_s3_dashboard.reading.reader import SILENT_S
from kafka_s3_dashboard.views import commits, configuration, dead_letters, fleet, layout, overview, rotation, tables

VIEWS: tuple[ModuleType, ...] = (fleet, overview, rotation, dead_letters, layout, tables, commits, configuration)
ICON: Final = str(Path(__file__).with_name("icon.png"))
VISITED: Final = "visited"
"""Whether this visitor has seen a page before."""
_log = logging.getLogger(__name__)


def main() -> None:
    """Chooses the page and the sink, then lets the page draw itself again and again."""
    chosen: list[controls.Chosen] = []
    variables = surroundings()
    pages: list[Any] = [_page(view, lambda view=view: _show(view, variables, chosen[0])) for view in VIEWS]  # type: ignore[misc]
    page = st.navigation(pages, position="hidden")
    if not _admitted(dict(variables)):
        _tab("kafka-s3")
        return
    try:
        bucket = resources.bucket(variables)
    except SinkError as error:
        _tab("kafka-s3")
        states.no_place(error)
        return
    new = VISITED not in st.session_state
    st.session_state[VISITED] = True
    if page is pages[0]:
        if new and st.query_params.get("sink"):  # an address of an earlier version: a sink's page was the first one
            st.switch_page(pages[1], query_params=dict(st.query_params))
        _all_sinks(variables, pages)
        return
    sight = resources.watch(variables).ask_fresh(1.0)
    names = [known.name for known in by_urgency(sight.sinks)]
    sink = controls.sink_choice([*names, *(name for name in sight.names if name not in names)], bucket.sink)
    controls.links([(page, view.ICON) for page, view in zip(pages, VIEWS, strict=True)], sink)
    if not sink:
        _tab("kafka-s3")
        st.title("kafka-s3")
        st.fragment(lambda: _wait_for_sinks(variables), run_every=2.0, key="waiting")()
        return
    _tab(f"{sink} \u00b7 {bucket.folder.bucket} \u00b7 kafka-s3")
    snapshot = resources.history(variables, sink).ask(1.0)
    chosen.append(controls.choice(sink, data.topics_in(snapshot.frames)))
    st.sidebar.caption(f"kafka-s3 {__version__} · read-only")
    page.run()


def _all_sinks(variables: resources.Variables, pages: list[Any]) -> None:
    """The page of all sinks, which needs no choice of one."""
    _tab(f"{resources.bucket(variables).folder.bucket} \u00b7 kafka-s3")
    controls.links([(page, view.ICON) for page, view in zip(pages, VIEWS, strict=True)], "")
    if fleet.on_wall():
        st.html(fleet.BARE)
        every_s: float | None = fleet.WALL_S
    else:
        every_s = controls.pace()
        st.sidebar.caption(f"kafka-s3 {__version__} · read-only")
        st.title(fleet.TITLE, anchor=False)
    controls.keep()
    st.fragment(lambda: _draw_all(variables, pages[1], every_s), run_every=every_s, key=fleet.TABLE)()


def _draw_all(variables: resources.Variables, sink_page: Any, every_s: float | None) -> None:
    try:
        with PAGES_FIRST.drawing():
            parts.begin_export()
            fleet.render(variables, sink_page, every_s)
            if not fleet.on_wall():
                parts.export("sinks")
    except SinkError as error:
        states.refused(str(error))


def _tab(title: str) -> None:
    """What the browser's tab says, set once in each run: the browser takes as long for it as for a chart."""
    st.set_page_config(page_title=title, page_icon=ICON, layout="wide")


def _page(view: ModuleType, run: Callable[[], None]) -> Any:
    """A page without an icon of its own: the browser would fetch it from Google for its tab."""
    return st.Page(run, title=view.TITLE, url_path=view.PATH, default=view is VIEWS[0])


def _show(view: ModuleType, variables: resources.Variables, chosen: controls.Chosen) -> None:
    """A page, refreshed at the chosen pace; only what changed is drawn again."""
    st.title(f"{view.TITLE} \u00b7 {plain(chosen.sink)}", anchor=False)
    freshness = st.container()
    st.fragment(lambda: _draw(view, variables, chosen), run_every=chosen.every_s, key=view.PATH or "overview")()
    with freshness:  # it is about the look that the page was drawn from
        states.freshness(variables, chosen)


def _draw(view: ModuleType, variables: resources.Variables, chosen: controls.Chosen) -> None:
    try:
        with PAGES_FIRST.drawing():
            now = scene(variables, chosen)
            states.drawn_from(now)
            if not states.blocked(now):
                states.banners(now)
                parts.begin_export()
                view.render(now)
                parts.export(chosen.sink)
    except SinkError as error:
        states.refused(str(error))
    except Exception:  # whatever it is, the reader gets a sentence; the operator finds the rest in the log
        _log.exception("Page %s of sink %s could not be drawn.", view.TITLE, chosen.sink)
        st.error(
            "This page could not be drawn. The output of the dashboard's process says why.", icon=":material/error:"
        )


def _wait_for_sinks(variables: resources.Variables) -> None:
    sight = resources.watch(variables).ask(0.5)
    if sight.names:
        st.rerun()
    bucket = resources.bucket(variables)
    if not sight.trouble and bucket.reader.waiting_s > SILENT_S:
        states.blind("", bucket.reader.waiting_s, "It is asked again and again.")
    states.no_sinks(bucket, sight)


def _admitted(variables: Mapping[str, str]) -> bool:
    """Whether the page may be drawn; else says what is to be done. Who may log in is the provider's to decide."""
    asked = variables.get(LOGIN, "")
    if not asked:
        return True
    if asked != "oidc":
        st.error(f"{LOGIN}={plain(asked)} is not known, so nothing is shown. Set it to oidc, or unset it.")
        return False
    if "is_logged_in" not in st.user:
        st.error(
            "A login is asked for, but Streamlit's secrets have no section [auth], so nothing is shown.",
            icon=":material/lock:",
        )
        st.markdown(
            "Write it into `.streamlit/secrets.toml` where the dashboard is started: docs/dashboard-access.md has an example."
        )
        return False
    if st.user.is_logged_in:
        st.sidebar.button("Log out", icon=":material/logout:", on_click=st.logout)
        return True
    st.title("kafka-s3", anchor=False)
    if st.button("Log in", icon=":material/login:", type="primary"):
        try:
            st.login()
        except StreamlitAPIException as error:
            st.error(plain(error), icon=":material/lock:")
    return False


with PAGES_FIRST.drawing():
    main()
