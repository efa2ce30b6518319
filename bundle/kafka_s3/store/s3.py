"""How do the store's verbs become S3 requests, and how are lost answers settled?

The clients follow from the bucket's options: boto3's for what is rare (lists, deletions, the bucket itself), libcurl's connections, and
those of libraries in Rust; all sign with the keys of one session. Requests that move data go by libcurl, without boto3's client: a call of
that takes 2.5 ms of CPU, most of it for parameters, rules and events whose outcome never changes for a bucket. They are asked once: the
client is let prepare a request that is never sent, and its address, region and user agent serve all that follow.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import certifi
from botocore import exceptions as boto

from kafka_s3 import __version__
from kafka_s3.model.errors import ObjectMissing, PreconditionFailed, StorageError, StorageUnavailable, UploadMissing
from kafka_s3.model.files import Upload
from kafka_s3.model.timing import Durations, Requests, bound_of, now_ms
from kafka_s3.store.connections import Connections, HttpAnswer, HttpRequest, Signature, Terms
from kafka_s3.store.credentials import UNSIGNED, AwsSession, Config, Provider, patient_config, session_of
from kafka_s3.store.options import Encryption, Proxy, StoreOptions
from kafka_s3.store.s3_errors import FAILURES, Conflict, Request, Retrier, storage_error
from kafka_s3.store.store import (
    Body,
    BucketAnswer,
    LifecycleRule,
    ListedUpload,
    ObjectInfo,
    clock_skew_ms,
    etag_of,
    lifecycle_rule,
    pieces_of,
)

SSE = "x-amz-server-side-encryption"
TOKEN: Final = "x-amz-meta-kafka-s3-upload"
"""Metadata of an object: the token of the upload that made it."""


def session_for(options: StoreOptions) -> AwsSession:
    """The session with the bucket's credentials; asks nobody for them yet."""
    return session_of(options.credentials, region=options.region, config=plain_config(options))


def aws_client(service: str, options: StoreOptions, endpoint_url: str | None) -> Any:
    """A client of another service (Glue, SNS, SQS) with the bucket's session; it tries again what failed for a moment."""
    return session_for(options).client(service, endpoint_url, config=patient_config())


def s3_client(options: StoreOptions, session: AwsSession, region: str | None = None) -> Any:
    """A thread-safe S3 client that tries once only, of the session's region or another; connects nowhere yet."""
    proxy = options.proxy.url if options.proxy else None
    client = session.client("s3", options.endpoint_url, proxy, config=_config(options), region=region)
    client.meta.events.register("request-created.s3", _never_ask_first)
    return client


def connections(options: StoreOptions, session: AwsSession, url: str) -> Connections:
    """Connections like the client's own: timeouts, proxies, certificate authorities. `url` is the client's endpoint."""
    chosen = proxies(options.proxy)
    terms = Terms(
        session.authorities() or certifi.where(),
        _environment_proxies(url) if chosen is None else chosen,
        options.connect_timeout_s,
        options.read_timeout_s,
    )
    return Connections(terms, most=options.max_connections)


def _environment_proxies(url: str) -> dict[str, str]:
    """The proxies by scheme that HTTPS_PROXY and the like name, none for an address of NO_PROXY."""
    return {} if proxy_bypass(urlsplit(url).netloc) else getproxies()


def plain_config(options: StoreOptions) -> Config:
    """Timeouts, proxies and user agent, for requests to any AWS service."""
    return Config(
        connect_timeout=options.connect_timeout_s,
        read_timeout=options.read_timeout_s,
        proxies=proxies(options.proxy),
        user_agent_extra=f"kafka-s3/{__version__}",
    )


def _config(options: StoreOptions) -> Config:
    special = {"signature_version": UNSIGNED} if options.credentials.provider is Provider.ANONYMOUS else {}
    path_style = options.path_style and not options.accelerate
    wanted = Config(
        s3={"addressing_style": "path" if path_style else "virtual", "use_accelerate_endpoint": options.accelerate},
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=options.max_connections,
        tcp_keepalive=True,
        # the newer checksum trailers are unknown to many S3-compatible services; the signature covers the body anyway, or TLS does
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        **special,
    )
    return plain_config(options).merge(wanted)


def proxies(proxy: Proxy | None) -> dict[str, str] | None:
    """Both schemes through the proxy; None leaves the choice to the environment (HTTPS_PROXY, NO_PROXY)."""
    if proxy is None:
        return None
    scheme, _, address = proxy.url.partition("://")
    if proxy.user:
        password = quote(proxy.password.reveal(), safe="") if proxy.password else ""
        address = f"{quote(proxy.user, safe='')}:{password}@{address}"
    return {name: f"{scheme}://{address}" for name in ("http", "https")}


def _never_ask_first(request: Any, **_: Any) -> None:
    # botocore asks with every body, and has no option against it
    del request.headers["Expect"]


def creation_headers(options: StoreOptions) -> dict[str, str]:
    """Encryption and ACL, for the requests that create an object."""
    acl = {"x-amz-acl": options.acl} if options.acl else {}
    return acl | encryption_headers(options.encryption)


def encryption_headers(encryption: Encryption) -> dict[str, str]:
    """The encryption asked for at creation; nothing where the bucket's own default is to rule."""
    if encryption.customer_key:
        return customer_key_headers(encryption)
    if not encryption.algorithm:
        return {}
    key = {f"{SSE}-aws-kms-key-id": encryption.kms_key_id} if encryption.kms_key_id else {}
    return {SSE: encryption.algorithm} | key


def customer_key_headers(encryption: Encryption) -> dict[str, str]:
    """The customer's key, which S3 forgets after each request and so needs with every part, GET and HEAD; {} without one."""
    if not encryption.customer_key:
        return {}
    key = base64.b64decode(encryption.customer_key.reveal())
    return {
        f"{SSE}-customer-algorithm": "AES256",
        f"{SSE}-customer-key": base64.b64encode(key).decode(),
        f"{SSE}-customer-key-md5": _md5(key),
    }


def digest_headers(body: Body) -> dict[str, str]:
    """The Content-MD5 of a body."""
    return {"Content-MD5": _md5(body)}


def _md5(body: Body) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces_of(body):
        digest.update(piece)
    return base64.b64encode(digest.digest()).decode()


def secrets_of(options: StoreOptions) -> tuple[str, ...]:
    """The texts that must not show in errors or logs."""
    held = (options.encryption.customer_key, options.proxy.password if options.proxy else None)
    return options.credentials.secrets() + tuple(secret.reveal() for secret in held if secret)


class RustOptions:
    """Storage options of `object_store` for a bucket, made at each call, so that credentials that expire are those of the moment.

    The bucket's address is botocore's, as of all other requests: it follows from the options, or from AWS's variables and files. Its text
    form shows no credentials.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._session = session_for(options)
        self._url: str | None = None

    def __call__(self) -> dict[str, str]:
        """Return the options. Raises StorageError when there are no credentials."""
        options = self._options
        credentials = self._credentials()
        if self._url is None:
            self._url = self._find_url()
        return {
            "aws_region": options.region,
            "aws_endpoint_url": self._url,
            "aws_endpoint_url_s3": self._url,  # the variable of that name would count more than the key above
            "aws_virtual_hosted_style_request": "true",  # says that the endpoint is the bucket's own, whatever its style
            "aws_allow_http": str(self._url.startswith("http://")).lower(),
            "aws_conditional_put": "etag",
            **credentials,
            **_encryption(options.encryption),
            **_proxy(options.proxy),
        }

    def _find_url(self) -> str:
        client = s3_client(replace(self._options, accelerate=False), self._session)
        try:
            return _address_of(client, self._options.bucket).prefix.rstrip("/")
        finally:
            client.close()

    def _credentials(self) -> dict[str, str]:
        if self._options.credentials.provider is Provider.ANONYMOUS:
            return {"aws_skip_signature": "true"}
        held = self._session.credentials()
        if held is None:
            raise StorageError(
                "No S3 credentials were found for the Delta table. Set aws.access.key.id and its secret."
            )
        frozen = held.get_frozen_credentials()
        pair = {"aws_access_key_id": frozen.access_key, "aws_secret_access_key": frozen.secret_key}
        return pair | ({"aws_session_token": frozen.token} if frozen.token else {})


def _encryption(encryption: Encryption) -> dict[str, str]:
    if encryption.customer_key:
        return {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": encryption.customer_key.reveal()}
    if not encryption.algorithm:
        return {}
    key = {"aws_sse_kms_key_id": encryption.kms_key_id} if encryption.kms_key_id else {}
    return {"aws_server_side_encryption": encryption.algorithm} | key


def _proxy(proxy: Proxy | None) -> dict[str, str]:
    """The proxy's user and password are part of its address here."""
    found = proxies(proxy)
    return {"proxy_url": found["https"]} if found else {}


VERBS: Final = {
    "put_object": "PUT",
    "get_object": "GET",
    "head_object": "HEAD",
    "create_multipart_upload": "POST",
    "upload_part": "PUT",
    "complete_multipart_upload": "POST",
    "abort_multipart_upload": "DELETE",
    "list_parts": "GET",
    "put_object_tagging": "PUT",
}
"""The operations that go this way, by botocore's names, and their HTTP methods."""

SIGV4: Final = "AWS4-HMAC-SHA256"
UNSIGNED_BODY: Final = "UNSIGNED-PAYLOAD"
OF_NOTHING: Final = hashlib.sha256().hexdigest()
ANY_KEY: Final = "k"
_DOTS: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a bucket answers: the URL in front of a key; the region and the service to sign for, blank for anonymous requests."""

    prefix: str
    region: str
    service: str
    user_agent: str

    def url(self, key: str, query: str = "") -> str:
        """The URL of a key, with a query that is encoded already. Refuses keys that libcurl would change."""
        if not _DOTS.isdisjoint(key.split("/")):
            raise boto.ParamValidationError(report=f"the key {key!r} has the part '.' or '..'")
        return f"{self.prefix}{_encoded(key)}{'?' if query else ''}{query}"


_ESCAPES: Final = {code: quote(chr(code), safe="/~") for code in range(128)}


def _encoded(key: str) -> str:
    """A key as it is in a URL; `quote` takes ten times as long where something has to be escaped, and an equals sign has."""
    return key.translate(_ESCAPES) if key.isascii() else quote(key, safe="/~")


@dataclass(frozen=True, slots=True)
class S3Request:
    """A request: a key, an encoded query, headers besides those of signing, a body.

    `relies_on_tls`: over TLS the signature does not cover the body. To hash it takes longer than to encrypt it.
    """

    key: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = b""
    relies_on_tls: bool = False


class DataPlane:
    """Sends requests for one bucket, each once only. Thread-safe; belongs to one process.

    `client` is boto3's, for whatever is rare. Making a plane asks for credentials, and may raise what a call of that client raises.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._session = session_for(options)
        self.client = s3_client(options, self._session)
        self._address = _address_of(self.client, options.bucket)
        configured = self.client.meta.config.s3 or {}  # also by AWS's configuration file
        self._signs_all = bool(configured.get("payload_signing_enabled"))
        self._connections = connections(options, self._session, self.client.meta.endpoint_url)

    def send(self, operation: str, asked: S3Request) -> HttpAnswer:
        """The answer to one of VERBS. Raises what the client would: ClientError for a refusal, BotoCoreError where there is no answer.

        A bucket of another region than the configured one is found there, as by the client.
        """
        try:
            return self._send_once(operation, asked)
        except boto.ClientError as error:
            elsewhere = self._elsewhere(error)
            if elsewhere is None:
                raise
            self._address = elsewhere
        return self._send_once(operation, asked)

    def close(self) -> None:
        self._connections.close()
        self.client.close()

    def _send_once(self, operation: str, asked: S3Request) -> HttpAnswer:
        answer = self._connections.send(self._addressed(VERBS[operation], asked))
        status = answer.status
        if operation != "get_object" and status == 200 and hides_an_error(answer.body):
            status = 500  # S3 may find out that it fails when it has answered 200 already
        if status >= 300:
            raise boto.ClientError(refusal_of(answer, status), operation)
        return answer

    def _addressed(self, method: str, asked: S3Request) -> HttpRequest:
        address, headers, signature = self._address, dict(asked.headers), None
        url = address.url(asked.key, asked.query)
        if address.region:
            held = self._session.credentials()
            if held is None:
                raise boto.NoCredentialsError
            keys = held.get_frozen_credentials()  # a renewal in between must not mix the parts of two
            signature = Signature(address.region, address.service, keys.access_key, keys.secret_key)
            relies_on_tls = asked.relies_on_tls and url.startswith("https") and not self._signs_all
            headers["X-Amz-Content-SHA256"] = UNSIGNED_BODY if relies_on_tls else _digest(asked.body)
            if keys.token:
                headers["X-Amz-Security-Token"] = keys.token
        return HttpRequest(
            method, url, headers, asked.body, address.user_agent, signature, self._options.expect_continue
        )

    def _elsewhere(self, error: Any) -> Address | None:
        """The bucket's address in its own region, if the refusal means that it is in another one than was asked."""
        if not _is_about_regions(error):
            return None
        region = _region_of(error) or self._region_by_asking()
        if not region or region == self._address.region:
            return None
        client = s3_client(self._options, self._session, region)
        try:
            return _address_of(client, self._options.bucket)
        finally:
            client.close()

    def _region_by_asking(self) -> str:
        try:
            answer = self.client.head_bucket(Bucket=self._options.bucket)
        except boto.ClientError as error:
            answer = error.response
        return str(headers_of(answer).get("x-amz-bucket-region", ""))


class _Prepared(Exception):
    """Carries a request out of botocore before it is sent."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self.request = request


def _address_of(client: Any, bucket: str) -> Address:
    """What botocore makes of bucket, region, style of address, acceleration and the variables that it heeds. Sends nothing."""

    def stop(request: Any, **_: Any) -> None:
        raise _Prepared(request)

    client.meta.events.register("before-send.s3.HeadObject", stop)
    try:
        client.head_object(Bucket=bucket, Key=ANY_KEY)
    except _Prepared as prepared:
        # a frame of botocore's keeps the exception, which would keep all frames, and the part that waits in one
        prepared.__traceback__ = None
        return _taken_from(prepared.request)
    finally:
        client.meta.events.unregister("before-send.s3.HeadObject", stop)
    raise RuntimeError("botocore sent a request that it was to give up.")


def _taken_from(request: Any) -> Address:
    signature, agent = _text(request.headers.get("Authorization")), _text(request.headers.get("User-Agent"))
    prefix = request.url.removesuffix(ANY_KEY)
    if not signature:
        return Address(prefix, "", "", agent)
    scheme, _, rest = signature.partition(" ")
    if scheme != SIGV4:
        raise boto.UnsupportedSignatureVersionError(signature_version=scheme)
    _, _, region, service, _ = rest.partition("Credential=")[2].partition(",")[0].rsplit("/", 4)
    return Address(prefix, region, service, agent)


def _text(header: bytes | str | None) -> str:
    return header.decode() if isinstance(header, bytes) else header or ""


def _digest(body: Body) -> str:
    """What the signature covers of a body."""
    if not body:
        return OF_NOTHING
    digest = hashlib.sha256()
    for piece in pieces_of(body):
        digest.update(piece)
    return digest.hexdigest()


def _is_about_regions(error: Any) -> bool:
    """As botocore's own redirector has it."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    found = error.response.get("Error", {})
    code = found.get("Code")
    return (
        status in (301, 302, 307)
        or code in ("PermanentRedirect", "IllegalLocationConstraintException")
        or (code == "AuthorizationHeaderMalformed" and "Region" in found)
        or (code == "400" and error.operation_name == "head_object")
    )


def _region_of(error: Any) -> str:
    found = headers_of(error.response).get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region")
    return str(found or "")


def headers_of(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """The HTTP headers of botocore's answer."""
    return dict(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}))


NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"


def completion_document(parts: Sequence[str]) -> bytes:
    """The body that completes an upload of parts with these ETags, in order from 1."""
    listed = (
        f"<Part><ETag>{escape(etag)}</ETag><PartNumber>{number}</PartNumber></Part>"
        for number, etag in enumerate(parts, start=1)
    )
    return _document("CompleteMultipartUpload", "".join(listed))


def tagging_document(tags: Mapping[str, str]) -> bytes:
    """The body that sets an object's tags."""
    listed = (f"<Tag><Key>{escape(name)}</Key><Value>{escape(value)}</Value></Tag>" for name, value in tags.items())
    return _document("Tagging", f"<TagSet>{''.join(listed)}</TagSet>")


def refusal_of(answer: HttpAnswer, status: int) -> Any:
    """A refusal in the form in which boto3 has it; without a document that says more, its code is the status."""
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(answer.headers)}
    try:
        root = ElementTree.fromstring(answer.body)
    except ElementTree.ParseError:
        root = ElementTree.Element("Error")
    inner = root if root.tag.rpartition("}")[2] == "Error" else root.find("{*}Error")
    said = {one.tag.rpartition("}")[2]: one.text or "" for one in (root if inner is None else inner)}
    said.setdefault("Code", str(status))
    said.setdefault("Message", http.client.responses.get(status, ""))
    return {"Error": said, "ResponseMetadata": metadata}


def hides_an_error(body: bytes) -> bool:
    """Whether the body of a 200 says that the request failed after all, or was cut off on the way."""
    if not body:
        return False
    try:
        return str(_root(body).tag) == "Error"
    except ElementTree.ParseError:
        return True


def text_of(body: bytes, element: str) -> str:
    """The text of a child of the root, "" where there is none."""
    return (_root(body).findtext(f"{{*}}{element}") or "") if body else ""


@lru_cache(maxsize=8)
def _root(body: bytes) -> ElementTree.Element:
    """The document of an answer, which is looked at for an error first. Raises SyntaxError where it is no XML."""
    return ElementTree.fromstring(body)


def _document(root: str, content: str) -> bytes:
    return f'<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A request that counts when the body ends. That something is missing, or there already, is an answer and no failure."""

    tally: RequestTally
    operation: str
    begun: float

    def __enter__(self) -> None:
        """It is sent."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = kind is not None and not issubclass(kind, ObjectMissing | UploadMissing | PreconditionFailed)
        self.tally.add(self.operation, time.monotonic() - self.begun, failed=failed)


class RequestTally:
    """The requests since the last look. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._took: dict[str, tuple[Counter[int], float]] = {}
        self._failed: Counter[str] = Counter()
        self._again = 0

    def of(self, operation: str) -> _Counted:
        """Counts one request, which the body of `with` sends."""
        return _Counted(self, operation, time.monotonic())

    def again(self) -> None:
        """Counts an attempt after a failed one."""
        with self._lock:
            self._again += 1

    def taken(self) -> Requests:
        """What was counted since the last call."""
        with self._lock:
            durations = {
                operation: Durations(dict(counts), seconds) for operation, (counts, seconds) in self._took.items()
            }
            taken = Requests(durations, dict(self._failed), self._again)
            self._took, self._failed, self._again = {}, Counter(), 0
        return taken

    def add(self, operation: str, seconds: float, *, failed: bool) -> None:
        """In place, for there are thousands a second."""
        with self._lock:
            counts, before = self._took.get(operation) or (Counter(), 0.0)
            counts[bound_of(seconds)] += 1
            self._took[operation] = counts, before + seconds
            if failed:
                self._failed[operation] += 1


_POSITIONS = {
    "list_objects_v2": {"ContinuationToken": "NextContinuationToken"},
    "list_multipart_uploads": {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"},
}
"""Where the next page of a listing begins, by what the page before says."""
_NO_RULES = frozenset({"NoSuchLifecycleConfiguration", "NotImplemented"})
CONFLICT_ATTEMPTS = 3
"""Least number of attempts where another request on the same key may be under way: with one, a mere coincidence would fail."""


class S3Store:
    """One S3 bucket, or one of an S3-compatible service; the contract is `store.ObjectStore`'s.

    Thread-safe and picklable: a pickle holds the options only, and each process makes its own client at the first request.
    `requests` counts what is sent here. `sleep` (seconds) and `jitter` ([0, 1)) are for tests of the back-off.
    """

    def __init__(
        self,
        options: StoreOptions,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.options = options
        self.requests = RequestTally()
        self._retrier = Retrier(
            options.part_retries, options.retry_backoff_ms, sleep, jitter, again=self.requests.again
        )
        self._patient = replace(self._retrier, attempts=max(options.part_retries, CONFLICT_ATTEMPTS))
        self._customer_key = customer_key_headers(options.encryption)
        self._creation = creation_headers(options)
        self._secrets = secrets_of(options)
        self._lock = threading.Lock()
        self._plane: DataPlane | None = None
        self._plane_pid = -1
        self._parents: list[DataPlane] = []
        self._refuses_overwriting = False
        self._retired = False

    def __reduce__(self) -> tuple[type[S3Store], tuple[StoreOptions]]:
        """Clients, locks and clocks stay behind."""
        return (S3Store, (self.options,))

    def __repr__(self) -> str:
        return f"S3Store(s3://{self.options.bucket})"

    def put(self, key: str, data: Body) -> str:
        """Writes or overwrites an object; returns its ETag."""
        return self._etag("put_object", key, self._ask("put_object", self._state(key, data)).headers)

    def put_new(self, key: str, data: bytes) -> str:
        """Writes an object that must not exist yet; returns its ETag. Raises PreconditionFailed, also after its own lost answer.

        The first one of a process, a driver's claim of its log, is put a second time, which the service has to refuse. Raises StorageError
        where it does not: two drivers would overwrite each other's entries there.
        """
        etag = self._put_new_once(key, data)
        if not self._refuses_overwriting:
            self._check_refusal(key, data)
        return etag

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises ObjectMissing."""
        return self._ask("get_object", S3Request(key, headers=self._customer_key)).body

    def get_range(self, key: str, first: int, last: int) -> bytes:
        """The object's bytes from `first` to `last`, both included, by a range request. Raises ObjectMissing."""
        return self._ask(
            "get_object", S3Request(key, headers=self._customer_key | {"Range": f"bytes={first}-{last}"})
        ).body

    def head(self, key: str) -> ObjectInfo | None:
        """What is known of an object, None where there is none."""
        try:
            headers = self._ask("head_object", S3Request(key, headers=self._customer_key)).headers
        except ObjectMissing:
            return None
        etag = self._etag("head_object", key, headers)
        modified_ms = int(parsedate_to_datetime(headers["Last-Modified"]).timestamp() * 1000)
        return ObjectInfo(key, int(headers["Content-Length"]), etag, modified_ms)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects below `prefix` in ascending key order, beginning after `start_after`; a page of 1000 per request."""
        for page in self._pages("list_objects_v2", prefix, {"StartAfter": start_after} if start_after else {}):
            for item in page.get("Contents", ()):
                modified_ms = int(item["LastModified"].timestamp() * 1000)
                yield ObjectInfo(item["Key"], item["Size"], _etag_or_blank(item), modified_ms)

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly below `prefix`, folders with a slash behind, in ascending order; 1000 per request."""
        for page in self._pages("list_objects_v2", prefix, {"Delimiter": "/"}):
            folders = [item["Prefix"] for item in page.get("CommonPrefixes", ())]
            keys = [*folders, *(item["Key"] for item in page.get("Contents", ()))]
            yield from sorted((key.removeprefix(prefix) for key in keys), key=str.encode)

    def pending(self, prefix: str) -> Iterator[ListedUpload]:
        """The pending uploads whose keys begin with `prefix`, 1000 per request."""
        for page in self._pages("list_multipart_uploads", prefix, {}):
            for item in page.get("Uploads", ()):
                yield ListedUpload(item["Key"], item["UploadId"], int(item["Initiated"].timestamp() * 1000))

    def delete(self, key: str, etag: str = "") -> None:
        """Remove an object; no error if there is none. Raises PreconditionFailed if it has another ETag than the one given."""
        if not etag:
            self._call("delete_object", key)
            return
        try:
            self._patient.run(lambda: self._once("delete_object", key, IfMatch=f'"{etag}"'))
        except ObjectMissing:
            return
        except (PreconditionFailed, StorageUnavailable):
            raise
        except StorageError:  # the service knows no such condition, or wants a right for it
            info = self.head(key)
            if info is not None and info.etag != etag:
                raise PreconditionFailed(f"s3://{self.options.bucket}/{key} is another object now.") from None
            self._call("delete_object", key)

    def create_upload(self, key: str, token: str = "") -> str:
        """Begin a multipart upload with the configured ACL and encryption; return its id."""
        headers = {**self._creation, TOKEN: token} if token else self._creation
        answer = self._ask("create_multipart_upload", S3Request(key, "uploads", headers))
        upload_id = text_of(answer.body, "UploadId")
        if not upload_id:
            title = self._request("create_multipart_upload", key).title
            raise StorageError(f"{title} was answered without an upload id: check what store.url names.")
        return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, data: Body) -> str:
        """Sends part `number` (from 1); returns its ETag. Raises UploadMissing."""
        digest = digest_headers(data) if self.options.send_digest else {}
        query = f"partNumber={number}&{_upload(upload_id)}"
        asked = S3Request(key, query, self._customer_key | digest, data, relies_on_tls=True)
        return self._etag("upload_part", key, self._ask("upload_part", asked).headers)

    def complete_upload(self, upload: Upload) -> None:
        """Makes the object visible; settles lost answers by the object's token or ETag. Raises UploadMissing, as `store.ObjectStore` says.

        Where S3 keeps answering 409, UploadMissing too: S3 asks for the upload to be done again.
        """
        try:
            self._patient.run(lambda: self._complete_once(upload))
        except Conflict as error:
            raise UploadMissing(f"{error} The file has to be uploaded again.") from None

    def upload_exists(self, key: str, upload_id: str) -> bool:
        return self._retrier.run(lambda: self._pending_once(key, upload_id))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drops a pending upload; no error where there is none."""
        try:
            self._ask("abort_multipart_upload", S3Request(key, _upload(upload_id)))
        except UploadMissing:
            return

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        body = tagging_document(tags)
        self._ask("put_object_tagging", S3Request(key, "tagging", digest_headers(body), body))

    def ask(self, clock_ms: Callable[[], int] = now_ms) -> BucketAnswer:
        """HEAD of the bucket, once; where that fails a listing, for only its answer says why. The clocks are compared in either case."""
        before, refusal = clock_ms(), None
        try:
            answer = self._connected().client.head_bucket(Bucket=self.options.bucket)
        except FAILURES as error:
            answer = error.response if isinstance(error, boto.ClientError) else {}
            refusal = self._reason(error)
        headers = headers_of(answer)
        return BucketAnswer(headers.get("x-amz-bucket-region", ""), clock_skew_ms(headers, before, clock_ms()), refusal)

    def lifecycle(self) -> tuple[LifecycleRule, ...]:
        """The enabled lifecycle rules, none where the bucket has none or the service knows none. Raises StorageError."""
        method = "get_bucket_lifecycle_configuration"
        try:
            answer = getattr(self._connected().client, method)(Bucket=self.options.bucket)
        except FAILURES as error:
            if isinstance(error, boto.ClientError) and error.response.get("Error", {}).get("Code") in _NO_RULES:
                return ()
            raise storage_error(error, self._request(method, "")) from None
        return tuple(lifecycle_rule(rule) for rule in answer.get("Rules", ()) if rule.get("Status") == "Enabled")

    def versioning(self) -> str:
        """`Enabled`, `Suspended`, or "" for none. Raises StorageError."""
        return str(self._call("get_bucket_versioning", "").get("Status") or "")

    def retire(self) -> None:
        """Sends nothing from now on: whoever still holds this store was given up."""
        self._retired = True

    def close(self) -> None:
        """Gives this process's connections back; the next request makes new ones."""
        with self._lock:
            if self._plane is not None and self._plane_pid == os.getpid():
                self._plane.close()
            self._plane = None

    def _reason(self, error: Exception) -> StorageError:
        try:
            self._once("list_objects_v2", "", MaxKeys=1)
        except StorageError as reason:
            return reason
        return storage_error(error, self._request("head_bucket", ""))

    def _put_new_once(self, key: str, data: bytes) -> str:
        asked = self._state(key, data, {"If-None-Match": "*"})
        try:
            answer = self._patient.run(lambda: self._ask_once("put_object", asked))
        except PreconditionFailed:
            self._refuses_overwriting = True
            raise
        return self._etag("put_object", key, answer.headers)

    def _etag(self, operation: str, key: str, answer: Mapping[str, Any]) -> str:
        etag = _etag_or_blank(answer)
        if not etag:
            title = self._request(operation, key).title
            raise StorageError(f"{title} was answered without an ETag: check what store.url names.")
        return etag

    def _check_refusal(self, key: str, data: bytes) -> None:
        try:
            self._put_new_once(key, data)
        except PreconditionFailed:
            return
        raise StorageError(
            f"The service wrote s3://{self.options.bucket}/{key} a second time, though it was asked not to overwrite (If-None-Match: *). "
            "Two drivers would overwrite each other's commits there: use a service that honours conditional puts (store.url)."
        )

    def _state(self, key: str, data: Body, condition: Mapping[str, str] | None = None) -> S3Request:
        """A put of state. Its digest is always there: buckets with Object Lock refuse a put without one."""
        return S3Request(key, headers={**self._creation, **digest_headers(data), **(condition or {})}, body=data)

    def _complete_once(self, upload: Upload) -> None:
        asked = S3Request(upload.key, _upload(upload.id), self._customer_key, completion_document(upload.parts))
        try:
            self._ask_once("complete_multipart_upload", asked)
        except (UploadMissing, StorageUnavailable):
            if not self._completed_once(upload):
                raise

    def _completed_once(self, upload: Upload) -> bool:
        """Whether a failed completion took effect after all. False where another try is due; raises UploadMissing where none is."""
        # the upload before the object: a completion that ends in between is then seen, the other way round it would be missed
        pending = self._pending_once(upload.key, upload.id)
        head = self._head_once(upload.key)
        if head is not None and (_has_token(upload, head) or (not pending and _is_of(upload, head))):
            return True
        if pending:
            return False
        text = f"The upload {upload.id} of s3://{self.options.bucket}/{upload.key} is gone, and no object with its token or ETag is there."
        raise UploadMissing(f"{text} Aborted, by a lifecycle rule perhaps: the file has to be written again.")

    def _head_once(self, key: str) -> Mapping[str, str] | None:
        try:
            return self._ask_once("head_object", S3Request(key, headers=self._customer_key)).headers
        except ObjectMissing:
            return None

    def _pending_once(self, key: str, upload_id: str) -> bool:
        try:
            self._ask_once("list_parts", S3Request(key, f"max-parts=1&{_upload(upload_id)}", self._customer_key))
        except UploadMissing:
            return False
        return True

    def _pages(self, method: str, prefix: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        position: dict[str, str] = {}
        while True:
            page = self._call(method, prefix, **{**query, **position})
            yield page
            if not page.get("IsTruncated"):
                return
            position = {name: page[following] for name, following in _POSITIONS[method].items()}

    def _ask(self, operation: str, asked: S3Request) -> HttpAnswer:
        return self._retrier.run(lambda: self._ask_once(operation, asked))

    def _ask_once(self, operation: str, asked: S3Request) -> HttpAnswer:
        with self.requests.of(operation):
            try:
                return self._connected().send(operation, asked)
            except FAILURES as error:
                # no chaining: the original's text is not masked
                raise storage_error(error, self._request(operation, asked.key)) from None

    def _call(self, method: str, key: str, **fields: Any) -> Any:
        return self._retrier.run(lambda: self._once(method, key, **fields))

    def _once(self, method: str, key: str, **fields: Any) -> Any:
        named = {} if method.startswith("get_bucket_") else {"Prefix" if method.startswith("list_") else "Key": key}
        with self.requests.of(method):
            try:
                return getattr(self._connected().client, method)(Bucket=self.options.bucket, **named, **fields)
            except FAILURES as error:
                raise storage_error(error, self._request(method, key)) from None

    def _request(self, method: str, key: str) -> Request:
        return Request(method, self.options.bucket, key, self._secrets)

    def _connected(self) -> DataPlane:
        if self._retired:
            raise StorageError("The task was given up (task.timeout.ms): it sends nothing more.")
        with self._lock:
            # a forked child must not share its parent's sockets, nor close them: over TLS it would take leave in the parent's name
            if self._plane is not None and self._plane_pid != os.getpid():
                self._parents.append(self._plane)
                self._plane = None
            if self._plane is None:
                self._plane, self._plane_pid = DataPlane(self.options), os.getpid()
            return self._plane


def _has_token(upload: Upload, head: Mapping[str, str]) -> bool:
    return bool(upload.token) and head.get(TOKEN) == upload.token


def _is_of(upload: Upload, head: Mapping[str, str]) -> bool:
    """Return whether an object without the upload's token is what completing the upload makes.

    Its ETag shows it, a digest over the parts' ETags (`etag_of`). Under SSE-KMS and SSE-C S3 documents no rule for ETags. There an object
    of as many parts and bytes counts, too, if neither it nor the upload has a token: earlier versions of kafka-s3 wrote none.
    """
    etag = _etag_or_blank(head)
    try:
        same = etag == etag_of(upload.parts)
    except ValueError:
        same = False
    opaque = head.get(f"{SSE}-customer-algorithm") or head.get(SSE, "").startswith("aws:kms")
    tokens = upload.token or head.get(TOKEN)
    return same or bool(
        opaque and not tokens and etag.endswith(f"-{len(upload.parts)}") and int(head["Content-Length"]) == upload.size
    )


def _etag_or_blank(answer: Mapping[str, Any]) -> str:
    return str(answer.get("ETag") or "").strip('"')


def _upload(upload_id: str) -> str:
    return f"uploadId={quote(upload_id, safe='-_.~')}"
