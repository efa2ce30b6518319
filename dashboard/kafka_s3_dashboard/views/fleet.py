"""Which sinks need a look? All of a bucket on one page, for a desk and for a wall (`?kiosk=true`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pandas as pd
import streamlit as st

from kafka_s3.engine.control.status import health
from kafka_s3.model.text import printable
from kafka_s3.model.timing import now_ms
from kafka_s3_dashboard.figures.fleet import by_urgency, counts, fleet
from kafka_s3_dashboard.figures.text import ago
from kafka_s3_dashboard.page import parts, resources, states
from kafka_s3_dashboard.reading.reader import SILENT_S
from kafka_s3_dashboard.reading.watch import Sight

TITLE: Final = "Fleet"
ICON: Final = ":material/dashboard:"
PATH: Final = ""
KIOSK: Final = "kiosk"
WALL_S: Final = 5.0
"""How often a wall is refreshed: as often as the bucket is looked at."""
LATE_S: Final = 10.0
"""A look that comes this much later than the pace says is one that does not come."""
TABLE: Final = "fleet"
MARKUP: Final = """<div class="fleet"><div class="counts" role="list" aria-label="Sinks by state"></div><p class="seen" role="status"></p>
<div class="table" role="table" aria-label="Sinks of the bucket, the one that needs a look first"><div class="head" role="row"></div>
<div class="look" role="rowgroup"></div><div class="fine" role="rowgroup"></div></div></div>"""
BARE: Final = """<style>
[data-testid=stSidebar], [data-testid=stSidebarCollapsedControl], [data-testid=stHeader], [data-testid=stToolbar], footer,
[data-testid=stExpandSidebarButton] { display: none !important; }
[data-testid=stMainBlockContainer] { padding: .6rem 1rem 0 !important; max-width: none; }
[data-testid=stMain] { overflow: hidden; }
h1.named { position: absolute; left: -10000px; }
</style><h1 class="named">Fleet</h1>"""
"""What a wall leaves out of Streamlit's page; its heading is for those who do not see it."""
_table: Final = st.components.v2.component(
    "kafka_s3.fleet",
    html=MARKUP,
    css=Path(__file__).with_name("fleet.css").read_text(encoding="utf-8"),
    js=Path(__file__).with_name("fleet.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def on_wall() -> bool:
    """Whether the address asks for a page without anything around it."""
    return st.query_params.get(KIOSK, "false").lower() not in ("", "false", "0", "no")


def render(variables: resources.Variables, sink_page: Any, every_s: float | None) -> None:
    """The page, which is drawn at this pace; a click on a row opens `sink_page` with this sink."""
    bucket, sight = resources.bucket(variables), resources.watch(variables).ask_fresh(1.0)
    waited = bucket.reader.waiting_s
    if sight.looked_ms and (sight.trouble or waited > SILENT_S):
        shown = f"what is shown is as it was {ago(sight.looked_ms, now_ms())}."
        states.blind(sight.trouble, waited, f"This says nothing of the sinks: {shown}")
    if not sight.sinks:
        states.no_sinks(bucket, sight)
        return
    parts.offer("Sinks of the bucket", fleet(by_urgency(sight.sinks)).drop(columns=["day", "well"]))
    opened = _table(key=TABLE, data=_document(sight, str(bucket.folder), every_s), on_opened_change=lambda: None).opened
    if opened:
        st.switch_page(sink_page, query_params={"sink": opened})


def _document(sight: Sight, folder: str, every_s: float | None) -> dict[str, Any]:
    """What the browser draws: one look at all sinks, how old it is, and how long without another one is normal; ms, None for ever."""
    sinks = by_urgency(sight.sinks)
    rows = fleet(sinks).astype(object)
    rows = rows.assign(
        letters=[_count(number) for number in rows["letters"]], reason=[health(known).reason for known in sinks]
    )
    texts = [{name: _shown(value) for name, value in row.items()} for row in rows.to_dict("records")]
    noun = "sink" if len(sinks) == 1 else "sinks"
    return {
        "kiosk": on_wall(),
        "counts": [[str(state), number] for state, number in counts(sinks).items()],
        "seen": printable(f"{len(sinks)} {noun} in {folder}"),
        "age_ms": max(now_ms() - sight.looked_ms, 0),
        "silent_ms": None if every_s is None else int((every_s + LATE_S) * 1000),
        "rows": texts,
    }


def _count(number: Any) -> str:
    return "unknown" if pd.isna(number) else f"{int(number):,}"


def _shown(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
