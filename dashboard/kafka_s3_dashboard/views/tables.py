"""Does each table hold what the log says? Through which entry, what it lacks, since when and why; versions, columns, files a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.followers.state import StateNote
from kafka_s3.model.errors import SinkError
from kafka_s3_dashboard.figures import delta
from kafka_s3_dashboard.figures.text import ago, plain, size_text
from kafka_s3_dashboard.page import parts, resources, states
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading import iceberg
from kafka_s3_dashboard.reading.delta import NEWEST, ColumnsAt, FolderFiles, TableLog, list_folder
from kafka_s3_dashboard.reading.tables import ICEBERG

TITLE: Final = "Tables"
ICON: Final = ":material/table_rows:"
PATH: Final = "tables"
FOLDER_S: Final = 60.0
OPTIMIZE: Final = "OPTIMIZE"
SETTLING_MS: Final = 60_000
"""A table follows each entry within seconds: what is behind for no longer is on its way."""


def render(scene: Scene) -> None:
    """The page."""
    swaps = scene.snapshot.frames.swaps
    found = [delta.completeness_of(_objects(scene, one.topic), swaps, one) for one in scene.table_statuses]
    for name, noted in scene.snapshot.tables.items():
        if isinstance(noted, str):
            st.error(
                f"How far the {name} tables have come cannot be read: {plain(noted)}", icon=":material/broken_image:"
            )
    stated = {topic: one for topic, one in scene.snapshot.states.items() if scene.wants(topic)}
    described = _described(scene)
    if not found and not scene.tables and not stated:
        _none(scene)
        return
    if found or scene.tables:
        _verdicts(scene, found)
    if stated:
        _states(scene, stated)
    if topics := sorted({*scene.tables, *described}):
        topic = str(st.selectbox("Topic", topics, key="table-topic", bind="query-params"))
        _partitions(delta.live(_objects(scene, topic)))
        if topic in scene.tables:
            _delta_table(scene, topic, [one for one in found if one.status.topic == topic])
        if topic in described:
            _iceberg_table(scene, topic, described[topic])


def _described(scene: Scene) -> dict[str, str]:
    """Where the metadata of each chosen topic's Iceberg table lies."""
    noted = scene.snapshot.tables.get(ICEBERG)
    if noted is None or isinstance(noted, str):
        return {}
    return {topic: where for topic, where in noted.metadata.items() if topic in scene.table_folders}


def _partitions(objects: pd.DataFrame) -> None:
    """How many of the log's objects are in a directory: what both formats have as a partition, if nothing else is asked for."""
    rows = delta.files_by_directory(objects)
    if rows.empty:
        return
    st.subheader("Files a partition", anchor=False)
    directories = "1 directory" if len(rows) == 1 else f"{len(rows):,} directories"
    middle, most = f"{rows['files'].median():,.0f}", f"{rows['files'].max():,}"
    st.caption(f"The objects of the log lie in {directories}: {middle} in the middle one, {most} in the fullest.")
    columns = {
        "directory": st.column_config.Column("Directory", width="large"), "files": parts.number_column("Files"),
        "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
    }  # fmt: skip
    parts.table(
        rows.head(parts.SHOWN_ROWS), columns, name="Files of each directory, the fullest first", key="table-partitions"
    )
    parts.cut_note(len(rows))


def _iceberg_table(scene: Scene, topic: str, location: str) -> None:
    st.subheader(f"The Iceberg table of {plain(topic)}", anchor=False)
    bucket, sink = scene.bucket, scene.chosen.sink
    try:
        table = resources.asked(
            resources.answers(scene.variables), ("iceberg", sink, location),
            lambda: iceberg.read_metadata(bucket.reader, bucket.folder.bucket, location, sink), what="Reading the table",
        )  # fmt: skip
    except SinkError as error:
        st.info(plain(error), icon=":material/folder_off:")
        return
    if table is None:
        return
    st.caption(
        f"{plain(table.name)}, by its metadata of {size_text(table.metadata_bytes)}, when the sink last committed"
    )
    objects = delta.live(_objects(scene, topic))
    newest = table.snapshots[-1] if table.snapshots else None
    parts.figures([
        ("Snapshots", f"{len(table.snapshots):,}", "That the table keeps; older ones are dropped, their objects are not."),
        ("Rows in the table", _count(table.rows), "As its newest snapshot counts them."),
        ("Files in the table", _count(table.files), "" if table.bytes is None else f"Together {size_text(table.bytes)}."),
        ("Rows in the log", f"{int(objects['records'].sum()):,}", f"In {len(objects):,} objects, all that the log has of the topic."),
        ("Schemas", f"{len(table.schemas):,}", "Versions of the columns that the table knows."),
        ("Partitioned by", ", ".join(table.partitions) or "nothing", "How new files are partitioned."),
        ("Last snapshot", ago(newest.at_ms, scene.now_ms) if newest else "none", "When it was committed."),
    ])  # fmt: skip
    columns = {
        "version": parts.number_column("Sequence"), "at": parts.time_column("Committed", scene.zone), "operation": "Operation",
        "entries": st.column_config.Column("Entries of the log", help="The commits whose objects it holds."),
        "added": parts.number_column("Files added"), "removed": parts.number_column("Files removed"),
        "rows": parts.number_column("Rows added"), "bytes": parts.Size("Bytes added"),
    }  # fmt: skip
    rows = delta.versions_table(table.snapshots).drop(columns=["rescued", "left_out"])
    shown = parts.timed(rows, scene.zone, "at_ms")
    parts.table(shown, columns, name="Snapshots of the Iceberg table, newest first", key="iceberg-snapshots")
    _column_versions(table.schemas, "iceberg", "Schema")


def _objects(scene: Scene, topic: str) -> pd.DataFrame:
    return scene.kept_for_log("table-objects", lambda: delta.objects_of(scene.snapshot.frames.files, topic), topic)


def _delta_table(scene: Scene, topic: str, judged: list[delta.Completeness]) -> None:
    table, folder, objects = scene.tables[topic], scene.table_folders[topic], _objects(scene, topic)
    st.subheader(f"The Delta table of {plain(topic)}", anchor=False)
    st.caption(f"s3://{plain(scene.bucket.folder.bucket)}/{plain(folder)}")
    _figures(scene, table, objects)
    _folder(scene, table, objects, folder)
    _versions(scene, table)
    _columns(table)
    _left_out(table, judged)


def _verdicts(scene: Scene, found: list[delta.Completeness]) -> None:
    """Each table in a line, and on top what is the matter, the worst first."""
    st.subheader("Is each table complete?", anchor=False)
    refusing = [one for one in found if one.verdict == delta.REFUSES]
    for one in refusing:
        held = one.status.held
        since = ago(one.since_ms, scene.now_ms)
        st.error(f"**The {one.status.format} table of {plain(one.status.topic)} refuses, since {since}.** {_missing(one)} "
                 f"{plain(held.why) if held else ''}", icon=":material/block:")  # fmt: skip
    for one in found:
        if one.verdict == delta.BEHIND:
            late = scene.now_ms - one.since_ms > SETTLING_MS
            (st.warning if late else st.info)(
                f"The {one.status.format} table of {plain(one.status.topic)} is behind, since {ago(one.since_ms, scene.now_ms)}. "
                f"{_missing(one)}", icon=":material/hourglass_bottom:",
            )  # fmt: skip
    whole = [one for one in found if one.verdict == delta.COMPLETE]
    if whole and len(whole) == len(found) and scene.health is not None and not scene.snapshot.damage:
        through = max(one.status.position or 0 for one in whole)
        st.success(f"{_all(len(whole))} complete through entry {through:,} of the log.", icon=":material/check_circle:")
    rows = pd.DataFrame(
        [(one.status.topic, one.status.format, one.verdict, one.status.position, one.through_ms, one.missing.records,
          one.missing.files, one.missing.entries, one.left_out.records, one.since_ms, one.status.held.why if one.status.held else "")
         for one in sorted(found, key=lambda one: (_ORDER.index(one.verdict), one.status.topic))],
        columns=["topic", "format", "verdict", "position", "through_ms", "records", "files", "entries", "left_out", "since_ms", "why"],
    ).astype({"position": "Int64"})  # fmt: skip
    columns = {
        "topic": "Topic", "format": "Format", "verdict": "Verdict",
        "since": parts.time_column("Incomplete since", scene.zone), "why": st.column_config.Column("Why", width="medium"),
        "position": parts.number_column("Through entry", "No record of an entry up to this one is missing, but for objects left out."),
        "through": parts.time_column("Newest entry in it", scene.zone, "When the newest entry was committed whose objects it holds."),
        "records": parts.number_column("Records missing"), "files": parts.number_column("Objects missing"),
        "entries": parts.number_column("Entries missing"),
        "left_out": parts.number_column("Records left out", "Of objects that stay out of the table."),
    }  # fmt: skip
    if len(whole) == len(found):
        columns = {name: title for name, title in columns.items() if name not in ("since", "why")}
    parts.table(parts.timed(rows, scene.zone, "through_ms", "since_ms"), columns, name="Tables and whether they are complete",
                key="tables")  # fmt: skip
    if scene.snapshot.bounded or not scene.snapshot.complete:
        st.caption("Of the entries that were read: of older ones more may be missing.")


def _states(scene: Scene, stated: Mapping[str, StateNote | str]) -> None:
    """How far each table of newest values has come, and above it what is the matter."""
    st.subheader("State tables: the newest value of every key", anchor=False)
    rows = []
    for topic, one in stated.items():
        if isinstance(one, str):
            text = f"How far the state of {plain(topic)} has come cannot be read: {plain(one)}"
            st.error(text, icon=":material/broken_image:")
            continue
        if one.why:
            since = ago(one.since_ms, scene.now_ms)
            text = f"**The state of {plain(topic)} does not follow, since {since}.** {plain(one.why)}"
            st.error(text, icon=":material/block:")
        if one.rebuilding:
            since = ago(one.merged_ms, scene.now_ms)
            st.info(f"The state of {plain(topic)} is being rebuilt, since {since}.", icon=":material/sync:")
        rows.append((topic, one.name, one.position, one.rows, one.changes_a_minute, one.merged_ms))
    frame = pd.DataFrame(rows, columns=["topic", "table", "position", "keys", "pace", "merged_ms"])
    columns = {
        "topic": "Topic", "table": "Table",
        "position": parts.number_column("Through entry", "The entries up to this one are in it."),
        "keys": parts.number_column("Keys", "Rows of the table after its last merge."),
        "pace": parts.number_column("Changes a minute", "Keys that changed, between the last two merges."),
        "merged": parts.time_column("Last merge", scene.zone),
    }  # fmt: skip
    shown = parts.timed(frame.astype({"keys": "Int64", "pace": "Float64"}), scene.zone, "merged_ms")
    parts.table(shown, columns, name="State tables", key="states")


_ORDER: Final = (delta.REFUSES, delta.BEHIND, delta.LEFT_OUT, delta.UNKNOWN, delta.COMPLETE)


def _missing(one: delta.Completeness) -> str:
    missing, replaced = one.missing, ""
    if one.replaced:
        replaced = f"It still has {parts.counted(one.replaced, 'object')} in whose place the log has others."
    if not missing.files:
        return replaced or "No record of the log is missing yet."
    return (
        f"{parts.counted(missing.records, 'record')} in {parts.counted(missing.files, 'object')} of "
        f"{missing.entries:,} entries of the log are not in it. {replaced}".rstrip()
    )


def _all(number: int) -> str:
    return "The table is" if number == 1 else f"All {number:,} tables are"


def _none(scene: Scene) -> None:
    settings = scene.settings
    if settings is not None and settings.flag("delta.enable") and settings.text("delta.writer") == "spark":
        text = "Spark writes this sink's tables (`delta.writer=spark`): only the catalog knows them; `kafka-s3 delta check` compares them."
    elif settings is not None and not settings.flag("delta.enable"):
        text = "This sink keeps no table. `delta.enable=true` or `iceberg.enable=true` makes one over its Parquet objects, without a copy."
    else:
        text = "No Delta table is seen beside the objects of this sink. The dashboard needs `s3:GetObject` on their `_delta_log/`."
    st.info(text, icon=":material/table_rows:")


def _figures(scene: Scene, table: TableLog, objects: pd.DataFrame) -> None:
    files, live = table.files, delta.live(objects)
    rows = files.rows if files else None
    optimized = [one for one in table.versions if one.operation == OPTIMIZE]
    parts.figures([
        ("Version", f"{table.versions[-1].version:,}" if table.versions else "unknown", "The newest one of the table."),
        ("Rows in the table", "unknown" if rows is None else f"{rows:,}", "As the table itself counts them."),
        ("Files in the table", "unknown" if files is None else f"{len(files.files):,}",
         "As the table itself counts them."),
        ("Bytes in the table", "unknown" if files is None else size_text(files.bytes), "Of its files together."),
        ("Rows in the log", f"{int(live['records'].sum()):,}", f"In {len(live):,} objects, all that the log has of the topic."),
        ("Last OPTIMIZE", ago(optimized[-1].at_ms, scene.now_ms) if optimized else "none", f"Among the newest {NEWEST} versions."),
    ])  # fmt: skip


def _folder(scene: Scene, table: TableLog, objects: pd.DataFrame, folder: str) -> None:
    st.subheader("Table and folder", anchor=False)
    reader, complete = scene.bucket.reader, scene.snapshot.complete

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
    held, live = table.files, delta.live(objects)
    own = (None, None, None) if held is None else (len(held.files), held.rows, held.bytes)
    frame = pd.DataFrame(
        [
            ("the table", _count(own[0]), _count(own[1]), own[2]),
            ("its folder, read as plain Parquet", f"{len(found.keys):,}{more}", _count(rows), found.bytes),
            ("the log's objects", f"{len(live):,}", f"{int(live['records'].sum()):,}", int(live["bytes"].sum())),
        ],
        columns=["what", "files", "rows", "bytes"],
    ).astype({"bytes": "Float64"})  # fmt: skip
    columns = {"what": "", "files": "Files", "rows": "Rows", "bytes": parts.Size("Bytes")}
    parts.table(frame, columns, name="Files and rows of table, folder and log", key="delta-folder")
    if held is not None and found.whole and len(found.keys) > len(held.files):
        st.caption(
            f"{len(found.keys) - len(held.files):,} files of the folder are not in the table: replaced by OPTIMIZE, left out, or not taken "
            "yet. Readers that take the folder as plain Parquet see them, too. "
            f"`kafka-s3 delta maintain {scene.bucket.command(scene.chosen.sink)}` "
            "compacts, and deletes what was replaced."
        )


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _versions(scene: Scene, table: TableLog) -> None:
    st.subheader("Versions", anchor=False)
    rows = parts.timed(delta.versions_table(table.versions), scene.zone, "at_ms")
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
    if not table.columns:
        st.caption("The versions that were read do not tell the table's columns.")
        return
    _column_versions(table.columns, "delta", "From version")


def _column_versions(versions: Sequence[ColumnsAt], key: str, called: str) -> None:
    columns = {
        "version": parts.number_column(called), "columns": parts.number_column("Columns"),
        "change": st.column_config.Column("What changed", width="large"),
    }  # fmt: skip
    rows = delta.column_changes(versions)
    parts.table(rows, columns, name="Columns of the table by version, newest first", key=f"{key}-columns")
    types = pd.DataFrame(versions[-1].types, columns=["column", "type"])
    parts.table(types, {"column": "Column now", "type": "Type"}, name="Columns of the table now", key=f"{key}-types")


def _left_out(table: TableLog, judged: list[delta.Completeness]) -> None:
    rescued = sum(one.rescued for one in table.versions)
    keys = [(one.version, key) for one in reversed(table.versions) for key in one.left_out]
    st.subheader("Rescued, or left out", anchor=False)
    if not rescued and not keys:
        if judged and all(one.verdict == delta.COMPLETE for one in judged):
            states.nothing(
                "In the versions that were read every row has its columns, and every object is in the table."
            )
        else:
            st.caption(
                "No row was rescued and no object left out of the versions that were read; objects that are missing are above."
            )
        return
    if rescued:
        st.caption(f"{rescued:,} rows hold data without a column, in `_rescued_data`.")
    if keys:
        rows = pd.DataFrame(keys[: parts.SHOWN_ROWS], columns=["version", "key"])
        columns = {"version": parts.number_column("Version"), "key": st.column_config.Column("Object", width="large")}
        parts.table(rows, columns, name="Objects that stay out of the table", key="delta-left-out")
        parts.cut_note(len(keys))
