"""From settings to options and credentials: the connector's rules, and no secret in any text."""

from __future__ import annotations

import base64
import pickle
import re

import pytest

from kafka_s3.model.errors import ConfigError
from kafka_s3.model.text import Secret
from kafka_s3.store.credentials import AssumedRole, Credentials, Provider
from kafka_s3.store.options import Encryption, Proxy, StoreOptions
from tests.support.s3_settings import ROLE, STATIC, options

CUSTOMER_KEY = base64.b64encode(bytes(32)).decode()


def test_an_empty_configuration_gives_the_connectors_defaults() -> None:
    assert options() == StoreOptions("bucket")


def test_every_plain_key_arrives() -> None:
    assert options(
        {
            "s3.region": "eu-west-1",
            "s3.path.style.access.enabled": "false",
            "s3.wan.mode": "true",
            "s3.acl.canned": "private",
            "s3.part.retries": "7",
            "s3.retry.backoff.ms": "50",
            "s3.send.digest": "true",
            "s3.http.send.expect.continue": "false",
        }
    ) == StoreOptions(
        "bucket",
        region="eu-west-1",
        path_style=False,
        accelerate=True,
        acl="private",
        part_retries=7,
        retry_backoff_ms=50,
        send_digest=True,
        expect_continue=False,
    )


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("minio:9000", "https://minio:9000"),
        ("http://minio:9000", "http://minio:9000"),
        (" https://s3.example/x ", "https://s3.example/x"),
        ("", None),
        ("  ", None),
    ],
)
def test_an_endpoint_without_scheme_is_https(given: str, endpoint: str | None) -> None:
    assert options({"store.url": given}).endpoint_url == endpoint


@pytest.mark.parametrize("given", ["http://", "ftp://host", "host:port", "http://host:99999"])
def test_an_endpoint_that_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url"):
        options({"store.url": given})


@pytest.mark.parametrize(
    "given",
    [
        "http://169.254.169.254/latest", "169.254.170.2", "http://2852039166", "http://0xa9fea9fe:80", "http://0251.0376.0251.0376",
        "http://169.254.43518", "http://169.254.169.254.", "http://%31%36%39.254.169.254", "http://１６９.254.169.254", "http://169。254。169。254",
        "http://[fe80::1]", "http://[fe80::1%25eth0]", "http://[::ffff:169.254.169.254]", "http://[::169.254.169.254]", "http://[64:ff9b::a9fe:a9fe]",
        "http://[2002:a9fe:a9fe::1]", "http://[fd00:ec2::254]", "https://[fd00:ec2::23]", "http://[fd20:ce::254]", "http://100.100.100.200",
        "http://192.0.0.192", "http://168.63.129.16", "http://metadata", "http://Metadata.Google.Internal.", "http://instance-data.ec2.internal",
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["store.url", "s3.proxy.url"])
def test_a_clouds_metadata_service_is_no_store_and_no_proxy_however_it_is_spelt(key: str, given: str) -> None:
    with pytest.raises(ConfigError, match=rf"{re.escape(key)}.*metadata service"):
        options({key: given})


@pytest.mark.parametrize(
    "given",
    [
        "http://10.0.0.1:9000",
        "http://[fd00::1]:9000",
        "http://metadata.example.com",
        "http://localhost:9000",
        "http://169.253.0.1",
    ],
)
def test_other_addresses_of_a_network_are_taken(given: str) -> None:
    assert options({"store.url": given}).endpoint_url == given


def test_no_attempt_counts_as_one() -> None:
    assert options({"s3.part.retries": "0"}).part_retries == 1


@pytest.mark.parametrize(
    ("changes", "encryption"),
    [
        ({"s3.ssea.name": "AES256"}, Encryption("AES256")),
        (
            {"s3.ssea.name": "AES256", "s3.sse.customer.key": CUSTOMER_KEY},
            Encryption("AES256", customer_key=Secret(CUSTOMER_KEY)),
        ),
        ({"s3.ssea.name": "AES256", "s3.sse.kms.key.id": "k"}, Encryption("AES256")),
        ({"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "k"}, Encryption("aws:kms", "k")),
        ({"s3.ssea.name": "aws:kms"}, Encryption()),
        ({"s3.ssea.name": "aws:kms:dsse", "s3.sse.kms.key.id": "k"}, Encryption("aws:kms:dsse", "k")),
        ({"s3.ssea.name": "aws:kms:dsse"}, Encryption("aws:kms:dsse")),
        ({"s3.sse.customer.key": CUSTOMER_KEY}, Encryption()),
    ],
)
def test_encryption_follows_the_connectors_rules(changes: dict[str, str], encryption: Encryption) -> None:
    assert options(changes).encryption == encryption


@pytest.mark.parametrize("key", ["short", base64.b64encode(bytes(16)).decode(), "ü" * 44])
def test_a_customer_key_of_wrong_form_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match=r"s3\.sse\.customer\.key .*32 bytes") as refused:
        options({"s3.ssea.name": "AES256", "s3.sse.customer.key": key})
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "proxy"),
    [
        ({}, None),
        ({"s3.proxy.url": ""}, None),
        ({"s3.proxy.url": "http://proxy:3128"}, Proxy("http://proxy:3128")),
        ({"s3.proxy.url": "proxy:3128"}, Proxy("http://proxy:3128")),
        ({"s3.proxy.url": "http://u:p@proxy:1", "s3.proxy.password": ""}, Proxy("http://proxy:1", "u", Secret("p"))),
        ({"s3.proxy.url": "https://u%40x:p%2Fw@proxy:3128"}, Proxy("https://proxy:3128", "u@x", Secret("p/w"))),
        (
            {"s3.proxy.url": "http://u:p@proxy:1", "s3.proxy.user": "user", "s3.proxy.password": "word"},
            Proxy("http://proxy:1", "user", Secret("word")),
        ),
    ],
)
def test_separate_keys_win_over_user_and_password_in_the_proxys_url(
    changes: dict[str, str], proxy: Proxy | None
) -> None:
    assert options(changes).proxy == proxy


def test_a_proxy_password_that_cannot_be_sent_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="plain ASCII") as refused:
        options({"s3.proxy.url": "http://proxy:1", "s3.proxy.user": "u", "s3.proxy.password": "wörd"})
    assert "wörd" not in str(refused.value)


def test_a_proxy_that_is_no_address_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match=r"s3\.proxy\.url") as refused:
        options({"s3.proxy.url": "http://user:hidden@:x"})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "credentials"),
    [
        (STATIC, Credentials(Provider.STATIC, "AKIA", Secret("very-secret"))),
        (
            STATIC | {"s3.credentials.provider.class": "environment"},
            Credentials(Provider.STATIC, "AKIA", Secret("very-secret")),
        ),
        ({"aws.access.key.id": "AKIA"}, Credentials()),
        ({"aws.access.key.id": " ", "aws.secret.access.key": "x"}, Credentials()),
        ({"aws.access.key.id": "AKIA", "aws.secret.access.key": " "}, Credentials()),
        ({"s3.credentials.provider.class": "web_identity"}, Credentials(Provider.WEB_IDENTITY)),
        (
            ROLE,
            Credentials(
                Provider.ASSUME_ROLE,
                role=AssumedRole(ROLE["s3.credentials.provider.sts.role.arn"], "session", Secret("ext-1")),
            ),
        ),
        (
            ROLE | STATIC | {"s3.credentials.provider.sts.region": "eu-west-1"},
            Credentials(
                Provider.ASSUME_ROLE,
                "AKIA",
                Secret("very-secret"),
                AssumedRole(ROLE["s3.credentials.provider.sts.role.arn"], "session", Secret("ext-1"), "eu-west-1"),
            ),
        ),
    ],
)
def test_static_keys_win_unless_a_role_is_assumed(changes: dict[str, str], credentials: Credentials) -> None:
    assert options(changes).credentials == credentials


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        options(
            {
                "store.url": "http://",
                "s3.ssea.name": "AES256",
                "s3.sse.customer.key": "x",
                "s3.credentials.provider.class": "assume_role",
            }
        )

    assert [problem.key for problem in refused.value.problems] == [
        "store.url",
        "s3.credentials.provider.sts.role.arn",
        "s3.credentials.provider.sts.role.session.name",
        "s3.credentials.provider.sts.role.external.id",
        "s3.sse.customer.key",
    ]


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'magic'.*Known: default, static, environment"):
        options({"s3.credentials.provider.class": "magic"})


def test_static_without_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"aws\.access\.key\.id and aws\.secret\.access\.key"):
        options({"s3.credentials.provider.class": "static"})


def test_options_travel_as_pickles_and_show_no_secret() -> None:
    made = options(
        ROLE
        | STATIC
        | {"s3.ssea.name": "AES256", "s3.sse.customer.key": CUSTOMER_KEY, "s3.proxy.url": "http://u:proxypass@proxy:1"}
    )

    assert pickle.loads(pickle.dumps(made)) == made
    shown = repr(made)
    assert [hidden for hidden in ("very-secret", CUSTOMER_KEY, "proxypass", "ext-1") if hidden in shown] == []
