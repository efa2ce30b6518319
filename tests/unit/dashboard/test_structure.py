"""The dashboard's packages import one way, only pages know Streamlit, and nothing of it needs Spark or Kafka."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import DASHBOARD

LAYERS = ("views", "page", "figures", "reading")
MODULES = sorted(path for layer in LAYERS for path in (DASHBOARD / layer).glob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_module_imports_its_own_layer_and_those_below(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imported(path)}
    assert not packages & set(LAYERS[: LAYERS.index(path.parent.name)])
    assert not packages & {"altair", "boto3", "confluent_kafka", "deltalake", "pyspark"}
    if path.parent.name in ("figures", "reading"):
        assert "streamlit" not in packages
