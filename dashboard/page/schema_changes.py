"""Where did schemas change, how often to and fro, and in which fields? Changes from the log, fields from the objects."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from figures import schemas
from figures.delta import differences
from figures.text import plain
from kafka_s3.followers.ddl.columns import object_columns
from kafka_s3.followers.ddl.table import LoggedObject
from kafka_s3.model.errors import SinkError
from page import parts, resources, states
from page.asking import asked
from page.scene import Scene

TABLE: Final = "schema-pairs"


def render(scene: Scene) -> None:
    """The pairs of schemas between which topics changed; of a chosen one the fields, and where it was."""
    st.subheader("Schema changes", anchor=False)
    found = scene.kept("schemas", lambda: schemas.changes(scene.files(*schemas.CHANGES_OF)))
    if found.empty:
        states.nothing("Every topic-partition kept its schema in this time.")
        return
    pairs = scene.kept("schema-pairs", lambda: schemas.pairs(found))
    columns = {
        "topic": "Topic", "before": st.column_config.Column("From schema", width="medium"),
        "after": st.column_config.Column("To schema", width="medium"),
        "changes": parts.number_column("Changes", "In either direction: each of them closes files."),
        "back": parts.number_column("Back again", "Changes in the other direction: schemas that take turns."),
        "partitions": parts.number_column("Partitions"),
        "first": parts.time_column("First", scene.zone), "last": parts.time_column("Last", scene.zone),
    }  # fmt: skip
    shown = parts.timed(pairs.head(parts.SHOWN_ROWS), scene.zone, "first_ms", "last_ms")
    picked = parts.table(
        shown, columns, name="Schemas that followed each other, most changes first", key=TABLE, on_select="rerun",
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
    topic, names = str(pair["topic"]), (str(pair["before"]), str(pair["after"]))
    before, after = (_fields(scene, topic, name) for name in names)
    if before is not None and after is not None:
        lines = differences(before, after)
        st.markdown(f"**Fields of {plain(names[1])} against {plain(names[0])}**")
        st.code(
            "\n".join(lines) or "No field differs: names, versions or documentation do.", language=None, wrap_lines=True
        )
    own = found[((found["topic"] == topic) & found["before"].isin(names) & found["after"].isin(names)).to_numpy()]
    rows = own.tail(parts.SHOWN_ROWS).iloc[::-1].rename(columns={"committed_ms": "at_ms"})
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
    parts.cut_note(len(own))


def _fields(scene: Scene, topic: str, schema: str) -> dict[str, str] | None:
    """Fields and types of the newest object of a schema, None where they are on their way or cannot be told, which the page says."""
    facts, reader = schemas.newest_object(scene.files(*schemas.OBJECTS_OF), topic, schema), scene.at.reader
    if facts is None:
        return None

    def read(one: LoggedObject = facts) -> dict[str, str]:
        return {name: schemas.type_text(field) for name, field in object_columns(reader, [one]).columns.fields.items()}

    try:
        return asked(
            resources.answers(scene.variables), ("fields", scene.chosen.sink, facts.key), read,
            what=f"Reading the fields of {plain(schema)}",
        )  # fmt: skip
    except SinkError as error:
        st.info(plain(error), icon=":material/data_object:")
        return None
