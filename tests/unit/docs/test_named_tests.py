"""The pages of docs/ name tests as proof of what they say: each of these tests exists."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from tests.support.repository import ROOT

REFERENCE = re.compile(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`")
FUNCTION = re.compile(r"^ *def (\w+)\(", re.MULTILINE)
PAGES = sorted((ROOT / "docs").glob("*.md"))


@lru_cache
def functions_in(file: str) -> frozenset[str]:
    """The functions of a file, without importing it."""
    return frozenset(FUNCTION.findall((ROOT / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = REFERENCE.findall(page.read_text(encoding="utf-8"))
    missing_files = sorted({file for file, _ in named if not (ROOT / file).is_file()})
    assert missing_files == []
    assert [f"{file}::{test}" for file, test in named if test and test not in functions_in(file)] == []


def test_every_difference_says_what_is_different_and_which_test_shows_it() -> None:
    text = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    entries = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    for entry in entries:
        title = entry.splitlines()[0]
        for part in ("**The original** ", "**Here** ", "**Why**: ", "**The original's way**: ", "**Shown by** "):
            assert entry.count(part) == 1, f"{title}: {part}"
        assert any(test for _, test in REFERENCE.findall(entry)), title
