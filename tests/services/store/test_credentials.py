"""Which credentials sign requests to S3, and the error where there are none."""

from __future__ import annotations

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sts.models import sts_backends

from kafka_s3.model.errors import StorageError
from kafka_s3.store.credentials import Credentials, Provider
from tests.support.s3_settings import ROLE, STATIC, options


def signer_of(relay) -> str:
    """The access key id that signed the last request to S3."""
    return relay.seen[-1].headers["Authorization"].split("Credential=")[1].split("/")[0]


def test_static_keys_sign_with_the_region(open_store, bucket: str, relay) -> None:
    open_store(bucket, relay.url, region="eu-west-3").put("a", b"")

    assert signer_of(relay) == "AKIATEST"
    assert "/eu-west-3/s3/" in relay.seen[-1].headers["Authorization"]


def test_anonymous_requests_are_not_signed(open_store, bucket: str, relay) -> None:
    open_store(bucket, relay.url, credentials=Credentials(Provider.ANONYMOUS)).head("a")

    assert "Authorization" not in relay.seen[-1].headers


def test_the_environment_signs(open_store, bucket: str, relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    for provider in (Provider.ENVIRONMENT, Provider.DEFAULT):
        open_store(bucket, relay.url, credentials=Credentials(provider)).put("a", b"")

        assert signer_of(relay) == "AKIAENV"


def test_a_profile_signs_even_where_the_environment_has_keys(
    open_store, bucket: str, relay, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    open_store(bucket, relay.url, credentials=Credentials(Provider.PROFILE)).put("a", b"")

    assert signer_of(relay) == "AKIAFILE"


@pytest.mark.parametrize("provider", [Provider.INSTANCE, Provider.CONTAINER, Provider.WEB_IDENTITY, Provider.PROFILE])
def test_a_provider_without_credentials_says_which_ways_there_are(
    open_store, bucket: str, moto_url: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(StorageError, match=r"no usable AWS credentials.*aws\.access\.key\.id"):
        open_store(bucket, moto_url, credentials=Credentials(provider)).head("a")


def test_a_role_is_assumed_with_its_external_id_and_signs(
    open_store, bucket: str, relay, moto_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", relay.url)
    store = open_store(bucket, relay.url, credentials=options(ROLE | STATIC).credentials)
    store.put("a", b"")
    store.put("b", b"")

    role = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assumed_roles[-1]
    assert (role.role_arn, role.session_name, role.external_id) == (
        "arn:aws:iam::123456789012:role/sink",
        "session",
        "ext-1",
    )
    assert "Credential=AKIA/" in relay.seen[0].headers["Authorization"]  # the base keys ask STS
    assert signer_of(relay) == role.access_key_id
    assert [seen.method for seen in relay.seen] == ["POST", "PUT", "PUT"]  # asked once


def test_a_role_that_must_not_be_assumed_says_where_to_look(
    open_store, bucket: str, relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", relay.url)
    store = open_store(bucket, relay.url, credentials=options(ROLE | STATIC).credentials)
    relay.script.append(
        lambda handler, seen: handler.reply(
            403,
            b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not ext-1</Message></Error></ErrorResponse>",
            {},
        )
    )

    with pytest.raises(StorageError, match=r"Assuming a role for PutObject.*AccessDenied.*sts\.role\.arn") as refused:
        store.put("a", b"")
    assert "ext-1" not in str(refused.value)
