"""Why do my files look like this? Files by reason over time, how large they are, what other settings would make, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.connect.config.classes import BLOCK_GZIP_FORMAT
from kafka_s3.connect.config.option import Value
from kafka_s3.model.files import Reason
from kafka_s3.ops.alternatives import FEWER, alternatives, rules_of
from kafka_s3.ops.forecast import Prices
from kafka_s3_dashboard.figures import charts, data, rotations
from kafka_s3_dashboard.figures.data import DAY_MS, MINUTE_MS
from kafka_s3_dashboard.figures.rotations import Small, Summary
from kafka_s3_dashboard.figures.text import duration_text, plain, size_text
from kafka_s3_dashboard.page import parts, states, timeline
from kafka_s3_dashboard.page.files import FILE_COLUMNS, files_table, made_at
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading.frames import counted_files

TITLE: Final = "File rotation"
ICON: Final = ":material/rotate_right:"
PATH: Final = "rotation"
STEPS: Final = "steps"
COMPACTION: Final = "compaction"
ERASURE: Final = "erasure"
MADE: Final = "made"
"""In the address: the files of which time are shown, epoch ms."""
ADVICE_MS: Final = 10 * MINUTE_MS
"""So much of work shows why files are small."""
COMPARED: Final = 3
"""Other settings are compared for so many topics, those with the most files."""


def render(scene: Scene) -> None:
    """The page."""
    if states.empty_window(scene):
        return
    found = scene.kept("rotation", lambda: rotations.summary(scene.files(*rotations.SUMMED_UP), scene.window))
    if not found.files:
        states.nothing("No data file was written in this time.")
        _rewritten(scene)
        return
    parts.figures([
        ("Files", f"{found.files:,}", "Files of records, in the chosen time; as the log counts them."),
        ("Median size", size_text(found.median_bytes), "Half of the files are smaller."),
        ("Size, 5 %", size_text(found.least_bytes), "One of twenty files is smaller."),
        ("Size, 95 %", size_text(found.most_bytes), "One of twenty files is larger."),
        ("Bytes", size_text(int(found.reasons["bytes"].sum())), "Of these files together."),
        ("Median records", f"{found.median_records:,.0f}", "Half of the files have fewer."),
        ("Below 16 MiB", f"{found.small:.0%}", "Small files make queries slow and requests many."),
        ("Records' age, 95 %", "unknown" if found.slow_ms is None else duration_text(found.slow_ms),
         "How old the oldest record of a file was when the file became visible: 95 % of the files are faster."),
    ])  # fmt: skip
    _rewritten(scene)
    _over_time(scene, found)
    _made_when(scene)
    _histograms(found)
    worked_ms = scene.at_work.until_ms - scene.at_work.since_ms
    if worked_ms >= ADVICE_MS:
        _small(scene)
    if worked_ms >= DAY_MS:
        _cost(scene)
    else:
        least = (
            "ten minutes of commits are no ground for advice, and less than a day"
            if worked_ms < ADVICE_MS
            else "a day of commits is"
        )
        st.caption(f"Less than {least} no ground for a month's price.")


def _rewritten(scene: Scene) -> None:
    """What took the place of files, apart from those that were written."""
    rows = scene.rewrites
    if rows.empty:
        return
    st.subheader("What was put in the place of files", anchor=False)
    found = rotations.rewritten(rows)
    if (made := found.get(COMPACTION)) is not None:
        parts.figures([
            ("Compacted", f"{made.before:,} to {made.after:,}", "Objects before and after, sidecars among them, with the same records."),
            ("Mean size", f"{size_text(made.mean_before)} to {size_text(made.mean_after)}", "Of an object, before and after."),
        ])  # fmt: skip
    if (made := found.get(ERASURE)) is not None:
        parts.figures([
            ("Erased from", f"{made.before:,} objects", "Objects that were written again without somebody's records, or are gone."),
            ("Erased", f"{made.erased:,}", "Records and dead letters whose content is gone."),
            ("Size", f"{size_text(made.bytes_before)} to {size_text(made.bytes_after)}", "Of these objects together, before and after."),
        ])  # fmt: skip
    sizes = scene.kept("swapped", lambda: rotations.swapped(scene.files("bytes"), scene.swaps))
    left, right = st.columns(2)
    with left:
        _histogram(sizes.before, "size of objects before", key="before", text=size_text, labels=charts.IEC)
    with right:
        _histogram(sizes.after, "size of objects after", key="after", text=size_text, labels=charts.IEC)
    if not sizes.known:
        st.caption("Entries with some of the objects before are not read: these are not in the sizes.")
    st.caption(
        "The numbers of files above and below are of what was written, once. Originals stay in the bucket until rewrite.grace.ms is over; "
        "kafka-s3 status says which are still there."
    )


def _made_when(scene: Scene) -> None:
    """The files by the time of their commit: a row shows each of them, and why it closed."""
    st.subheader("Which files were made when", anchor=False)
    steps = scene.kept(
        "steps", lambda: rotations.by_step(scene.files("committed_ms", "records", "bytes", "reason"), scene.window)
    )
    columns = {
        "at": parts.time_column("Committed from", scene.zone), "files": parts.number_column("Files"),
        "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
        "reasons": st.column_config.Column("Why they closed", width="large"),
    }  # fmt: skip
    starts = steps["at_ms"].tolist()
    parts.table(
        parts.timed(steps.head(parts.SHOWN_ROWS), scene.zone, "at_ms"), columns, name="Files by the time of their commit, newest first",
        key=STEPS, on_select=lambda: _choose(starts), selection_mode="single-row",
    )  # fmt: skip
    made = st.query_params.get(MADE, "")
    if not (made.isascii() and made.isdecimal()):
        st.caption(
            f"Choose a row to see the files of these {duration_text(scene.window.step_ms)}, and why each closed."
        )
        return
    rows = counted_files(made_at(scene.files(*FILE_COLUMNS), int(made), scene.window.step_ms))
    st.button("Close the list", key="made-close", icon=":material/close:", on_click=_close)
    files_table(scene, rows, name="Files of this time, newest first", key="made-files")


def _close() -> None:
    st.query_params.pop(MADE, None)


def _choose(starts: list[int]) -> None:
    """The chosen time goes into the address, for new rows come above it."""
    rows = st.session_state[STEPS].selection.rows
    if rows and rows[0] < len(starts):
        st.query_params[MADE] = str(starts[rows[0]])


def _over_time(scene: Scene, found: Summary) -> None:
    st.subheader("Why files were closed", anchor=False)
    rows = found.by_reason.assign(at=data.wall(found.by_reason["at_ms"], scene.zone))
    domain = [str(reason) for reason in Reason if str(reason) in set(rows["reason"])]
    step = duration_text(scene.window.step_ms)
    titles = (f"files per {step}", "reason")
    drawn = charts.bars_over_time(rows, "files", by="reason", axis=scene.axis, titles=titles, domain=domain)
    timeline.chart(scene, drawn, name=f"Files per {step}, by the reason that closed them", key="reasons-chart")
    columns = {
        "reason": st.column_config.Column("Reason", help="The rule that closed the file, by the key that sets it."),
        "files": parts.number_column("Files"), "share": st.column_config.NumberColumn("Share", format="percent"),
        "median_bytes": parts.Size("Median size"), "median_records": parts.number_column("Median records"),
        "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
    }  # fmt: skip
    parts.table(found.reasons, columns, name="Rotation reasons with their files", key="reasons")


def _histograms(found: Summary) -> None:
    st.subheader("How large files are, and how long they take", anchor=False)
    left, middle, right = st.columns(3)
    with left:
        _histogram(found.sizes, "size of files", key="sizes", text=size_text, labels=charts.IEC)
    with middle:
        _histogram(
            found.records, "records per file", key="records", text=lambda value: f"{value:,.0f}", labels=charts.COUNTS
        )
    with right:
        if found.spans.empty:
            states.nothing("The records of a file all have the same time, or none: no span can be drawn.")
        else:
            _histogram(
                found.spans, "time from first to last record", key="spans", text=duration_text, labels=charts.DURATIONS
            )


def _histogram(found: pd.DataFrame, title: str, *, key: str, text: Callable[[float], str], labels: str) -> None:
    if found.empty:
        states.nothing(f"No {title} to draw.")
        return
    texts = [f"{text(lower)} to {text(upper)}" for lower, upper in zip(found["lower"], found["upper"], strict=True)]
    top = texts[int(found["files"].to_numpy().argmax())]
    st.markdown(f"**{title[0].upper()}{title[1:]}**")
    drawn = charts.classes(found, title=title, texts=texts, labels=labels)
    parts.chart(drawn, name=f"Histogram: {title}", key=f"{key}-chart")
    st.caption(f"Most often {top}.")


def _small(scene: Scene) -> None:
    st.subheader("Why files are small, and what other settings would make", anchor=False)
    every = scene.kept_for_all("small", lambda frames: rotations.small(frames.files, scene.at_work))
    found = [one for one in every if scene.wants(one.topic)]
    if not found:
        states.nothing("No topic has mostly small files (or there are fewer than ten files to judge by).")
        return
    for one in found[:COMPARED]:
        st.markdown(
            f"**{plain(one.topic)}**: {one.share:.0%} of {one.files:,} files closed by {plain(one.reason)}; "
            f"the middle one has {size_text(one.median_bytes)}."
        )
        if scene.settings is None:
            st.caption("What the sink is set to is not known, so no other setting can be compared with it.")
        elif scene.settings.text("format.class") == BLOCK_GZIP_FORMAT:
            st.caption("What the keys of Block-GZIP that close files make is not computed.")
        else:
            _alternatives(scene, one, rules_of(scene.settings))
    if len(found) > COMPARED:
        st.caption(f"{len(found) - COMPARED:,} more topics have small files. Choose them above to see what would help.")


def _alternatives(scene: Scene, of: Small, rules: dict[str, Value]) -> None:
    """Show what `simulate` makes of the topic's pace, as it is set and otherwise."""
    made = list(alternatives(rules, of.pace))
    rows = pd.DataFrame({
        "set": [", ".join(map(_change, one.changes.items())) or "as it is" for one in made],
        "files": [one.files for one in made], "bytes": [one.file_bytes for one in made],
        "delay": [duration_text(one.delay_ms) if one.files else "" for one in made],
        "reasons": [", ".join(one.reasons) or "none closed in a day" for one in made],
    })  # fmt: skip
    columns = {
        "set": st.column_config.Column("Set", width="large"), "files": parts.number_column("Files a day"), "bytes": parts.Size("Mean size"),
        "delay": st.column_config.Column("Visible after", help="How old the oldest record of a file is when it is in the bucket, at most."),
        "reasons": st.column_config.Column("Closed by"),
    }  # fmt: skip
    parts.table(rows, columns, name=f"Files of {of.topic} under other settings", key=f"alternatives-{of.topic}")
    st.caption(
        f"Computed as `kafka-s3 simulate` does, at this topic's pace: {of.pace.per_second:,g} records a second in "
        f"{of.pace.partitions} partitions. The log itself shows {of.pace.files:,.0f} files a day; what differs comes of schemas, of late "
        "records, and of traffic that is not even."
    )


def _change(change: tuple[str, str]) -> str:
    key, value = change
    return f"{value} of the directories" if key == FEWER else f"{key}={value}"


def _prices() -> Prices:
    prices: Prices = st.session_state.setdefault("prices", Prices())
    box = parts.box("Prices (change them to those of your region and contract)", key="prices-box")
    if box is not None:
        with box:
            writes = _price("Per 1,000 writing requests", prices.per_thousand_writes, key="price-writes")
            reads = _price("Per 1,000 reading requests", prices.per_thousand_reads, key="price-reads", digits=5)
            storage = _price("Per GiB and month", prices.per_gib_month, key="price-storage")
        prices = st.session_state["prices"] = Prices(writes, reads, storage)
    return prices


def _price(label: str, value: float, *, key: str, digits: int = 4) -> float:
    return st.number_input(label, min_value=0.0, value=value, format=f"%.{digits}f", key=key)


def _cost(scene: Scene) -> None:
    st.subheader("Requests and storage, estimated", anchor=False)
    window = scene.at_work
    written = scene.kept_by_topic("objects", lambda frames: rotations.objects(frames.files))
    found = rotations.cost(len(scene.entries), written, window, _prices())
    parts.figures([
        ("Writing, a month", f"{found.write_cost:,.2f}",
         f"{found.writes:,.0f} requests: an object takes one to begin, one per part, one to complete."),
        ("Storage, new", f"{found.storage_cost:,.2f}", f"{found.added_gib:,.2f} GiB are added a month; that is what they cost each month."),
        ("Reading it once", f"{found.read_cost:,.4f}", f"{found.reads:,.0f} objects of a month, one request each."),
    ])  # fmt: skip
    st.caption(
        f"At the pace of the chosen time ({duration_text(window.until_ms - window.since_ms)}), in the currency of the prices."
    )
