"""The dashboard's packages lie in its folder, as the platform wants them: the tests find them the same way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafka_s3.local.s3 import EmbeddedS3
    from tests.dashboard.filled import Tabled

DASHBOARD = Path(__file__).parents[2] / "dashboard"
sys.path.insert(0, str(DASHBOARD))


@pytest.fixture(scope="session")
def tabled(s3: EmbeddedS3) -> Tabled:
    """A sink with a Delta table, as delta-rs writes it."""
    from tests.conftest import numbers
    from tests.dashboard.filled import with_table

    return with_table(s3, f"bucket-{next(numbers)}")
