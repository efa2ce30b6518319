"""How is the bucket laid out? Directories as tree and treemap, gaps between them, late files, and how a query engine sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

import pandas as pd
import streamlit as st

from kafka_s3.followers.ddl.statements import QueryEngine, script
from kafka_s3.followers.ddl.table import ExternalTable, TopicObjects
from kafka_s3.model.errors import SinkError
from kafka_s3.run.wiring.followers import table_in_bucket
from kafka_s3_dashboard.figures import charts, partitions
from kafka_s3_dashboard.figures.partitions import Heat, heat, medians
from kafka_s3_dashboard.figures.text import duration_text, plain, size_text, size_unit
from kafka_s3_dashboard.page import parts, resources, states
from kafka_s3_dashboard.page.files import FILE_COLUMNS, files_table
from kafka_s3_dashboard.page.scene import Scene

TITLE: Final = "Partition layout"
ICON: Final = ":material/account_tree:"
PATH: Final = "layout"
MEASURES: Final = ("bytes", "files", "records")
HEATS: Final = {"records": "records", "bytes": "bytes", "median file size": "median_bytes"}


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
    slots = scene.slots
    if partitions.are_times(found, slots):
        _gaps(scene.kept("gaps", lambda: partitions.gaps(found, slots)))
        _late(scene, scene.kept_by_topic("late", lambda frames: partitions.late(frames.files, slots)))
    else:
        st.caption("Directories are not times: of missing times and late files nothing is known.")
    _engines(scene, sorted(found["topic"].unique()))


def _tree(scene: Scene, found: pd.DataFrame) -> None:
    st.subheader("Directories", anchor=False)
    at = st.query_params.get("at", "").strip("/")
    rows = _below(scene, found, at)
    leaf = partitions.leaf(found, at)
    if rows.empty and leaf is None:
        at, rows = "", _below(scene, found, "")
    _path(at)
    if leaf is not None:
        _files(scene, leaf)
    if rows.empty:
        return
    warm = scene.kept("heat", lambda: heat(found, at, scene.slots), at)
    if warm is None:
        _treemap(scene, found, rows, at)
    else:
        _heat(scene, warm, at)
    _children(scene, rows, at)
    _zones(scene)


def _files(scene: Scene, leaf: partitions.Leaf) -> None:
    """The files of one directory, and why each was closed."""
    own = scene.kept("leaf", lambda: partitions.files_of(scene.files(*FILE_COLUMNS), leaf), leaf)
    st.code(
        f"s3://{scene.bucket.folder.bucket}/{own['folder'].iloc[-1] if len(own) else ''}",
        language=None,
        wrap_lines=True,
    )
    files_table(scene, own, name="Files of this directory, newest first", key="leaf-files")


def _below(scene: Scene, found: pd.DataFrame, at: str) -> pd.DataFrame:
    return scene.kept("children", lambda: partitions.children(found, at), at)


def _heat(scene: Scene, warm: Heat, at: str) -> None:
    measure = str(
        st.segmented_control(
            "Colour by", list(HEATS), default="records", key="heat", bind="query-params", required=True
        )
    )
    value, cells = HEATS[measure], warm.cells
    if value == "median_bytes":
        sizes = scene.kept("medians", lambda: medians(warm, scene.files("topic", "encoded", "bytes"), at), at)
        cells = cells.assign(median_bytes=sizes)
    if value == "records":
        title, cells = measure, cells.assign(shown=cells[value].map("{:,}".format))
    else:
        size, unit = size_unit(float(cells[value].max()))
        title = f"{measure}, {unit}"
        cells = cells.assign(**{"shown": cells[value].map(size_text), value: cells[value] / size})
    here = warm.cell_of(_wall_clock(scene))
    cells = cells.assign(open=(cells["row"] == here[0]) & (cells["column"] == here[1]))
    drawn = charts.heat_map(cells, value, titles=(*warm.titles, title), columns=warm.columns)
    name = f"Map of {measure} by {warm.titles[0]} and {warm.titles[1]} below {at or 'the topics'}; the table below has the sums"
    parts.chart(drawn, name=name, key="heat-map")
    if cells["open"].any():
        st.caption(f"Grey: the {warm.titles[1]} that is not over yet.")
    if warm.left_out:
        st.caption(
            f"{warm.left_out:,} older {warm.titles[0]}s are left out. A shorter time, or a directory, shows them."
        )


def _treemap(scene: Scene, found: pd.DataFrame, rows: pd.DataFrame, at: str) -> None:
    """The directories by size; one alone shows what lies below it."""
    while len(rows) == 1 and rows["deeper"].iloc[0]:
        at = str(rows["path"].iloc[0])
        rows = _below(scene, found, at)
    measure = st.segmented_control("Area by", MEASURES, default="bytes", key="area", bind="query-params", required=True)
    placed = charts.boxes(rows, str(measure))
    texts = [size_text(value) if measure == "bytes" else f"{value:,.0f}" for value in placed[str(measure)]]
    parts.chart(
        charts.treemap(placed, str(measure), title=str(measure), texts=texts),
        name=f"Treemap of the directories below {at or 'the topics'}, by {measure}; the table below has the numbers",
        key="treemap",
    )  # fmt: skip


def _wall_clock(scene: Scene) -> datetime:
    """Now, by the clock that names directories."""
    zone = scene.settings.text("timezone") if scene.settings is not None else ""
    return datetime.fromtimestamp(scene.now_ms / 1000, ZoneInfo(zone) if zone in available_timezones() else UTC)


def _zones(scene: Scene) -> None:
    """Directories have a clock of their own."""
    own = scene.settings.text("timezone") if scene.settings is not None else ""
    if own:
        named = f"Directories are named by the clock of {plain(own)} (`timezone`)"
    elif scene.settings is None:
        named = "By which clock directories are named, only the sink's configuration says"
    else:
        named = "No `timezone` is set: directories of times are named by the clock of UTC"
    st.caption(f"{named}; the times of this table are those of {plain(scene.zone)}.")


def _children(scene: Scene, rows: pd.DataFrame, at: str) -> None:
    cut = len(rows) > parts.SHOWN_ROWS
    most = rows.sort_values("bytes", ascending=False, kind="stable").head(parts.SHOWN_ROWS) if cut else rows
    shown = parts.timed(most.reset_index(drop=True), scene.zone, "first_ms", "last_ms", "last_commit_ms")
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
        _go(str(shown["path"].iloc[picked.selection.rows[0]]))
    parts.cut_note(len(rows), first="largest")


def _path(at: str) -> None:
    """Where we are, as buttons that lead back up; the address keeps it."""
    steps = at.split("/") if at else []
    with st.container(horizontal=True, gap="small"):
        if st.button("all topics", key="up-all", disabled=not at, icon=":material/home:"):
            _go("")
        for place, step in enumerate(steps):
            if st.button(plain(step), key=f"up-{place}", disabled=place == len(steps) - 1):
                _go("/".join(steps[: place + 1]))
    st.caption("Choose a row to go down; the lowest directories show their files, and why each was closed.")


def _go(at: str) -> None:
    if at:
        st.query_params["at"] = at
    else:
        st.query_params.pop("at", None)
    st.rerun(scope="fragment")


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
    parts.cut_note(len(found), first="largest")


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
    parts.table(gaps.head(parts.SHOWN_ROWS), columns, name="Times without a directory, the longest first", key="gaps")
    parts.cut_note(len(gaps), first="longest")
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
    parts.cut_note(len(late), first="latest")


def _engines(scene: Scene, topics: list[str]) -> None:
    st.subheader("In query engines", anchor=False)
    topic = str(st.selectbox("Topic", topics, key="table", bind="query-params"))
    objects = scene.kept_for_log("objects", lambda: partitions.topic_objects(scene.snapshot.frames.files, topic), topic)
    if objects is None:
        return
    try:
        table = _table(scene, objects)
    except SinkError as error:
        st.info(plain(error), icon=":material/table_view:")
        return
    if table is None:
        return
    for tab, engine in zip(st.tabs([engine.capitalize() for engine in QueryEngine]), QueryEngine, strict=True):
        with tab:
            language = "json" if engine is QueryEngine.GLUE else "sql"
            st.code(script(engine, table), language=language, wrap_lines=True)
    st.caption(
        "Columns are those of the newest objects. Glue's text is for `aws glue create-table --database-name DATABASE "
        "--table-input file://table.json`; `kafka-s3 ddl` prints the same."
    )


def _table(scene: Scene, objects: TopicObjects) -> ExternalTable | None:
    """The topic's table, None while its objects are asked. Raises SinkError where there can be none, or the bucket does not tell."""
    key = ("table", scene.chosen.sink, objects.topic, objects.newest[0].key, scene.settings is None)
    settings, reader, bucket = scene.settings, scene.bucket.reader, scene.bucket.folder.bucket
    return resources.asked(
        resources.answers(scene.variables), key, lambda: table_in_bucket(settings, reader, objects, bucket=bucket),
        what="Reading the columns of the newest objects",
    )  # fmt: skip
