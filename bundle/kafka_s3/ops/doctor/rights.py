"""May the sink do what it will have to do? Each permission is tried by using it, on objects of the check's own, removed afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.model.errors import PreconditionFailed, StorageError
from kafka_s3.model.files import Upload
from kafka_s3.ops.doctor.finding import Area, CheckResult, CheckStatus
from kafka_s3.store.store import ObjectStore

AREA: Final = Area("rights")
CONTENT: Final = b"kafka-s3 doctor tries its rights here; this object may be deleted\n"
EXACTLY_ONCE: Final = (
    "The store has to refuse a put with If-None-Match: * where an object exists; use a service that does, or exactly-once is "
    "impossible."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What beyond the ordinary the sink will ask: a canned ACL, tags, uploads below a folder of data, a folder whose objects it removes."""

    acl: str | None = None
    tags: bool = False
    data_prefix: str | None = None
    open_states: str | None = None


@dataclass
class Probe:
    """One round of trying, on keys below `folder` that nobody else has."""

    store: ObjectStore
    folder: str
    wanted: Wanted
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    _uploads: list[tuple[str, str]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The object that is put."""
        return f"{self.folder}{self.name}"

    def findings(self) -> Iterator[CheckResult]:
        """One finding a permission, then what became of the probe objects: they are removed whatever was found."""
        try:
            yield from self._objects()
            yield from self._multipart()
            if self.wanted.data_prefix is not None:
                yield self._data_upload(f"{self.wanted.data_prefix}kafka-s3-doctor-{self.name}")
            if self.wanted.open_states is not None:
                yield self._open_states_deleted(self.wanted.open_states)
        finally:
            leftovers = self._removed()
        yield leftovers

    def _objects(self) -> Iterator[CheckResult]:
        put = self._put()
        yield put
        yield _tried("ListBucket", "s3:ListBucket", self._listed)
        if put.status is CheckStatus.FAILED:
            return
        yield _tried("GetObject", "s3:GetObject", self._got)
        yield self._conditional_put()
        yield _tried("PutObject over an object", "s3:PutObject", lambda: self.store.put(self.key, CONTENT))
        if self.wanted.tags:
            yield _tried("PutObjectTagging", "s3:PutObjectTagging", self._tagged)

    def _put(self) -> CheckResult:
        acl = self.wanted.acl
        tried = f"PutObject with ACL {acl}" if acl else "PutObject"
        action = "s3:PutObject, and s3:PutObjectAcl for s3.acl.canned" if acl else "s3:PutObject"
        return _tried(tried, action, lambda: self.store.put_new(self.key, CONTENT))

    def _listed(self) -> None:
        next(iter(self.store.list(self.folder)), None)

    def _got(self) -> None:
        if self.store.get(self.key) != CONTENT:
            raise StorageError(f"{self.key} came back with other content than was put.")

    def _conditional_put(self) -> CheckResult:
        tried = "conditional PutObject"
        try:
            self.store.put_new(self.key, CONTENT)
        except PreconditionFailed:
            return AREA.ok(tried, "an existing object is not overwritten")
        except StorageError as error:
            return AREA.failed(tried, str(error), EXACTLY_ONCE)
        return AREA.failed(tried, "the store overwrote an existing object.", EXACTLY_ONCE)

    def _tagged(self) -> None:
        self.store.tag(self.key, {"kafka-s3": "doctor"})

    def _multipart(self) -> Iterator[CheckResult]:
        begun = self._begun(self.key)
        yield begun
        if begun.status is CheckStatus.FAILED:
            return
        key, upload_id = self._uploads[-1]
        parts: list[str] = []

        def send() -> None:
            parts.append(self.store.upload_part(key, upload_id, 1, CONTENT))

        yield _tried("UploadPart", "s3:PutObject", send)
        yield _tried("ListParts", "s3:ListMultipartUploadParts", lambda: self._pending(key, upload_id))
        yield _tried("ListMultipartUploads", "s3:ListBucketMultipartUploads", self._listed_uploads)
        if parts:
            upload = Upload(key, upload_id, tuple(parts), len(CONTENT))
            yield _tried("CompleteMultipartUpload", "s3:PutObject", lambda: self._completed(upload))
        self._begun(self.key)
        yield _tried("AbortMultipartUpload", "s3:AbortMultipartUpload", self._aborted)

    def _begun(self, key: str) -> CheckResult:
        def begin() -> None:
            self._uploads.append((key, self.store.create_upload(key)))

        return _tried("CreateMultipartUpload", "s3:PutObject", begin)

    def _pending(self, key: str, upload_id: str) -> None:
        if not self.store.upload_exists(key, upload_id):
            raise StorageError(f"The upload {upload_id} of {key} was begun, but the store does not know it.")

    def _listed_uploads(self) -> None:
        for _ in self.store.pending(self.key):
            return

    def _completed(self, upload: Upload) -> None:
        self.store.complete_upload(upload)
        self._uploads.remove((upload.key, upload.id))

    def _aborted(self) -> None:
        while self._uploads:
            self.store.abort_upload(*self._uploads[-1])
            self._uploads.pop()

    def _data_upload(self, key: str) -> CheckResult:
        """Rights may be given by prefix: an upload below the data's is begun and aborted, which leaves nothing to be seen."""
        begun = self._begun(key)
        tried = f"an upload below {self.wanted.data_prefix}"
        if begun.status is CheckStatus.FAILED:
            return AREA.failed(tried, begun.detail, begun.remedy)
        return _tried(tried, "s3:AbortMultipartUpload", self._aborted)

    def _open_states_deleted(self, folder: str) -> CheckResult:
        """Deletes what is not there: without the right the sink runs, but reads records of open files again and again."""
        tried = f"DeleteObject below {folder}"
        try:
            self.store.delete(f"{folder}{self.name}")
        except StorageError as error:
            detail = f"{error} Open files are not kept between tasks, and each look reads their records again."
            return AREA.warning(tried, detail, f"Grant s3:DeleteObject on {folder}*, or set tail.state.enable=false.")
        return AREA.ok(tried, "states of open files can be removed")

    def _removed(self) -> CheckResult:
        tried, left = "DeleteObject (for this check only)", []
        for key, upload_id in self._uploads:
            try:
                self.store.abort_upload(key, upload_id)
            except StorageError:
                left.append(f"upload {upload_id} of {key}")
        try:
            self.store.delete(self.key)
        except StorageError as error:
            left.append(self.key)
            detail = f"{error} Left behind: {', '.join(left)}."
            return AREA.warning(
                tried, detail, "The sink does not delete there; remove it by hand, or grant s3:DeleteObject."
            )
        if left:
            return AREA.warning(
                tried, f"left behind: {', '.join(left)}.", "Grant s3:AbortMultipartUpload and run kafka-s3 sweep."
            )
        return AREA.ok(tried, "the check's own objects are gone")


def _tried(tried: str, action: str, request: Callable[[], object]) -> CheckResult:
    """What became of a request; its failure names the permission that it takes."""

    def run() -> None:
        request()

    return AREA.tried(tried, run, remedy=f"It takes {action}.")
