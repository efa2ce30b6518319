"""Everything of one dead letter, as text that nothing obeys, no more of it than a page can bear; the rest as downloads."""

from __future__ import annotations

import shlex

import streamlit as st

from figures import letter_tables
from figures.text import plain
from figures.units import size_text
from kafka_s3.connect.config.validate import resolved
from kafka_s3.engine.log.dead_letters import FiledLetter
from kafka_s3.model.errors import SinkError
from page import resources
from page.asking import asked
from page.scene import Scene
from reading.decoding import DecodedContent, LetterDecoder


def render(scene: Scene, chosen: FiledLetter) -> None:
    """The letter, decoded where a registry is configured, and the commands that settle it alone."""
    texts = list(letter_tables.told(chosen))
    st.code("\n".join(f"{name}: {text}" for name, text in texts if not _is_raw(name)), language=None, wrap_lines=True)
    _decoded(scene, chosen)
    for name, raw in (("key", chosen.letter.key), ("value", chosen.letter.value)):
        _content(chosen, name, raw)
    raw_texts = [(name, text) for name, text in texts if _is_raw(name)]
    if raw_texts:
        with st.expander("Raw bytes"):
            st.code("\n".join(f"{name}: {text}" for name, text in raw_texts), language=None, wrap_lines=True)
    letter = chosen.letter
    words = f" --topic {shlex.quote(letter.topic)} --partition {letter.partition} --offset {letter.offset}"
    st.caption("To settle this one:")
    st.code(settling(scene.at.command(scene.chosen.sink), words), language="bash", wrap_lines=True)


def settling(config: str, words: str) -> str:
    """The commands that replay or resolve what these options select."""
    return (
        f"kafka-s3 dead-letters replay {config}{words} --dry-run\n"
        f"kafka-s3 dead-letters replay {config}{words}\n"
        f"kafka-s3 dead-letters resolve {config}{words} --reason 'why they need not be written'"
    )


def _is_raw(name: str) -> bool:
    return name.endswith((", hex", ", base64"))


def _content(chosen: FiledLetter, name: str, raw: bytes | None) -> None:
    """Laid out where it is JSON; the whole of it where it was shortened."""
    if (text := letter_tables.pretty(raw)) is not None:
        st.markdown(f"**{name.capitalize()}**")
        st.code(text, language="json", wrap_lines=True)
    if raw is not None and len(raw) > letter_tables.SHOWN_BYTES:
        st.download_button(
            f"The whole {name}, {size_text(len(raw))} (shown: {size_text(letter_tables.SHOWN_BYTES)})", lambda: raw,
            f"{letter_tables.name_of(chosen.letter)}-{name}", icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def _decoded(scene: Scene, chosen: FiledLetter) -> None:
    """By the registry of the configuration that the dashboard was started with; one that lies in the bucket is not trusted with logins."""
    settings, letter = scene.at.settings, chosen.letter
    if settings is None or scene.chosen.sink != scene.at.sink or scene.at.masked:
        return

    def decode() -> list[DecodedContent]:
        return resources.decoder(scene.variables, scene.chosen.sink, lambda: LetterDecoder(resolved(settings))).decoded(
            letter
        )

    key = ("decoded", scene.chosen.sink, letter_tables.name_of(letter), chosen.entry)
    try:
        found = asked(resources.answers(scene.variables), key, decode, what="Asking the schema registry")
    except (SinkError, ValueError) as error:
        st.caption(f"It is not decoded: {plain(error)}")
        return
    for one in found or []:
        _decoded_content(one, letter_tables.name_of(letter))


def _decoded_content(one: DecodedContent, letter: str) -> None:
    schema = f"schema {one.schema}" if one.schema else "it names no schema"
    st.markdown(f"**{str(one.role).capitalize()}, decoded** ({plain(schema)})")
    if one.failure:
        st.caption(plain(one.failure))
        return
    st.code(one.text[: letter_tables.SHOWN_BYTES], language="json", wrap_lines=True)
    if len(one.text) > letter_tables.SHOWN_BYTES:
        st.download_button(
            f"All of it, {size_text(len(one.text))}", lambda: one.text, f"{letter}-{one.role}.json", icon=":material/download:",
            on_click="ignore",
        )  # fmt: skip
