"""How do the requests that move data reach S3 at little cost? By libcurl, without botocore's client.

A call of the client takes 2.5 ms of CPU, most of it for parameters, rules and events whose outcome never changes for a bucket. They are
asked once: botocore is let prepare a request that is never sent, and its address, region and user agent serve all that follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from botocore import exceptions as boto
from botocore.parsers import RestXMLParser
from botocore.utils import percent_encode

from kafka_s3.store.client import connections, s3_client, session_for
from kafka_s3.store.connections import HttpRequest, Signature
from kafka_s3.store.credentials import Provider
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.store import Body, pieces_of

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
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
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
        return f"{self.prefix}{percent_encode(key, safe='/~')}{'?' if query else ''}{query}"


@dataclass(frozen=True, slots=True)
class S3Request:
    """A request: a key, an encoded query, headers besides those of signing, a body.

    `trusts_digest`: over TLS the body is not hashed a second time for the signature, where a Content-MD5 header covers it.
    """

    key: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = b""
    trusts_digest: bool = False


@dataclass(frozen=True, slots=True)
class S3Answer:
    """What came back with a status below 300; `headers` are found in any case of letters."""

    headers: Mapping[str, str]
    body: bytes


class DataPlane:
    """Sends requests for one bucket, each once only. Thread-safe; belongs to one process.

    `client` is botocore's, for whatever is rare. Making a plane asks for credentials, and may raise what a call of that client raises.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        session = session_for(options)
        self.client = s3_client(options, session)
        self._credentials = None if options.credentials.provider is Provider.ANONYMOUS else session.get_credentials()
        self._address = _address_of(self.client, options.bucket)
        self._connections = connections(options, session, self.client.meta.endpoint_url)
        self._parser: Any = RestXMLParser()

    def send(self, operation: str, asked: S3Request) -> S3Answer:
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
        """Gives the connections back."""
        self._connections.close()
        self.client.close()

    def _send_once(self, operation: str, asked: S3Request) -> S3Answer:
        answer = self._connections.send(self._addressed(VERBS[operation], asked))
        status = answer.status
        if operation != "get_object" and status == 200 and hides_an_error(answer.body):
            status = 500  # S3 may find out that it fails when it has said 200 already
        if status >= 300:
            found = self._parser.parse({"status_code": status, "headers": answer.headers, "body": answer.body}, None)
            raise boto.ClientError(found, operation)
        return S3Answer(answer.headers, answer.body)

    def _addressed(self, method: str, asked: S3Request) -> HttpRequest:
        address, headers, signature = self._address, dict(asked.headers), None
        url = address.url(asked.key, asked.query)
        if address.region:
            if self._credentials is None:
                raise boto.NoCredentialsError
            keys: Any = self._credentials.get_frozen_credentials()  # a renewal in between must not mix the parts of two
            signature = Signature(address.region, address.service, keys.access_key, keys.secret_key)
            headers["X-Amz-Content-SHA256"] = _digest(asked, url)
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
        options = replace(self._options, region=region)
        client = s3_client(options, session_for(options))
        try:
            return _address_of(client, options.bucket)
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
        return _taken_from(prepared.request)
    finally:
        client.meta.events.unregister("before-send.s3.HeadObject", stop)
    raise RuntimeError("botocore sent a request that it was told to give up.")


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


def _digest(asked: S3Request, url: str) -> str:
    """What the signature covers of the body."""
    if asked.trusts_digest and "Content-MD5" in asked.headers and url.startswith("https"):
        return UNSIGNED
    digest = hashlib.sha256()
    for piece in pieces_of(asked.body):
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


def hides_an_error(body: bytes) -> bool:
    """Whether the body of a 200 says that the request failed after all, or was cut off on the way."""
    if not body:
        return False
    try:
        return ElementTree.fromstring(body).tag == "Error"
    except ElementTree.ParseError:
        return True


def text_of(body: bytes, element: str) -> str:
    """The text of a child of the root, "" where there is none."""
    return (ElementTree.fromstring(body).findtext(f"{{*}}{element}") or "") if body else ""


def _document(root: str, content: str) -> bytes:
    return f'<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode()
