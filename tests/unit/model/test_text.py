from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.model.text import printable


@given(st.text())
def test_printable_text_has_no_character_that_a_terminal_obeys(text: str) -> None:
    assert printable(text).isprintable()
