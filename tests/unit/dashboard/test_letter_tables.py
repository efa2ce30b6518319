"""Dead letters are found, named, grouped and shown; what they hold stays text, and no page grows with it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kafka_s3.engine.log.dead_letters import FiledLetter, LetterSelection, LetterState
from kafka_s3.model.dead_letters import DeadLetter
from kafka_s3.store.memory import MemoryStore
from kafka_s3_dashboard.figures.letter_tables import (
    MESSAGE,
    MOST_PATTERNS,
    OTHERS,
    SHOWN_BYTES,
    SHOWN_HEADERS,
    by_pattern,
    holds,
    members,
    name_of,
    pattern_of,
    place_of,
    pretty,
    shortened,
    told_apart,
)
from kafka_s3_dashboard.reading import letters
from kafka_s3_dashboard.reading.frames import Frames, frames_of, part_of
from tests.support.filled import worked
from tests.support.memory_world import World


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
    many = by_pattern(filed(number, "x" * number) for number in range(1, MOST_PATTERNS - 100))
    assert len(many) == MESSAGE  # the beginning of a message tells


def test_patterns_are_shown_from_where_they_differ() -> None:
    common = "Converting byte[] to Kafka Connect data failed: "
    assert told_apart([f"{common}not JSON", f"{common}no field"]) == ["... not JSON", "... no field"]
    assert told_apart([f"{common}not JSON"] * 2) == [f"{common}not JSON"] * 2
    assert told_apart(["at a", "at b"]) == ["at a", "at b"]
    assert told_apart([]) == []


def test_of_patterns_no_more_are_shown_apart_than_a_page_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_s3_dashboard.figures.letter_tables.MOST_PATTERNS", 2)
    found = by_pattern([filed(1, "a"), filed(2, "b"), filed(3, "c"), filed(4, "d"), filed(5, "a")])
    assert dict(zip(found["pattern"], found["letters"], strict=True)) == {"a": 2, "b": 1, OTHERS: 2}


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


def test_headers_share_what_is_shown_and_the_rest_is_counted() -> None:
    headers = tuple((f"h{number}", b"x" * 5000) for number in range(SHOWN_HEADERS + 7))
    one = filed(1, "m")
    many = replace(one, letter=replace(one.letter, headers=headers))
    assert sum(len(value or b"") for _, value in shortened(many).letter.headers) == SHOWN_BYTES
    assert list(members(many))[-1] == ("headers", "7 more, in the export")


def read_all(source: letters.LetterFiles) -> list[letters.FoundLetters]:
    """Every page, one after the other."""
    pages = [letters.read_page(source)]
    while (older := pages[-1].older) is not None:
        pages.append(letters.read_page(source, older))
    return pages


@pytest.fixture(scope="module")
def made() -> tuple[World, Frames]:
    world = worked()
    return world, frames_of([part_of(world.entries(), first=0, last=len(world.entries()) - 1)])


@pytest.mark.parametrize("name", ["MOST_LETTERS", "MOST_FILES", "MOST_BYTES"])
def test_pages_are_bounded_and_together_hold_every_letter_once(
    made: tuple[World, Frames], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world, frames = made
    source = letters.source_of(world.store, frames, letters.letter_files(frames), LetterSelection())
    (whole,) = read_all(source)
    assert (len(whole.letters), whole.files, whole.older) == (3, 2, None)
    assert list(letters.every_letter(source)) == list(whole.letters)
    monkeypatch.setattr(letters, name, 1)
    pages = read_all(source)
    assert [one for page in pages for one in page.letters] == list(whole.letters)
    assert len(pages) == (2 if name == "MOST_FILES" else 3)


def test_a_page_looks_on_behind_files_without_a_letter_that_fits(made: tuple[World, Frames]) -> None:
    world, frames = made
    files, every = letters.letter_files(frames), LetterSelection()
    source = letters.source_of(world.store, frames, files, every, wanted=lambda letter: holds(letter, "owned"))
    assert [one.letter.offset for one in letters.read_page(source).letters] == [28]
    missing = letters.source_of(MemoryStore(), frames, files, every)
    assert len(letters.read_page(missing).missing) == 2
    assert list(letters.every_letter(missing)) == []


def test_a_masked_letter_is_masked_before_it_is_looked_for(made: tuple[World, Frames]) -> None:
    world, frames = made
    source = letters.source_of(
        world.store, frames, letters.letter_files(frames), LetterSelection(), wanted=lambda letter: holds(letter, "owned"),
        masked=frozenset({"n"}),
    )  # fmt: skip
    assert letters.read_page(source).letters == ()
