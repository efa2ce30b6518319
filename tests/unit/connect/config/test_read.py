"""Reading configuration files: JSON, Java properties, Connect's worker file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_s3.connect.config.read import ConfigFile, pairs, read_config, read_properties, read_worker, under
from kafka_s3.connect.config.validate import check_file
from kafka_s3.model.errors import ConfigError, Problem
from tests.support.repository import ROOT


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def only_problem(error: pytest.ExceptionInfo[ConfigError]) -> Problem:
    (problem,) = error.value.problems
    return problem


def test_a_json_map_becomes_texts_with_numbers_and_booleans_as_they_were_spelt(tmp_path: Path) -> None:
    path = written(
        tmp_path, "c.json", '{"a": "x", "b": 12345678901234567890, "c": 1.50, "d": true, "e": false, "f": null}'
    )
    assert read_config(path).texts == {"a": "x", "b": "12345678901234567890", "c": "1.50", "d": "true", "e": "false"}


def test_the_name_outside_of_config_is_taken_in(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '\ufeff{"name": "orders", "config": {"flush.size": 3}}')
    assert read_config(path) == ConfigFile({"name": "orders", "flush.size": "3"})


def test_two_different_names_are_a_problem(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '{"name": "a", "config": {"name": "b"}}')
    with pytest.raises(ConfigError) as error:
        read_config(path)
    assert only_problem(error).key == "name"


def test_broken_json_is_reported_with_line_and_column(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '{\n  "a": "x"\n  "b": 1\n}')
    with pytest.raises(ConfigError, match="line 3, column 3"):
        read_config(path)


def test_nested_values_are_all_reported(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '{"config": {"a": "1", "b": {"c": 1}, "d": [1]}}')
    with pytest.raises(ConfigError) as error:
        read_config(path)
    assert [problem.key for problem in error.value.problems] == ["b", "d"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"name": "x", "config": {"name": "x", "flush.size": "1", "flush.size": 2}}'),
        ("c.properties", "name=x\nflush.size=1\nflush.size=2\n"),
        ("c.yaml", "name: x\nconfig:\n  flush.size: 1\n  flush.size: 2\n"),
    ],
)
def test_the_last_of_several_equal_keys_counts_as_in_connect_with_a_warning(
    tmp_path: Path, name: str, text: str
) -> None:
    found = read_config(written(tmp_path, name, text))
    assert found.texts == {"name": "x", "flush.size": "2"}
    (warning,) = found.warnings
    assert (warning.key, warning.value) == ("flush.size", "2")
    assert f"the last of several in {name}" in warning.rule


def test_a_repeated_secret_is_not_shown(tmp_path: Path) -> None:
    text = '{"aws.secret.access.key": "hunter1", "aws.secret.access.key": "hunter2"}'
    assert "hunter" not in str(read_config(written(tmp_path, "c.json", text)).warnings)


STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: orders-sink
  labels:
    strimzi.io/cluster: connect
spec:
  class: io.confluent.connect.s3.S3SinkConnector
  tasksMax: 2
  autoRestart:
    enabled: true
  config:
    topics: "orders"
    s3.part.size: 5242880
    store.kafka.keys: true
    topics.dir: ~
    path.format: "'year'=YYYY"
"""


def test_strimzis_connector_becomes_connects_keys(tmp_path: Path) -> None:
    """The others of the file, here the cluster, are not meant."""
    cluster = "---\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nmetadata: {name: connect}\n---\n"
    for text in (STRIMZI, cluster + STRIMZI):
        assert read_config(written(tmp_path, "sink.yaml", text)).texts == {
            "name": "orders-sink",
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "tasks.max": "2",
            "topics": "orders",
            "s3.part.size": "5242880",
            "store.kafka.keys": "true",
            "path.format": "'year'=YYYY",
        }


def test_yaml_without_an_operator_is_read_as_json_is(tmp_path: Path) -> None:
    path = written(tmp_path, "sink.yml", "name: orders\nconfig:\n  flush.size: 1_000\n  quoted: 'null'\n")
    assert read_config(path).texts == {"name": "orders", "flush.size": "1_000", "quoted": "null"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: KafkaConnect\nmetadata: {name: x}\n", "kind KafkaConnect, which holds no connector"),
        (STRIMZI + "---\n" + STRIMZI, "holds 2 connectors"),
        ("a: 1\nb: [", "line 2, column 5"),
        ("- a\n- b\n", "must hold a map"),
        ("name: x\nlist: [a, b]\n", 'Write "a,b" in one text'),
        ("---\n", "holds 0 documents"),
    ],
)
def test_yaml_that_is_no_connector_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_config(written(tmp_path, "sink.yaml", text))


@pytest.mark.parametrize("text", ["[1]", '"x"', "3"])
def test_json_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="must hold a map"):
        read_config(written(tmp_path, "c.json", text))


def test_a_missing_file_is_refused_and_its_neighbour_named(tmp_path: Path) -> None:
    written(tmp_path, "orders.json", "{}")
    with pytest.raises(ConfigError, match=r"does not exist. Did you mean orders.json"):
        read_config(tmp_path / "order.json")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        read_config(tmp_path)


PROPERTIES = r"""
# a comment \
! another
a=1
  b : two words
c three
d\ e\=f = g
continued=one,\
    two,\

tab=\tx\u0041\\n
empty=
bare
url=http://host:80/a=b#c
"""


def test_properties_follow_javas_rules() -> None:
    assert read_properties(PROPERTIES, Path("x.properties")) == {
        "a": "1",
        "b": "two words",
        "c": "three",
        "d e=f": "g",
        "continued": "one,two,",
        "tab": "\txA\\n",
        "empty": "",
        "bare": "",
        "url": "http://host:80/a=b#c",
    }


def test_a_broken_unicode_escape_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        read_config(written(tmp_path, "c.properties", "a=1\npath=C:\\users\n"))


def test_properties_in_javas_older_default_encoding_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_bytes("a=für".encode("iso-8859-1"))
    assert read_config(path).texts == {"a": "für"}


def _escaped(text: str, *, key: bool) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    if key:
        special |= {character: f"\\{character}" for character in " =:#!"}
    out = "".join(special.get(c) or (c if " " < c < "\x7f" else f"\\u{ord(c):04x}") for c in text)
    return out


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(TEXTS, TEXTS))
def test_whatever_java_would_store_is_read_back(settings: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(k, key=True)}={_escaped(v, key=False)}" for k, v in settings.items())
    assert read_properties(text, Path("x.properties")) == settings


def test_the_worker_file_gives_brokers_converters_and_client_settings(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "worker.properties",
        "bootstrap.servers=a:9092\ngroup.id=g\nrest.port=1\nconfig.storage.topic=t\nplugin.path=/x\nkey.converter=k\n"
        "value.converter.schemas.enable=false\nsecurity.protocol=SSL\nconsumer.security.protocol=SASL_SSL\n"
        "ssl.truststore.location=/t\nconsumer.max.poll.records=5\noffset.flush.interval.ms=9\nplugin.pth=1\n",
    )
    assert read_worker(path).texts == {
        "kafka.bootstrap.servers": "a:9092",
        "key.converter": "k",
        "value.converter.schemas.enable": "false",
        "consumer.override.security.protocol": "SASL_SSL",
        "consumer.override.ssl.truststore.location": "/t",
        "consumer.override.max.poll.records": "5",
        "offset.flush.interval.ms": "9",
        "plugin.pth": "1",
    }


def test_a_connector_that_names_a_converter_gets_none_of_the_workers_settings_of_it() -> None:
    worker = {
        "value.converter": "w",
        "value.converter.schemas.enable": "false",
        "key.converter": "k",
        "key.converter.a": "1",
    }
    assert under({"value.converter": "own"}, worker) == {
        "value.converter": "own",
        "key.converter": "k",
        "key.converter.a": "1",
    }


def test_examples_hold_plain_json_objects() -> None:
    for path in (ROOT / "examples").glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document.get("config", document)["connector.class"]


def test_a_file_of_terraform_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "connector.tf"
    file.write_text(
        'resource "confluent_connector" "sink" {\n  config_nonsensitive = { "connector.class" = "S3_SINK" }\n}\n'
    )
    with pytest.raises(
        ConfigError, match=r"Terraform's language.*config_sensitive and config_nonsensitive as one JSON object"
    ):
        read_config(file)


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '{"topics": "orders"}')
    assert read_config(str(path)).texts == {"topics": "orders"}


def test_a_list_of_topics_hides_no_other_problem(tmp_path: Path) -> None:
    path = written(tmp_path, "c.json", '{"topics": ["a", "b"], "flush.size": "x", "tasks.max": "0"}')
    found = {problem.key: problem for problem in check_file(path).problems}
    assert found["topics"].remedy == 'Write "a,b" in one text.'
    assert {"topics", "flush.size", "tasks.max", "s3.bucket.name"} <= set(found)
    assert "topics" not in [problem.key for problem in check_file(path, overrides={"topics": "a"}).problems]


@pytest.mark.parametrize(
    ("name", "text"), [("c.json", ""), ("c.json", "{}"), ("c.properties", "# later\n"), ("c.yaml", "")]
)
def test_an_empty_file_is_one_problem(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="is empty: it holds no key") as error:
        check_file(written(tmp_path, name, text))
    assert only_problem(error).remedy


@pytest.mark.parametrize("text", ["=", "=x", "flush.size"])
def test_an_override_needs_a_key(text: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE") as error:
        pairs(["topics=a", text])
    assert only_problem(error).value == text
