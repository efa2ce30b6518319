"""What the product puts in place of botocore's own says what that says."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from botocore.utils import parse_timestamp

from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.model.timing import Requests
from kafka_s3.store.credentials import timestamp
from kafka_s3.store.s3 import Address, RequestTally


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


@pytest.mark.parametrize("key", ["".join(map(chr, range(128))), "a=1/b+c~d.json", "größe=ü/€", ""])
def test_a_key_is_in_an_url_as_the_library_writes_it(key: str) -> None:
    assert Address("https://bucket/", "", "", "").url(key) == f"https://bucket/{quote(key, safe='/~')}"


def test_requests_are_counted_until_they_are_taken() -> None:
    tally = RequestTally()
    with tally.of("get_object"):
        pass
    with pytest.raises(StorageError), tally.of("put_object"):
        raise StorageError("refused")
    with pytest.raises(ObjectMissing), tally.of("get_object"):
        raise ObjectMissing("nothing there")
    tally.again()
    taken = tally.taken()
    assert {name: one.count for name, one in taken.durations.items()} == {"get_object": 2, "put_object": 1}
    assert (taken.failed, taken.again) == ({"put_object": 1}, 1)
    assert tally.taken() == Requests()
