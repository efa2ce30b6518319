"""Is my data arriving? Every sink of the bucket, and of the chosen one: state, lag, completeness, throughput, what went wrong last."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from figures import charts, data
from figures.rotations import duration_text, size_text
from figures.text import ago, plain
from kafka_s3.control.status import SinkState, health
from page import parts, states
from page.scene import Scene
from reading.frames import NO_TIME

TITLE: Final = "Overview"
ICON: Final = ":material/monitor_heart:"
PATH: Final = ""
SIGNS: Final = {
    SinkState.RUNNING: ":material/play_circle:", SinkState.PROVISIONING: ":material/pending:", SinkState.PAUSED: ":material/pause_circle:",
    SinkState.STOPPED: ":material/stop_circle:", SinkState.DEGRADED: ":material/warning:", SinkState.STALE: ":material/help:",
    SinkState.UNKNOWN: ":material/help:", SinkState.FAILED: ":material/cancel:",
}  # fmt: skip


def render(scene: Scene) -> None:
    """The page."""
    lags = data.lag_table(scene.snapshot.known, scene.snapshot.reached)
    if scene.chosen.topics:
        lags = lags[lags["topic"].isin(scene.chosen.topics)]
    _state(scene, lags)
    _sinks(scene)
    _completeness(scene, lags)
    if not states.empty_window(scene):
        _throughput(scene)
    _troubles(scene)


def _state(scene: Scene, lags: pd.DataFrame) -> None:
    judged, known = scene.health, scene.snapshot.known
    if judged is None or known is None:
        return
    say = {
        SinkState.FAILED: st.error,
        SinkState.RUNNING: st.success,
        SinkState.DEGRADED: st.warning,
        SinkState.STALE: st.warning,
    }.get(judged.state, st.info)
    say(f"**{judged.state}** {plain(judged.reason)}", icon=SIGNS[judged.state])
    totals = scene.totals
    complete = int(lags["complete_ms"].min()) if len(lags) else -1
    lag = lags["lag"].sum() if lags["lag"].notna().any() else None
    looked = data.looked_ms(known)
    parts.figures([
        ("Lag", "unknown" if lag is None else f"{int(lag):,}",
         f"Records between what is in objects and the heads of the topics, at the sink's look {ago(looked, scene.now_ms)}. "
         "Records of files that are still open count."),
        ("Complete through", _ago(complete, scene), "No record up to this time is missing, in any partition; see below."),
        ("Last commit", ago(_ms(known.last_commit), scene.now_ms), "When data was last committed."),
        ("Records written", f"{totals['written']:,}", "In the chosen time."),
        ("Dead letters", f"{totals['dead_letters']:,}", "In the chosen time, less those that were settled."),
        ("Objects", f"{totals['files']:,}", f"In the chosen time, dead letter files included: {size_text(totals['bytes'])}."),
    ])  # fmt: skip


def _sinks(scene: Scene) -> None:
    rows = []
    for known in scene.sight.sinks:
        judged = health(known)
        rows.append(
            (
                known.name,
                str(judged.state),
                known.lag.records,
                NO_TIME if not known.last_commit else _ms(known.last_commit),
                judged.reason,
            )
        )
    frame = pd.DataFrame(rows, columns=["sink", "state", "lag", "last_ms", "reason"]).astype({"lag": "Int64"})
    st.subheader(f"Sinks in this bucket ({len(frame)})", anchor=False)
    if frame.empty:
        st.caption("They are being read ..." if not scene.sight.trouble else plain(scene.sight.trouble))
        return
    columns = {
        "sink": "Sink", "state": "State", "lag": parts.number_column("Lag, records"),
        "last": parts.time_column("Last commit", scene.zone), "reason": st.column_config.Column("Why", width="large"),
    }  # fmt: skip
    parts.table(
        parts.timed(frame, scene.zone, "last_ms"), columns, name="Sinks of the bucket with state and lag", key="sinks"
    )


def _completeness(scene: Scene, lags: pd.DataFrame) -> None:
    st.subheader("Completeness and lag", anchor=False)
    if lags.empty:
        states.nothing("No topic-partition is known yet.")
        return
    help_text = (
        "No record up to this time is missing: the time of the last look where a partition has no lag, else that of its latest record in "
        "an object, given that records come in the order of their times."
    )
    zone = scene.zone
    by_topic = parts.timed(data.completeness(lags), zone, "complete_ms", "committed_ms")
    columns = {
        "topic": "Topic", "complete": parts.time_column("Complete through", zone, help_text),
        "partitions": parts.number_column("Partitions"),
        "lag": parts.number_column("Lag, records"), "lag_s": st.column_config.NumberColumn("Lag, seconds", format="%.0f"),
        "committed": parts.time_column("Last commit", zone),
    }  # fmt: skip
    parts.table(by_topic, columns, name="Topics with completeness and lag", key="topics-table")
    box = parts.box(f"Each of {len(lags)} topic-partitions", key="lags-box")
    if box is None:
        return
    with box:
        rows = parts.timed(lags, zone, "complete_ms", "committed_ms")
        more = {
            "topic": "Topic", "partition": parts.number_column("Partition"), "lag": parts.number_column("Lag, records"),
            "lag_s": st.column_config.NumberColumn("Lag, seconds", format="%.0f"),
            "frontier": parts.number_column("Next offset to write"), "complete": parts.time_column("Complete through", zone, help_text),
            "committed": parts.time_column("Last commit", zone),
        }  # fmt: skip
        parts.table(rows, more, name="Topic-partitions with frontier and lag", key="lags")


def _throughput(scene: Scene) -> None:
    st.subheader("Throughput", anchor=False)
    found = scene.kept_by_topic("throughput", lambda frames: data.throughput(frames.files, scene.window))
    if found.empty:
        states.nothing("No object was written in this time.")
        return
    found = found.assign(at=data.wall(found["at_ms"], scene.zone))
    domain = sorted(found["topic"].unique())
    step = duration_text(scene.window.step_ms)
    left, right = st.columns(2)
    with left:
        drawn = charts.bars_over_time(
            found, "records", by="topic", axis=scene.axis, titles=(f"records per {step}", "topic"), domain=domain
        )
        parts.chart(
            drawn,
            name=f"Records written per {step} and topic; {int(found['records'].sum()):,} in all",
            key="records-chart",
        )
    with right:
        drawn = charts.bars_over_time(
            found, "bytes", by="topic", axis=scene.axis, titles=(f"bytes per {step}", "topic"), domain=domain
        )
        parts.chart(
            drawn,
            name=f"Bytes written per {step} and topic; {size_text(found['bytes'].sum())} in all",
            key="bytes-chart",
        )


def _troubles(scene: Scene) -> None:
    st.subheader("What went wrong last", anchor=False)
    heartbeat = scene.snapshot.known.heartbeat if scene.snapshot.known else None
    told = False
    if heartbeat is not None and heartbeat.failure:
        st.error(f"The sink ended with: {plain(heartbeat.failure)}", icon=":material/cancel:")
        told = True
    if heartbeat is not None and heartbeat.warning:
        when = data.local(pd.Series([heartbeat.warned_ms]), scene.zone).iloc[0]
        st.warning(f"{when:%Y-%m-%d %H:%M:%S}: {plain(heartbeat.warning)}", icon=":material/warning:")
        told = True
    gone = data.lost(scene.frames.gaps)
    if not gone.empty:
        st.error(f"{int(gone['offsets'].sum()):,} offsets were lost or passed over.", icon=":material/content_cut:")
        columns = {"at": parts.time_column("Noticed", scene.zone), "topic": "Topic", "partition": "Partition", "first": "First offset",
                   "last": "Last offset", "cause": "Cause"}  # fmt: skip
        rows = parts.timed(gone.rename(columns={"committed_ms": "at_ms"}).tail(parts.SHOWN_ROWS), scene.zone, "at_ms")
        parts.table(rows, columns, name="Offsets that were lost", key="lost")
        told = True
    open_letters = scene.totals["dead_letters"]
    if open_letters > 0:
        st.warning(f"{open_letters:,} records are dead letters: see the page of that name.", icon=":material/drafts:")
        told = True
    if not told:
        states.nothing("Nothing in this time: no failure, no lost offset, no open dead letter.")


def _ago(ms: int, scene: Scene) -> str:
    return "unknown" if ms < 0 else ago(ms, scene.now_ms)


def _ms(iso: str) -> int:
    return round(pd.Timestamp(iso).timestamp() * 1000) if iso else -1
