"""Does the catalog say of each connector what validation asks for, out of the option table?"""

from __future__ import annotations

import re

import pytest

from kafka_s3.cli.configuration import lines
from kafka_s3.connect.config.catalog import catalog, entry, example_of
from kafka_s3.connect.config.classes import CONNECTORS
from kafka_s3.connect.config.dialects.spelling import ORIGINAL, SUCCESSOR
from kafka_s3.connect.config.option import InvalidValue, OptionStatus, parse
from kafka_s3.connect.config.references import has_reference
from kafka_s3.connect.config.validate import validate
from kafka_s3.model.errors import ConfigError
from tests.support.memory_world import BASE
from tests.support.repository import ROOT

NAMES = ["S3SinkConnector", "S3_SINK", "Block-GZIP"]


def test_every_connector_is_listed() -> None:
    assert [one.name for one in catalog()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_required_keys_come_first_and_are_all_that_validation_misses(name: str) -> None:
    found = entry(name)
    rows = found.rows()
    needed = [option for option, required in rows if required]
    assert [option for option, _ in rows[: len(needed)]] == needed
    assert len({option.key for option, _ in rows}) == len(rows)
    config = {"connector.class": found.connector, **{option.key: example_of(option) for option in needed}}
    missing = [problem.key for problem in validate(config).problems if "is required" in problem.rule]
    # a partitioner and a format of the examples may ask for more; what the catalog calls required is there
    assert not set(missing) & {option.key for option in needed}
    assert all(config[option.key] for option in needed)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_a_value_of_its_key(name: str) -> None:
    for option, _ in entry(name).rows():
        example = example_of(option)
        if example and not has_reference(example) and not option.family and option.status is OptionStatus.ACTED_ON:
            try:
                parse(option, example)
            except InvalidValue as unfit:
                pytest.fail(f"{option.key}={example}: {unfit.rule}")


def test_a_description_says_all_that_the_table_knows() -> None:
    text = "\n".join(lines(entry("s3_sink")))
    assert "Required: kafka.api.key, kafka.api.secret" in text
    assert (
        "flush.size\n    type int; default 1000; since 0.1.0\n    As self-managed, with a default.\n    example flush.size=1000"
    ) in text
    assert "format.class" not in text.split("Required")[1].split("\n")[0]


@pytest.mark.parametrize("java", [*CONNECTORS, ORIGINAL, SUCCESSOR])
def test_each_class_that_runs_is_described_with_the_keys_that_it_requires(java: str) -> None:
    found = entry(java)
    assert found.connector == java
    problems = validate({"connector.class": java}).problems
    assert found.required() == {one.key for one in problems if "is required" in one.rule}
    assert found.required() <= {option.key for option in found.options}
    assert ("value.converter" in found.required()) is (java not in (SUCCESSOR, "S3_SINK"))


NO_JAVA = "No Java class is loaded: "


def remedy_of(key: str, java: str) -> str:
    given = {**BASE, "flush.size": "1", "transforms": "a", "predicates": "p", key: java}
    (remedy,) = (one.remedy for one in validate(given).problems if one.key == key and one.value == java)
    return remedy


@pytest.mark.parametrize("name", ["Mine", "MyFieldPartitioner", "FieldPartitioner", "JsonFormat", "MaskField$Value"])
@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("partitioner.class", "partitioners"),
        ("format.class", "formats"),
        ("transforms.a.type", "transforms"),
    ],
)
def test_a_java_class_of_ones_own_is_refused_with_the_way_of_entry_points(key: str, group: str, name: str) -> None:
    """Also where it is called like one of the original's."""
    page = f"docs/own-{group}.md"
    way = f"{NO_JAVA}write your own in Python, and name it by its entry point of kafka_s3.{group} ({page})."
    assert remedy_of(key, f"com.acme.{name}").endswith(way)
    assert (ROOT / page).exists()


@pytest.mark.parametrize("key", ["value.converter", "timestamp.extractor", "predicates.p.type"])
def test_where_no_package_adds_any_the_way_is_a_transform(key: str) -> None:
    assert re.search(
        rf"{NO_JAVA}.*a transform of your own \(docs/own-transforms\.md\)", remedy_of(key, "com.acme.Mine")
    )


def test_a_misspelt_class_of_the_original_is_none_of_ones_own() -> None:
    remedy = remedy_of("partitioner.class", "io.confluent.connect.storage.partitioner.FieldPartitoner")
    assert "Did you mean FieldPartitioner?" in remedy
    assert NO_JAVA not in remedy


def test_a_connector_is_found_by_its_class_and_others_are_not() -> None:
    assert entry("io.confluent.connect.s3.S3SinkConnector").name == "S3SinkConnector"
    with pytest.raises(ConfigError, match=r"Known: S3SinkConnector, S3_SINK, Block-GZIP\. Did you mean S3_SINK\?"):
        entry("S3-SINK")
