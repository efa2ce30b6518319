"""Are credentials found as every user of AWS knows them, once for all services, and renewed for libcurl's requests, too?"""

from __future__ import annotations

import gc
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sts.models import sts_backends

from kafka_s3.model.errors import StorageError
from kafka_s3.store.credentials import Credentials, Provider
from kafka_s3.store.options import StoreOptions
from kafka_s3.store.s3 import RustOptions, S3Store, aws_client, session_for

CHAINED = """
[profile sink]
role_arn = arn:aws:iam::123456789012:role/of-a-profile
source_profile = base
region = eu-west-3

[profile base]
aws_access_key_id = AKIABASE
aws_secret_access_key = x
"""
SSO = """
[profile default]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = sink
region = eu-west-3

[sso-session corp]
sso_start_url = https://corp.awsapps.example/start
sso_region = eu-west-3
sso_registration_scopes = sso:account:access
"""


def signers(relay) -> list[str]:
    """The access key ids that signed requests, in order."""
    return [
        one.headers["Authorization"].split("Credential=")[1].split("/")[0]
        for one in relay.seen
        if "Credential=" in one.headers.get("Authorization", "")
    ]


@pytest.fixture
def options(bucket: str, relay) -> StoreOptions:
    """Of a bucket behind the relay, with AWS's default chain of credentials."""
    return StoreOptions(bucket, region="us-east-1", endpoint_url=relay.url)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """AWS's configuration file, which the tests' environment names."""
    return tmp_path / "config"


def test_the_role_of_a_profile_is_assumed_once_for_s3_tables_glue_and_notifications(
    options: StoreOptions, relay, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(CHAINED)
    monkeypatch.setenv("AWS_PROFILE", "sink")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", relay.url)
    store = S3Store(options)
    store.put("a", b"")  # by libcurl
    assert [info.key for info in store.list("")] == ["a"]  # by boto3
    role = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assumed_roles[-1]
    assert role.role_arn == "arn:aws:iam::123456789012:role/of-a-profile"
    assert signers(relay) == ["AKIABASE", role.access_key_id, role.access_key_id]
    assert RustOptions(options)()["aws_access_key_id"] == role.access_key_id
    for service in ("glue", "sns", "sqs"):
        client = aws_client(service, options, relay.url)
        assert client._request_signer._credentials.access_key == role.access_key_id
    assert sum(b"AssumeRole" in one.body for one in relay.seen) == 1
    store.close()


def test_the_keys_of_a_credential_process_are_renewed_for_libcurl(options: StoreOptions, relay, config: Path) -> None:
    """They end soon enough that botocore asks for new ones with each request."""
    made, script = config.with_name("made"), config.with_name("process.py")
    script.write_text(
        f"import json, pathlib\nmade = pathlib.Path({str(made)!r})\n"
        "n = int(made.read_text()) + 1 if made.exists() else 1\nmade.write_text(str(n))\n"
        f"print(json.dumps({{'Version': 1, 'AccessKeyId': f'AKIA{{n}}', 'SecretAccessKey': 'x', 'SessionToken': f'token-{{n}}', "
        f"'Expiration': {(datetime.now(UTC) + timedelta(minutes=5)).isoformat()!r}}}))\n"
    )
    config.write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    store = S3Store(options)
    for name in "ab":
        relay.seen.clear()
        store.put(name, b"")
        assert signers(relay) == [f"AKIA{made.read_text()}"]
        assert relay.seen[-1].headers["X-Amz-Security-Token"] == f"token-{made.read_text()}"
    assert int(made.read_text()) > 1
    store.close()


def logged_in(folder: Path) -> None:
    """What `aws sso login` leaves."""
    from hashlib import sha1

    token = {"startUrl": "https://corp.awsapps.example/start", "region": "eu-west-3", "accessToken": "of-the-login"}
    token["expiresAt"] = f"{datetime.now(UTC) + timedelta(hours=8):%Y-%m-%dT%H:%M:%SZ}"
    cache = folder / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    (cache / f"{sha1(b'corp', usedforsecurity=False).hexdigest()}.json").write_text(json.dumps(token))


def test_an_sso_login_signs_also_one_that_comes_after_the_first_failure(
    options: StoreOptions, relay, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(SSO)
    monkeypatch.setenv("HOME", str(config.parent))
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", str(config.parent / ".aws/sso/cache"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", relay.url)
    store = S3Store(options)
    with pytest.raises(StorageError, match="no usable AWS credentials"):
        store.put("a", b"")
    logged_in(config.parent)
    ends_ms = int(time.time() * 1000) + 3_600_000
    keys = {"accessKeyId": "AKIASSO", "secretAccessKey": "x", "sessionToken": "t", "expiration": ends_ms}
    answer = json.dumps({"roleCredentials": keys}).encode()
    relay.script.append(lambda handler, _: handler.reply(200, answer, {"Content-Type": "application/json"}))
    store.put("a", b"")
    assert relay.seen[-2].headers["x-amz-sso_bearer_token"] == "of-the-login"
    assert signers(relay) == ["AKIASSO"]
    store.close()


def test_a_session_is_shared_while_it_is_used_and_an_edited_profile_counts_after_that(
    options: StoreOptions, relay, config: Path
) -> None:
    keys = "[default]\naws_access_key_id = {}\naws_secret_access_key = x\n"
    config.write_text(keys.format("AKIAOLD"))
    session = session_for(options)
    assert session_for(options) is session
    assert session_for(StoreOptions("other", region="eu-west-3")) is not session
    keyed = Credentials(Provider.PROFILE, profile="default")
    assert session_for(StoreOptions("bucket", region="us-east-1", credentials=keyed)) is not session
    assert session.credentials().access_key == "AKIAOLD"
    config.write_text(keys.format("AKIANEW"))
    del session
    gc.collect()
    S3Store(options).put("a", b"")
    assert signers(relay) == ["AKIANEW"]


def test_sessions_add_nothing_to_what_they_share() -> None:
    """The loader of models is shared, and boto3 adds its own folder to it with each session."""
    folders = set()
    for n in range(5):
        session = session_for(StoreOptions("bucket", region=f"region-{n}"))
        folders.add(len(session._inner.get_component("data_loader").search_paths))
    assert len(folders) == 1
