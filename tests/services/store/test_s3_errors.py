"""What S3Store's errors say to the operator, and that they say no secret."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from kafka_s3.model.errors import ObjectMissing, StorageError, StorageUnavailable
from kafka_s3.model.text import Secret
from kafka_s3.store.options import Encryption, Proxy
from kafka_s3.store.s3 import S3Store

KEY_BYTES = bytes(range(32))
CUSTOMER_KEY = base64.b64encode(KEY_BYTES).decode()


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda store: store.put("a", b""), "s3:PutObject "),
        (lambda store: store.get("a"), "s3:GetObject "),
        (lambda store: store.head("a"), "s3:GetObject and s3:ListBucket "),
        (lambda store: list(store.list("a")), "s3:ListBucket "),
        (lambda store: store.delete("a"), "s3:DeleteObject "),
        (lambda store: store.create_upload("a"), "s3:PutObject "),
        (lambda store: store.upload_exists("a", "1"), "s3:ListMultipartUploadParts "),
        (lambda store: store.abort_upload("a", "1"), "s3:AbortMultipartUpload "),
        (lambda store: store.tag("a", {}), "s3:PutObjectTagging "),
    ],
)
def test_a_denied_request_names_the_right_it_lacks(
    s3: S3Store, relay, act: Callable[[S3Store], object], says: str
) -> None:
    relay.answer(403, "AccessDenied")

    with pytest.raises(StorageError, match=f"(AccessDenied|403).*Grant {says}") as denied:
        act(s3)
    assert f"s3://{s3.options.bucket}/a" in str(denied.value)


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (404, "NoSuchBucket", "s3.bucket.name"),
        (400, "ExpiredToken", "have expired.*s3.credentials.provider.class"),
        (403, "SignatureDoesNotMatch", "aws.secret.access.key"),
        (403, "InvalidAccessKeyId", "aws.access.key.id"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "AccessControlListNotSupported", "s3.acl.canned"),
        (400, "KMS.NotFoundException", "s3.sse.kms.key.id"),
        (501, "NotImplemented", "store.url"),
        (418, "Unheard", r"failed with Unheard \(418\): told to\.$"),
    ],
)
def test_a_refusal_says_what_to_do(s3: S3Store, relay, status: int, code: str, says: str) -> None:
    relay.answer(status, code)

    with pytest.raises(StorageError, match=says) as refused:
        s3.put("a", b"")
    assert type(refused.value) is StorageError
    assert f"{code} ({status})" in str(refused.value)


@pytest.mark.parametrize(("status", "code"), [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")])
def test_a_bucket_elsewhere_names_the_region(s3: S3Store, relay, status: int, code: str) -> None:
    relay.answer(status, code, times=3, x_amz_bucket_region="eu-central-1")

    with pytest.raises(StorageError, match=r"Set s3\.region to the bucket's region: eu-central-1\."):
        s3.put("a", b"")


def test_a_kms_denial_names_the_rights_on_the_key(s3: S3Store, relay) -> None:
    relay.answer(403, "AccessDenied", message="not authorized to perform: kms:GenerateDataKey on resource")

    with pytest.raises(StorageError, match="kms:GenerateDataKey and kms:Decrypt on the key"):
        s3.put("a", b"")


def test_a_missing_bucket_is_not_a_missing_object(open_store, moto_url: str) -> None:
    with pytest.raises(StorageError, match=r"s3\.bucket\.name") as refused:
        open_store("no-such-bucket", moto_url).get("a")
    assert not isinstance(refused.value, ObjectMissing)


def test_a_bucket_name_that_cannot_be_is_refused(open_store, moto_url: str) -> None:
    with pytest.raises(StorageError, match=r"Check s3\.bucket\.name"):
        open_store("not a bucket", moto_url).get("a")


def test_secrets_are_masked_even_where_the_service_repeats_them(open_store, bucket: str, relay) -> None:
    encryption = Encryption("AES256", customer_key=Secret(CUSTOMER_KEY))
    store = open_store(bucket, relay.url, encryption=encryption)
    relay.answer(
        400, "InvalidArgument", message=f"key wJalr/very+secret, quoted wJalr%2Fvery%2Bsecret, sse {CUSTOMER_KEY}"
    )

    with pytest.raises(StorageError) as refused:
        store.put("a", b"")
    assert "key ****, quoted ****, sse ****" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_proxy_that_is_away_is_named_without_its_password(open_store, bucket: str) -> None:
    store = open_store(
        bucket, "http://s3.example", proxy=Proxy("http://127.0.0.1:1", "user", Secret("h")), part_retries=1
    )

    with pytest.raises(StorageUnavailable, match=r"s3\.proxy\.url") as failed:
        store.head("a")
    assert ":h@" not in str(failed.value)
