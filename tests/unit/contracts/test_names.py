"""One word, one thing: no two classes of the house share a name."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.contracts import ROOT, modules_of


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict[str, list[str]](list)
    for module in modules_of(ROOT):
        for node in ast.parse(module.path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
