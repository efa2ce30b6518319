"""What does a failure of S3 mean, who can mend it, and how often is the request tried again?

botocore's own retries are off, so that `s3.part.retries` and `s3.retry.backoff.ms` mean what they mean to the connector.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from kafka_s3.model.errors import (
    ObjectArchived,
    ObjectMissing,
    PreconditionFailed,
    StorageError,
    StorageUnavailable,
    UploadMissing,
)
from kafka_s3.model.timing import Backoff, RateLimiter

FAILURES: tuple[type[Exception], ...] = (boto.BotoCoreError, boto.ClientError, ResponseParserError)
"""What a request to S3 may raise."""


class Conflict(StorageUnavailable):
    """Another request on the same key was under way (409); worth another try at once; completions take it as a case of its own."""


@dataclass(frozen=True, slots=True)
class Request:
    """Names a request in error texts: the operation, the bucket, the key (or prefix), and the secrets a text must not show."""

    method: str
    bucket: str
    key: str
    secrets: Sequence[str] = ()

    @property
    def title(self) -> str:
        """`PutObject on s3://bucket/key`."""
        name = "".join(word.capitalize() for word in self.method.split("_"))
        return f"{name} on s3://{self.bucket}/{self.key}"


_THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete",
        "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "ServiceUnavailable", "SlowDown",
        "ThrottledException", "Throttling", "ThrottlingException", "TooManyRequests", "TooManyRequestsException", "429", "503",
    }
)  # fmt: skip
_TRANSIENT = frozenset({"BadDigest", "InternalError", "InternalFailure", "RequestTimeout", "RequestTimeoutException"})
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})

_ACTIONS = {
    "put_object": "s3:PutObject",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject and s3:ListBucket",
    "list_objects_v2": "s3:ListBucket",
    "delete_object": "s3:DeleteObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "list_parts": "s3:ListMultipartUploadParts",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "put_object_tagging": "s3:PutObjectTagging",
    "head_bucket": "s3:ListBucket",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
    "get_bucket_versioning": "s3:GetBucketVersioning",
}

_EXPIRED = "The temporary credentials have expired: renew them, or use a provider that renews them itself (s3.credentials.provider.class)."
_ADVICE = {
    "NoSuchBucket": "Create the bucket or correct s3.bucket.name (and store.url, if set).",
    "InvalidBucketName": "Correct s3.bucket.name.",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": "Check the session token of the credentials in use.",
    "InvalidAccessKeyId": "Check aws.access.key.id, and that the key belongs to the service that store.url names.",
    "SignatureDoesNotMatch": "Check aws.secret.access.key (blanks, a cut end), and that no proxy rewrites requests.",
    "RequestTimeTooSkewed": "Set the clock of this machine: it is more than 15 minutes off.",
    "AccessControlListNotSupported": "The bucket has ACLs switched off: leave s3.acl.canned empty.",
    "InvalidObjectState": "It lies in an archive (a lifecycle rule moved it): restore it with S3's RestoreObject before it is read.",
    "EntityTooSmall": "Every part but the last needs 5 MiB: check s3.part.size.",
    "InvalidPart": "S3 does not hold the parts as they were sent; the file has to be written again.",
    "KMS.NotFoundException": "Check s3.sse.kms.key.id, and that the key is in the bucket's region.",
    "KMS.DisabledException": "Enable the key that s3.sse.kms.key.id names.",
    "NotImplemented": "The service that store.url names does not know this request.",
    "400": "An answer to HEAD has no text: check that the credentials are not expired, s3.region, and s3.sse.customer.key.",
}
_DENIED = frozenset({"AccessDenied", "403", "AllAccessDisabled", "AccessDeniedException"})
_ELSEWHERE = frozenset(
    {
        "PermanentRedirect",
        "301",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "TemporaryRedirect",
    }
)
_MISSING: dict[str, type[StorageError]] = {
    "NoSuchKey": ObjectMissing,
    "404": ObjectMissing,
    "InvalidObjectState": ObjectArchived,
    "NoSuchUpload": UploadMissing,
    "InvalidPart": UploadMissing,  # another driver sent other parts into it
    "PreconditionFailed": PreconditionFailed,
    "412": PreconditionFailed,
}
_CREDENTIALS = (
    boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError, boto.ProfileNotFound, boto.TokenRetrievalError,
    boto.UnauthorizedSSOTokenError, boto.SSOTokenLoadError,
)  # fmt: skip


def storage_error(error: Exception, request: Request) -> StorageError:
    """The StorageError that says what failed, why, and what to do; StorageUnavailable where another try may help."""
    found = _refusal(error, request) if isinstance(error, boto.ClientError) else _breakdown(error, request)
    return type(found)(_masked(str(found), request.secrets))


def _refusal(error: Any, request: Request) -> StorageError:
    answer = error.response.get("Error", {})
    code, status = str(answer.get("Code") or ""), _status(error)
    reason = f"{code} ({status})" if status and code != str(status) else code or "an unknown error"
    message = str(answer.get("Message") or "").strip().rstrip(".")
    text = f"{request.title} failed with {reason}{': ' + message if message else ''}."
    if error.operation_name == "AssumeRole":
        advice = "Check s3.credentials.provider.sts.role.arn and .sts.role.external.id, and that the role trusts the base credentials."
        return _kind(code, status)(f"Assuming a role for {text} {advice}")
    return _kind(code, status)(f"{text} {_advice(code, error.response, request)}".rstrip())


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _kind(code: str, status: int) -> type[StorageError]:
    if code in _MISSING:
        return _MISSING[code]
    if code in _CONFLICTS:
        return Conflict
    # S3 may answer 200 and put the error in the body, so the code counts before the status
    worth_another_try = code in _THROTTLES or code in _TRANSIENT or status == 429 or (status >= 500 and status != 501)
    return StorageUnavailable if worth_another_try else StorageError


def _advice(code: str, response: Any, request: Request) -> str:
    if code in _DENIED:
        return f"Grant {_ACTIONS.get(request.method, 's3:*')} on this bucket or object to the credentials in use{_kms(response)}."
    if code in _ELSEWHERE:
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        region = response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region")
        return "Set s3.region to the bucket's region" + (f": {region}." if region else ".")
    if code in _THROTTLES:
        return "S3 throttles: fewer tasks, or more of s3.part.retries and s3.retry.backoff.ms, help."
    return _ADVICE.get(code, "")


def _kms(response: Any) -> str:
    names_key = "kms" in str(response.get("Error", {}).get("Message") or "").lower()
    return ", and kms:GenerateDataKey and kms:Decrypt on the key (s3.sse.kms.key.id)" if names_key else ""


def _breakdown(error: Exception, request: Request) -> StorageError:
    text = f"{request.title} failed: {str(error).rstrip('.')}."
    if isinstance(error, _CREDENTIALS):
        ways = "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; give this machine a role; or set aws.access.key.id and "
        ways += "aws.secret.access.key, or s3.credentials.provider.class, in the configuration"
        return StorageError(f"{text} There are no usable AWS credentials: set {ways}.")
    if isinstance(error, boto.SSLError) and "certificate" in str(error).lower():
        return StorageError(f"{text} Check store.url, or name the certificate authority in AWS_CA_BUNDLE.")
    if isinstance(error, boto.ProxyConnectionError):
        return StorageUnavailable(f"{text} Check s3.proxy.url, s3.proxy.user and s3.proxy.password.")
    if isinstance(error, (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError, ResponseParserError)):
        return StorageUnavailable(f"{text} Check store.url, s3.region, s3.proxy.url and the network.")
    return StorageError(
        f"{text} Check s3.bucket.name, s3.region, store.url, s3.wan.mode and s3.path.style.access.enabled."
    )


def _masked(text: str, secrets: Sequence[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "****").replace(quote(secret, safe=""), "****")
    return text


T = TypeVar("T")

LONGEST_WAIT_MS: Final = 20_000
WARNINGS_S: Final = 60
_log = logging.getLogger(__name__)
_warnings = RateLimiter(WARNINGS_S)


@dataclass(frozen=True, slots=True)
class Retrier:
    """Tries a request up to `attempts` times in all, the first included (SEMANTICS A1.3); fewer than one counts as one.

    Between two attempts it waits a random share of `backoff_ms` doubled per failure, at most 20 s. `sleep` takes seconds; `jitter`
    returns the share, in [0, 1). `again` is called before each further attempt.
    """

    attempts: int
    backoff_ms: int
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    again: Callable[[], None] = lambda: None

    def run(self, request: Callable[[], T]) -> T:
        """The answer of the first attempt that does not raise StorageUnavailable; the last one's error, with the count of attempts."""
        attempt = 1
        while True:
            try:
                return request()
            except StorageUnavailable as error:
                if attempt >= self.attempts:
                    raise type(error)(f"{error} Tried {attempt} times (s3.part.retries).") from None
                reason = str(error)
            wait_s = self.wait_s(attempt)
            _log.log(
                logging.WARNING if _warnings.due() else logging.INFO,
                "request is tried again",
                extra={"facts": {"attempt": attempt, "wait_s": round(wait_s, 3), "reason": reason}},
            )
            self.sleep(wait_s)
            self.again()
            attempt += 1

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after this many failures."""
        backoff = Backoff(self.backoff_ms, LONGEST_WAIT_MS, lambda: 1 - self.jitter(), least=0.0)
        return backoff.pause_ms(failures) / 1000
