"""What has the reader chosen? Sink, time range, topics, zone and pace of refresh: all in the address, so that a view can be shared.

How a visitor gets to another page: in this tab Streamlit keeps all of the address that is bound to the sidebar; a link that held it, too,
would double the address at each click. Another tab gets the link's own address, so this is completed in the browser when it is about to be
used. And Streamlit goes to the page in this tab whichever key is held: of such clicks it learns nothing, and the browser does what it does
with any link.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from html import escape
from string import Template
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import streamlit as st

from kafka_s3_dashboard.figures.data import DAY_MS, HOUR_MS, MINUTE_MS, Window

RANGES: Final = {
    "1 hour": HOUR_MS, "6 hours": 6 * HOUR_MS, "24 hours": DAY_MS, "7 days": 7 * DAY_MS, "30 days": 30 * DAY_MS, "everything": 0,
}  # fmt: skip
CUSTOM: Final = "from - to"
DEFAULT_RANGE: Final = "7 days"
PACES: Final = {"5 s": 5.0, "15 s": 15.0, "1 min": 60.0, "off": None}
UTC: Final = "UTC"
FAR_MS: Final = 1 << 52
EARLIEST: Final = datetime(2010, 1, 1)  # noqa: DTZ001 (of the zone that is chosen)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The reader's choice. `every_s` is the pace of refresh; `since` and `until` are those of a range of one's own."""

    sink: str
    topics: tuple[str, ...] = ()
    span: str = DEFAULT_RANGE
    zone: str = UTC
    every_s: float | None = None
    since: datetime | None = None
    until: datetime | None = None

    def window(self, now_ms: int) -> Window:
        """What of the log is meant, at a time: from a whole minute on, and a commit of this very moment is inside."""
        if self.span == CUSTOM:
            return Window(self._ms(self.since, 0), self._ms(self.until, FAR_MS), self.topics)
        length = RANGES[self.span]
        return Window((now_ms - length) // MINUTE_MS * MINUTE_MS if length else 0, FAR_MS, self.topics)

    def _ms(self, at: datetime | None, otherwise: int) -> int:
        return otherwise if at is None else round(at.replace(tzinfo=ZoneInfo(self.zone)).timestamp() * 1000)


def sink_choice(names: Sequence[str], first: str) -> str:
    """The sink that is looked at: at first `first`, else that of `names`; one that the address names is kept while the bucket is read."""
    asked = st.query_params.get("sink", "")
    options = list(dict.fromkeys([*names, *([asked] if asked else []), *([first] if first else [])]))
    if not options:
        return ""
    index = options.index(first) if first in options else 0
    return str(st.sidebar.selectbox("Sink", options, index=index, key="sink", bind="query-params"))


def choice(sink: str, topics: Sequence[str]) -> Chosen:
    """Everything but the sink."""
    side = st.sidebar
    span = side.selectbox(
        "Time of commit", [*RANGES, CUSTOM], index=list(RANGES).index(DEFAULT_RANGE), key="range", bind="query-params"
    )
    zone = side.selectbox(
        "Time zone", _zones(), key="zone", bind="query-params", help="Of all times that are shown and entered."
    )
    since, until = _own_range() if span == CUSTOM else (None, None)
    asked = [part for text in st.query_params.get_all("topics") for part in text.split(",")]
    options = list(dict.fromkeys([*topics, *asked]))
    chosen = side.multiselect("Topics", options, key="topics", bind="query-params", placeholder="all topics")
    return Chosen(sink, tuple(chosen), str(span), str(zone), pace(), since, until)


def pace() -> float | None:
    """Seconds between two refreshes, None for none."""
    return PACES[str(st.sidebar.selectbox("Refresh", list(PACES), index=1, key="refresh", bind="query-params"))]


def keep() -> None:
    """Keeps what was chosen on a page that does not show it: Streamlit forgets what is not drawn."""
    for name in ("sink", *KEPT):
        if name in st.session_state and name != "refresh":
            st.session_state[name] = st.session_state[name]


def _own_range() -> tuple[datetime | None, datetime | None]:
    since = st.sidebar.datetime_input("From", value=None, min_value=EARLIEST, key="from", bind="query-params", step=60)
    until = st.sidebar.datetime_input("To", value=None, min_value=EARLIEST, key="to", bind="query-params", step=60)
    return since, until


def _zones() -> list[str]:
    own, known = st.context.timezone, _known_zones()
    return list(dict.fromkeys([UTC, *([own] if own in known else []), *known]))


@cache
def _known_zones() -> tuple[str, ...]:
    """Every zone, asked once: the list comes from some hundred files."""
    return tuple(sorted(available_timezones()))


KEPT: Final = ("range", "from", "to", "topics", "zone", "refresh")
"""What of the address goes with the visitor, beside the sink."""
_SCRIPT: Final = Template("""<script>
if (!window.pageLinks) {
  const linkOf = event => event.target.closest?.("[data-testid=stPageLink] a");
  const complete = event => {
    const link = linkOf(event), sink = document.querySelector("[data-sink]")?.dataset.sink;
    if (!link) return;
    const kept = [...new URLSearchParams(location.search)].filter(([name]) => $kept.includes(name));
    const page = link.getAttribute("href").split("?")[0] || "./";  // Streamlit's for the first page is blank: whatever page is open
    link.setAttribute("href", page + "?" + new URLSearchParams(sink ? [["sink", sink], ...kept] : kept));
  };
  window.pageLinks = ["pointerdown", "focusin", "contextmenu"];
  window.pageLinks.forEach(name => document.addEventListener(name, complete, true));
  document.addEventListener("click", event => {
    if (linkOf(event) && (event.ctrlKey || event.metaKey || event.shiftKey)) event.stopPropagation();
  }, true);
}
</script>""").substitute(kept=json.dumps(KEPT))


def links(pages: Sequence[tuple[Any, str]], sink: str) -> None:
    """The links to these pages, each with its icon.

    The sink is made known to the browser: the address leaves out the one that was opened first.
    """
    with st.sidebar.container(gap="xxsmall"):
        st.html(f'<span data-sink="{escape(sink)}"></span>{_SCRIPT}', unsafe_allow_javascript=True)
        for page, icon in pages:
            st.page_link(page, icon=icon)
