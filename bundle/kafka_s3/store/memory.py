"""What does a bucket do, without a bucket? The store of unit tests and of the conformance suite, with S3's visible behaviour."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kafka_s3.model.errors import ObjectMissing, PreconditionFailed, UploadMissing
from kafka_s3.model.files import Upload
from kafka_s3.model.timing import now_ms
from kafka_s3.store.store import Body, ListedUpload, ObjectInfo, etag_of, etag_of_bytes, pieces_of


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """A multipart upload that is neither completed nor aborted: its key, the parts sent so far, by number, and when it was begun."""

    key: str
    parts: Mapping[int, bytes] = field(default_factory=dict)
    started_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    data: bytes
    info: ObjectInfo
    tags: Mapping[str, str] = field(default_factory=dict)


class MemoryStore:
    """A bucket in memory, thread-safe; the contract is `store.ObjectStore`'s. Unlike S3 it takes parts of any size.

    `clock_ms` gives the objects' modification time (None: the system's clock).
    """

    def __init__(self, clock_ms: Callable[[], int] | None = None) -> None:
        self._clock_ms = clock_ms or now_ms
        self._lock = threading.Lock()
        self._stored: dict[str, _Stored] = {}
        self._uploads: dict[str, PendingUpload] = {}
        self._created = 0

    @property
    def objects(self) -> dict[str, bytes]:
        """A copy of the visible objects, by key."""
        with self._lock:
            return {key: stored.data for key, stored in self._stored.items()}

    @property
    def tags(self) -> dict[str, dict[str, str]]:
        """A copy of the tags of every object that has any, by key."""
        with self._lock:
            return {key: dict(stored.tags) for key, stored in self._stored.items() if stored.tags}

    @property
    def uploads(self) -> dict[str, PendingUpload]:
        """A copy of the pending uploads, by id."""
        with self._lock:
            return dict(self._uploads)

    def put(self, key: str, data: Body) -> str:
        """Writes or overwrites an object; returns its ETag."""
        content = b"".join(pieces_of(data))
        with self._lock:
            return self._store(key, content, etag=etag_of_bytes(content))

    def put_new(self, key: str, data: bytes) -> str:
        """Writes an object that must not exist yet; returns its ETag. Raises PreconditionFailed where one exists."""
        with self._lock:
            if key in self._stored:
                raise PreconditionFailed(f"PutObject on memory:{key} failed: an object is there already.")
            return self._store(key, data, etag=etag_of_bytes(data))

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing."""
        with self._lock:
            return self._found(key).data

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """The object's bytes from `first` to `last`, both included. Raises ObjectMissing."""
        return self.get(key)[first : last + 1]

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, None where there is none."""
        with self._lock:
            stored = self._stored.get(key)
            return stored.info if stored else None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects below `prefix` in ascending key order (of UTF-8 bytes, as S3's), beginning after `start_after`."""
        with self._lock:
            infos = [stored.info for key, stored in self._stored.items() if key.startswith(prefix)]
        after = start_after.encode()
        yield from (info for info in sorted(infos, key=_utf8_key) if _utf8_key(info) > after)

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly below `prefix`, folders with a slash behind, in ascending order."""
        parts = (info.key.removeprefix(prefix).partition("/") for info in self.list(prefix))
        yield from dict.fromkeys(name + slash for name, slash, _ in parts)

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """The pending uploads whose keys begin with `prefix`."""
        yield from (
            ListedUpload(upload.key, upload_id, upload.started_ms)
            for upload_id, upload in self.uploads.items()
            if upload.key.startswith(prefix)
        )

    def delete(self, key: str, etag: str = "") -> None:
        """Remove an object; no error if there is none. Raises PreconditionFailed if it has another ETag."""
        with self._lock:
            stored = self._stored.get(key)
            if etag and stored is not None and stored.info.etag != etag:
                raise PreconditionFailed(f"DeleteObject on memory:{key} failed: the object has another ETag.")
            self._stored.pop(key, None)

    def create_upload(self, key: str, token: str = "") -> str:
        """Begin a multipart upload; return its id. ETags tell objects apart here, so the token is not kept."""
        with self._lock:
            self._created += 1
            upload_id = f"upload-{self._created}"
            self._uploads[upload_id] = PendingUpload(key, started_ms=self._clock_ms())
            return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        """Keeps part `number` (from 1), in place of one of the same number; returns its ETag. Raises UploadMissing."""
        content = b"".join(pieces_of(data))
        with self._lock:
            pending = self._pending(key, upload_id)
            self._uploads[upload_id] = replace(pending, parts={**pending.parts, number: content})
            return etag_of_bytes(content)

    def complete_upload(self, upload: Upload) -> None:
        """Makes the object visible; again is no error. Raises UploadMissing, also where a part is not the one sent."""
        etag = etag_of(upload.parts)
        with self._lock:
            stored = self._stored.get(upload.key)
            if upload.id not in self._uploads and stored and stored.info.etag == etag:
                return
            parts = self._pending(upload.key, upload.id).parts
            sent = [parts.get(number) for number in range(1, len(upload.parts) + 1)]
            data = [part for part in sent if part is not None]
            if not data or tuple(map(etag_of_bytes, data)) != upload.parts:
                raise UploadMissing(
                    f"CompleteMultipartUpload on memory:{upload.key} failed: the parts are not those that were sent."
                )
            del self._uploads[upload.id]
            self._store(upload.key, b"".join(data), etag=etag)

    def upload_exists(self, key: str, upload_id: str) -> bool:
        """Whether the multipart upload is still pending."""
        with self._lock:
            pending = self._uploads.get(upload_id)
            return pending is not None and pending.key == key

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drops a pending upload; no error where there is none."""
        with self._lock:
            if (pending := self._uploads.get(upload_id)) and pending.key == key:
                del self._uploads[upload_id]

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        """Replaces the object's tags. Raises ObjectMissing."""
        with self._lock:
            stored = self._found(key)
            self._stored[key] = _Stored(stored.data, stored.info, dict(tags))

    def _store(self, key: str, data: bytes, *, etag: str) -> str:
        self._stored[key] = _Stored(bytes(data), ObjectInfo(key, len(data), etag, self._clock_ms()))
        return etag

    def _found(self, key: str) -> _Stored:
        try:
            return self._stored[key]
        except KeyError:
            raise ObjectMissing(f"There is no object memory:{key}.") from None

    def _pending(self, key: str, upload_id: str) -> PendingUpload:
        pending = self._uploads.get(upload_id)
        if pending is None or pending.key != key:
            raise UploadMissing(
                f"There is no pending upload {upload_id!r} of memory:{key}: completed, aborted or never begun."
            )
        return pending


def _utf8_key(info: ObjectInfo) -> bytes:
    return info.key.encode()
