"""How does a page show what it had to ask the bucket for? At once if it is known, else as soon as it comes; no page waits for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

from reading.answers import Answers

LOOKS_S = 1.0
T = TypeVar("T")


def asked(
    answers: Answers, key: tuple[Hashable, ...], make: Callable[[], T], *, what: str, again_s: float = math.inf
) -> T | None:
    """The answer; None while it is on its way, which the page says, and draws itself anew when it is there. Raises what `make` raised."""
    found = answers.of(key, make, again_s=again_s)
    if found is None:
        st.caption(f":material/hourglass_top: {what} ...")
        st.fragment(lambda: _look(answers, key), run_every=LOOKS_S, key=f"asked-{hash(key)}")()
    return found


def _look(answers: Answers, key: Hashable) -> None:
    if answers.ready(key):
        st.rerun()
