"""What went wrong? Dead letters counted from the log, read from their files on demand, and the commands that settle them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

import pandas as pd
import streamlit as st

from figures import charts, data, letter_tables
from figures.text import plain
from kafka_s3.engine.log.dead_letters import FiledLetter, LetterSelection
from kafka_s3.model.dead_letters import Stage
from page import one_letter, parts, resources, states
from page.asking import asked
from page.letter_search import Search, as_options, letter_search
from page.scene import Scene
from reading import letters
from reading.letters import FoundLetters, LetterFiles, LetterPlace

TITLE: Final = "Dead letters"
ICON: Final = ":material/drafts:"
PATH: Final = "dead-letters"
TABLE: Final = "letters-table"
LETTER: Final = "letter"
"""The letter that is shown, in the address: `orders-0-28`."""
BEGINS: Final = "letters-begin"
"""Where the pages begin that the reader has turned, with the question that they are of."""
T = TypeVar("T")


def render(scene: Scene) -> None:
    """The page."""
    if states.empty_window(scene):
        return
    counts = data.dead_letter_counts(scene.counts)
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
            name="Records that became dead letters over time, by stage",
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
    selection, search = letter_search()
    candidates = data.within(_letter_files(scene), scene.wanted)
    size = int(candidates["bytes"].sum())
    if not st.toggle(f"Read the letters ({len(candidates):,} files, {size:,} bytes)", key="letters", bind="query-params",
                     help="Reads the dead letter files of the chosen time: these hold the records as they were consumed."):  # fmt: skip
        st.caption("Until then nothing of any record is read: the counts above come from the commit log.")
        return
    question = _Question(scene, candidates, selection, search)
    begins = question.begins()
    found = question.page(begins[-1] if begins else None)
    if found is not None:
        _missing(found)
        if found.letters:
            _patterns(question)
            _table(scene, found, len(begins))
        else:
            st.info("No dead letter that was read fits these filters.", icon=":material/search_off:")
        _turn(question, found, begins)
    _one(scene, found.letters if found else ())
    if found is not None and found.letters:
        _commands(scene, selection, search)


class _Question:
    """What is looked for, of one state of the log: the same question of others is answered from memory."""

    def __init__(self, scene: Scene, candidates: pd.DataFrame, selection: LetterSelection, search: Search) -> None:
        self.scene, self.candidates, self.selection, self.search = scene, candidates, selection, search
        versions = candidates["version"]
        notes = int((scene.snapshot.frames.entries["note"] != "").sum())
        ends = (int(versions.iloc[0]), int(versions.iloc[-1])) if len(versions) else (0, 0)
        self.about: tuple[Hashable, ...] = (
            scene.chosen.sink,
            selection,
            search,
            scene.at.masked,
            len(versions),
            *ends,
            notes,
        )

    def page(self, begin: LetterPlace | None) -> FoundLetters | None:
        """A page of letters, None while it is read. Raises SinkError."""
        key = ("page", begin, *self.about)
        return self._asked(key, lambda: letters.read_page(self._source(), begin), "Reading dead letter files")

    def patterns(self) -> pd.DataFrame | None:
        """All that fit, by what their messages have in common; None while they are counted. Raises SinkError."""
        make = lambda: letter_tables.by_pattern(letters.every_letter(self._source()))  # noqa: E731
        return self._asked(("patterns", *self.about), make, "Counting the letters by their messages")

    def begins(self) -> list[LetterPlace]:
        """Where the pages begin that were turned, the newest first; none for another question."""
        asked_about, begins = st.session_state.get(BEGINS, (None, []))
        return begins if asked_about == self._shown() else []

    def turn(self, begins: list[LetterPlace]) -> None:
        """Goes to the page that begins at the last of these."""
        st.session_state[BEGINS] = (self._shown(), begins)

    def _shown(self) -> tuple[Hashable, ...]:
        """The question as the reader sees it: letters that come meanwhile do not turn the page."""
        return (self.scene.chosen.sink, self.selection, self.search, self.scene.chosen.topics, self.scene.chosen.span)

    def _asked(self, key: tuple[Hashable, ...], make: Callable[[], T], what: str) -> T | None:
        return asked(resources.letters(self.scene.variables), key, make, what=what)

    def _source(self) -> LetterFiles:
        frames, masked = self.scene.snapshot.frames, self.scene.at.masked
        return letters.source_of(
            self.scene.at.reader, frames, self.candidates, self.selection, wanted=self.search.wants, masked=masked
        )


def _missing(found: FoundLetters) -> None:
    if found.missing:
        st.warning(
            f"{len(found.missing)} dead letter files are not in the bucket: {plain(', '.join(found.missing[:3]))}",
            icon=":material/search_off:",
        )


def _patterns(question: _Question) -> None:
    patterns = question.patterns()
    if patterns is None:
        return
    columns = {
        "pattern": st.column_config.Column("Message", width="large"), "stage": "Stage", "letters": parts.number_column("Letters"),
        "first": parts.time_column("First", question.scene.zone), "last": parts.time_column("Last", question.scene.zone),
        "example": "For example",
    }  # fmt: skip
    patterns = patterns.assign(pattern=letter_tables.told_apart(patterns["pattern"].tolist()))
    shown = parts.timed(patterns, question.scene.zone, "first_ms", "last_ms")
    parts.table(shown, columns, name="Dead letters by what their messages have in common", key="patterns")
    if len(question.candidates) > letters.MOST_COUNTED:
        st.caption(f"Of the newest {letters.MOST_COUNTED:,} files; a shorter time tells of older ones.")


def _table(scene: Scene, found: FoundLetters, turned: int) -> None:
    table = letter_tables.letters_table(found.letters)
    columns = {
        "topic": "Topic", "partition": "Partition", "offset": parts.number_column("Offset"), "stage": "Stage",
        "message": st.column_config.Column("Message", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "key": "Key", "since": parts.time_column("Dead letter since", scene.zone), "state": "State", "exception": "Exception class",
    }  # fmt: skip
    rows = parts.timed(table.rename(columns={"committed_ms": "since_ms"}), scene.zone, "since_ms")
    names = [letter_tables.name_of(one.letter) for one in found.letters]
    parts.table(
        rows, columns, name=f"Dead letters, page {turned + 1}", key=TABLE, on_select=lambda: _choose(names),
        selection_mode="single-row",
    )  # fmt: skip
    st.download_button(
        f"Export these {len(found.letters):,} letters as CSV", lambda: letter_tables.export(found.letters),
        f"{scene.chosen.sink}-dead-letters.csv", "text/csv", icon=":material/download:", on_click="ignore",
    )  # fmt: skip


def _turn(question: _Question, found: FoundLetters, begins: list[LetterPlace]) -> None:
    """Newer and older pages, so that every letter can be reached."""
    older = found.older
    if not begins and older is None:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.button("Newer", key="newer", icon=":material/arrow_back:", disabled=not begins,
                  on_click=lambda: question.turn(begins[:-1]))  # fmt: skip
        st.button("Older", key="older", icon=":material/arrow_forward:", disabled=older is None,
                  on_click=lambda: question.turn([*begins, older] if older else begins))  # fmt: skip
        end = "" if older else ", the last one"
        st.caption(
            f"Page {len(begins) + 1}{end}: {len(found.letters):,} letters, of {found.files:,} files. "
            "`kafka-s3 dead-letters export` writes all of them."
        )


def _choose(names: list[str]) -> None:
    """The chosen letter goes into the address by what it is, not by its row: new letters come above it."""
    rows = st.session_state[TABLE].selection.rows
    if rows and rows[0] < len(names):
        st.query_params[LETTER] = names[rows[0]]
    else:
        st.query_params.pop(LETTER, None)


def _one(scene: Scene, found: tuple[FiledLetter, ...]) -> None:
    st.subheader("One letter", anchor=False)
    name = st.query_params.get(LETTER, "")
    place = letter_tables.place_of(name)
    if place is None:
        if len(found) == 1:
            one_letter.render(scene, found[0])
        else:
            st.caption("Choose a row of the table, or write its partition and offset above.")
        return
    for one in found:
        if (one.letter.topic, one.letter.partition, one.letter.offset) == place:
            one_letter.render(scene, one)
            return
    files = _letter_files(scene)
    selection = LetterSelection(topic=place[0], partition=place[1], offset=place[2])
    alone = _Question(scene, files, selection, Search()).page(None)
    if alone is not None and alone.letters:
        one_letter.render(scene, alone.letters[0])
    elif alone is not None:
        st.caption(f"No dead letter of the log is {plain(name)}. Choose another row of the table.")


def _commands(scene: Scene, selection: LetterSelection, search: Search) -> None:
    st.subheader("To settle all that match", anchor=False)
    if search != Search():
        st.caption("Commands take no text and no range of offsets: without these filters they are shown here.")
        return
    options = as_options(selection, scene.chosen.topics)
    st.code(one_letter.settling(scene.at.command(scene.chosen.sink), options), language="bash", wrap_lines=True)
    st.caption(
        "The dashboard changes nothing. Correct the cause, stop the sink, look with `--dry-run`, then replay and start it again."
    )


def _letter_files(scene: Scene) -> pd.DataFrame:
    return scene.kept_for_log("letter-files", lambda: letters.letter_files(scene.snapshot.frames))
