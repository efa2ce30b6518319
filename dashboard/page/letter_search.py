"""Which dead letters does the reader look for? The filters above the table, all of them in the address."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

import streamlit as st

from figures import letter_tables
from kafka_s3.engine.log.dead_letters import LetterSelection, LetterState
from kafka_s3.model.dead_letters import DeadLetter, Stage

ANY: Final = "any"


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


def letter_search() -> tuple[LetterSelection, Search]:
    """What was entered."""
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


def as_options(selection: LetterSelection, topics: tuple[str, ...]) -> str:
    """The filters of the page as options of the command line, safe to paste into a shell."""
    pairs = [
        ("--topic", topics[0] if len(topics) == 1 else None), ("--stage", selection.stage),
        ("--class", selection.exception), ("--partition", selection.partition), ("--offset", selection.offset),
    ]  # fmt: skip
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None)
