"""One word, one thing: no two classes of the product share a name."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.contracts import modules_of, read_tree


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict[str, list[str]](list)
    tree = read_tree()
    for module in modules_of(tree):
        for name in re.findall(r"^class ([A-Za-z]\w*)", tree[module.path], re.MULTILINE):
            places[name].append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
