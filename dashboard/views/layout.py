"""How is the bucket laid out? Directories as tree and treemap, gaps between them, late files, and how a query engine sees them."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from figures import charts, partitions
from figures.text import plain
from figures.units import duration_text, size_text
from kafka_s3.ddl.statements import Engine, script
from kafka_s3.ddl.table import ExternalTable
from kafka_s3.model.errors import SinkError
from kafka_s3.wiring.ddl import table_in_bucket
from page import parts, states
from page.scene import Scene
from reading.frames import data_files

TITLE: Final = "Partition layout"
ICON: Final = ":material/account_tree:"
PATH: Final = "layout"
ENGINES: Final = {Engine.DUCKDB: "DuckDB"}
"""Names that are not written like a word."""
MEASURES: Final = {"bytes": "bytes", "files": "files", "records": "records"}


def render(scene: Scene) -> None:
    """The page."""
    if states.empty_window(scene):
        return
    found = scene.kept_by_topic("directories", lambda frames: partitions.directories(frames.files))
    if found.empty:
        states.nothing("No data file was written in this time.")
        return
    _tree(scene, found)
    _shares(scene)
    if partitions.are_times(found):
        _gaps(scene.kept("gaps", lambda: partitions.gaps(found)))
        _late(scene, scene.kept_by_topic("late", lambda frames: partitions.late(frames.files)))
    else:
        st.caption("Directories are not times: of missing times and late files nothing can be told.")
    _engines(scene, sorted(found["topic"].unique()))


def _tree(scene: Scene, found: pd.DataFrame) -> None:
    st.subheader("Directories", anchor=False)
    at = st.query_params.get("at", "").strip("/")
    rows = partitions.children(found, at)
    if rows.empty:
        at, rows = "", partitions.children(found, "")
    _path(at)
    measure = st.segmented_control(
        "Area by", list(MEASURES), default="bytes", key="area", bind="query-params", required=True
    )
    placed = charts.boxes(rows, str(measure))
    texts = [size_text(value) if measure == "bytes" else f"{value:,.0f}" for value in placed[str(measure)]]
    parts.chart(
        charts.treemap(placed, str(measure), title=str(measure), texts=texts),
        name=f"Treemap of {len(rows)} directories below {at or 'the topics'}, by {measure}; the table below has the numbers",
        key="treemap",
    )  # fmt: skip
    shown = parts.timed(
        rows.head(parts.SHOWN_ROWS).reset_index(drop=True), scene.zone, "first_ms", "last_ms", "last_commit_ms"
    )
    columns = {
        "name": st.column_config.Column("Directory", width="medium"), "directories": parts.number_column("Leaves"),
        "files": parts.number_column("Files"), "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
        "first": parts.time_column("First record", scene.zone), "last": parts.time_column("Last record", scene.zone),
        "last_commit": parts.time_column("Last commit", scene.zone),
    }  # fmt: skip
    picked = parts.table(
        shown,
        columns,
        name="Directories of this level",
        key=f"tree-{at}",
        on_select="rerun",
        selection_mode="single-row",
    )
    if picked.selection.rows:
        row = shown.iloc[picked.selection.rows[0]]
        if row["deeper"]:
            _go(str(row["path"]))
        st.code(f"s3://{scene.at.place.bucket}/{_folder(scene, str(row['path']))}", language=None, wrap_lines=True)
    parts.cut_note(len(rows))


def _path(at: str) -> None:
    """Where we are, as buttons that lead back up; the address keeps it."""
    steps = at.split("/") if at else []
    with st.container(horizontal=True, gap="small"):
        if st.button("all topics", key="up-all", disabled=not at, icon=":material/home:"):
            _go("")
        for place, step in enumerate(steps):
            if st.button(plain(step), key=f"up-{place}", disabled=place == len(steps) - 1):
                _go("/".join(steps[: place + 1]))
    st.caption("Choose a row to go down.")


def _go(at: str) -> None:
    if at:
        st.query_params["at"] = at
    else:
        st.query_params.pop("at", None)
    st.rerun(scope="fragment")


def _folder(scene: Scene, path: str) -> str:
    topic, _, encoded = path.partition("/")
    rows = data_files(scene.frames.files, "topic", "encoded", "folder")
    names = [name for name in rows["encoded"].cat.categories if str(name).strip("/") == encoded]
    same = rows[((rows["topic"] == topic) & rows["encoded"].isin(names)).to_numpy()]
    return str(same["folder"].iloc[-1]) if len(same) else ""


def _shares(scene: Scene) -> None:
    st.subheader("Kafka partitions", anchor=False)
    found = scene.kept_by_topic("shares", lambda frames: partitions.by_kafka_partition(frames.files))
    columns = {
        "topic": "Topic", "partition": parts.number_column("Partition"), "records": parts.number_column("Records"),
        "share": st.column_config.ProgressColumn("Share of the topic's records", format="percent", min_value=0, max_value=1),
        "bytes": parts.Size("Bytes"), "files": parts.number_column("Files"),
    }  # fmt: skip
    parts.table(
        found.head(parts.SHOWN_ROWS), columns, name="Kafka partitions with their share of records", key="shares"
    )
    parts.cut_note(len(found))


def _gaps(gaps: pd.DataFrame) -> None:
    st.subheader("Gaps", anchor=False)
    if gaps.empty:
        states.nothing("No directory of time is missing between the first and the last one.")
        return
    columns = {
        "topic": "Topic",
        "missing": parts.number_column("Missing"),
        "unit": "Unit",
        "after": "After",
        "before": "Before",
    }
    parts.table(gaps, columns, name="Times without a directory", key="gaps")
    st.caption(
        "Times for which a topic has no directory although it has earlier and later ones. A quiet hour is no fault."
    )


def _late(scene: Scene, late: pd.DataFrame) -> None:
    st.subheader("Late files", anchor=False)
    if late.empty:
        states.nothing("Every file went into the directory of its time before the next one was begun.")
        return
    rows = parts.timed(late.head(parts.SHOWN_ROWS), scene.zone, "at_ms")
    rows = rows.assign(behind=[duration_text(seconds * 1000) for seconds in rows["behind_s"]])
    columns = {
        "topic": "Topic", "encoded": st.column_config.Column("Directory", width="medium"), "files": parts.number_column("Late files"),
        "records": parts.number_column("Records"), "behind": "Behind by", "at": parts.time_column("Last late commit", scene.zone),
    }  # fmt: skip
    parts.table(rows, columns, name="Directories that got files late", key="late")
    st.caption(
        "These directories got a file when the same topic-partition had begun a later one: whoever reads them once must read them again."
    )
    parts.cut_note(len(late))


def _engines(scene: Scene, topics: list[str]) -> None:
    st.subheader("In query engines", anchor=False)
    topic = str(st.selectbox("Topic", topics, key="table", bind="query-params"))
    try:
        table = scene.kept("table", lambda: _table(scene, topic), topic)
    except SinkError as error:
        states.nothing(str(error))
        return
    if table is None:
        return
    for tab, engine in zip(
        st.tabs([ENGINES.get(engine, engine.capitalize()) for engine in Engine]), Engine, strict=True
    ):
        with tab:
            language = "json" if engine is Engine.GLUE else "sql"
            st.code(script(engine, table), language=language, wrap_lines=True)
    st.caption(
        "Columns are those of the newest objects. Glue's text is for `aws glue create-table --database-name DATABASE "
        "--table-input file://table.json`; `kafka-s3 ddl` prints the same."
    )


def _table(scene: Scene, topic: str) -> ExternalTable | None:
    """The topic's table. Raises SinkError where there can be none, or the bucket does not tell."""
    objects = partitions.topic_objects(scene.snapshot.frames.files, topic)
    if objects is None:
        return None
    return table_in_bucket(scene.settings, scene.at.reader, objects, bucket=scene.at.place.bucket)
