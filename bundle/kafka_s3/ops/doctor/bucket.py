"""Does the bucket answer, do its rules let the sink live, and may the sink do there what it will have to do?

Each permission is tried by using it, on objects of the check's own, removed afterwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_s3.model.errors import PreconditionFailed, StorageError
from kafka_s3.model.files import Upload
from kafka_s3.ops.doctor.findings import Area, CheckResult, CheckStatus
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import BucketAnswer, BucketFacts, LifecycleRule, ObjectStore

RIGHTS: Final = Area("rights")
CONTENT: Final = b"kafka-s3 doctor tries its rights here; this object may be deleted\n"
EXACTLY_ONCE: Final = (
    "The store has to refuse a put with If-None-Match: * where an object exists; use a service that does, or exactly-once is "
    "impossible."
)
AREA: Final = Area("bucket")
SKEW_TO_MENTION_MS: Final = 5_000
SKEW_REFUSED_MS: Final = 15 * 60_000
"""From here on S3 refuses every signature."""
LEAST_ABORT_DAYS: Final = 2
ADVISED_ABORT_DAYS: Final = 7
AS_IN: Final = "a committed file may wait for its completion while the sink is down"


def check_answer(answer: BucketAnswer, options: StoreOptions) -> Iterator[CheckResult]:
    """Whether the bucket can be reached where the configuration says, and how far its clock is from ours, where it sends its time."""
    yield _reached(answer, options)
    if answer.skew_ms is not None:
        yield _clock(answer.skew_ms)


def check_rules(facts: BucketFacts, *, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    """Lifecycle rules and versioning of a bucket that can be reached. `prefixes` are those of every object of the sink."""
    yield from _lifecycle(facts, state_root, prefixes)
    yield _versioning(facts)


def _reached(answer: BucketAnswer, options: StoreOptions) -> CheckResult:
    tried = f"s3://{options.bucket}"
    if answer.refusal is not None:
        return AREA.failed(tried, str(answer.refusal))
    if answer.region and answer.region != options.region:
        detail = (
            f"is in region {answer.region}, not in {options.region}: every request may be sent twice, or be refused."
        )
        return AREA.warning(f"region of {tried}", detail, f"Set s3.region={answer.region}.")
    return AREA.ok(tried, f"answers, region {answer.region or 'not given'}")


def _clock(skew_ms: int) -> CheckResult:
    tried = "clock of this machine against the bucket's"
    detail = f"{abs(skew_ms) / 1000:.0f} s {'behind' if skew_ms > 0 else 'ahead'}"
    remedy = "Set this machine's clock (NTP)."
    if abs(skew_ms) > SKEW_REFUSED_MS:
        return AREA.failed(tried, f"{detail}: S3 refuses requests beyond 15 minutes.", remedy)
    if abs(skew_ms) > SKEW_TO_MENTION_MS:
        return AREA.warning(tried, f"{detail}: rotation by schedule and upload ages go by it.", remedy)
    return AREA.ok(tried, "within 5 s")


def _lifecycle(facts: BucketFacts, state_root: str, prefixes: Sequence[str]) -> Iterator[CheckResult]:
    try:
        rules = facts.lifecycle()
    except StorageError as error:
        remedy = (
            "Grant s3:GetLifecycleConfiguration to have the rules checked, or see that none removes incomplete uploads within "
            f"{LEAST_ABORT_DAYS} days or objects below {state_root}."
        )
        yield AREA.warning("lifecycle rules", str(error), remedy)
        return
    yield _incomplete_uploads(rules, prefixes)
    yield from (_state_rule(rule, state_root) for rule in rules if _removes(rule) and rule.meets(state_root))
    if not any(_removes(rule) and rule.meets(state_root) for rule in rules):
        yield AREA.ok(f"lifecycle of {state_root}", "no rule removes or moves the commit log")


def _removes(rule: LifecycleRule) -> bool:
    return (rule.expires or rule.transitions) and not rule.tagged  # the sink's state has no tags


def _state_rule(rule: LifecycleRule, state_root: str) -> CheckResult:
    done = "expires" if rule.expires else "moves"
    where = f"objects below {rule.prefix!r}" if rule.prefix else "all objects"
    detail = f"rule {rule.name!r} {done} {where}, and so the commit log: without it the sink writes everything again."
    return AREA.failed(
        f"lifecycle of {state_root}",
        detail,
        "Give the rule a prefix of the data only, or set state.prefix to another folder.",
    )


def _incomplete_uploads(rules: Sequence[LifecycleRule], prefixes: Sequence[str]) -> CheckResult:
    tried = "lifecycle of incomplete uploads"
    acting = [rule for rule in rules if rule.abort_days is not None and any(map(rule.meets, prefixes))]
    if not acting:
        advice = f"A rule that aborts them after {ADVISED_ABORT_DAYS} days or more saves the storage; kafka-s3 sweep does it by hand."
        return AREA.ok(tried, "no rule aborts those that crashed tasks leave.", advice)
    shortest = min(acting, key=lambda rule: rule.abort_days or 0)
    detail = f"rule {shortest.name!r} aborts them after {shortest.abort_days} days"
    if (shortest.abort_days or 0) < LEAST_ABORT_DAYS:
        return AREA.warning(tried, f"{detail}: {AS_IN}.", f"Make it {ADVISED_ABORT_DAYS} days or more.")
    return AREA.ok(tried, detail)


def _versioning(facts: BucketFacts) -> CheckResult:
    try:
        state = facts.versioning()
    except StorageError as error:
        return AREA.ok("versioning", f"not known: {error}", "It makes no difference to the sink.")
    if state == "Enabled":
        advice = "Old versions of state objects stay; a rule for noncurrent versions removes them."
        return AREA.ok("versioning", "on.", advice)
    return AREA.ok("versioning", "suspended" if state else "off")


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
        yield _request("ListBucket", "s3:ListBucket", self._listed)
        if put.status is CheckStatus.FAILED:
            return
        yield _request("GetObject", "s3:GetObject", self._got)
        yield self._conditional_put()
        yield _request("PutObject over an object", "s3:PutObject", lambda: self.store.put(self.key, CONTENT))
        if self.wanted.tags:
            yield _request("PutObjectTagging", "s3:PutObjectTagging", self._tagged)

    def _put(self) -> CheckResult:
        acl = self.wanted.acl
        tried = f"PutObject with ACL {acl}" if acl else "PutObject"
        action = "s3:PutObject, and s3:PutObjectAcl for s3.acl.canned" if acl else "s3:PutObject"
        return _request(tried, action, lambda: self.store.put_new(self.key, CONTENT))

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
            return RIGHTS.ok(tried, "an existing object is not overwritten")
        except StorageError as error:
            return RIGHTS.failed(tried, str(error), EXACTLY_ONCE)
        return RIGHTS.failed(tried, "the store overwrote an existing object.", EXACTLY_ONCE)

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

        yield _request("UploadPart", "s3:PutObject", send)
        yield _request("ListParts", "s3:ListMultipartUploadParts", lambda: self._pending(key, upload_id))
        yield _request("ListMultipartUploads", "s3:ListBucketMultipartUploads", self._listed_uploads)
        if parts:
            upload = Upload(key, upload_id, tuple(parts), len(CONTENT))
            yield _request("CompleteMultipartUpload", "s3:PutObject", lambda: self._completed(upload))
        self._begun(self.key)
        yield _request("AbortMultipartUpload", "s3:AbortMultipartUpload", self._aborted)

    def _begun(self, key: str) -> CheckResult:
        def begin() -> None:
            self._uploads.append((key, self.store.create_upload(key)))

        return _request("CreateMultipartUpload", "s3:PutObject", begin)

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
            return RIGHTS.failed(tried, begun.detail, begun.remedy)
        return _request(tried, "s3:AbortMultipartUpload", self._aborted)

    def _open_states_deleted(self, folder: str) -> CheckResult:
        """Deletes what is not there: without the right the sink runs, but reads records of open files again and again."""
        tried = f"DeleteObject below {folder}"
        try:
            self.store.delete(f"{folder}{self.name}")
        except StorageError as error:
            detail = f"{error} Open files are not kept between tasks, and each look reads their records again."
            return RIGHTS.warning(tried, detail, f"Grant s3:DeleteObject on {folder}*, or set tail.state.enable=false.")
        return RIGHTS.ok(tried, "states of open files can be removed")

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
            return RIGHTS.warning(
                tried, detail, "The sink does not delete there; remove it by hand, or grant s3:DeleteObject."
            )
        if left:
            return RIGHTS.warning(
                tried, f"left behind: {', '.join(left)}.", "Grant s3:AbortMultipartUpload and run kafka-s3 sweep."
            )
        return RIGHTS.ok(tried, "the check's own objects are gone")


def _request(tried: str, action: str, request: Callable[[], object]) -> CheckResult:
    """What became of a request; its failure names the permission that it takes."""

    def run() -> None:
        request()

    return RIGHTS.tried(tried, run, remedy=f"It takes {action}.")
