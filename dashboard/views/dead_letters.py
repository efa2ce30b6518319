"""What went wrong? Dead letters counted from the log, read from their files on demand, and the commands that settle them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

import pandas as pd
import streamlit as st

from figures import charts, data, letter_tables
from figures.rotations import size_text
from figures.text import plain
from kafka_s3.commit.dead_letters import FiledLetter, LetterSelection, LetterState
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.model.failures import Stage
from kafka_s3.tools.dead_letters.text import details
from page import parts, resources, states
from page.scene import Scene
from reading import letters
from reading.letters import FoundLetters

TITLE: Final = "Dead letters"
ICON: Final = ":material/drafts:"
PATH: Final = "dead-letters"
ANY: Final = "any"
TABLE: Final = "letters-table"
LETTER: Final = "letter"
"""The letter that is shown, in the address: `orders-0-28`."""


def render(scene: Scene) -> None:
    """The page."""
    if states.empty_window(scene):
        return
    counts = data.dead_letter_counts(scene.frames.counts)
    if counts.empty:
        states.nothing("No record became a dead letter in this time.")
        return
    _figures(scene, counts)
    _charts(scene, counts)
    _browse(scene)


def _figures(scene: Scene, counts: pd.DataFrame) -> None:
    became, settled = int(counts["count"].clip(lower=0).sum()), int(-counts["count"].clip(upper=0).sum())
    read = scene.totals["read"]
    parts.figures([
        ("Dead letters", f"{became:,}", "Records of the chosen time that could not be written."),
        ("Settled", f"{settled:,}", "Replayed or resolved in the chosen time."),
        ("Open", f"{became - settled:,}", "Not written, and not resolved."),
        ("Share of records", f"{became / read:.2%}" if read else "-", "Of all records that were read."),
    ])  # fmt: skip


def _charts(scene: Scene, counts: pd.DataFrame) -> None:
    found = data.letters_over_time(counts, scene.window)
    if not found.empty:
        found = found.assign(at=data.wall(found["at_ms"], scene.zone), stage=found["stage"].astype(str))
        domain = [str(stage) for stage in Stage if str(stage) in set(found["stage"])]
        drawn = charts.bars_over_time(
            found, "count", by="stage", axis=scene.axis, titles=("records", "stage"), domain=domain
        )
        parts.chart(
            drawn,
            name=f"Records that became dead letters over time, by stage; {int(found['count'].sum()):,} in all",
            key="letters-chart",
        )
    columns = {
        "topic": "Topic", "partition": parts.number_column("Partition"), "stage": "Stage",
        "became": parts.number_column("Became dead letters"), "settled": parts.number_column("Settled"),
        "open": parts.number_column("Open"),
    }  # fmt: skip
    parts.table(
        data.letters_by(counts, "topic", "partition", "stage"),
        columns,
        name="Dead letters by topic-partition and stage",
        key="letters-by",
    )


def _browse(scene: Scene) -> None:
    st.subheader("Browse", anchor=False)
    selection, search = _filters(scene)
    candidates = data.within(letters.letter_files(scene.snapshot.frames), scene.wanted)
    size = int(candidates["bytes"].sum())
    if not st.toggle(f"Read the letters ({len(candidates):,} files, {size:,} bytes)", key="letters", bind="query-params",
                     help="Reads the dead letter files of the chosen time: these hold the records as they were consumed."):  # fmt: skip
        st.caption("Until then nothing of any record is read: the counts above come from the commit log.")
        return
    with st.spinner("Reading dead letter files ..."):
        found = _read(scene, candidates, selection, search)
    if found.missing:
        st.warning(
            f"{len(found.missing)} dead letter files are not in the bucket: {plain(', '.join(found.missing[:3]))}",
            icon=":material/search_off:",
        )
    if not found.letters:
        states.nothing("No dead letter that was read fits these filters.")
    else:
        _found(scene, found)
    _left_out(found)
    _one(scene, found.letters)
    if found.letters:
        _commands(scene, selection, search)


@dataclass(frozen=True, slots=True)
class Search:
    """What the log's own filters cannot say: a text in the record or its message, and a range of offsets, both ends included."""

    text: str = ""
    first: int | None = None
    last: int | None = None

    def wants(self, letter: DeadLetter) -> bool:
        """Whether a letter is looked for."""
        return (
            (self.first is None or letter.offset >= self.first)
            and (self.last is None or letter.offset <= self.last)
            and (not self.text or letter_tables.holds(letter, self.text))
        )


def _filters(scene: Scene) -> tuple[LetterSelection, Search]:
    with st.container(horizontal=True, gap="small"):
        stage = st.selectbox("Stage", [ANY, *map(str, Stage)], key="stage", bind="query-params", width=170)
        state = st.selectbox(
            "State", [ANY, *map(str, LetterState)], index=1, key="state", bind="query-params", width=120
        )
        exception = st.text_input(
            "Exception class", key="class", bind="query-params", placeholder="whole, or its last part", width=200
        )
        partition = st.number_input(
            "Partition", min_value=0, value=None, key="partition", bind="query-params", width=115
        )
        offset = st.number_input("Offset", min_value=0, value=None, key="offset", bind="query-params", width=130)
        last = st.number_input("to offset", min_value=0, value=None, key="last", bind="query-params", width=130,
                               help="With it, all offsets from the one before to this one.")  # fmt: skip
        text = st.text_input(
            "Text", key="text", bind="query-params", placeholder="in message, key, value, header", width=260
        )
    alone = last is None and offset is not None
    search = Search(text.strip(), None if alone or offset is None else int(offset), None if last is None else int(last))
    return LetterSelection(
        stage=None if stage == ANY else stage,
        states=frozenset(LetterState) if state == ANY else frozenset({LetterState(str(state))}),
        exception=exception.strip() or None,
        partition=None if partition is None else int(partition),
        offset=int(offset) if alone and offset is not None else None,
    ), search


def _read(scene: Scene, candidates: pd.DataFrame, selection: LetterSelection, search: Search) -> FoundLetters:
    """What is on the page is read once, not at each refresh, and for all who look."""
    about = (selection, search, tuple(candidates["version"].tail(letters.MOST_FILES)))
    frames = scene.snapshot.frames
    return resources.letters(scene.variables, scene.chosen.sink).of(
        frames,
        about,
        make=lambda: letters.read_letters(scene.at.reader, frames, candidates, selection, wanted=search.wants),
    )


def _found(scene: Scene, found: FoundLetters) -> None:
    patterns = letter_tables.by_pattern(found.letters)
    columns = {
        "pattern": st.column_config.Column("Message", width="large"), "stage": "Stage", "letters": parts.number_column("Letters"),
        "first": parts.time_column("First", scene.zone), "last": parts.time_column("Last", scene.zone), "example": "For example",
    }  # fmt: skip
    shown = parts.timed(patterns.head(parts.SHOWN_ROWS), scene.zone, "first_ms", "last_ms")
    parts.table(shown, columns, name="Dead letters by what their messages have in common", key="patterns")
    table = letter_tables.letters_table(found.letters[: parts.SHOWN_ROWS])
    columns = {
        "topic": "Topic", "partition": "Partition", "offset": parts.number_column("Offset"), "stage": "Stage",
        "message": st.column_config.Column("Message", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "key": "Key", "since": parts.time_column("Dead letter since", scene.zone), "state": "State", "exception": "Exception class",
    }  # fmt: skip
    rows = parts.timed(table.rename(columns={"committed_ms": "since_ms"}), scene.zone, "since_ms")
    names = [letter_tables.name_of(one.letter) for one in found.letters[: parts.SHOWN_ROWS]]
    parts.table(
        rows, columns, name="Dead letters", key=TABLE, on_select=lambda: _choose(names), selection_mode="single-row"
    )
    parts.cut_note(len(found.letters))
    st.download_button(
        f"Export {len(found.letters):,} letters as CSV", lambda: letter_tables.export(found.letters),
        f"{scene.chosen.sink}-dead-letters.csv",
        "text/csv", icon=":material/download:", on_click="ignore",
    )  # fmt: skip


def _left_out(found: FoundLetters) -> None:
    """Says what was not read, each for its own reason."""
    way = "A shorter time, or more filters, brings them in; `kafka-s3 dead-letters export` writes all."
    if found.cut:
        st.caption(f"Of {found.cut:,} large files only the first letters were read. {way}")
    if found.full:
        st.caption(f"There are more than these {len(found.letters):,} letters. {way}")
    if found.unread:
        st.caption(f"{found.unread:,} older files were not read. {way}")


def _choose(names: list[str]) -> None:
    """The chosen letter goes into the address by what it is, not by its row: new letters come above it."""
    rows = st.session_state[TABLE].selection.rows
    if rows and rows[0] < len(names):
        st.query_params[LETTER] = names[rows[0]]
    else:
        st.query_params.pop(LETTER, None)


def _one(scene: Scene, found: tuple[FiledLetter, ...]) -> None:
    """Everything of one letter, as text that nothing obeys."""
    st.subheader("One letter", anchor=False)
    chosen = _chosen(scene, found)
    if chosen is None:
        st.caption("Choose a row of the table, or write its partition and offset above.")
        return
    texts = list(details(letter_tables.shortened(chosen)))
    st.code(
        "\n".join(f"{name}: {text}" for name, text in texts if not name.endswith((", hex", ", base64"))),
        language=None,
        wrap_lines=True,
    )
    for name, raw in (("key", chosen.letter.key), ("value", chosen.letter.value)):
        if (text := letter_tables.pretty(raw)) is not None:
            st.markdown(f"**{name.capitalize()}**")
            st.code(text, language="json", wrap_lines=True)
        if raw is not None and len(raw) > letter_tables.SHOWN_BYTES:
            st.download_button(
                f"The whole {name}, {size_text(len(raw))} (shown: {size_text(letter_tables.SHOWN_BYTES)})", raw,
                f"{letter_tables.name_of(chosen.letter)}-{name}", icon=":material/download:", on_click="ignore",
            )  # fmt: skip
    raw_texts = [(name, text) for name, text in texts if name.endswith((", hex", ", base64"))]
    if raw_texts:
        with st.expander("Raw bytes"):
            st.code("\n".join(f"{name}: {text}" for name, text in raw_texts), language=None, wrap_lines=True)
    config, letter = scene.at.command(scene.chosen.sink), chosen.letter
    words = f" --topic {shlex.quote(letter.topic)} --partition {letter.partition} --offset {letter.offset}"
    st.caption("To settle this one:")
    st.code(_settling(config, words), language="bash", wrap_lines=True)


def _chosen(scene: Scene, found: tuple[FiledLetter, ...]) -> FiledLetter | None:
    """The letter that the address names, wherever it is in the chosen time; else the only one there is."""
    place = letter_tables.place_of(st.query_params.get(LETTER, ""))
    if place is None:
        return found[0] if len(found) == 1 else None
    for one in found:
        if (one.letter.topic, one.letter.partition, one.letter.offset) == place:
            return one
    selection = LetterSelection(topic=place[0], partition=place[1], offset=place[2])
    files = letters.letter_files(scene.snapshot.frames)
    return next(iter(_read(scene, files, selection, Search()).letters), None)


def _commands(scene: Scene, selection: LetterSelection, search: Search) -> None:
    st.subheader("To settle all that match", anchor=False)
    if search != Search():
        st.caption("Commands take no text and no range of offsets: without these filters they are shown here.")
        return
    st.code(_settling(scene.at.command(scene.chosen.sink), filters(scene, selection)), language="bash", wrap_lines=True)
    st.caption(
        "The dashboard changes nothing. Correct the cause, stop the sink, look with `--dry-run`, then replay and start it again."
    )


def _settling(config: str, words: str) -> str:
    return (
        f"kafka-s3 dead-letters replay {config}{words} --dry-run\n"
        f"kafka-s3 dead-letters replay {config}{words}\n"
        f"kafka-s3 dead-letters resolve {config}{words} --reason 'why they need not be written'"
    )


def filters(scene: Scene, selection: LetterSelection) -> str:
    """The filters of the page as options of the command line, safe to paste into a shell."""
    pairs = [
        ("--topic", scene.chosen.topics[0] if len(scene.chosen.topics) == 1 else None), ("--stage", selection.stage),
        ("--class", selection.exception), ("--partition", selection.partition), ("--offset", selection.offset),
    ]  # fmt: skip
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None)
