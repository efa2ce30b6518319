"""What does a page say when there is nothing to show, or something is wrong? Each state names what is the matter and the remedy.

How old what a page shows is, and whether the bucket is seen at all, is shown within seconds, whatever pace the reader chose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.model.errors import SinkError
from kafka_s3.model.text import printable
from kafka_s3.model.timing import now_ms
from kafka_s3_dashboard.figures import data
from kafka_s3_dashboard.figures.text import ago, plain
from kafka_s3_dashboard.page import resources
from kafka_s3_dashboard.page.controls import Chosen
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading.bucket import OpenBucket
from kafka_s3_dashboard.reading.reader import SILENT_S
from kafka_s3_dashboard.reading.watch import Sight

EVERY_S: Final = 1.0
LATE_MS: Final = 10_000
"""A page that is drawn from a look this much older than its pace is drawn again as soon as there is another one."""
DRAWN_FROM: Final = "drawn-from"
SHOWN_DAMAGE: Final = 20


def freshness(variables: resources.Variables, chosen: Chosen) -> None:
    """A line under the title about the look that the page is drawn from, refreshed by itself.

    With refresh off it is shown once, with the time of the look and not its age, unless the page still lacks a look that is not old.
    """
    every = EVERY_S if _due(chosen) or chosen.every_s is not None else None
    st.fragment(lambda: _refresh(variables, chosen), run_every=every, key="freshness")()


def drawn_from(scene: Scene) -> None:
    """Notes which look the page is drawn from: this is what the line under the title tells of."""
    st.session_state[DRAWN_FROM] = _Drawn(scene.chosen.sink, scene.looked_ms, scene.is_new)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What a page was drawn from: a look at a sink (epoch ms, 0: none yet), which was whole and new then, or not."""

    sink: str
    looked_ms: int = 0
    is_new: bool = False


def _drawn(sink: str) -> _Drawn:
    """What the page of a sink was drawn from."""
    drawn = st.session_state.get(DRAWN_FROM)
    return drawn if isinstance(drawn, _Drawn) and drawn.sink == sink else _Drawn(sink)


def _due(chosen: Chosen) -> bool:
    """Whether the page lacks something, or shows a look that is older than it should be."""
    drawn = _drawn(chosen.sink)
    return not drawn.is_new or now_ms() - drawn.looked_ms > (chosen.every_s or 0) * 1000 + LATE_MS


def _refresh(variables: resources.Variables, chosen: Chosen) -> None:
    history, waited = resources.history(variables, chosen.sink), resources.bucket(variables).reader.waiting_s
    snapshot, sight = history.ask(0), resources.watch(variables).ask(0)
    drawn = _drawn(chosen.sink)
    newer = (
        snapshot.known is not None and bool(sight.sinks) and min(snapshot.looked_ms, sight.looked_ms) > drawn.looked_ms
    )
    if _due(chosen) and newer:
        st.rerun()  # the page was drawn before all of it had come, or from an old look
    seen = _seen(drawn.looked_ms, chosen) if drawn.looked_ms else "not seen yet"
    trouble = snapshot.trouble or sight.trouble
    if trouble or waited > SILENT_S:
        shown = f"what is shown is as it was {seen}." if drawn.looked_ms else "nothing was seen of it yet."
        blind(trouble, waited, f"This says nothing of the sink: {shown}")
    else:
        folder = resources.bucket(variables).folder
        st.caption(f"In {plain(folder)}, {seen}")


def _seen(looked_ms: int, chosen: Chosen) -> str:
    """How old a look is; without refresh, where nobody would refresh it, its time."""
    if chosen.every_s is not None:
        return f"seen {ago(looked_ms, now_ms())}"
    at = data.local(pd.Series([looked_ms]), chosen.zone).iloc[0]
    return f"seen at {at:%Y-%m-%d %H:%M:%S} ({plain(chosen.zone)}); refresh is off"


def blind(trouble: str, waited_s: float, meaning: str) -> None:
    """Says that the bucket does not answer, or refuses, and what that means for the reader."""
    why = plain(trouble) if trouble else f"it has not answered for {waited_s:.0f} s."
    st.warning(f"**The dashboard does not see the bucket:** {why} {meaning}", icon=":material/visibility_off:")


def no_place(error: SinkError) -> None:
    """The surroundings do not name a bucket, or name it wrongly."""
    st.error("The dashboard does not know which bucket to show.", icon=":material/settings_alert:")
    st.code(str(error), language=None, wrap_lines=True)
    st.markdown(
        "Start it with `kafka-s3 dashboard CONFIG`, or set `KAFKA_S3_BUCKET` (with `KAFKA_S3_REGION`, and `KAFKA_S3_STORE_URL` for a "
        "service other than AWS) where it runs. Credentials are those of the machine: AWS's own variables, profile or role."
    )


def no_sinks(bucket: OpenBucket, sight: Sight) -> None:
    """No sink to choose: the bucket refuses, is being read, or is empty."""
    if sight.trouble:
        refused(sight.trouble)
    elif sight.looked_ms == 0:
        reading(f"Looking for sinks in {bucket.folder} ...")
    else:
        st.info(f"No sink keeps its state in {plain(bucket.folder)} yet.", icon=":material/inbox:")
        st.markdown("Start one, then this page fills by itself:")
        st.code("kafka-s3 run sink.json", language="bash")
        st.caption(
            "Is the state elsewhere? `KAFKA_S3_STATE_PREFIX` (or `--state-prefix`) says in which folder of the bucket."
        )


def refused(trouble: str) -> None:
    """The bucket does not answer, or does not let us in."""
    st.error("The bucket cannot be read.", icon=":material/cloud_off:")
    st.code(trouble, language=None, wrap_lines=True)
    st.markdown(
        "The dashboard needs `s3:ListBucket` on the bucket and `s3:GetObject` on the folder of the state. It tries again by itself; "
        "`kafka-s3 doctor CONFIG` tells every right that is missing."
    )


def reading(what: str) -> None:
    """Nothing has arrived yet."""
    st.info(what, icon=":material/hourglass_top:")
    st.caption(
        "This takes a moment where the bucket is far away. If it stays like this, check the address and the network of this machine."
    )


def blocked(scene: Scene) -> bool:
    """Says why nothing of the sink can be shown; False where it can."""
    snapshot = scene.snapshot
    if snapshot.known is None:
        if snapshot.trouble:
            refused(snapshot.trouble)
        else:
            reading(f"Reading the commit log of {plain(scene.chosen.sink)} ...")
        return True
    if snapshot.total == 0 and scene.sight.looked_ms and scene.chosen.sink not in scene.sight.names:
        st.info(
            f"There is no sink {plain(scene.chosen.sink)} in {plain(scene.bucket.folder)}.",
            icon=":material/search_off:",
        )
        st.markdown(
            "Choose one of the sidebar, or start it with `kafka-s3 run`; it appears here with its first heartbeat."
        )
        return True
    return False


def banners(scene: Scene) -> None:
    """What a reader has to know of what is shown: it has holes, it is not complete yet. (How old it is, `freshness` says.)"""
    snapshot = scene.snapshot
    if snapshot.damage:
        _damaged(scene)
    if snapshot.bounded:
        st.info(
            f"The newest {snapshot.read:,} of {snapshot.total:,} entries are shown, with {len(snapshot.frames.files):,} files. "
            f"All of them are tables below {plain(scene.paths.log_tables())}, for any query engine.",
            icon=":material/database:",
        )
    elif not snapshot.complete:
        share = (snapshot.read + len(snapshot.damage)) / max(snapshot.total, 1)
        text = f"Reading the history: {snapshot.read:,} of {snapshot.total:,} entries. Numbers grow until it is done."
        st.progress(min(share, 1.0), text=text)


def empty_window(scene: Scene) -> bool:
    """Says that nothing was committed in the chosen time; False where something was."""
    if not scene.entries.empty:
        return False
    if scene.snapshot.total == 0:
        _nothing_yet(scene)
        return True
    newest = scene.snapshot.frames.entries["committed_ms"]
    if newest.empty:
        st.info("No entry of the log is read yet.", icon=":material/hourglass_top:")
        return True
    last = data.local(newest.tail(1), scene.zone).iloc[0]
    st.info(f"Nothing was committed in this time. The last commit was at {last:%Y-%m-%d %H:%M:%S} ({plain(scene.zone)}).",
            icon=":material/event_busy:")  # fmt: skip
    st.caption("Choose a longer time under \u201cTime of commit\u201d, or \u201ceverything\u201d.")
    return True


def _nothing_yet(scene: Scene) -> None:
    why = scene.health.reason if scene.health else ""
    text = f"Sink {plain(scene.chosen.sink)} has committed nothing yet: {plain(why)}"
    st.info(text, icon=":material/hourglass_empty:")
    st.markdown(
        "Is the name right, and is there data in its topics? `kafka-s3 status` and the sink's own output say more."
    )


def nothing(what: str) -> None:
    """A part of a page has no rows."""
    st.info(what, icon=":material/check_circle:")


def _damaged(scene: Scene) -> None:
    found = scene.snapshot.damage
    noun = "entry" if len(found) == 1 else "entries"
    st.error(
        f"{len(found)} {noun} of the commit log cannot be read; everything else is shown, and sums leave them out.",
        icon=":material/broken_image:",
    )
    with st.expander("Which, and what to do"):
        st.code("\n".join(printable(one.text) for one in found[:SHOWN_DAMAGE]), language=None, wrap_lines=True)
        if len(found) > SHOWN_DAMAGE:
            st.caption(f"... and {len(found) - SHOWN_DAMAGE:,} more")
