"""What the product puts in place of botocore's own says what that says."""

from __future__ import annotations

import pytest
from botocore.utils import parse_timestamp

from kafka_s3.store.credentials import timestamp


@pytest.mark.parametrize(
    "reported",
    [
        "2026-11-22T15:16:57.511Z", "2026-11-22T15:16:57.000Z", "2026-11-22T15:16:57Z", "2026-11-22T15:16:57+01:00", "2026-11-22",
        "Tue, 24 Nov 2026 15:16:57 GMT", "20261122", "1795350561", 1795350561, 1795350561.5,
    ],
)  # fmt: skip
def test_times_are_those_that_botocore_reads(reported: str | float) -> None:
    assert timestamp(reported) == parse_timestamp(reported)


def test_what_is_no_time_is_refused_as_by_botocore() -> None:
    with pytest.raises(ValueError, match="Tomorrow"):
        timestamp("Tomorrow")
