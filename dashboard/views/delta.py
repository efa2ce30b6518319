"""Does the Delta table hold what the log says? Versions with their entries, rows and files, how far it is behind, columns over time."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from figures import delta
from figures.text import ago, plain, size_text
from kafka_s3.model.errors import SinkError
from page import parts, resources, states
from page.scene import Scene
from reading.delta import NEWEST, FolderFiles, TableLog, list_folder

TITLE: Final = "Delta tables"
ICON: Final = ":material/table_rows:"
PATH: Final = "delta"
FOLDER_S: Final = 60.0
OPTIMIZE: Final = "OPTIMIZE"


def render(scene: Scene) -> None:
    """The page."""
    tables = scene.tables
    if not tables:
        _none(scene)
        return
    topic = str(st.selectbox("Topic", sorted(tables), key="table-topic", bind="query-params"))
    table, folder = tables[topic], scene.table_folders[topic]
    objects = scene.kept_for_log("delta-objects", lambda: delta.objects_of(scene.snapshot.frames.files, topic), topic)
    st.caption(f"s3://{plain(scene.at.place.bucket)}/{plain(folder)}")
    _figures(scene, table, objects)
    _folder(scene, table, objects, folder)
    _versions(scene, table)
    _columns(table)
    _left_out(table)


def _none(scene: Scene) -> None:
    settings = scene.settings
    if settings is not None and settings.flag("delta.enable") and settings.text("delta.writer") == "spark":
        text = "Spark writes this sink's tables (`delta.writer=spark`): only the catalog knows them; `kafka-s3 delta check` compares them."
    elif settings is not None and not settings.flag("delta.enable"):
        text = "This sink keeps no Delta table. `delta.enable=true` makes one over its Parquet objects, without a copy."
    else:
        text = "No Delta table is seen beside the objects of this sink. The dashboard needs `s3:GetObject` on their `_delta_log/`."
    st.info(text, icon=":material/table_rows:")


def _figures(scene: Scene, table: TableLog, objects: pd.DataFrame) -> None:
    late, files = delta.behind(objects, table.position), table.files
    rows = files.rows if files else None
    optimized = [one for one in table.versions if one.operation == OPTIMIZE]
    parts.figures([
        ("Version", f"{table.versions[-1].version:,}" if table.versions else "unknown", "The newest one of the table."),
        ("Rows in the table", "unknown" if rows is None else f"{rows:,}", "As the table itself counts them."),
        ("Files in the table", "unknown" if files is None else f"{len(files.files):,}",
         "unknown" if files is None else f"Together {size_text(files.bytes)}."),
        ("Rows in the log", f"{int(objects['records'].sum()):,}", f"In {len(objects):,} objects, all that the log has of the topic."),
        ("Behind the log", f"{late.entries:,} entries", f"{late.records:,} records in {late.files:,} objects are not in the table yet."),
        ("Last OPTIMIZE", ago(optimized[-1].at_ms, scene.now_ms) if optimized else "none", f"Among the newest {NEWEST} versions."),
    ])  # fmt: skip


def _folder(scene: Scene, table: TableLog, objects: pd.DataFrame, folder: str) -> None:
    st.subheader("Table and folder", anchor=False)
    reader, complete = scene.at.reader, scene.snapshot.complete

    def look() -> tuple[FolderFiles, int | None]:
        found = list_folder(reader, folder)
        return found, delta.rows_in_folder(found, objects, table, folder)

    try:
        answer = resources.asked(
            resources.answers(scene.variables), ("folder", scene.chosen.sink, folder, complete), look, what="Listing the folder",
            again_s=FOLDER_S,
        )  # fmt: skip
    except SinkError as error:
        st.info(plain(error), icon=":material/folder_off:")
        return
    if answer is None:
        return
    found, rows = answer
    more = "" if found.whole else " or more"
    held = table.files
    own = (None, None, None) if held is None else (len(held.files), held.rows, held.bytes)
    frame = pd.DataFrame(
        [
            ("the table", _count(own[0]), _count(own[1]), own[2]),
            ("its folder, read as plain Parquet", f"{len(found.keys):,}{more}", _count(rows), found.bytes),
            ("the log's objects", f"{len(objects):,}", f"{int(objects['records'].sum()):,}", int(objects["bytes"].sum())),
        ],
        columns=["what", "files", "rows", "bytes"],
    ).astype({"bytes": "Float64"})  # fmt: skip
    columns = {"what": "", "files": "Files", "rows": "Rows", "bytes": parts.Size("Bytes")}
    parts.table(frame, columns, name="Files and rows of table, folder and log", key="delta-folder")
    if held is not None and found.whole and len(found.keys) > len(held.files):
        st.caption(
            f"{len(found.keys) - len(held.files):,} files of the folder are not in the table: replaced by OPTIMIZE, left out, or not taken "
            f"yet. Who reads the folder as plain Parquet reads them, too. `kafka-s3 delta maintain {scene.at.command(scene.chosen.sink)}` "
            "compacts, and deletes what was replaced."
        )


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _versions(scene: Scene, table: TableLog) -> None:
    st.subheader("Versions", anchor=False)
    rows = parts.timed(delta.versions_table(table), scene.zone, "at_ms")
    columns = {
        "version": parts.number_column("Version"), "at": parts.time_column("Committed", scene.zone), "operation": "Operation",
        "entries": st.column_config.Column("Entries of the log", help="The commits whose objects it holds."),
        "added": parts.number_column("Files added"), "removed": parts.number_column("Files removed"),
        "rows": parts.number_column("Rows added"), "bytes": parts.Size("Bytes added"),
        "rescued": parts.number_column("Rescued", "Rows with data in _rescued_data: what had no column."),
        "left_out": parts.number_column("Left out", "Objects that stay out of the table."),
    }  # fmt: skip
    parts.table(rows, columns, name="Versions of the table, newest first", key="delta-versions")
    if len(table.versions) == NEWEST:
        st.caption(f"The newest {NEWEST} versions.")


def _columns(table: TableLog) -> None:
    st.subheader("Columns", anchor=False)
    rows = delta.column_changes(table.columns)
    if rows.empty:
        st.caption("The versions that were read do not tell the table's columns.")
        return
    columns = {
        "version": parts.number_column("From version"), "columns": parts.number_column("Columns"),
        "change": st.column_config.Column("What changed", width="large"),
    }  # fmt: skip
    parts.table(rows, columns, name="Columns of the table by version, newest first", key="delta-columns")
    types = pd.DataFrame(table.columns[-1].types, columns=["column", "type"])
    parts.table(types, {"column": "Column now", "type": "Type"}, name="Columns of the table now", key="delta-types")


def _left_out(table: TableLog) -> None:
    rescued = sum(one.rescued for one in table.versions)
    keys = [(one.version, key) for one in reversed(table.versions) for key in one.left_out]
    st.subheader("Rescued, or left out", anchor=False)
    if not rescued and not keys:
        states.nothing("In the versions that were read every row has its columns, and every object is in the table.")
        return
    if rescued:
        st.caption(f"{rescued:,} rows hold data without a column, in `_rescued_data`.")
    if keys:
        rows = pd.DataFrame(keys[: parts.SHOWN_ROWS], columns=["version", "key"])
        columns = {"version": parts.number_column("Version"), "key": st.column_config.Column("Object", width="large")}
        parts.table(rows, columns, name="Objects that stay out of the table", key="delta-left-out")
        parts.cut_note(len(keys))
