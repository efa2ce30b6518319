"""What the product puts in place of botocore's own says what that says."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from botocore.utils import parse_timestamp

from kafka_s3.model.errors import ObjectMissing, StorageError
from kafka_s3.model.timing import Requests
from kafka_s3.store.credentials import timestamp
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import Address, DataPlane, RequestTally, RustOptions


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


ENDPOINTS = [
    ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000"}, "", "http://127.0.0.1:9000/lake"),
    ({"AWS_ENDPOINT_URL": "https://store.example"}, "", "https://store.example/lake"),
    ({}, "[profile sink]\nendpoint_url = http://store.example:9000\n", "http://store.example:9000/lake"),
    (
        {},
        "[profile sink]\nservices = ours\n[services ours]\ns3 =\n  endpoint_url = http://store.example\n",
        "http://store.example/lake",
    ),
    (
        {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        "",
        "https://s3.eu-west-3.amazonaws.com/lake",
    ),
]


@pytest.mark.parametrize(("variables", "file", "url"), ENDPOINTS)
def test_tables_in_rust_find_the_bucket_where_all_other_requests_find_it(
    variables: dict[str, str], file: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(file)
    surroundings = {"AWS_CONFIG_FILE": str(tmp_path / "config"), **variables}
    for name, value in (surroundings | ({"AWS_PROFILE": "sink"} if file else {})).items():
        monkeypatch.setenv(name, value)
    options = StoreOptions("lake", region="eu-west-3")

    rust = RustOptions(options)()

    assert (rust["aws_endpoint_url"], rust["aws_endpoint_url_s3"]) == (url, url)
    assert rust["aws_allow_http"] == str(url.startswith("http:")).lower()
    plane = DataPlane(options)
    assert plane._address.prefix == f"{url}/"
    plane.close()


def test_the_address_of_tables_in_rust_has_the_buckets_name_in_either_style() -> None:
    at = {"endpoint_url": "http://store.example:9000", "region": "eu-west-3"}
    for path_style, url in ((True, "http://store.example:9000/lake"), (False, "http://lake.store.example:9000")):
        rust = RustOptions(StoreOptions("lake", path_style=path_style, **at))()  # type: ignore[arg-type]
        assert (rust["aws_endpoint_url"], rust["aws_virtual_hosted_style_request"]) == (url, "true")
    wan = RustOptions(StoreOptions("lake", region="eu-west-3", path_style=False, accelerate=True))()
    assert wan["aws_endpoint_url"] == "https://lake.s3.eu-west-3.amazonaws.com"
