"""What S3Store sends, seen by a relay in front of moto."""

from __future__ import annotations

import base64
import hashlib

import boto3
import pytest
from moto.s3.models import s3_backends

from kafka_s3 import __version__
from kafka_s3.model.files import Upload
from kafka_s3.model.text import Secret
from kafka_s3.store.options import Encryption, Proxy
from kafka_s3.store.s3 import S3Store

KEY_BYTES = bytes(range(32))
CUSTOMER_KEY = base64.b64encode(KEY_BYTES).decode()


def uploaded(store: S3Store, data: bytes = b"body") -> Upload:
    upload_id = store.create_upload("data")
    return Upload("data", upload_id, (store.upload_part("data", upload_id, 1, data),), len(data))


def test_lists_more_than_one_page(s3: S3Store, bucket: str, relay) -> None:
    backend = s3_backends["123456789012"]["aws"]
    for number in range(2005):
        backend.put_object(bucket, f"many/{number:04d}", b"")

    assert [info.key for info in s3.list("many/", start_after="many/0001")] == [f"many/{n:04d}" for n in range(2, 2005)]
    assert len(relay.seen) == 3


def test_tags_reach_s3(s3: S3Store, bucket: str, moto_url: str) -> None:
    s3.put("data", b"1")
    s3.tag("data", {"old": "1"})
    s3.tag("data", {"startOffset": "0", "with blank": "ü +"})

    client = boto3.client(
        "s3", endpoint_url=moto_url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    pairs = client.get_object_tagging(Bucket=bucket, Key="data")["TagSet"]
    client.close()
    assert {pair["Key"]: pair["Value"] for pair in pairs} == {"startOffset": "0", "with blank": "ü +"}


@pytest.mark.parametrize("said", ["gzip", "aws-chunked", "of-our-own"])
def test_an_object_is_its_bytes_whatever_its_writer_said_of_them(said: str, s3: S3Store, bucket: str, relay) -> None:
    """Spark's writers say aws-chunked of Iceberg's metadata, which some stores keep."""
    relay.script.append(lambda handler, seen: handler.reply(200, b"as it is", {"Content-Encoding": said}))
    assert s3.get("data") == b"as it is"


def headers_of(relay, *, method: str, query: str) -> list:
    return [seen.headers for seen in relay.seen if seen.method == method and query in seen.path]


def exercise(store: S3Store) -> None:
    """Every request that creates or reads an object."""
    store.complete_upload(uploaded(store))
    store.put("state", b"{}")
    store.put_new("new", b"{}")
    store.head("data")
    store.get("data")


CREATIONS = (("POST", "data?uploads"), ("PUT", "/state"), ("PUT", "/new"))


def test_nothing_is_asked_for_by_default(s3: S3Store, relay) -> None:
    exercise(s3)

    unwanted = (
        "x-amz-acl",
        "x-amz-server-side-encryption",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-trailer",
        "Expect",
    )
    assert [(seen.path, name) for seen in relay.seen for name in unwanted if name in seen.headers] == []


@pytest.mark.parametrize(
    ("encryption", "sent"),
    [
        (Encryption("AES256"), {"x-amz-server-side-encryption": "AES256"}),
        (
            Encryption("aws:kms", "key-1"),
            {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "key-1"},
        ),
        (Encryption("aws:kms:dsse"), {"x-amz-server-side-encryption": "aws:kms:dsse"}),
    ],
)
def test_encryption_and_acl_go_with_every_creation(
    open_store, bucket: str, relay, encryption: Encryption, sent: dict
) -> None:
    exercise(open_store(bucket, relay.url, encryption=encryption, acl="bucket-owner-full-control"))

    for method, query in CREATIONS:
        headers, *_ = headers_of(relay, method=method, query=query)
        found = {name: value for name, value in headers.items() if name.startswith("x-amz-server-side")}
        assert found == sent
        assert headers["x-amz-acl"] == "bucket-owner-full-control"
    assert all("x-amz-acl" not in headers for headers in headers_of(relay, method="PUT", query="partNumber"))


def test_the_customers_key_goes_with_every_request_that_needs_it(open_store, bucket: str, relay) -> None:
    exercise(open_store(bucket, relay.url, encryption=Encryption("AES256", customer_key=Secret(CUSTOMER_KEY))))

    prefix = "x-amz-server-side-encryption-customer-"
    assert len(relay.seen) == 8  # the first conditional put is made twice
    for seen in relay.seen:
        assert seen.headers[f"{prefix}algorithm"] == "AES256"
        assert base64.b64decode(seen.headers[f"{prefix}key"]) == KEY_BYTES
        assert base64.b64decode(seen.headers[f"{prefix}key-md5"]) == hashlib.md5(KEY_BYTES).digest()
        assert "x-amz-server-side-encryption" not in seen.headers


def test_a_digest_goes_with_each_part_when_asked_for(open_store, bucket: str, relay) -> None:
    uploaded(open_store(bucket, relay.url, send_digest=True))

    (headers,) = headers_of(relay, method="PUT", query="partNumber")
    assert base64.b64decode(headers["Content-MD5"]) == hashlib.md5(b"body").digest()


def test_state_is_put_with_its_digest_as_buckets_with_object_lock_demand(s3: S3Store, relay) -> None:
    exercise(s3)

    with_digest = {seen.path.rpartition("/")[2]: seen.headers["Content-MD5"] for seen in relay.seen}
    digest = base64.b64encode(hashlib.md5(b"{}").digest()).decode()
    assert {name: sent for name, sent in with_digest.items() if sent} == {"state": digest, "new": digest}


@pytest.mark.parametrize(
    ("asked", "size", "sent"), [(True, (1 << 20) + 1, "100-continue"), (True, 100, None), (False, (1 << 20) + 1, None)]
)
def test_large_parts_ask_first_unless_switched_off(
    open_store, bucket: str, relay, asked: bool, size: int, sent: str | None
) -> None:
    store = open_store(bucket, relay.url, expect_continue=asked)
    store.complete_upload(uploaded(store, b"x" * size))

    (headers,) = headers_of(relay, method="PUT", query="partNumber")
    assert headers["Expect"] == sent
    assert store.get("data") == b"x" * size


def test_the_user_agent_names_the_product(s3: S3Store, relay) -> None:
    s3.put("a", b"")

    assert f"kafka-s3/{__version__}" in relay.seen[0].headers["User-Agent"]


def test_path_style_puts_the_bucket_into_the_path(s3: S3Store, bucket: str, relay) -> None:
    s3.put("a", b"")

    assert relay.seen[0].path == f"/{bucket}/a"


@pytest.mark.parametrize(
    ("changes", "host", "path"),
    [
        ({}, "s3.eu-west-1.amazonaws.com", "/{bucket}/a"),
        ({"path_style": False}, "{bucket}.s3.eu-west-1.amazonaws.com", "/a"),
        ({"path_style": False, "accelerate": True}, "{bucket}.s3-accelerate.amazonaws.com", "/a"),
    ],
)
def test_amazons_own_addresses(open_store, bucket: str, relay, changes: dict, host: str, path: str) -> None:
    # the relay is a proxy here, so that it sees which host would have been asked; http, as it could not look into TLS
    store = open_store(bucket, None, region="eu-west-1", proxy=Proxy(relay.url), part_retries=1, **changes)
    store._connected().client.meta.events.register(
        "before-send.s3", lambda request, **_: setattr(request, "url", request.url.replace("https", "http"))
    )
    relay.answer(200)
    store.delete("a")

    assert relay.seen[0].path == f"http://{host}{path}".format(bucket=bucket)


def test_a_proxy_gets_its_user_and_password(open_store, bucket: str, relay) -> None:
    store = open_store(bucket, "http://s3.example", proxy=Proxy(relay.url, "us:er@x", Secret("p@ss:/%w +rd")))
    relay.answer(200)
    store.delete("a")

    expected = base64.b64encode(b"us:er@x:p@ss:/%w +rd").decode()
    assert relay.seen[0].path == f"http://s3.example/{bucket}/a"
    assert relay.seen[0].headers["Proxy-Authorization"] == f"Basic {expected}"
