"""Whose credentials sign for Amazon MSK, and for which region?"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kafka_s3.kafka.iam import iam_login
from kafka_s3.model.errors import SourceError
from kafka_s3.store.credentials import Provider
from tests.support.msk_gate import refusal, signed_request

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HOST = "b-1.lake.abc123.c3.kafka.eu-west-1.amazonaws.com:9098"
KEYS = {"AKIASINK": "signing"}


def properties(options: str = "") -> dict[str, str]:
    return {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": f"{MODULE} required {options};"}


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(
        "[sink]\naws_access_key_id = AKIASINK\naws_secret_access_key = signing\n"
        "[other]\naws_access_key_id = AKIAX\naws_secret_access_key = x\n"
    )
    (tmp_path / "config").write_text("")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(("servers", "region"), [
    (HOST, "eu-west-1"),
    ("boot-x.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
    ("b-1.lake.abc.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
])  # fmt: skip
def test_the_region_is_part_of_the_brokers_names(servers: str, region: str) -> None:
    login = iam_login(servers, properties())
    assert login is not None
    assert login.region == region


def test_behind_another_name_the_region_is_that_of_the_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="set AWS_REGION"):
        iam_login("kafka.example.com:9098", properties())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    login = iam_login("kafka.example.com:9098", properties())
    assert login is not None
    assert login.region == "eu-north-1"


def test_a_profile_signs_and_msk_accepts_it() -> None:
    login = iam_login(HOST, properties('awsProfileName="sink"'))
    assert login is not None
    token = login.token()
    assert "signing" not in f"{login} {token}"
    query, host = signed_request(token.text.reveal())
    assert host == "kafka.eu-west-1.amazonaws.com"
    assert refusal(query, host=host, keys=KEYS, region="eu-west-1") is None
    assert refusal(query, host=host, keys=KEYS, region="eu-west-2") == "signed for kafka-cluster in eu-west-1"
    assert refusal(query, host=host, keys={"AKIASINK": "another"}, region="eu-west-1") == "wrong signature"
    assert "AKIASINK" in base64.urlsafe_b64decode(token.text.reveal() + "==").decode()


def test_a_profile_that_is_not_there_is_reported() -> None:
    login = iam_login(HOST, properties('awsProfileName="nobody"'))
    assert login is not None
    with pytest.raises(SourceError, match=r"cannot be had \(ProfileNotFound\).*Check the profile or role"):
        login.token()


def test_a_role_is_assumed_with_the_options_of_amazons_module() -> None:
    options = 'awsRoleArn="arn:aws:iam::1:role/sink" awsRoleExternalId="e" awsStsRegion="eu-west-3"'
    login = iam_login(HOST, properties(options))
    assert login is not None
    role = login.credentials.role
    assert login.credentials.provider is Provider.ASSUME_ROLE
    assert role is not None
    assert (role.arn, role.session_name, role.region) == ("arn:aws:iam::1:role/sink", "aws-msk-iam-auth", "eu-west-3")
    assert role.external_id.reveal() == "e"


def test_other_logins_sign_nothing() -> None:
    assert iam_login(HOST, {"sasl.mechanism": "PLAIN"}) is None
