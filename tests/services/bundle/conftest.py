"""The wheel, and an environment with it: built once for each file that asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.bundle.fresh_environment import build_wheel, install


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel."""
    return install(wheel, tmp_path_factory.mktemp("environment") / "venv")
