"""What does a bucket tell of itself, and of a refusal, over HTTP?"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from kafka_s3.model.errors import StorageError
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import Credentials, Provider
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import S3Store
from kafka_s3.store.store import ListedUpload
from tests.support.memory_world import START_MS


class Service(BaseHTTPRequestHandler):
    """An S3 service that refuses what it has to refuse, and gives listings of uploads in pages of one."""

    refused: ClassVar[set[str]] = set()
    date: ClassVar[str] = ""

    def do_GET(self) -> None:
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()
        }
        self._answer(*self._page(query))

    def do_HEAD(self) -> None:
        self._answer(403 if "head" in self.refused else 200, "")

    def _page(self, query: Mapping[str, str]) -> tuple[int, str]:
        if "uploads" in query and "uploads" not in self.refused:
            number = int(query.get("upload-id-marker") or 0) + 1
            more = f"<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>{number}</NextUploadIdMarker>"
            upload = f"<Upload><Key>k</Key><UploadId>{number}</UploadId><Initiated>2024-01-15T10:00:00.000Z</Initiated></Upload>"
            body = f"<ListMultipartUploadsResult>{more if number < 3 else ''}{upload}</ListMultipartUploadsResult>"
            return 200, body
        return 403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

    def _answer(self, status: int, body: str) -> None:
        self.send_response_only(status)
        self.send_header("Date", self.date)
        self.send_header("x-amz-bucket-region", "eu-central-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(Service, "refused", set())
    monkeypatch.setattr(Service, "date", "Mon, 15 Jan 2024 10:00:00 GMT")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    keys = Credentials(Provider.STATIC, "AKIATEST", Secret("very+secret"))
    url = f"http://127.0.0.1:{server.server_address[1]}"
    bucket = S3Store(StoreOptions("bucket", endpoint_url=url, credentials=keys))
    yield bucket
    bucket.close()
    server.shutdown()
    server.server_close()


def test_uploads_are_listed_page_by_page_with_their_start(service: S3Store) -> None:
    assert list(service.pending("k")) == [ListedUpload("k", str(n), START_MS) for n in (1, 2, 3)]


def test_a_bucket_shows_its_region_and_its_clock(service: S3Store) -> None:
    answer = service.ask(lambda: START_MS + 60_000)
    assert (answer.region, answer.refusal) == ("eu-central-1", None)
    assert answer.skew_ms == -59_001  # a Date has whole seconds: at the least


def test_a_bucket_that_refuses_is_asked_why_and_still_shows_its_clock(service: S3Store) -> None:
    Service.refused.add("head")
    answer = service.ask(lambda: START_MS + 60_000)
    assert answer.skew_ms == -59_001
    assert "Grant s3:ListBucket" in str(answer.refusal)


def test_refused_listings_and_rules_are_errors_without_secrets(service: S3Store) -> None:
    Service.refused.add("uploads")
    for request in (lambda: list(service.pending("k")), service.lifecycle, service.versioning):
        with pytest.raises(StorageError, match="AccessDenied") as error:
            request()
        assert "very+secret" not in str(error.value)
