"""The public names are those that docs/versions.md lists: nothing becomes public, or goes away, by accident."""

from __future__ import annotations

import ast
import re

import pytest

import kafka_s3
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
TUTORIALS = ("own-partitioners", "own-transforms", "own-formats")


def listed() -> set[str]:
    """The names in the page's table of the package."""
    (table,) = re.findall(r"^## What `import kafka_s3` offers\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    return {
        name
        for line in table.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`(\w+)`", line.split("|")[2])
    }


def test_the_page_lists_each_public_name_and_no_other() -> None:
    assert listed() == {*kafka_s3.__all__} - {"__version__"}


@pytest.mark.parametrize("name", kafka_s3.__all__)
def test_a_public_name_is_there_and_says_what_it_guarantees(name: str) -> None:
    found = getattr(kafka_s3, name)
    assert name in dir(kafka_s3)
    assert isinstance(found, str) or found.__doc__


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'CommitLog'"):
        kafka_s3.CommitLog  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse((ROOT / "bundle" / "kafka_s3" / "__init__.pyi").read_text(encoding="utf-8"))
    read = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert read == kafka_s3._MODULES  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", TUTORIALS)
def test_the_tutorials_import_public_names_only(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^from (kafka_s3[\w.]*) import", text, re.MULTILINE)} <= {
        "kafka_s3",
        "kafka_s3_testing.records",
    }
    assert not re.findall(r"`kafka_s3\.(?:connect|engine|model|objects)\.", text)
