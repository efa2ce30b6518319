"""Typed settings, secrets and references."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_s3.connect.config.option import INT_MAX
from kafka_s3.connect.config.references import directory_source
from kafka_s3.connect.config.settings import Settings, masking
from kafka_s3.connect.config.validate import load, resolved, validate
from kafka_s3.model.errors import ConfigError
from kafka_s3.model.text import Secret

MINIMAL = {
    "name": "s3-sink",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "a, b,,a",
    "kafka.bootstrap.servers": "localhost:9092",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "flush.size": "3",
}


def settings(**changes: str | None) -> Settings:
    return of({key.replace("__", "."): text for key, text in changes.items()})


def of(changes: dict[str, str | None]) -> Settings:
    return validate({key: text for key, text in {**MINIMAL, **changes}.items() if text is not None}).usable()


def test_a_secret_shows_as_stars_however_it_is_printed() -> None:
    secret = Secret("hunter2")
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret:>10}", f"{secret!r}", "%s" % secret):  # noqa: UP031
        assert "hunter2" not in shown
        assert "****" in shown
    assert (secret.reveal(), secret == Secret("hunter2"), secret == "hunter2") == ("hunter2", True, False)


def test_a_secret_survives_pickling_and_cannot_be_changed() -> None:
    secret = Secret("hunter2")
    assert pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"
    with pytest.raises(AttributeError):
        secret._text = "x"


def test_values_are_typed_and_defaults_filled_in() -> None:
    found = settings(aws__secret__access__key="s3cret", aws__access__key__id="AKIA")
    assert found.name == "s3-sink"
    assert found.names("topics") == ("a", "b")
    assert (found.number("flush.size"), found.number("s3.part.size")) == (3, 26214400)
    assert (found.flag("s3.path.style.access.enabled"), found.strict) == (True, False)
    assert (found.text("format.class"), found.text("partitioner.class"), found.text("timestamp.extractor")) == (
        "json",
        "default",
        "Wallclock",
    )
    assert (found.optional_text("store.url"), found.text("store.url")) == (None, "")
    assert found.text("s3.credentials.provider.class") == "default"
    secret = found.secret("aws.secret.access.key")
    assert secret is not None
    assert secret.reveal() == "s3cret"
    assert (found.given("flush.size"), found.given("s3.part.size")) == (True, False)


def test_an_unknown_key_or_a_wrong_type_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        settings().text("flush.sise")
    wrong: list[Callable[[], object]] = [
        lambda: settings().text("flush.size"),
        lambda: settings().number("s3.wan.mode"),
        lambda: settings().flag("flush.size"),
        lambda: settings().names("name"),
        lambda: settings().secret("name"),
    ]
    for ask in wrong:
        with pytest.raises(TypeError):
            ask()


def test_settings_below_a_prefix_come_without_it() -> None:
    found = of(
        {
            "consumer.override.client.id": "c",
            "consumer.override.max.poll.records": "5",
            "consumer.override.ssl.key.password": "p",
        }
    )
    assert found.prefixed("consumer.override.") == {
        "client.id": "c",
        "max.poll.records": "5",
        "ssl.key.password": Secret("p"),
    }


def test_only_the_byte_array_separator_is_not_trimmed() -> None:
    found = of({"s3.bucket.name": "  bucket ", "format.bytearray.separator": " | "})
    assert (found.text("s3.bucket.name"), found.text("format.bytearray.separator")) == ("bucket", " | ")


def test_settings_survive_pickling() -> None:
    found = settings(aws__secret__access__key="s3cret", aws__access__key__id="AKIA")
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.secret("aws.secret.access.key").reveal() == "s3cret"


def test_strict_examines_the_tail_at_every_poll() -> None:
    assert settings().number("tail.check.interval.ms") == 60000
    assert settings(compatibility__strict="true").number("tail.check.interval.ms") == 0
    assert of({"compatibility.strict": "true", "tail.check.interval.ms": "5"}).number("tail.check.interval.ms") == 5


def test_a_part_size_without_any_rotation_rule_closes_files_by_bytes() -> None:
    found = of({"flush.size": None, "s3.part.size": "5242880"})
    assert (found.number("flush.bytes"), found.number("flush.size")) == (5242880, INT_MAX)
    assert found.masked()["flush.bytes"] == "5242880"


def test_another_rotation_rule_leaves_the_count_without_limit() -> None:
    assert of({"flush.size": None, "flush.idle.ms": "10"}).number("flush.size") == INT_MAX


def test_a_flush_size_below_one_acts_like_one() -> None:
    assert settings(flush__size="-5").number("flush.size") == 1


REFERENCE: dict[str, str | None] = {
    "flush.size": "${env:FLUSH}",
    "aws.access.key.id": "${secrets:aws/access-key}",
    "aws.secret.access.key": "${secret:aws/secret-key}",
    "s3.proxy.url": "http://${file:FILE:user}@proxy",
    "topics.dir": "${file:WHOLE}",
}


@pytest.fixture
def referring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "p.properties").write_text("user=proxy-user\n", encoding="utf-8")
    (tmp_path / "whole").write_text(" lake \n", encoding="utf-8")
    (tmp_path / "secrets" / "aws").mkdir(parents=True)
    (tmp_path / "secrets" / "aws" / "secret-key").write_text("from-a-file\n", encoding="utf-8")
    monkeypatch.setenv("FLUSH", "12")
    monkeypatch.setenv("KAFKA_S3_SECRET_AWS_ACCESS_KEY", "from-the-environment")
    monkeypatch.setenv("KAFKA_S3_SECRETS_DIR", str(tmp_path / "secrets"))
    places = {"FILE": str(tmp_path / "p.properties"), "WHOLE": str(tmp_path / "whole")}
    texts = dict(REFERENCE)
    texts["s3.proxy.url"] = f"http://${{file:{places['FILE']}:user}}@proxy"
    texts["topics.dir"] = f"${{file:{places['WHOLE']}}}"
    return of(texts)


def test_references_are_resolved_late_and_then_typed(referring: Settings) -> None:
    with pytest.raises(ConfigError, match=r"flush.size"):
        referring.number("flush.size")
    found = resolved(referring)
    assert (found.number("flush.size"), found.text("topics.dir")) == (12, "lake")
    assert found.text("aws.access.key.id") == "from-the-environment"
    assert found.text("s3.proxy.url") == "http://proxy-user@proxy"
    assert found.secret("aws.secret.access.key") == Secret("from-a-file")


def test_resolved_values_are_never_shown(referring: Settings) -> None:
    found = resolved(referring)
    for shown in (repr(found), str(found.masked())):
        for hidden in ("from-the-environment", "from-a-file", "proxy-user", "lake"):
            assert hidden not in shown
    assert {found.masked()[key] for key in REFERENCE} == {"****"}


def test_an_unresolvable_reference_names_key_and_reference() -> None:
    with pytest.raises(ConfigError) as error:
        resolved(
            of(
                {
                    "s3.region": "${env:NO_SUCH_VARIABLE}",
                    "aws.secret.access.key": "${secrets:no/such}",
                    "aws.access.key.id": "a",
                }
            )
        )
    assert [(problem.key, problem.value) for problem in error.value.problems] == [
        ("s3.region", "${env:NO_SUCH_VARIABLE}"),
        ("aws.secret.access.key", "${secrets:no/such}"),
    ]


def test_a_bad_value_behind_a_reference_is_a_problem_that_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "Mars/Olympus")
    monkeypatch.setenv("SIZE", "hunter2hunter2")
    with pytest.raises(ConfigError) as error:
        resolved(of({"timezone": "${env:ZONE}", "flush.size": "${env:SIZE}"}))
    assert {problem.key for problem in error.value.problems} == {"timezone", "flush.size"}
    assert "Mars" not in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_secret_that_looks_like_a_reference_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD", "${env:HOME}")
    found = resolved(of({"aws.secret.access.key": "${env:ODD}", "aws.access.key.id": "a"}))
    assert found.secret("aws.secret.access.key") == Secret("${env:HOME}")


def test_what_came_from_a_reference_is_a_secret_below_a_prefix_and_a_text_by_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLIENT", "me")
    found = resolved(of({"consumer.override.client.id": "${env:CLIENT}"}))
    assert found.prefixed("consumer.override.") == {"client.id": Secret("me")}
    assert found.text("consumer.override.client.id") == "me"


def test_further_sources_are_asked_last_and_their_errors_stay_hidden() -> None:
    pending = of({"aws.secret.access.key": "${secrets:vault/key}", "aws.access.key.id": "a"})
    assert resolved(pending, [lambda scope, key: f"{scope}-{key}"]).secret("aws.secret.access.key") == Secret(
        "vault-key"
    )

    def failing(scope: str, key: str) -> str | None:
        raise RuntimeError("token=hunter2")

    with pytest.raises(ConfigError, match="RuntimeError") as error:
        resolved(pending, [failing])
    assert "hunter2" not in str(error.value)


def test_secrets_are_not_looked_for_outside_of_their_directory(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "outside").write_text("x", encoding="utf-8")
    source = directory_source({"KAFKA_S3_SECRETS_DIR": str(tmp_path / "secrets")})
    assert (source("..", "outside"), source("a", str(tmp_path / "outside"))) == (None, None)


@pytest.mark.parametrize("text", ["${vault:a}", "${secrets:noslash}", "${env:}"])
def test_a_malformed_reference_is_a_problem_before_it_is_resolved(text: str) -> None:
    checked = validate({**MINIMAL, "s3.region": text})
    assert [problem.key for problem in checked.problems] == ["s3.region"]


def test_load_reports_every_problem_and_lets_overrides_win(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text("\n".join(f"{key}={text}" for key, text in MINIMAL.items()), encoding="utf-8")
    assert load(path, overrides={"flush.size": "9"}).number("flush.size") == 9
    with pytest.raises(ConfigError) as error:
        load(path, overrides={"flush.size": "x", "s3.part.size": "1"})
    assert len(error.value.problems) == 2


def test_a_place_that_the_environment_names_is_shown_and_a_secret_in_a_place_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BROKERS", "broker-1:9092")
    monkeypatch.setenv("KAFKA_S3_SECRET_AWS_BUCKET", "hidden-bucket")
    found = resolved(of({"kafka.bootstrap.servers": "${env:BROKERS}", "s3.bucket.name": "${secrets:aws/bucket}"}))
    shown = found.masked()
    assert (shown["kafka.bootstrap.servers"], shown["s3.bucket.name"]) == ("broker-1:9092", "****")
    assert masking(found)("broker-1:9092 and hidden-bucket") == "broker-1:9092 and ****"
