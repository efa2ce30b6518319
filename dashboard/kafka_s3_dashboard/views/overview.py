"""Is my data arriving? A sink's state, lag, completeness, throughput, what went wrong last."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.engine.control.status import Lag, SinkSnapshot, SinkState, state_history
from kafka_s3_dashboard.figures import charts, data
from kafka_s3_dashboard.figures.data import MEASURED, delays
from kafka_s3_dashboard.figures.fleet import caught_up_text, delay_text, last_commit_text
from kafka_s3_dashboard.figures.text import ago, duration_text, plain, size_text, size_unit, unit_of
from kafka_s3_dashboard.page import parts, states, timeline
from kafka_s3_dashboard.page.scene import Scene

TITLE: Final = "Overview"
ICON: Final = ":material/monitor_heart:"
PATH: Final = "overview"
COLOURS: Final = {
    SinkState.FAILED: "red", SinkState.STALE: "red", SinkState.UNKNOWN: "orange", SinkState.DEGRADED: "red",
    SinkState.PROVISIONING: "blue", SinkState.PAUSED: "gray", SinkState.RUNNING: "green", SinkState.STOPPED: "gray",
}  # fmt: skip
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
    _completeness(scene, lags)
    if not states.empty_window(scene):
        _delay(scene)
        _throughput(scene)
    _troubles(scene)


def _state(scene: Scene, lags: pd.DataFrame) -> None:
    judged, known = scene.health, scene.snapshot.known
    if judged is None or known is None:
        return
    say = {SinkState.RUNNING: st.success, SinkState.UNKNOWN: st.warning}.get(judged.state, st.info)
    if COLOURS[judged.state] == "red" or judged.concerns:
        say = st.error
    say(f"**{judged.state}** {plain(judged.reason)}", icon=SIGNS[judged.state])
    _history(scene, known)
    totals = scene.totals
    complete = int(lags["complete_ms"].min()) if len(lags) else -1
    lag = known.lag
    if scene.chosen.topics:
        found = int(lags["lag"].sum()) if lags["lag"].notna().any() else None
        lag = Lag(found, lag.polled_ms, lag.exact and bool(lags["lag"].notna().all()))
    through = "unknown" if complete < 0 else ago(complete, scene.now_ms)
    looked = data.looked_ms(known)
    parts.figures([
        ("Lag", str(lag),
         f"Records between what is in objects and the heads of the topics, at the sink's look {ago(looked, scene.now_ms)}. "
         "Records of files that are still open count. Where nobody looks any more there may be more of them."),
        ("Delay, 95 %", delay_text(known),
         "From a record's own time to the commit with it: 95 % of the last commit's records were quicker."),
        ("Complete through", through, "No record up to this time is missing, in any partition; see below."),
        ("Catches up", caught_up_text(known),
         "By when a sink that is behind has read all that is in Kafka, at its pace of now; a dash where it is not behind."),
        ("Last commit", last_commit_text(known, scene.now_ms), "When data was last committed."),
        ("Records written", f"{totals['written']:,}", "In the chosen time."),
        ("Dead letters", f"{totals['dead_letters']:,}", "In the chosen time, less those that were settled."),
        ("Files", f"{totals['files']:,}",
         f"Files of records in the chosen time, together {size_text(totals['bytes'])}; those of keys, headers and letters do not count."),
    ])  # fmt: skip


def _history(scene: Scene, known: SinkSnapshot) -> None:
    """Since when the sink is in its state, and what was before."""
    found = state_history(known)
    if not found:
        return
    ends = [*(one.at_ms for one in found[1:]), scene.now_ms]
    lasted = [duration_text((end - one.at_ms) // 1000 * 1000) for one, end in zip(found, ends, strict=True)]
    since = data.local(pd.Series([found[-1].at_ms]), scene.zone).iloc[0]
    before = f" Before that {found[-2].state} for {lasted[-2]}." if len(found) > 1 else ""
    late = f" {known.catch_up.text(scene.now_ms)}." if known.catch_up else ""
    own = "" if scene.health and scene.health.state == found[-1].state else "By its own heartbeat "
    st.caption(f"{own}{found[-1].state} for {lasted[-1]}, since {since:%Y-%m-%d %H:%M:%S}.{before}{late}")
    box = parts.box("All states", key="states-box") if len(found) > 1 else None
    if box is None:
        return
    with box:
        rows = pd.DataFrame({"at_ms": [one.at_ms for one in found], "state": [str(one.state) for one in found], "lasted": lasted,
                             "why": [one.why for one in found]})[::-1]  # fmt: skip
        columns = {"at": parts.time_column("Since", scene.zone), "state": "State", "lasted": "For",
                   "why": st.column_config.Column("Why", width="large")}  # fmt: skip
        parts.table(
            parts.timed(rows, scene.zone, "at_ms"), columns, name="States of the sink, newest first", key="states"
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
    by_topic = _behind(parts.timed(data.completeness(lags), zone, "complete_ms", "committed_ms"))
    columns = {
        "topic": "Topic", "complete": parts.time_column("Complete through", zone, help_text),
        "partitions": parts.number_column("Partitions"),
        "lag": parts.number_column("Lag, records"), "behind": "Lag, time",
        "committed": parts.time_column("Last commit", zone),
    }  # fmt: skip
    parts.table(by_topic, columns, name="Topics with completeness and lag", key="topics-table")
    if scene.snapshot.known is not None and not scene.snapshot.known.lag.exact and lags["lag"].notna().any():
        st.caption("Nobody looks at the brokers any more, or not all of them answer: lag is so much, or more.")
    box = parts.box(
        "Its topic-partition" if len(lags) == 1 else f"Each of {len(lags):,} topic-partitions", key="lags-box"
    )
    if box is None:
        return
    with box:
        rows = _behind(parts.timed(lags, zone, "complete_ms", "committed_ms"))
        more = {
            "topic": "Topic", "partition": parts.number_column("Partition"), "lag": parts.number_column("Lag, records"),
            "behind": "Lag, time",
            "frontier": parts.number_column("Next offset to write"), "complete": parts.time_column("Complete through", zone, help_text),
            "committed": parts.time_column("Last commit", zone),
        }  # fmt: skip
        parts.table(rows, more, name="Topic-partitions with frontier and lag", key="lags")


def _behind(rows: pd.DataFrame) -> pd.DataFrame:
    texts = [None if pd.isna(seconds) else duration_text(seconds * 1000) for seconds in rows["lag_s"]]
    return rows.assign(behind=pd.Series(texts, index=rows.index, dtype=object))


def _throughput(scene: Scene) -> None:
    st.subheader("Throughput", anchor=False)
    found = scene.throughput
    if found.empty:
        states.nothing("No object was written in this time.")
        return
    found = found.assign(at=data.wall(found["at_ms"], scene.zone))
    domain = _coloured(scene, sorted(found["topic"].unique()))
    step = duration_text(scene.window.step_ms)
    left, right = st.columns(2)
    with left:
        drawn = charts.bars_over_time(
            found, "records", by="topic", axis=scene.axis, titles=(f"records per {step}", "topic"), domain=domain
        )
        timeline.chart(
            scene,
            drawn,
            name=f"Records written per {step} and topic",
            key="records-chart",
        )
    with right:
        size, unit = size_unit(float(found.groupby("at")["bytes"].sum().max()))
        sizes = found.assign(bytes=found["bytes"] / size)
        drawn = charts.bars_over_time(
            sizes, "bytes", by="topic", axis=scene.axis, titles=(f"{unit} per {step}", "topic"), domain=domain
        )
        timeline.chart(
            scene,
            drawn,
            name=f"Bytes written per {step} and topic",
            key="bytes-chart",
        )
    timeline.legend(scene)


def _coloured(scene: Scene, shown: list[str]) -> list[str]:
    """The topics that have a colour: as long as there is one for each of the log's, a topic keeps its own, whichever are chosen.

    The charts are then the same but for their data, and are not drawn again.
    """
    every = data.topics_in(scene.snapshot.frames)
    return every if len(every) <= len(charts.PALETTE) else shown


def _delay(scene: Scene) -> None:
    st.subheader("Delay", anchor=False, help="From a record's own time to the commit that holds it.")
    found = scene.kept("delays", lambda: delays(scene.files(*MEASURED), scene.window))
    if found.empty:
        states.nothing("No object in this time tells the times of its records.")
        return
    unit_ms, unit = unit_of(float(found["slow_ms"].max()))
    names = {"slow_ms": "95 % of records", "median_ms": "half of records", "newest_ms": "the newest record"}
    rows = found.rename(columns=names).melt("at_ms", list(names.values()), "line", "late")
    rows = rows.assign(
        at=data.wall(rows["at_ms"], scene.zone), value=rows["late"] / unit_ms, shown=rows["late"].map(duration_text)
    )
    known = scene.snapshot.known
    most = known.heartbeat.limits.delay_ms if known and known.heartbeat else None
    drawn = charts.lines_over_time(
        rows[["at", "line", "value", "shown"]], axis=scene.axis, title=f"delay, {unit}", domain=list(names.values()),
        limit=None if most is None else most / unit_ms,
    )  # fmt: skip
    last = duration_text(float(found["slow_ms"].iloc[-1]))
    timeline.chart(scene, drawn, name="Delay of records over time", key="delay-chart")
    limit = f"The limit is {duration_text(most)}" if most else "No limit is set"
    st.caption(
        f"At the commits of each {duration_text(scene.window.step_ms)}; 95 % of the last records were below {last}. "
        f"The newest record: so far the sink was behind even then. {limit} (`health.delay.max.ms`)."
    )


def _troubles(scene: Scene) -> None:
    """What the line about the state, at the top, does not say yet."""
    known, judged = scene.snapshot.known, scene.health
    heartbeat, said = known.heartbeat if known else None, judged.reason if judged else ""
    failure = heartbeat.failure if heartbeat and heartbeat.failure.rstrip(".") not in said else ""
    warning = heartbeat.warning if heartbeat and heartbeat.warning.rstrip(".") not in said else ""
    gone, open_letters = data.lost(scene.gaps), scene.totals["dead_letters"]
    well = judged is not None and judged.well
    if not (well or failure or warning or len(gone) or open_letters > 0):
        return
    st.subheader("What went wrong last", anchor=False)
    if failure:
        st.error(f"The sink ended with: {plain(failure)}", icon=":material/cancel:")
    if heartbeat is not None and warning:
        when = data.local(pd.Series([heartbeat.warned_ms]), scene.zone).iloc[0]
        st.warning(f"{when:%Y-%m-%d %H:%M:%S}: {plain(warning)}", icon=":material/warning:")
    if not gone.empty:
        st.error(f"{int(gone['offsets'].sum()):,} offsets were lost or passed over.", icon=":material/content_cut:")
        columns = {"at": parts.time_column("Noticed", scene.zone), "topic": "Topic", "partition": "Partition", "first": "First offset",
                   "last": "Last offset", "cause": "Cause"}  # fmt: skip
        rows = parts.timed(gone.rename(columns={"committed_ms": "at_ms"}).tail(parts.SHOWN_ROWS), scene.zone, "at_ms")
        parts.table(rows, columns, name="Offsets that were lost", key="lost")
    if open_letters > 0:
        st.warning(f"{open_letters:,} records are dead letters: see the page of that name.", icon=":material/drafts:")
    elif well and not (failure or warning or len(gone)):
        states.nothing("Nothing in this time: no failure, no lost offset, no open dead letter.")
