"""Offsets get other meanings while a sink works: does every reader agree with a model that knows records by a number of their own?"""

from __future__ import annotations

import pytest

from tests.support.reset_schedules import Schedule

SOME, MANY, CHUNK = 30, 5_030, 100


@pytest.mark.parametrize("seed", range(SOME))
def test_no_reset_of_offsets_loses_or_doubles_a_record(seed: int) -> None:
    Schedule(seed).play()
