"""What does S3 know of a bucket as a whole? Pending uploads, region, clock, lifecycle rules and versioning: all reading, nothing changed.

Implementation: `S3Bucket` (botocore's client). The sink itself never asks these questions; `kafka-s3 sweep` and `kafka-s3 doctor` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from botocore import exceptions as boto

from kafka_s3.model.errors import StorageError
from kafka_s3.model.timing import now_ms
from kafka_s3.store.client import s3_client, secrets_of, session_for
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3_errors import FAILURES, Request, Retrier, storage_error
from kafka_s3.store.store import ListedUpload

_NO_RULES = frozenset({"NoSuchLifecycleConfiguration", "NotImplemented"})


@dataclass(frozen=True, slots=True)
class BucketAnswer:
    """How the bucket answered: its region ("" where it does not say), the store's clock less ours in ms (None: no Date), the refusal."""

    region: str
    skew_ms: int | None
    refusal: StorageError | None = None


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """One enabled lifecycle rule that acts on keys below `prefix`; `abort_days` is None where it leaves incomplete uploads alone.

    `tagged`: it acts on objects with certain tags only. `expires` and `transitions` are about current objects.
    """

    name: str
    prefix: str
    tagged: bool = False
    abort_days: int | None = None
    expires: bool = False
    transitions: bool = False

    def meets(self, prefix: str) -> bool:
        """Whether some key below `prefix` is one of the rule's."""
        return prefix.startswith(self.prefix) or self.prefix.startswith(prefix)


class UploadsListing(Protocol):
    """Lists pending uploads."""

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """The pending uploads whose keys begin with `prefix`. Raises StorageError."""
        ...


class BucketFacts(UploadsListing, Protocol):
    """What can be asked of a bucket as a whole. Every method but `look` raises StorageError where it is refused."""

    def ask(self) -> BucketAnswer:
        """Asks for the bucket itself; what went wrong is in the answer."""
        ...

    def lifecycle(self) -> tuple[LifecycleRule, ...]:
        """The enabled lifecycle rules."""
        ...

    def versioning(self) -> str:
        """`Enabled`, `Suspended`, or "" for none."""
        ...


class S3Bucket:
    """A bucket of S3 or of an S3-compatible service; close it when done. `clock_ms` gives epoch milliseconds."""

    def __init__(self, options: StoreOptions, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self.options = options
        self._clock_ms = clock_ms
        self._client = s3_client(options, session_for(options))
        self._retrier = Retrier(options.part_retries, options.retry_backoff_ms)

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """The pending uploads below `prefix`, a page of 1000 per request. Raises StorageError."""
        position: dict[str, str] = {}
        while True:
            page = self._call("list_multipart_uploads", prefix, Prefix=prefix, **position)
            for item in page.get("Uploads", ()):
                yield ListedUpload(item["Key"], item["UploadId"], int(item["Initiated"].timestamp() * 1000))
            if not page.get("IsTruncated"):
                return
            position = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def ask(self) -> BucketAnswer:
        """HEAD, once; where that fails a listing, because only its answer says why. The clocks are compared in either case."""
        before = self._clock_ms()
        try:
            headers = _headers(self._client.head_bucket(Bucket=self.options.bucket))
            refusal = None
        except FAILURES as error:
            headers = _headers(error.response) if isinstance(error, boto.ClientError) else {}
            refusal = self._reason(error)
        return BucketAnswer(
            headers.get("x-amz-bucket-region", ""), _skew_ms(headers, before, self._clock_ms()), refusal
        )

    def lifecycle(self) -> tuple[LifecycleRule, ...]:
        """The enabled lifecycle rules, none where the bucket has none or the service knows none. Raises StorageError."""
        try:
            answer = self._client.get_bucket_lifecycle_configuration(Bucket=self.options.bucket)
        except FAILURES as error:
            if isinstance(error, boto.ClientError) and error.response.get("Error", {}).get("Code") in _NO_RULES:
                return ()
            raise self._translated(error, "get_bucket_lifecycle_configuration") from None
        return tuple(_rule(rule) for rule in answer.get("Rules", ()) if rule.get("Status") == "Enabled")

    def versioning(self) -> str:
        """`Enabled`, `Suspended`, or "" for none. Raises StorageError."""
        return str(self._call("get_bucket_versioning", "").get("Status") or "")

    def close(self) -> None:
        """Gives the connections back."""
        self._client.close()

    def _reason(self, error: Exception) -> StorageError:
        try:
            self._once("list_objects_v2", "", MaxKeys=1)
        except StorageError as reason:
            return reason
        return self._translated(error, "head_bucket")

    def _call(self, method: str, key: str, **fields: Any) -> Any:
        return self._retrier.run(lambda: self._once(method, key, **fields))

    def _once(self, method: str, key: str, **fields: Any) -> Any:
        try:
            return getattr(self._client, method)(Bucket=self.options.bucket, **fields)
        except FAILURES as error:
            raise self._translated(error, method, key) from None

    def _translated(self, error: Exception, method: str, key: str = "") -> StorageError:
        return storage_error(error, Request(method, self.options.bucket, key, secrets_of(self.options)))


def _headers(answer: Mapping[str, Any]) -> Mapping[str, str]:
    return dict(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}))


def _skew_ms(headers: Mapping[str, str], before_ms: int, after_ms: int) -> int | None:
    """How far the store's clock is ahead of ours, at the least: its answer was made between the two, and has whole seconds."""
    if "date" not in headers:
        return None
    said = int(parsedate_to_datetime(headers["date"]).timestamp() * 1000)
    if said > after_ms:
        return said - after_ms
    return min(said + 999 - before_ms, 0)


def _rule(rule: Mapping[str, Any]) -> LifecycleRule:
    found = rule.get("Filter", {})
    both = found.get("And", {})
    expiration = rule.get("Expiration", {})
    return LifecycleRule(
        name=str(rule.get("ID", "")),
        prefix=str(found.get("Prefix") or both.get("Prefix") or rule.get("Prefix") or ""),
        tagged=bool(found.get("Tag") or both.get("Tags")),
        abort_days=rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation"),
        expires="Days" in expiration or "Date" in expiration,
        transitions=bool(rule.get("Transitions")),
    )
