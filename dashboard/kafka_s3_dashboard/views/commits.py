"""What did the sink do, entry by entry? The commit log, with files, reasons, epochs, schema changes and versions of Delta tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
import streamlit as st

from kafka_s3.engine.log.entry import CommitEntry, EntryKind, read_entry
from kafka_s3.followers.ddl.columns import object_columns
from kafka_s3.followers.ddl.table import LoggedObject
from kafka_s3.model.errors import ObjectMissing, SinkError
from kafka_s3_dashboard.figures import data, delta
from kafka_s3_dashboard.figures.text import plain
from kafka_s3_dashboard.page import parts, resources, states
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading.delta import TableLog, type_text
from kafka_s3_dashboard.reading.frames import taken

TITLE: Final = "Commits"
ICON: Final = ":material/history:"
PATH: Final = "commits"
ROWS: Final = 200
TABLE: Final = "commits"
PAIRS: Final = "schema-pairs"
SAME_FIELDS: Final = (
    "The columns of the two objects are the same: defaults, documentation, names or what a column cannot show differ."
)
ENTRY_S: Final = 60.0
"""An entry never changes, but a log may be deleted and begun again."""


def render(scene: Scene) -> None:
    """The page."""
    if states.empty_window(scene):
        return
    _table(scene)
    _entry(scene)
    _schema_changes(scene)


def _table(scene: Scene) -> None:
    kinds = st.pills("Kinds of entries", [str(kind) for kind in EntryKind], selection_mode="multi", key="kinds", bind="query-params",
                     help="data: records written; epoch: a driver took over; position: moved; replay: letters settled.")  # fmt: skip
    entries = scene.entries
    if scene.chosen.topics:
        named = scene.kept(
            "named", lambda: data.named_by(scene.entries, scene.files("version"), scene.counts, scene.gaps)
        )
        entries = taken(entries, named)
    if kinds:
        entries = entries[entries["kind"].isin(kinds).to_numpy()]
    if entries.empty:
        states.nothing("No such entry in this time.")
        return
    pages = -(-len(entries) // ROWS)
    number = (
        st.number_input(f"Page (of {pages:,}, newest first)", 1, pages, 1, key="page", bind="query-params")
        if pages > 1
        else 1
    )
    newest = entries.iloc[max(len(entries) - int(number) * ROWS, 0) : len(entries) - (int(number) - 1) * ROWS]
    rows = scene.kept("commits", lambda: _rows(scene, newest), int(number), tuple(kinds))
    with_delta = any(table.versions for table in scene.tables.values())
    rows = rows.assign(
        delta=[_delta_text(scene.tables, *of) for of in zip(rows["version"], rows["topics"], strict=True)]
    )
    rows = parts.timed(rows.rename(columns={"committed_ms": "at_ms"}), scene.zone, "at_ms")
    shown = rows["version"].tolist()
    parts.table(
        rows, _columns(scene, with_delta=with_delta), name="Entries of the commit log, newest first", key=TABLE,
        on_select=lambda: _choose(shown), selection_mode="single-row",
    )  # fmt: skip
    st.caption(
        f"{len(entries):,} entries. Each one reads as many records as it writes, turns into dead letters and skips."
    )


def _rows(scene: Scene, newest: pd.DataFrame) -> pd.DataFrame:
    files = data.files_of(newest, scene.snapshot.frames.files)
    return data.commit_rows(newest, data.within(files, scene.wanted))


def _choose(versions: list[int]) -> None:
    """The chosen entry goes into the field below, and so into the address."""
    rows = st.session_state[TABLE].selection.rows
    if rows and rows[0] < len(versions):
        st.session_state["entry"] = versions[rows[0]]


def _columns(scene: Scene, *, with_delta: bool) -> dict[str, object]:
    of_tables = {
        "delta": st.column_config.Column(
            "Delta versions", help="Version of each topic's table that has the entry's files."
        )
    }
    return {
        "version": parts.number_column("Entry"), "at": parts.time_column("Committed", scene.zone), "kind": "Kind",
        "epoch": parts.number_column("Epoch"), "written": parts.number_column("Written"),
        "dead_letters": parts.number_column("Dead letters"),
        "skipped": parts.number_column("Skipped"), "files": parts.number_column("Files"), "bytes": parts.Size("Bytes"),
        "reasons": "Why files closed", "offsets": st.column_config.Column("Offsets", width="medium"),
        "schemas": "Schemas", **(of_tables if with_delta else {}), "driver": "Driver",
    }  # fmt: skip


def _delta_text(tables: Mapping[str, TableLog], version: int, topics: str) -> str:
    """The first version of each of the entry's tables that has its files; a later one may hold all of them again."""
    found = [(topic, tables[topic].version_of(version)) for topic in topics.split(", ") if topic in tables]
    return ", ".join(f"{topic} v{number}" for topic, number in found if number is not None)


def _entry(scene: Scene) -> None:
    st.subheader("One entry", anchor=False)
    top = scene.snapshot.total - 1
    number = st.number_input(
        "Entry", 0, max(top, 0), value=None, key="entry", bind="query-params", placeholder="its number"
    )
    if number is None:
        st.caption(
            "Choose a row, or write the number of an entry, to see its files, offsets and gaps as the log has them."
        )
        return
    try:
        entry = _read(scene, int(number))
        if entry is None:
            return
    except ObjectMissing:
        st.warning(f"Entry {number} is not in the bucket.", icon=":material/search_off:")
        return
    except SinkError as error:
        st.error(plain(error), icon=":material/broken_image:")
        return
    _facts(scene, entry)


def _read(scene: Scene, version: int) -> CommitEntry | None:
    """An entry, None while it is read. Raises ObjectMissing, LogDamaged, StorageError."""
    key, reader = scene.paths.commit(version), scene.bucket.reader
    return resources.asked(
        resources.answers(scene.variables), ("entry", key), lambda: read_entry(reader.get(key), key=key), again_s=ENTRY_S,
        what="Reading the entry",
    )  # fmt: skip


def _facts(scene: Scene, entry: CommitEntry) -> None:
    totals = entry.totals
    st.markdown(
        f"Entry {entry.version} of kind **{entry.kind}**, epoch {entry.epoch}, committed {plain(entry.committed_at)} by "
        f"{plain(entry.driver)}: "
        f"{totals.read:,} read = {totals.written:,} written + {totals.dead_letters:,} dead letters + {totals.skipped:,} skipped."
    )
    if entry.swaps:
        gone, records = sum(len(swap.keys) for swap in entry.swaps), sum(map(len, entry.erased.values()))
        erased = f" {parts.counted(records, 'record')} were erased." if records else ""
        st.markdown(f"Its {parts.counted(len(entry.files), 'object')} take the place of {gone:,} others.{erased}")
    if entry.reason:
        st.markdown(f"Reason: {plain(entry.reason)}")
    positions = pd.DataFrame(
        [(*tp, moved.frontier, moved.written) for tp, moved in entry.progress.items()],
        columns=["topic", "partition", "frontier", "written"],
    ).astype({"written": "Int64"})
    if len(positions):
        columns = {"topic": "Topic", "partition": "Partition", "frontier": parts.number_column("Next offset to write"),
                   "written": parts.number_column("One past the last in an object")}  # fmt: skip
        parts.table(positions, columns, name="Positions after the entry", key="entry-positions")
    if entry.gaps:
        gaps = pd.DataFrame([(g.topic, g.partition, g.first, g.last, g.cause) for g in entry.gaps],
                            columns=["topic", "partition", "first", "last", "cause"])  # fmt: skip
        named = {
            "topic": "Topic",
            "partition": "Partition",
            "first": "First offset",
            "last": "Last offset",
            "cause": "Cause",
        }
        parts.table(gaps, named, name="Gaps of the entry", key="entry-gaps")
    if entry.files:
        _files(scene, entry)


def _files(scene: Scene, entry: CommitEntry) -> None:
    rows = pd.DataFrame(
        [(f.key, f.first_offset, f.last_offset, f.records, f.bytes, str(f.reason), f.schema, str(f.role), f.min_timestamp, f.max_timestamp)
         for f in entry.files[: parts.SHOWN_ROWS]],
        columns=["key", "first", "last", "records", "bytes", "reason", "schema", "role", "min_ms", "max_ms"],
    ).astype({"min_ms": "Int64", "max_ms": "Int64"})  # fmt: skip
    columns = {
        "key": st.column_config.Column("Object", width="large"), "first": parts.number_column("First offset"),
        "last": parts.number_column("Last offset"), "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
        "reason": "Why closed", "schema": "Schema", "role": "Holds", "min": parts.time_column("First record", scene.zone),
        "max": parts.time_column("Last record", scene.zone),
    }  # fmt: skip
    parts.table(
        parts.timed(rows, scene.zone, "min_ms", "max_ms"), columns, name="Files of the entry", key="entry-files"
    )
    parts.cut_note(len(entry.files))


def _schema_changes(scene: Scene) -> None:
    """The pairs of schemas between which topics changed; of a chosen one the fields, and where it was."""
    st.subheader("Schema changes", anchor=False)
    found = scene.kept("schemas", lambda: delta.changes(scene.files(*delta.CHANGES_OF)))
    if found.empty and (closed := delta.closed_by_schema(scene.files("reason"))):
        st.caption(
            f"{parts.counted(closed, 'file')} closed for a record of another schema, whose own file was not committed in this time."
        )
        return
    if found.empty:
        states.nothing(
            "Every topic-partition kept its schema in this time: no other name, and no file that another schema closed."
        )
        return
    pairs = scene.kept("schema-pairs", lambda: delta.pairs(found))
    columns = {
        "topic": "Topic", "before": st.column_config.Column("From schema", width="medium"),
        "after": st.column_config.Column("To schema", width="medium"),
        "changes": parts.number_column("Changes", "In either direction: each of them closes files."),
        "back": parts.number_column("Back again", "Changes in the other direction: schemas that take turns."),
        "partitions": parts.number_column("Partitions"),
        "first": parts.time_column("First", scene.zone), "last": parts.time_column("Last", scene.zone),
    }  # fmt: skip
    shown = parts.timed(pairs.head(parts.SHOWN_ROWS), scene.zone, "first_ms", "last_ms")
    named = shown.assign(
        before=shown["before"].map(delta.schema_name),
        after=[delta.schema_name(after, before) for before, after in zip(shown["before"], shown["after"], strict=True)],
    )
    picked = parts.table(
        named, columns, name="Schemas that followed each other, most changes first", key=PAIRS, on_select="rerun",
        selection_mode="single-row",
    )  # fmt: skip
    parts.cut_note(len(pairs))
    if int(pairs["back"].sum()):
        st.caption(
            "Schemas that take turns close a file at each turn: `schema.compatibility.unify=true` lets them share one."
        )
    if picked.selection.rows:
        _pair(scene, found, shown.iloc[picked.selection.rows[0]])
    else:
        st.caption("Choose a row to see which fields differ.")


def _pair(scene: Scene, found: pd.DataFrame, pair: Any) -> None:
    topic, names = str(pair["topic"]), {str(pair["before"]), str(pair["after"])}
    same = found["before"].astype(str).isin(names) & found["after"].astype(str).isin(names)
    if len(names) > 1:
        same &= found["before"] != found["after"]
    own = found[((found["topic"] == topic) & same).to_numpy()]
    last = own.iloc[-1]
    before, after = _fields(scene, int(last["before_at"])), _fields(scene, int(last["after_at"]))
    if before is not None and after is not None:
        lines = delta.differences(before, after)
        where = f"{plain(topic)}-{int(last['partition'])}"
        st.markdown(f"**Fields of {where} from offset {int(last['first_offset']):,} on, against those before**")
        st.code("\n".join(lines) or SAME_FIELDS, language=None, wrap_lines=True)
    rows = own.tail(parts.SHOWN_ROWS).iloc[::-1].rename(columns={"committed_ms": "at_ms"})
    rows = rows.assign(before=rows["before"].map(delta.schema_name), after=rows["after"].map(delta.schema_name))
    columns = {
        "version": parts.number_column("Entry"), "at": parts.time_column("Committed", scene.zone),
        "partition": parts.number_column("Partition"), "first_offset": parts.number_column("From offset"),
        "before": "Schema before", "after": "Schema after",
    }  # fmt: skip
    parts.table(
        parts.timed(rows, scene.zone, "at_ms"),
        columns,
        name="Changes between these schemas, newest first",
        key="schemas",
    )
    parts.cut_note(len(own), first="newest")


def _fields(scene: Scene, place: int) -> dict[str, str] | None:
    """Fields and types of an object, None where they are on their way or cannot be read, which the page says."""
    facts, reader = delta.object_at(scene.files(*delta.OBJECTS_OF), place), scene.bucket.reader

    def read(one: LoggedObject = facts) -> dict[str, str]:
        return {name: type_text(field) for name, field in object_columns(reader, [one]).columns.fields.items()}

    try:
        return resources.asked(
            resources.answers(scene.variables),
            ("fields", scene.chosen.sink, facts.key),
            read,
            what="Reading the fields of two objects",
        )
    except SinkError as error:
        st.info(plain(error), icon=":material/data_object:")
        return None
