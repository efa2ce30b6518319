"""Does the short way to S3 ask what botocore's own client would ask, where it would, and by whose keys it would?"""

from __future__ import annotations

import gc
import hashlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from weakref import ReferenceType, ref

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from kafka_s3.model.errors import StorageError, StorageUnavailable
from kafka_s3.model.files import Upload
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import AssumedRole, Credentials, Provider
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import DataPlane, S3Request, S3Store, completion_document, tagging_document

KEYS = Credentials(Provider.STATIC, "AKIATEST", Secret("wJalr/very+secret"))
KEY = "topics/a b+c/d%2Fe=ü&x?y#z/~_.-'()*!"
UPLOAD = "2~aB+/=&%20.x-_"
OURS_ALONE = {"amz-sdk-invocation-id", "amz-sdk-request", "x-amz-date", "authorization", "expect", "content-md5"}

ASKED: dict[str, tuple[Callable[[S3Store], object], dict]] = {
    "put_object": (lambda store: store.put(KEY, b"body"), {"Body": b"body"}),
    "get_object": (lambda store: store.get_range(KEY, 0, 3), {"Range": "bytes=0-3"}),
    "head_object": (lambda store: store.head(KEY), {}),
    "create_multipart_upload": (lambda store: store.create_upload(KEY), {}),
    "upload_part": (
        lambda store: store.upload_part(KEY, UPLOAD, 7, b"body"),
        {"UploadId": UPLOAD, "PartNumber": 7, "Body": b"body"},
    ),
    "list_parts": (lambda store: store.upload_exists(KEY, UPLOAD), {"UploadId": UPLOAD, "MaxParts": 1}),
    "abort_multipart_upload": (lambda store: store.abort_upload(KEY, UPLOAD), {"UploadId": UPLOAD}),
}


@pytest.mark.parametrize("operation", ASKED)
def test_a_request_is_as_botocores_own(operation: str, open_store, bucket: str, relay) -> None:
    store = open_store(bucket, relay.url, part_retries=1)
    act, fields = ASKED[operation]
    for ask in (
        lambda: act(store),
        lambda: getattr(store._connected().client, operation)(Bucket=bucket, Key=KEY, **fields),
    ):
        relay.answer(418, "Teapot")
        with pytest.raises(Exception, match=r"Teapot|418"):
            ask()

    ours, theirs = relay.seen
    assert (ours.method, ours.body) == (theirs.method, theirs.body)
    assert urlsplit(ours.path).path == urlsplit(theirs.path).path
    queries = [dict(parse_qsl(urlsplit(seen.path).query, keep_blank_values=True)) for seen in (ours, theirs)]
    queries[1].pop("x-id", None)
    assert queries[0] == queries[1]
    headers = [
        {name.lower(): value for name, value in seen.headers.items() if name.lower() not in OURS_ALONE}
        for seen in (ours, theirs)
    ]
    agents = [found.pop("user-agent") for found in headers]
    assert headers[0] == headers[1]
    assert agents[0].split()[0] == agents[1].split()[0]


@pytest.mark.parametrize(
    ("bucket_name", "changes", "environment"),
    [
        ("orders", {"region": "us-east-1"}, {}),
        ("orders", {"region": "aws-global"}, {}),
        ("orders", {"region": "cn-north-1", "path_style": False}, {}),
        ("orders", {"region": "us-gov-west-1"}, {"AWS_USE_FIPS_ENDPOINT": "true"}),
        ("orders", {"region": "eu-west-1", "path_style": False}, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}),
        ("with.dots", {"path_style": False}, {}),
        ("orders", {"path_style": False, "accelerate": True}, {}),
        ("orders", {"endpoint_url": "https://s3.example:9000/deep"}, {}),
        ("orders", {"endpoint_url": "https://s3.example", "path_style": False}, {}),
        ("orders", {"endpoint_url": "http://[::1]:9000"}, {}),
        ("arn:aws:s3:eu-west-1:123456789012:accesspoint/mine", {"region": "eu-west-1", "path_style": False}, {}),
        ("orders", {"credentials": Credentials(Provider.ANONYMOUS)}, {}),
    ],
)
def test_the_address_and_the_signature_are_botocores(
    bucket_name: str, changes: dict, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    plane = DataPlane(StoreOptions(**{"bucket": bucket_name, "credentials": KEYS} | changes))
    caught = []

    def stop(request, **_) -> None:
        caught.append(request)
        raise KeyError

    plane.client.meta.events.register("before-send.s3.HeadObject", stop)
    with pytest.raises(KeyError):
        plane.client.head_object(Bucket=bucket_name, Key=KEY)
    ours, (theirs,) = plane._addressed("HEAD", S3Request(KEY)), caught

    assert ours.url == theirs.url
    signed = ours.signature
    assert _scope(theirs.headers.get("Authorization")) == (
        [] if signed is None else [signed.access_key, signed.region, signed.service, "aws4_request"]
    )
    assert (signed is None) == (changes.get("credentials") is not None)
    plane.close()


def _scope(authorization: bytes | str | None) -> list[str]:
    """Key id, region and service of a signature; without its day, which may end in between."""
    text = authorization.decode() if isinstance(authorization, bytes) else authorization or ""
    key_id, _, *rest = text.partition("Credential=")[2].partition(",")[0].split("/") if text else ("", "")
    return [key_id, *rest] if text else []


def signed_for(relay) -> list[str]:
    """The region of each request's signature."""
    return [seen.headers["Authorization"].split("/")[2] for seen in relay.seen]


@pytest.mark.parametrize(
    ("status", "code"),
    [(301, "PermanentRedirect"), (307, "TemporaryRedirect"), (400, "IllegalLocationConstraintException")],
)
def test_a_bucket_of_another_region_is_found_there_and_asked_there_from_then_on(
    s3: S3Store, relay, status: int, code: str
) -> None:
    relay.answer(status, code, x_amz_bucket_region="eu-central-1")
    s3.put("a", b"body")

    assert s3.get("a") == b"body"
    assert signed_for(relay) == ["us-west-2", "eu-central-1", "eu-central-1"]


def test_a_refusal_that_names_no_region_has_the_bucket_asked(s3: S3Store, relay) -> None:
    relay.answer(301)
    relay.answer(200, x_amz_bucket_region="eu-central-1")
    s3.put("a", b"body")

    assert [seen.method for seen in relay.seen] == ["PUT", "HEAD", "PUT"]
    assert signed_for(relay)[-1] == "eu-central-1"


def test_an_answer_that_was_cut_off_in_its_xml_is_a_failure_that_passes(s3: S3Store, relay) -> None:
    upload_id = s3.create_upload("data")
    etag = s3.upload_part("data", upload_id, 1, b"body")
    relay.script.append(lambda handler, seen: handler.reply(200, b"<CompleteMultipartUploadResult><ETa", {}))
    s3.complete_upload(Upload("data", upload_id, (etag,), 4))

    assert s3.get("data") == b"body"


def test_a_creation_without_an_upload_id_is_no_upload(s3: S3Store, relay) -> None:
    relay.answer(200)
    with pytest.raises(StorageError, match=r"CreateMultipartUpload on s3://.*without an upload id.*store\.url"):
        s3.create_upload("data")


def test_keys_that_are_about_to_expire_are_renewed_between_two_requests(
    open_store, bucket: str, relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", relay.url)
    role = AssumedRole("arn:aws:iam::123456789012:role/sink", "session", Secret("ext-1"))
    numbers = itertools.count(1)

    def lend(handler, seen) -> None:
        expires = (datetime.now(UTC) + timedelta(seconds=120)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = f"<AccessKeyId>LENT{next(numbers)}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        lent = f"<Credentials>{keys}<SessionToken>t</SessionToken><Expiration>{expires}</Expiration></Credentials>"
        result = f"<AssumeRoleResult>{lent}</AssumeRoleResult>"
        handler.reply(200, f"<AssumeRoleResponse>{result}</AssumeRoleResponse>".encode(), {})

    def take(handler, seen) -> None:
        handler.reply(200, b"", {"ETag": '"0"'})

    relay.script.extend([lend, lend, take, lend, take])
    credentials = Credentials(Provider.ASSUME_ROLE, "AKIA", Secret("very-secret"), role)
    store = open_store(bucket, relay.url, credentials=credentials)
    store.put("a", b"1")
    store.put("a", b"2")

    puts = [seen for seen in relay.seen if seen.method == "PUT"]
    assert ["LENT2/" in puts[0].headers["Authorization"], "LENT3/" in puts[1].headers["Authorization"]] == [True, True]
    assert [put.headers["x-amz-security-token"] for put in puts] == ["t", "t"]


@pytest.mark.parametrize("operation", ASKED)
def test_a_signature_is_the_one_that_botocore_would_make(operation: str, open_store, bucket: str, relay) -> None:
    relay.answer(418, "Teapot")
    with pytest.raises(Exception, match=r"Teapot|418"):
        ASKED[operation][0](open_store(bucket, relay.url, part_retries=1))

    (seen,) = relay.seen
    given = seen.headers["Authorization"]
    signed = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"user-agent", "accept-encoding", "expect"}.isdisjoint(signed), "what a proxy may change"
    signer = S3SigV4Auth(None, "s3", "us-west-2")
    signer.credentials = ReadOnlyCredentials("AKIATEST", "wJalr/very+secret", None)
    request = AWSRequest(seen.method, relay.url + seen.path, {name: seen.headers[name] for name in signed}, seen.body)
    request.context["timestamp"] = seen.headers["X-Amz-Date"]
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert given.endswith(f"Signature={signer.signature(text, request)}")


def test_a_key_that_libcurl_would_shorten_is_refused(s3: S3Store, relay) -> None:
    with pytest.raises(StorageError, match=r"a/\.\./b.*part '\.' or '\.\.'"):
        s3.put("a/../b", b"")
    assert relay.seen == []


@pytest.mark.parametrize("signs_all", [False, True])
def test_over_tls_a_part_is_not_hashed_unless_awss_configuration_wants_it(
    signs_all: bool,
    tls: tuple[str, Path],
    relay,
    open_store,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, authority = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text(f"[default]\ns3 =\n  payload_signing_enabled = {str(signs_all).lower()}\n")
    whole = hashlib.sha256(b"body").hexdigest()
    for store, expected in (
        (open_store(bucket, url), whole if signs_all else "UNSIGNED-PAYLOAD"),
        (open_store(bucket, relay.url), whole),
    ):
        relay.seen.clear()
        upload_id = store.create_upload("a")
        etag = store.upload_part("a", upload_id, 1, b"body")
        store.complete_upload(Upload("a", upload_id, (etag,), 4, False))
        store.put("state", b"{}")

        assert store.get("a") == b"body"
        hashes = {seen.body: seen.headers["x-amz-content-sha256"] for seen in relay.seen if seen.method == "PUT"}
        assert hashes == {b"body": expected, b"{}": hashlib.sha256(b"{}").hexdigest()}


def test_xml_bodies_keep_every_character() -> None:
    assert completion_document(('"a&b"', "c")) == (
        b'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b'<Part><ETag>"a&amp;b"</ETag><PartNumber>1</PartNumber></Part><Part><ETag>c</ETag><PartNumber>2</PartNumber></Part>'
        b"</CompleteMultipartUpload>"
    )
    assert "<Tag><Key>&lt;</Key><Value>ü&gt;</Value></Tag>" in tagging_document({"<": "ü>"}).decode()


def test_the_environments_proxy_is_used_and_its_exceptions_are_heeded(
    open_store, bucket: str, relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", relay.url)
    monkeypatch.setenv("NO_PROXY", "elsewhere.example")
    relay.answer(200, ETag="0")
    open_store(bucket, "http://s3.example").put("a", b"")
    assert relay.seen[0].path == f"http://s3.example/{bucket}/a"

    monkeypatch.setenv("NO_PROXY", "s3.invalid")
    with pytest.raises(StorageUnavailable, match=r"s3\.invalid"):
        open_store(bucket, "http://s3.invalid", part_retries=1).put("a", b"")
    assert len(relay.seen) == 1


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_private_authority_is_trusted_where_it_is_named(
    open_store, bucket: str, relay, tls: tuple[str, Path], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = tls
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageError, match="AWS_CA_BUNDLE"):
        open_store(bucket, url, part_retries=1).put("a", b"body")
    assert relay.seen == []

    monkeypatch.setenv(variable, str(authority))
    store = open_store(bucket, url)
    store.put("a", b"body")
    assert store.get("a") == b"body"


def test_nothing_keeps_what_the_caller_of_the_first_request_had(open_store, bucket: str, moto_url: str) -> None:
    class Part:
        pass

    def first_request() -> ReferenceType[Part]:
        part = Part()
        open_store(bucket, moto_url).create_upload(KEY)
        return ref(part)

    gc.disable()  # garbage is looked for once in a task at most, and a part is 25 MB
    try:
        assert first_request()() is None
    finally:
        gc.enable()
