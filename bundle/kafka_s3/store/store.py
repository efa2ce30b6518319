"""Which verbs of an object store does the product use? The seam between decisions and S3.

Implementations: `s3.S3Store`, `memory.MemoryStore` (tests, conformance), `kafka_s3_testing.faults.FaultyStore` (fails on demand).
What is asked of a bucket as a whole only reads: `s3.S3Store` answers `kafka-s3 doctor`; the sink itself never asks.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol, TypeAlias

from kafka_s3.model.deflate import Bytes
from kafka_s3.model.errors import StorageError
from kafka_s3.model.files import DataFile, Upload
from kafka_s3.model.process import ThreadPool


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


class BucketFacts(Protocol):
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


def clock_skew_ms(headers: Mapping[str, str], before_ms: int, after_ms: int) -> int | None:
    """How far the store's clock is ahead of ours, at the least: its answer was made between the two, and has whole seconds."""
    if "date" not in headers:
        return None
    theirs = int(parsedate_to_datetime(headers["date"]).timestamp() * 1000)
    if theirs > after_ms:
        return theirs - after_ms
    return min(theirs + 999 - before_ms, 0)


def lifecycle_rule(rule: Mapping[str, Any]) -> LifecycleRule:
    """A rule as the service lists it."""
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


def etag_of(parts: Sequence[str]) -> str:
    """The ETag of the object that completing an upload of these part ETags makes: md5 over the parts' binary md5s, `-`, their count.

    Raises ValueError for part ETags that are no hexadecimal digests, as some S3-compatible servers issue them.
    """
    digests = b"".join(bytes.fromhex(part) for part in parts)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


def etag_of_bytes(data: bytes) -> str:
    """The ETag of a plain object, or of one part: the md5 of its bytes, in hexadecimal."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or HEAD answers about an object; `etag` is without quotes, `modified_ms` epoch milliseconds."""

    key: str
    size: int
    etag: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ListedUpload:
    """A multipart upload that is neither completed nor aborted; `started_ms` is epoch milliseconds by the store's clock."""

    key: str
    id: str
    started_ms: int


class Streamed(Protocol):
    """Content that is read while it is sent: of any size, a little of it in memory."""

    def __len__(self) -> int:
        """How many bytes."""
        ...

    def pieces(self) -> Iterator[Bytes]:
        """All of it, from the beginning: again for each try."""
        ...


Body: TypeAlias = bytes | Streamed


def pieces_of(body: Body) -> Iterator[Bytes]:
    """The content piece by piece."""
    return iter((body,)) if isinstance(body, bytes) else body.pieces()


class ObjectStore(Protocol):
    """One bucket. Keys are relative to the bucket. Every method may raise StorageUnavailable (after retries) or StorageError (refused).

    Data objects are always written as multipart uploads (so they stay invisible until `complete_upload`); `put` and `put_new` are for
    the product's own small state objects.
    """

    def put(self, key: str, data: Body) -> str:
        """Writes or overwrites an object; returns its ETag."""
        ...

    def put_new(self, key: str, data: bytes) -> str:
        """Writes an object that must not exist yet (`If-None-Match: *`); returns its ETag.

        Raises PreconditionFailed where one exists. A 409 (concurrent conditional put) is tried again. After a lost answer the
        retry may meet the object that the lost request wrote: the caller settles that by reading it.
        """
        ...

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing."""
        ...

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """The object's bytes from `first` to `last`, both included, or up to its end. Raises ObjectMissing."""
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, None where there is none."""
        ...

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects below `prefix` in ascending key order, beginning after `start_after`."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly below a `prefix` that ends with a slash, in order: of objects, and of folders with a slash behind."""
        ...

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """The pending multipart uploads whose keys begin with `prefix`."""
        ...

    def delete(self, key: str, etag: str = "") -> None:
        """Remove an object; no error if there is none.

        With an `etag`, raises PreconditionFailed and removes nothing if the object has another one. A service that knows no conditional
        deletions is asked for the ETag just before.
        """
        ...

    def create_upload(self, key: str, token: str = "") -> str:
        """Begin a multipart upload with the configured ACL and encryption; return its id.

        The object's metadata hold the token, unless it is blank.
        """
        ...

    def upload_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        """Sends part `number` (from 1); returns its ETag. Raises UploadMissing."""
        ...

    def complete_upload(self, upload: Upload) -> None:
        """Makes the object visible. Completing again what was completed with the same parts is no error.

        Raises UploadMissing where the upload is gone, or holds other parts than these, and no object with the upload's token or ETag
        (`etag_of`) is there.
        """
        ...

    def upload_exists(self, key: str, upload_id: str) -> bool:
        """Whether the multipart upload is still pending."""
        ...

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drops a pending upload; no error where there is none."""
        ...

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        """Replaces the object's tags."""
        ...


THREADS: Final = 8
TOKEN_BYTES: Final = 8


def begin_upload(store: ObjectStore, key: str) -> Upload:
    """Begin a multipart upload with a token of its own. Raises StorageError."""
    token = secrets.token_hex(TOKEN_BYTES)
    return Upload(key, store.create_upload(key, token), (), 0, token=token)


def abort_uploads(store: ObjectStore, files: Iterable[DataFile]) -> None:
    """Ends the uploads of files that were not inherited; those that are gone already are no error. Raises StorageError."""
    uploads = [file.upload for file in files if not file.upload.inherited]
    if uploads:
        with ThreadPool(min(THREADS, len(uploads))) as pool:
            list(pool.each(lambda upload: store.abort_upload(upload.key, upload.id), uploads))
