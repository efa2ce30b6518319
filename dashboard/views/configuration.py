"""What is the sink set to? Effective settings with secrets masked, as far as the bucket or the start of the dashboard says."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from figures.text import plain
from kafka_s3.config.options.table import option_of
from kafka_s3.config.settings import Settings
from kafka_s3.config.validate import validate
from kafka_s3.control.commands import StoredConfig
from page import parts, states
from page.scene import Scene

TITLE: Final = "Configuration"
ICON: Final = ":material/tune:"
PATH: Final = "configuration"


def render(scene: Scene) -> None:
    """The page."""
    settings = scene.settings
    if settings is not None:
        _effective(scene, settings)
    elif isinstance(scene.snapshot.stored, StoredConfig):
        _broken(scene.snapshot.stored)
    else:
        _unknown(scene)
    _where(scene)


def _effective(scene: Scene, settings: Settings) -> None:
    started = scene.at.settings is settings
    st.caption(f"From {plain(scene.at.file)}." if started else _stored_note(scene))
    only = st.toggle("Only what is set", key="set", bind="query-params", help="Leaves the defaults out.")
    search = st.text_input("Search", key="search", bind="query-params", placeholder="part of a key or value")
    rows = [(key, value, settings.given(key), _explanation(key)) for key, value in settings.masked().items()]
    frame = pd.DataFrame(rows, columns=["key", "value", "given", "about"])
    if only:
        frame = frame[frame["given"]]
    if search:
        wanted = frame["key"].str.contains(search, case=False, regex=False) | frame["value"].str.contains(
            search, case=False, regex=False
        )
        frame = frame[wanted]
    if frame.empty:
        states.nothing("No such setting.")
        return
    columns = {
        "key": st.column_config.Column("Key", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "given": st.column_config.CheckboxColumn("Set", help="Set by the configuration or the worker's file, not a default."),
        "about": st.column_config.Column("Meaning", width="large"),
    }  # fmt: skip
    parts.table(frame, columns, name="Settings in effect", key="settings", height="auto")
    text = "".join(f"{key}={value}\n" for key, value in settings.masked().items())
    st.download_button(
        "Download (secrets masked)", text, f"{scene.chosen.sink}.properties", "text/plain", icon=":material/download:"
    )


def _stored_note(scene: Scene) -> str:
    stored = scene.snapshot.stored
    if not isinstance(stored, StoredConfig):
        return ""
    when, by = plain(stored.created_at), plain(stored.product)
    return f"From the bucket, stored {when} by kafka-s3 {by}. A sink that runs took its settings when it started."


def _broken(stored: StoredConfig) -> None:
    found = validate(dict(stored.config), worker=stored.worker).problems
    st.error("The stored configuration has problems; the sink will not start with it.", icon=":material/error:")
    st.code("\n".join(map(str, found)), language=None, wrap_lines=True)
    st.caption("Store it anew: `kafka-s3 create CONFIG --replace`")


def _unknown(scene: Scene) -> None:
    if isinstance(scene.snapshot.stored, str):
        st.error(plain(scene.snapshot.stored), icon=":material/broken_image:")
        return
    st.info(
        "This sink's configuration is not in the bucket, and the dashboard was not started with it.",
        icon=":material/tune:",
    )
    st.markdown("To see it here, start the dashboard with it, or store it beside the log (no secret is ever stored):")
    st.code("kafka-s3 dashboard CONFIG\nkafka-s3 create CONFIG", language="bash")


def _where(scene: Scene) -> None:
    st.subheader("Where things are", anchor=False)
    heartbeat = scene.snapshot.known.heartbeat if scene.snapshot.known else None
    rows = [("Bucket", f"s3://{scene.at.place.bucket}"), ("State", f"s3://{scene.at.place.bucket}/{scene.paths.root}")]
    if heartbeat is not None:
        rows.append(("Process", f"pid {heartbeat.pid} on {heartbeat.host}, kafka-s3 {heartbeat.product}"))
        rows.append(("Heartbeat", f"every {heartbeat.interval_ms / 1000:g} s"))
    parts.table(
        pd.DataFrame(rows, columns=["what", "where"]), {"what": "What", "where": "Where"}, name="Places", key="places"
    )


def _explanation(key: str) -> str:
    option = option_of(key)
    return "" if option is None else option.doc
