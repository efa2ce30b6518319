"""What tests of the dashboard share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.numbers import numbers

if TYPE_CHECKING:
    from kafka_s3_testing.services.s3 import EmbeddedS3
    from tests.support.filled import Tabled


@pytest.fixture(scope="session")
def tabled(s3: EmbeddedS3) -> Tabled:
    """A sink with a Delta table, as delta-rs writes it."""
    from tests.support.filled import with_table

    return with_table(s3, f"bucket-{next(numbers)}")
