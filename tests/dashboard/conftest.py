"""The dashboard's modules lie flat in its folder, as the platform wants them: the tests find them the same way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DASHBOARD = Path(__file__).parents[2] / "dashboard"
sys.path.insert(0, str(DASHBOARD))


@pytest.fixture
def fresh() -> Iterator[None]:
    """No reader of an earlier test is at work, and none is left."""
    import streamlit as st

    st.cache_resource.clear()
    yield
    st.cache_resource.clear()
