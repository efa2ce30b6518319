"""How do the store's verbs become S3 requests, and how are lost answers settled?"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kafka_s3.model.errors import ObjectMissing, StorageUnavailable, UploadMissing
from kafka_s3.model.files import Upload
from kafka_s3.storage.client import creation_fields, customer_key_fields, digest_fields, s3_client, secrets_of
from kafka_s3.storage.etag import etag_of
from kafka_s3.storage.options import StoreOptions
from kafka_s3.storage.retry import Retrier
from kafka_s3.storage.s3_errors import FAILURES, Conflict, Request, storage_error
from kafka_s3.storage.store import ObjectInfo

CONFLICT_ATTEMPTS = 3
"""Least number of attempts where another request on the same key may be under way: with one, a mere coincidence would fail."""


class S3Store:
    """One S3 bucket, or one of an S3-compatible service; the contract is `store.ObjectStore`'s.

    Thread-safe and picklable: a pickle holds the options only, and each process makes its own client at the first request.
    `sleep` (seconds) and `jitter` ([0, 1)) are for tests of the back-off.
    """

    def __init__(
        self,
        options: StoreOptions,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.options = options
        self._retrier = Retrier(options.part_retries, options.retry_backoff_ms, sleep, jitter)
        self._patient = replace(self._retrier, attempts=max(options.part_retries, CONFLICT_ATTEMPTS))
        self._customer_key = customer_key_fields(options.encryption)
        self._creation = creation_fields(options)
        self._secrets = secrets_of(options)
        self._lock = threading.Lock()
        self._client: Any = None
        self._client_pid = -1

    def __reduce__(self) -> tuple[type[S3Store], tuple[StoreOptions]]:
        """Clients, locks and clocks stay behind."""
        return (S3Store, (self.options,))

    def __repr__(self) -> str:
        return f"S3Store(s3://{self.options.bucket})"

    def put(self, key: str, data: bytes) -> str:
        """Writes or overwrites an object; returns its ETag."""
        return _etag(self._call("put_object", key, Body=data, **self._creation))

    def put_new(self, key: str, data: bytes) -> str:
        """Writes an object that must not exist yet; returns its ETag. Raises PreconditionFailed, also after its own lost answer."""
        fields = {"Body": data, "IfNoneMatch": "*", **self._creation}
        return _etag(self._patient.run(lambda: self._once("put_object", key, **fields)))

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing."""
        return self._retrier.run(lambda: self._bytes_once(key))

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """The object's bytes from `first` to `last`, both included, by a range request. Raises ObjectMissing."""
        return self._retrier.run(lambda: self._bytes_once(key, Range=f"bytes={first}-{last}"))

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, None where there is none."""
        try:
            answer = self._call("head_object", key, **self._customer_key)
        except ObjectMissing:
            return None
        return ObjectInfo(key, answer["ContentLength"], _etag(answer), _modified_ms(answer))

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects below `prefix` in ascending key order, beginning after `start_after`; a page of 1000 per request."""
        position = {"StartAfter": start_after} if start_after else {}
        while True:
            page = self._call("list_objects_v2", prefix, **position)
            for item in page.get("Contents", ()):
                yield ObjectInfo(item["Key"], item["Size"], _etag(item), _modified_ms(item))
            if not page.get("IsTruncated"):
                return
            position = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, key: str) -> None:
        """Removes an object; no error where there is none."""
        self._call("delete_object", key)

    def create_upload(self, key: str) -> str:
        """Begins a multipart upload with the configured ACL and encryption; returns its id."""
        return str(self._call("create_multipart_upload", key, **self._creation)["UploadId"])

    def upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Sends part `number` (from 1); returns its ETag. Raises UploadMissing."""
        fields: dict[str, Any] = {"UploadId": upload_id, "PartNumber": number, "Body": data, **self._customer_key}
        if self.options.send_digest:
            fields |= digest_fields(data)
        return _etag(self._call("upload_part", key, **fields))

    def complete_upload(self, upload: Upload) -> None:
        """Makes the object visible; settles lost answers by the object's ETag. Raises UploadMissing, as `store.ObjectStore` says.

        Where S3 keeps answering 409, UploadMissing too: S3 asks for the upload to be done again.
        """
        try:
            self._patient.run(lambda: self._complete_once(upload))
        except Conflict as error:
            raise UploadMissing(f"{error} The file has to be uploaded again.") from None

    def upload_exists(self, key: str, upload_id: str) -> bool:
        """Whether the multipart upload is still pending."""
        return self._retrier.run(lambda: self._pending_once(key, upload_id))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drops a pending upload; no error where there is none."""
        try:
            self._call("abort_multipart_upload", key, UploadId=upload_id)
        except UploadMissing:
            return

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        """Replaces the object's tags."""
        pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
        self._call("put_object_tagging", key, Tagging={"TagSet": pairs})

    def close(self) -> None:
        """Gives this process's connections back; the next request makes new ones."""
        with self._lock:
            if self._client is not None and self._client_pid == os.getpid():
                self._client.close()
            self._client = None

    def _complete_once(self, upload: Upload) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(upload.parts, start=1)]
        fields = {"UploadId": upload.id, "MultipartUpload": {"Parts": parts}, **self._customer_key}
        try:
            self._once("complete_multipart_upload", upload.key, **fields)
        except (UploadMissing, StorageUnavailable):
            if not self._completed_once(upload):
                raise

    def _completed_once(self, upload: Upload) -> bool:
        """Whether a failed completion took effect after all. False where another try is due; raises UploadMissing where none is."""
        # the upload before the object: a completion that ends in between is then seen, the other way round it would be missed
        pending = self._pending_once(upload.key, upload.id)
        if self._published_once(upload):
            return True
        if pending:
            return False
        text = f"The upload {upload.id} of s3://{self.options.bucket}/{upload.key} is gone, and no object with its ETag is there."
        raise UploadMissing(f"{text} Aborted, by a lifecycle rule perhaps: the file has to be written again.")

    def _published_once(self, upload: Upload) -> bool:
        try:
            answer = self._once("head_object", upload.key, **self._customer_key)
        except ObjectMissing:
            return False
        return _is_of(upload, answer)

    def _pending_once(self, key: str, upload_id: str) -> bool:
        try:
            self._once("list_parts", key, UploadId=upload_id, MaxParts=1, **self._customer_key)
        except UploadMissing:
            return False
        return True

    def _bytes_once(self, key: str, **fields: Any) -> bytes:
        body = self._once("get_object", key, **self._customer_key, **fields)["Body"]
        try:
            return bytes(body.read())
        except FAILURES as error:
            raise storage_error(error, self._request("get_object", key)) from None
        finally:
            body.close()

    def _call(self, method: str, key: str, **fields: Any) -> Any:
        return self._retrier.run(lambda: self._once(method, key, **fields))

    def _once(self, method: str, key: str, **fields: Any) -> Any:
        place = "Prefix" if method == "list_objects_v2" else "Key"
        try:
            return getattr(self._connected(), method)(Bucket=self.options.bucket, **{place: key}, **fields)
        except FAILURES as error:
            # no chaining: the original's text is not masked
            raise storage_error(error, self._request(method, key)) from None

    def _request(self, method: str, key: str) -> Request:
        return Request(method, self.options.bucket, key, self._secrets)

    def _connected(self) -> Any:
        with self._lock:
            if (
                self._client is None or self._client_pid != os.getpid()
            ):  # a forked child must not share its parent's sockets
                self._client, self._client_pid = s3_client(self.options), os.getpid()
            return self._client


def _is_of(upload: Upload, head: Mapping[str, Any]) -> bool:
    """Whether an object is what completing the upload makes.

    Its ETag tells, a digest over the parts' ETags (`etag_of`). Under SSE-KMS and SSE-C S3 documents no rule for ETags: there an object
    of as many parts and bytes counts as well.
    """
    etag = _etag(head)
    try:
        same = etag == etag_of(upload.parts)
    except ValueError:
        same = False
    opaque = head.get("SSECustomerAlgorithm") or str(head.get("ServerSideEncryption", "")).startswith("aws:kms")
    return same or bool(opaque and etag.endswith(f"-{len(upload.parts)}") and head["ContentLength"] == upload.size)


def _etag(answer: Mapping[str, Any]) -> str:
    return str(answer["ETag"]).strip('"')


def _modified_ms(answer: Mapping[str, Any]) -> int:
    return int(answer["LastModified"].timestamp() * 1000)
