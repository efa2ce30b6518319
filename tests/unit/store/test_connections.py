"""Is a libcurl that cannot sign as S3 wants it noticed before the first request?"""

from __future__ import annotations

from collections.abc import Iterator

import pycurl
import pytest

from kafka_s3.model.errors import StorageError
from kafka_s3.store.connections import Connections, Terms, _Headers, check_libcurl

TERMS = Terms("", {}, 1.0, 1.0)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    check_libcurl.cache_clear()
    yield
    check_libcurl.cache_clear()


def libcurl(version: str, number: int, protocols: tuple[str, ...]) -> tuple[object, ...]:
    return (0, version, number, "linux", 0, "OpenSSL", 0, "1.2", protocols)


def test_the_libcurl_that_is_installed_signs() -> None:
    Connections(TERMS, most=1).close()


@pytest.mark.parametrize(
    "found",
    [
        libcurl("7.88.1", 0x075801, ("http", "https")),
        libcurl("8.3.0", 0x080300, ("https",)),
        libcurl("8.9.0", 0x080900, ("http",)),
    ],
)
def test_a_libcurl_that_signs_otherwise_is_named_with_the_way_out(
    found: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pycurl, "version_info", lambda: found)
    with pytest.raises(
        StorageError, match=rf"pycurl uses libcurl {found[1]}, .* 8\.4 or later with HTTPS is needed.*pip install"
    ):
        Connections(TERMS, most=1)


def test_headers_are_those_of_the_last_answer_in_any_case_of_letters() -> None:
    lines = [
        b"HTTP/1.1 100 Continue\r\n",
        b"ETag: old\r\n",
        b"\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b'ETag: "a:b"\r\n',
        b"Via: HTTP/1.1 x\r\n",
    ]
    headers = _Headers(lines)
    assert (headers["etag"], headers["Via"], headers.get("missing")) == ('"a:b"', "HTTP/1.1 x", None)
    assert "ETAG" in headers
    assert set(headers) == {"etag", "via"}
