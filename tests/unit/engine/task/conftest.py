"""Fixtures of several modules here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.in_bulk import take_in_bulk


@pytest.fixture(scope="module", params=["file by file", "in bulk"])
def _either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rows go to their files one file after the other, or wait together."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in bulk":
            take_in_bulk(patch)
        yield
