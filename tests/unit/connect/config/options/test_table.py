"""The option table, its reference page and the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_s3.connect.config.docs import PAGES, pages
from kafka_s3.connect.config.option import Option, OptionStatus, default_of, parse, unsupported
from kafka_s3.connect.config.options.table import (
    BLOCK_GZIP_OPTIONS,
    CLOUD_OPTIONS,
    OPTIONS,
    TRANSFORM_OPTIONS,
    option_of,
)
from kafka_s3.connect.config.validate import check_file
from tests.support.repository import ROOT

EXAMPLES = sorted(
    path for path in (ROOT / "examples").iterdir() if path.suffix in (".json", ".properties") and path.stem != "worker"
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_valid_with_the_worker_file(path: Path) -> None:
    checked = check_file(path, worker_path=ROOT / "examples" / "worker.properties")
    assert checked.problems == ()
    # the old quick start names a class that later releases dropped
    assert {warning.key for warning in checked.warnings} <= {"schema.generator.class"}


@pytest.mark.parametrize("name", pages())
def test_each_page_of_the_reference_is_made_from_the_table(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == pages()[name], "run: PYTHONPATH=bundle python -m kafka_s3.connect.config.docs docs"
    assert {path.name for path in (ROOT / "docs").glob("configuration*.md")} == set(pages())


def test_each_key_has_one_place_in_the_reference() -> None:
    placed = [(option.key, option.doc) for page in PAGES for chapter in page.chapters for option in chapter.options()]
    every = [
        option
        for option in (*OPTIONS, *TRANSFORM_OPTIONS, *CLOUD_OPTIONS, *BLOCK_GZIP_OPTIONS)
        if not option.key.startswith("key.converter.")
    ]
    assert sorted(placed) == sorted((option.key, option.doc) for option in every)


def test_key_converters_take_what_value_converters_take() -> None:
    """So that the reference need not say it twice."""
    rows = {option.key: option for option in OPTIONS}
    for key, option in rows.items():
        if key.startswith("key.converter.") and not key.endswith("converter.type"):
            other = rows[f"value{key.removeprefix('key')}"]
            assert (other.type, other.default, other.status, other.note, other.doc) == (
                option.type, option.default, option.status, option.note, option.doc
            )  # fmt: skip
            assert other.valid.text == option.valid.text


def test_every_key_has_one_row() -> None:
    for rows in (OPTIONS, CLOUD_OPTIONS):
        keys = [option.key for option in rows]
        assert len(keys) == len(set(keys))


def test_every_default_is_a_value_of_its_key() -> None:
    defaults = [(option, option.default) for option in OPTIONS if option.default is not None and not option.family]
    values = [(option, parse(option, text)) for option, text in defaults]
    assert [option.key for option, value in values if value != default_of(option)] == []
    assert [option.key for option, value in values if unsupported(option, value)] == []


def test_every_row_says_what_it_means_and_why_it_has_no_effect() -> None:
    def acts(option: Option) -> bool:
        return option.status is OptionStatus.ACTED_ON and not option.not_yet

    assert [option.key for option in OPTIONS if not option.doc.endswith((".", ".)"))] == []
    assert [option.key for option in OPTIONS if not option.note and not acts(option)] == []


def test_a_key_is_found_by_its_own_row_or_by_the_longest_prefix() -> None:
    for key, row in {
        "flush.size": "flush.size",
        "value.converter": "value.converter",
        "value.converter.schemas.enable": "value.converter.schemas.enable",
        "value.converter.other": "value.converter.*",
        "consumer.override.other": "consumer.override.*",
    }.items():
        found = option_of(key)
        assert found is not None
        assert found.key == row
    assert option_of("no.such.key") is None
    assert option_of("value.converter.") is None


def test_a_key_says_which_version_brought_it() -> None:
    brought = {
        version: {option.key.partition(".")[0] for option in OPTIONS if option.since == version}
        for version in ("0.1.0", "0.2.0")
    }
    assert brought["0.2.0"] == {"iceberg", "state", "compact", "rewrite", "spark", "behavior"}
    assert not {"iceberg", "compact", "rewrite"} & brought["0.1.0"]
    assert {option.since for option in OPTIONS} == set(brought)
