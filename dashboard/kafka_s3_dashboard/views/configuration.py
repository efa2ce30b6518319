"""What is the sink set to, and what was changed? Settings with secrets masked, as the sink noted them or the dashboard was given them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd
import streamlit as st

from kafka_s3.connect.config.options.table import option_of
from kafka_s3.connect.config.validate import validate
from kafka_s3.engine.control.stored_settings import NotedSettings, StoredConfig, changes
from kafka_s3_dashboard.figures import data
from kafka_s3_dashboard.figures.text import duration_text, plain
from kafka_s3_dashboard.page import parts
from kafka_s3_dashboard.page.scene import Scene

TITLE: Final = "Configuration"
ICON: Final = ":material/tune:"
PATH: Final = "configuration"
UNSET: Final = "(not known to it)"


def render(scene: Scene) -> None:
    """The page."""
    notes, stored = scene.snapshot.notes, scene.snapshot.stored
    if isinstance(notes, str):
        st.error(plain(notes), icon=":material/broken_image:")
    if isinstance(stored, str):
        st.error(plain(stored), icon=":material/broken_image:")
    if isinstance(stored, StoredConfig):
        _problems(stored)
    known = notes[-1] if notes and not isinstance(notes, str) else None
    settings = scene.settings
    if scene.bucket.settings is not None and settings is scene.bucket.settings:
        st.caption(
            f"From {plain(scene.bucket.file)}. A sink that runs took its settings when it started; what changed is below."
        )
    elif known is not None:
        at = data.local(pd.Series([known.at_ms]), scene.zone).iloc[0]
        st.caption(
            f"In effect since {at:%Y-%m-%d %H:%M:%S} (epoch {known.epoch}), as kafka-s3 {plain(known.product)} noted at its start."
        )
    elif isinstance(stored, StoredConfig) and settings is not None:
        st.caption(
            f"From the bucket, stored {plain(stored.created_at)} by kafka-s3 {plain(stored.product)}; not started since."
        )
    if known is not None and settings is not scene.bucket.settings:
        _settings(scene, known.settings, frozenset(known.given))
    elif settings is not None:
        shown = settings.masked()
        _settings(scene, shown, frozenset(key for key in shown if settings.given(key)))
    elif stored is None:
        _unknown()
    if not isinstance(notes, str) and notes:
        _changes(scene, notes)
    _where(scene)


def _settings(scene: Scene, shown: Mapping[str, str], given: frozenset[str]) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        search = st.text_input(
            "Search", key="search", bind="query-params", placeholder="part of a key or value", width=320
        )
        every = st.toggle("Defaults, too", key="defaults", bind="query-params")
    about = {key: option.doc for key in shown if (option := option_of(key)) is not None}
    rows = [(key, value, key in given, about.get(key, "")) for key, value in shown.items() if every or key in given]
    frame = pd.DataFrame(rows, columns=["key", "value", "given", "about"]).sort_values(
        "given", ascending=False, kind="stable"
    )
    if search:
        texts = (frame["key"] + "\n" + frame["value"]).astype(str)
        frame = frame[texts.str.contains(search, case=False, regex=False)]
    if frame.empty:
        st.info("No such setting. \u201cDefaults, too\u201d looks at all of them.", icon=":material/search_off:")
        return
    columns = {
        "key": st.column_config.Column("Key", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "about": st.column_config.Column("Meaning", width="large"),
    }  # fmt: skip
    if every:
        columns["given"] = st.column_config.CheckboxColumn(
            "Set", help="By the configuration or the worker's file, not a default."
        )
    parts.table(frame, columns, name="Settings in effect", key="settings", height="auto")
    text = "".join(f"{key}={value}\n" for key, value in shown.items())
    st.download_button(
        "Download all (secrets masked)", text, f"{scene.chosen.sink}.properties", "text/plain", icon=":material/download:",
        on_click="ignore",
    )  # fmt: skip


def _changes(scene: Scene, notes: tuple[NotedSettings, ...]) -> None:
    st.subheader("What changed", anchor=False)
    found = changes(notes)
    if not found:
        st.caption(f"Nothing since epoch {notes[0].epoch}, the first one that noted its settings.")
        return
    rows = pd.DataFrame(
        [(one.epoch, one.at_ms, one.key, UNSET if one.before is None else one.before, UNSET if one.after is None else one.after)
         for one in found],
        columns=["epoch", "at_ms", "key", "before", "after"],
    )  # fmt: skip
    columns = {
        "epoch": parts.number_column("From epoch"), "at": parts.time_column("Since", scene.zone), "key": "Key", "before": "Before",
        "after": "After",
    }  # fmt: skip
    shown = parts.timed(rows.head(parts.SHOWN_ROWS), scene.zone, "at_ms")
    parts.table(shown, columns, name="Settings that changed, newest first", key="changes")
    parts.cut_note(len(rows))
    st.caption("A secret is always shown as ****: whether it was changed is not known.")


def _problems(stored: StoredConfig) -> None:
    found = validate(dict(stored.config), worker=stored.worker).problems
    if found:
        st.error("The stored configuration has problems; the sink will not start with it.", icon=":material/error:")
        st.code("\n".join(map(str, found)), language=None, wrap_lines=True)
        st.caption("Store it again: `kafka-s3 create CONFIG --replace`")


def _unknown() -> None:
    st.info(
        "This sink has not noted its settings: it was last started by an earlier version. Its next start does.",
        icon=":material/tune:",
    )
    st.markdown(
        "To see them now, start the dashboard with the configuration, or store it beside the log (no secret is ever stored):"
    )
    st.code("kafka-s3 dashboard CONFIG\nkafka-s3 create CONFIG", language="bash")


def _where(scene: Scene) -> None:
    st.subheader("Where things are", anchor=False)
    heartbeat = scene.snapshot.known.heartbeat if scene.snapshot.known else None
    rows = [
        ("Bucket", f"s3://{scene.bucket.folder.bucket}"),
        ("State", f"s3://{scene.bucket.folder.bucket}/{scene.paths.root}"),
    ]
    if heartbeat is not None:
        rows.append(("Process", f"pid {heartbeat.pid} on {heartbeat.host}, kafka-s3 {heartbeat.product}"))
        rows.append(("Heartbeat", f"every {duration_text(heartbeat.interval_ms)}"))
    parts.table(
        pd.DataFrame(rows, columns=["what", "where"]), {"what": "What", "where": "Where"}, name="Places", key="places"
    )
