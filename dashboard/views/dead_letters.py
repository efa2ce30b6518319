"""What went wrong? Dead letters counted from the log, read from their files on demand, and the commands that settle them."""

from __future__ import annotations

import shlex
from typing import Final

import pandas as pd
import streamlit as st

from figures import charts, data, letter_tables
from figures.text import plain
from kafka_s3.commit.dead_letters import FiledLetter, LetterSelection, LetterState
from kafka_s3.model.failures import Stage
from kafka_s3.tools.dead_letters.text import details
from page import parts, states
from page.scene import Scene
from reading import letters
from reading.letters import FoundLetters

TITLE: Final = "Dead letters"
ICON: Final = ":material/drafts:"
PATH: Final = "dead-letters"
ANY: Final = "any"
OPEN_ONLY: Final = "open"


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
    selection = _filters(scene)
    candidates = data.within(letters.letter_files(scene.snapshot.frames), scene.wanted)
    size = int(candidates["bytes"].sum())
    if not st.toggle(f"Read the letters ({len(candidates):,} files, {size:,} bytes)", key="letters", bind="query-params",
                     help="Reads the dead letter files of the chosen time: these hold the records as they were consumed."):  # fmt: skip
        st.caption("Until then nothing of any record is read: the counts above come from the commit log.")
        return
    with st.spinner("Reading dead letter files ..."):
        found = _read(scene, candidates, selection)
    if found.missing:
        st.warning(
            f"{len(found.missing)} dead letter files are not in the bucket: {plain(', '.join(found.missing[:3]))}",
            icon=":material/search_off:",
        )
    if not found.letters:
        states.nothing("No dead letter fits these filters.")
        return
    _found(scene, found, selection)


def _filters(scene: Scene) -> LetterSelection:
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
    return LetterSelection(
        stage=None if stage == ANY else stage,
        states=frozenset(LetterState) if state == ANY else frozenset({LetterState(str(state))}),
        exception=exception.strip() or None,
        partition=None if partition is None else int(partition),
        offset=None if offset is None else int(offset),
    )


def _read(scene: Scene, candidates: pd.DataFrame, selection: LetterSelection) -> FoundLetters:
    """What is on the page is read once, not at each refresh: the last answer is kept for the session."""
    about = (
        scene.chosen.sink,
        selection,
        tuple(candidates["version"].tail(letters.MOST_FILES)),
        len(scene.snapshot.frames.entries),
    )
    kept = st.session_state.get("read-letters")
    if kept is None or kept[0] != about:
        kept = (about, letters.read_letters(scene.at.reader, scene.snapshot.frames, candidates, selection))
        st.session_state["read-letters"] = kept
    return kept[1]


def _found(scene: Scene, found: FoundLetters, selection: LetterSelection) -> None:
    classes = letter_tables.by_class(found.letters)
    parts.chart(charts.ranked(classes.head(20), "letters", by="class", titles=("letters", "exception class")),
                name=f"Letters by exception class; most are {classes['class'].iloc[0]}", key="classes-chart")  # fmt: skip
    table = letter_tables.letters_table(found.letters[: parts.SHOWN_ROWS])
    columns = {
        "topic": "Topic", "partition": "Partition", "offset": parts.number_column("Offset"), "stage": "Stage",
        "message": st.column_config.Column("Message", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "key": "Key", "since": parts.time_column("Dead letter since", scene.zone), "state": "State", "exception": "Exception class",
    }  # fmt: skip
    rows = parts.timed(table.rename(columns={"committed_ms": "since_ms"}), scene.zone, "since_ms")
    picked = parts.table(
        rows, columns, name="Dead letters", key="letters-table", on_select="rerun", selection_mode="single-row"
    )
    parts.cut_note(len(found.letters))
    if found.cut:
        st.caption(
            f"Of {found.cut:,} large files only the first letters were read; `kafka-s3 dead-letters export` writes all."
        )
    if found.unread or not (found.whole or found.cut):
        st.caption(f"{found.unread:,} older files were not read. A shorter time, or more filters, brings them in; "
                   "`kafka-s3 dead-letters export` writes all.")  # fmt: skip
    st.download_button(
        f"Export {len(found.letters):,} letters as CSV", lambda: letter_tables.export(found.letters),
        f"{scene.chosen.sink}-dead-letters.csv",
        "text/csv", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    _one(found.letters, picked.selection.rows)
    _commands(scene, selection)


def _one(found: tuple[FiledLetter, ...], rows: list[int]) -> None:
    """Everything of one letter, as text that nothing obeys."""
    st.subheader("One letter", anchor=False)
    if rows and rows[0] < len(found):
        chosen = found[rows[0]]
    elif len(found) == 1:
        chosen = found[0]
    else:
        st.caption("Choose a row of the table, or write its partition and offset above.")
        return
    texts = list(details(chosen))
    st.code(
        "\n".join(f"{name}: {text}" for name, text in texts if not name.endswith((", hex", ", base64"))),
        language=None,
        wrap_lines=True,
    )
    raw = [(name, text) for name, text in texts if name.endswith((", hex", ", base64"))]
    if raw:
        with st.expander("Raw bytes"):
            st.code("\n".join(f"{name}: {text}" for name, text in raw), language=None, wrap_lines=True)


def _commands(scene: Scene, selection: LetterSelection) -> None:
    st.subheader("To settle them", anchor=False)
    config = scene.at.command(scene.chosen.sink)
    words = filters(scene, selection)
    st.code(
        f"kafka-s3 dead-letters replay {config}{words} --dry-run\n"
        f"kafka-s3 dead-letters replay {config}{words}\n"
        f"kafka-s3 dead-letters resolve {config}{words} --reason 'why they need not be written'",
        language="bash", wrap_lines=True,
    )  # fmt: skip
    st.caption(
        "The dashboard changes nothing. Correct the cause, stop the sink, look with `--dry-run`, then replay and start it again."
    )


def filters(scene: Scene, selection: LetterSelection) -> str:
    """The filters of the page as options of the command line, safe to paste into a shell."""
    pairs = [
        ("--topic", scene.chosen.topics[0] if len(scene.chosen.topics) == 1 else None), ("--stage", selection.stage),
        ("--class", selection.exception), ("--partition", selection.partition), ("--offset", selection.offset),
    ]  # fmt: skip
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None)
