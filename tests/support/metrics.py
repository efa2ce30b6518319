"""What do the examples of Grafana and Prometheus ask for?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.repository import ROOT

EXAMPLES = ROOT / "examples" / "metrics"


def panels() -> list[str]:
    """The queries of the dashboard's panels."""
    return [target["expr"] for panel in _board()["panels"] for target in panel.get("targets", ())]


def expressions() -> Iterator[str]:
    """The queries of the dashboard and of the alert rules."""
    board = _board()
    yield from panels()
    yield from (variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query")
    rules = yaml.safe_load((EXAMPLES / "alert-rules.yaml").read_text(encoding="utf-8"))
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])


def named_in_examples() -> set[str]:
    """The names of samples in these queries."""
    return {name for expression in expressions() for name in re.findall(r"\bkafka_s3_\w+", expression)}


def _board() -> dict[str, Any]:
    return dict(json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8")))
