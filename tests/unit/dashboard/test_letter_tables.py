"""Dead letters are found, named, grouped and shown; what they hold stays text, and no page grows with it."""

from __future__ import annotations

import json

import pytest

from figures.letter_tables import SHOWN_BYTES, by_pattern, holds, name_of, pattern_of, place_of, pretty, shortened
from kafka_s3.commit.dead_letters import FiledLetter, LetterSelection, LetterState
from kafka_s3.model.dead_letters import DeadLetter
from reading import letters
from reading.frames import frames_of, part_of
from tests.support.filled import worked


def filed(offset: int, message: str, *, value: bytes | None = b"v", at_ms: int = 0) -> FiledLetter:
    letter = DeadLetter(
        "or-ders", 3, offset, 0, b"key-1", value, (("trace", b"abc"),), "VALUE_CONVERTER", "c", "X", message
    )
    return FiledLetter(letter, 1, at_ms, LetterState.OPEN)


def test_messages_that_differ_in_numbers_and_quoted_texts_are_one_pattern() -> None:
    found = by_pattern([
        filed(1, "field 'a' at line 12 is no number", at_ms=5), filed(2, "field 'b' at line 7 is no number", at_ms=9), filed(3, "empty"),
    ])  # fmt: skip
    assert found.to_dict("records") == [
        {"pattern": "field '...' at line # is no number", "stage": "VALUE_CONVERTER", "letters": 2, "first_ms": 5, "last_ms": 9,
         "example": "or-ders-3-1"},
        {"pattern": "empty", "stage": "VALUE_CONVERTER", "letters": 1, "first_ms": 0, "last_ms": 0, "example": "or-ders-3-3"},
    ]  # fmt: skip
    assert len(pattern_of("x" * 10**6)) == 500
    assert by_pattern([]).empty


@pytest.mark.parametrize("name", ["", "orders", "orders-0", "orders-0-", "orders-x-1", "-0-1", "orders-0-\u0661"])
def test_an_address_that_names_no_letter_is_none(name: str) -> None:
    assert place_of(name) is None


def test_a_letter_is_named_by_what_it_is() -> None:
    assert place_of(name_of(filed(28, "m").letter)) == ("or-ders", 3, 28)


@pytest.mark.parametrize(
    ("text", "found"), [("BAD", True), ("key-1", True), ("TRACE", True), ("abc", True), ("v", True), ("zz", False)]
)
def test_a_text_is_looked_for_everywhere(text: str, found: bool) -> None:
    assert holds(filed(1, "bad record").letter, text) is found


def test_no_more_is_shown_than_a_page_can_bear_and_json_is_laid_out() -> None:
    large = filed(1, "m", value=b"x" * 900_000)
    assert len(shortened(large).letter.value or b"") == SHOWN_BYTES
    assert pretty(b'{"a": {"b": [1, "\xc3\xa9"]}}') == json.dumps({"a": {"b": [1, "é"]}}, indent=2)
    assert [pretty(raw) for raw in (None, b"12", b"{broken", b"[" * 5000, b'{"a": "' + b"x" * SHOWN_BYTES + b'"}')] == [
        None
    ] * 5


def test_what_is_read_of_letters_is_bounded_in_bytes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = worked()
    frames = frames_of([part_of(made.entries(), first=0, last=len(made.entries()) - 1)])

    def read(**more: object) -> letters.FoundLetters:
        return letters.read_letters(made.store, frames, letters.letter_files(frames), LetterSelection(), **more)  # type: ignore[arg-type]

    whole = read()
    assert (len(whole.letters), whole.full) == (3, False)
    assert len(read(wanted=lambda letter: holds(letter, "owned")).letters) == 1
    monkeypatch.setattr(letters, "MOST_LETTERS", 3)
    assert not read().full
    monkeypatch.setattr(letters, "MOST_LETTERS", 2)
    assert (len(read().letters), read().full) == (2, True)
    monkeypatch.setattr(letters, "MOST_LETTERS", 5000)
    monkeypatch.setattr(letters, "_size", lambda _: letters.MOST_BYTES)
    assert (len(read().letters), read().full) == (1, True)
