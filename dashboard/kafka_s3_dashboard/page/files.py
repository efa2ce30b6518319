"""Which files are these, and why did each close? A table of files, for every page that leads to some."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3_dashboard.page import parts
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading.frames import taken

FILE_COLUMNS: Final = (
    "version", "committed_ms", "topic", "partition", "first_offset", "last_offset", "records", "bytes", "min_ms", "max_ms", "encoded",
    "reason", "folder", "name",
)  # fmt: skip
"""The columns of files that the table shows, beside KINDS."""
TIMES: Final = ("committed_ms", "min_ms", "max_ms")


def files_table(scene: Scene, rows: pd.DataFrame, *, name: str, key: str) -> None:
    """These files, in the order given; a row opens the entry that committed it."""
    reasons = rows["reason"].value_counts()
    said = ", ".join(f"{count:,} by {reason}" for reason, count in reasons.items() if count)
    st.markdown(f"**{parts.counted(len(rows), 'file')}**: closed {said}." if said else "No file.")
    shown = parts.timed(rows.head(parts.SHOWN_ROWS), scene.zone, *TIMES)
    columns = {
        "committed": parts.time_column("Committed", scene.zone), "topic": "Topic", "partition": parts.number_column("Partition"),
        "reason": st.column_config.Column("Why closed", help="The key of the rule that closed it."),
        "records": parts.number_column("Records"), "bytes": parts.Size("Bytes"),
        "first_offset": parts.number_column("First offset"), "last_offset": parts.number_column("Last offset"),
        "min": parts.time_column("First record", scene.zone), "max": parts.time_column("Last record", scene.zone),
        "version": parts.number_column("Entry"), "encoded": "Directory", "name": st.column_config.Column("Object", width="large"),
    }  # fmt: skip
    parts.table(shown, columns, name=name, key=key)
    parts.cut_note(len(rows), first="newest")


def made_at(rows: pd.DataFrame, at_ms: int, step_ms: int) -> pd.DataFrame:
    """Those of the files that were committed in a step of time, the newest first."""
    times = rows["committed_ms"].to_numpy()
    return taken(rows, (times >= at_ms) & (times < at_ms + step_ms)).iloc[::-1]
