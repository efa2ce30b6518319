"""What went wrong? Dead letters counted from the log, read from their files on demand, and the commands that settle them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pandas as pd
import streamlit as st

from kafka_s3.engine.log.dead_letters import FiledLetter, LetterSelection, LetterState
from kafka_s3.model.dead_letters import DeadLetter, Stage
from kafka_s3.model.errors import SinkError
from kafka_s3.model.timing import iso_time
from kafka_s3_dashboard.figures import charts, data, letter_tables
from kafka_s3_dashboard.figures.text import plain, size_text
from kafka_s3_dashboard.page import parts, resources, states, timeline
from kafka_s3_dashboard.page.scene import Scene
from kafka_s3_dashboard.reading import letters
from kafka_s3_dashboard.reading.letters import DecodedContent, FoundLetters, LetterFiles, LetterPlace

TITLE: Final = "Dead letters"
ICON: Final = ":material/drafts:"
PATH: Final = "dead-letters"
PATTERNS: Final = "patterns"
PATTERN: Final = "pattern"
"""The messages that are shown, in the address: what they have in common."""
TABLE: Final = "letters-table"
LETTER: Final = "letter"
"""The letter that is shown, in the address: `orders-0-28`."""
BEGINS: Final = "letters-begin"
"""Where the pages begin that the reader has turned, with the question that they are of."""
SHARED: Final = {"topic": "topic", "partition": "partition", "stage": "stage", "state": "state", "exception": "class"}
"""Columns of letters that say nothing where all letters have the same."""
ANY: Final = "any"
"""Of a filter: no matter which."""
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
        timeline.chart(
            scene,
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
    selection, search = _letter_search()
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

    def __init__(self, scene: Scene, candidates: pd.DataFrame, selection: LetterSelection, search: _Search) -> None:
        self.scene, self.candidates, self.selection, self.search = scene, candidates, selection, search
        versions = candidates["version"]
        notes = int((scene.snapshot.frames.entries["note"] != "").sum())
        ends = (int(versions.iloc[0]), int(versions.iloc[-1])) if len(versions) else (0, 0)
        self.about: tuple[Hashable, ...] = (
            scene.chosen.sink,
            selection,
            search,
            scene.bucket.masked,
            len(versions),
            *ends,
            notes,
        )

    def page(self, begin: LetterPlace | None) -> FoundLetters | None:
        """A page of letters, None while it is read. Raises SinkError."""
        key = ("page", begin, *self.about)
        return self._asked(key, lambda: letters.read_page(self.source(), begin), "Reading dead letter files")

    def patterns(self) -> pd.DataFrame | None:
        """All that fit, whatever their messages, by what these have in common; None while they are counted. Raises SinkError."""
        whole = _Question(self.scene, self.candidates, self.selection, replace(self.search, pattern=""))
        make = lambda: letter_tables.by_pattern(letters.every_letter(whole.source()))  # noqa: E731
        return self._asked(("patterns", *whole.about), make, "Counting the letters by their messages")

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
        return resources.asked(resources.letters(self.scene.variables), key, make, what=what)

    def source(self) -> LetterFiles:
        """Where the letters are read from."""
        frames, masked = self.scene.snapshot.frames, self.scene.bucket.masked
        return letters.source_of(
            self.scene.bucket.reader, frames, self.candidates, self.selection, wanted=self.search.wants, masked=masked
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
    patterns = patterns.assign(
        whole=patterns["pattern"], pattern=letter_tables.told_apart(patterns["pattern"].tolist())
    )
    shown = parts.timed(patterns, question.scene.zone, "first_ms", "last_ms")
    whole = patterns["whole"].tolist()
    parts.table(
        shown, columns, name="Dead letters by what their messages have in common", key=PATTERNS,
        on_select=lambda: _choose_pattern(whole), selection_mode="single-row",
    )  # fmt: skip
    if question.search.pattern:
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.caption(f"Only letters with the message: {plain(question.search.pattern)}")
            st.button("All messages", key="all-messages", icon=":material/close:", on_click=lambda: _choose_pattern([]))
    else:
        st.caption("Choose a row to see its letters only.")
    if len(question.candidates) > letters.MOST_COUNTED:
        st.caption(f"Of the newest {letters.MOST_COUNTED:,} files; choose a shorter time to see older ones.")


def _choose_pattern(patterns: list[str]) -> None:
    """The chosen message goes into the address; without a choice all are shown again."""
    rows = st.session_state[PATTERNS].selection.rows if PATTERNS in st.session_state else []
    if patterns and rows and rows[0] < len(patterns):
        st.query_params[PATTERN] = patterns[rows[0]]
    else:
        st.query_params.pop(PATTERN, None)


def _table(scene: Scene, found: FoundLetters, turned: int) -> None:
    table = letter_tables.letters_table(found.letters)
    columns = {
        "topic": "Topic", "partition": "Partition", "offset": parts.number_column("Offset"), "stage": "Stage",
        "message": st.column_config.Column("Message", width="medium"), "value": st.column_config.Column("Value", width="medium"),
        "key": "Key", "since": parts.time_column("Dead letter since", scene.zone), "state": "State", "exception": "Exception class",
    }  # fmt: skip
    same = {name: str(table[name].iloc[0]) for name in SHARED if len(table) > 1 and table[name].nunique() == 1}
    columns = {name: title for name, title in columns.items() if name not in same}
    if same:
        st.caption(
            "All of these letters: " + "; ".join(f"{SHARED[name]} {plain(value)}" for name, value in same.items()) + "."
        )
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
            _letter(scene, found[0])
        else:
            st.caption("Choose a row of the table, or write its partition and offset above.")
        return
    for one in found:
        if (one.letter.topic, one.letter.partition, one.letter.offset) == place:
            _letter(scene, one)
            return
    files = _letter_files(scene)
    selection = LetterSelection(topics=frozenset({place[0]}), partition=place[1], offset=place[2])
    alone = _Question(scene, files, selection, _Search()).page(None)
    if alone is not None and alone.letters:
        _letter(scene, alone.letters[0])
    elif alone is not None:
        st.caption(f"No dead letter of the log is {plain(name)}. Choose another row of the table.")


def _commands(scene: Scene, selection: LetterSelection, search: _Search) -> None:
    """The commands that settle what was found, and nothing else: they take the time and the topics of the page, too."""
    st.subheader("To settle all that match", anchor=False)
    if search != _Search():
        st.caption(
            "Commands take no text, no message and no range of offsets: without these filters they are shown here."
        )
        return
    if LetterState.OPEN not in selection.states:
        st.caption("What matches is settled: there is nothing to replay or to resolve.")
        return
    options = _as_options(_covered(scene, selection))
    st.code(_settling(scene.bucket.command(scene.chosen.sink), options), language="bash", wrap_lines=True)
    open_ones = "" if len(selection.states) == 1 else " They act on the open ones of these letters."
    st.caption(
        "The dashboard changes nothing. Correct the cause, stop the sink, look with `--dry-run`, then replay and start it again."
        f"{open_ones}"
    )


def _covered(scene: Scene, selection: LetterSelection) -> LetterSelection:
    """The selection with what else was chosen: topics and time, up to the newest entry that was read and, of a log that is not all read,
    from the oldest on.
    """
    times = scene.snapshot.frames.entries["committed_ms"]
    since_ms = max(scene.wanted.since_ms, 0 if scene.snapshot.complete else int(times.min()))
    return replace(
        selection,
        topics=frozenset(scene.chosen.topics),
        since_ms=since_ms or None,
        until_ms=min(scene.wanted.until_ms, int(times.max()) + 1),
    )


def _letter_files(scene: Scene) -> pd.DataFrame:
    return scene.kept_for_log("letter-files", lambda: letters.letter_files(scene.snapshot.frames))


@dataclass(frozen=True, slots=True)
class _Search:
    """What the log's own filters cannot say: a text in the record or its message, what messages have in common (see
    `letter_tables.pattern_of`), and a range of offsets, both ends included.
    """

    text: str = ""
    pattern: str = ""
    first: int | None = None
    last: int | None = None

    def wants(self, letter: DeadLetter) -> bool:
        return (
            (self.first is None or letter.offset >= self.first)
            and (self.last is None or letter.offset <= self.last)
            and (not self.pattern or letter_tables.pattern_of(letter.message) == self.pattern)
            and (not self.text or letter_tables.holds(letter, self.text))
        )


def _letter_search() -> tuple[LetterSelection, _Search]:
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
    search = _Search(
        text.strip(),
        st.query_params.get(PATTERN, ""),
        None if alone or offset is None else int(offset),
        None if last is None else int(last),
    )
    return LetterSelection(
        stage=None if stage == ANY else stage,
        states=frozenset(LetterState) if state == ANY else frozenset({LetterState(str(state))}),
        exception=exception.strip() or None,
        partition=None if partition is None else int(partition),
        offset=int(offset) if alone and offset is not None else None,
    ), search


def _as_options(selection: LetterSelection) -> str:
    """A selection as options of the command line, safe to paste into a shell."""
    times = (
        (name, ms and iso_time(ms)) for name, ms in (("--since", selection.since_ms), ("--until", selection.until_ms))
    )
    pairs = [
        *(("--topic", topic) for topic in sorted(selection.topics)), ("--stage", selection.stage), ("--class", selection.exception),
        ("--partition", selection.partition), ("--offset", selection.offset), *times,
    ]  # fmt: skip
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None)


def _letter(scene: Scene, chosen: FiledLetter) -> None:
    """The letter, decoded where a registry is configured, and the commands that settle it alone."""
    texts = list(letter_tables.members(chosen))
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
    st.code(_settling(scene.bucket.command(scene.chosen.sink), words), language="bash", wrap_lines=True)


def _settling(config: str, words: str) -> str:
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
    settings, letter = scene.bucket.settings, chosen.letter
    if settings is None or scene.chosen.sink != scene.bucket.sink or scene.bucket.masked:
        return

    def decode() -> list[DecodedContent]:
        return resources.decoder(scene.variables, scene.chosen.sink, settings).decoded(letter)

    key = ("decoded", scene.chosen.sink, letter_tables.name_of(letter), chosen.entry)
    try:
        found = resources.asked(resources.answers(scene.variables), key, decode, what="Asking the schema registry")
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
