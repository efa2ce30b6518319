"""Objects by templates: every key can be read back, so no two files get one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_s3.connect.naming.keys import TemplateNames, directory_fault, name_fault
from kafka_s3.model.offsets import TopicPartition
from tests.support.examples import examples

TEXTS = st.sampled_from(["-", "--", "+", "x", "-1-", "1", ""])


@st.composite
def joined(draw: st.DrawFn, wanted: list[str], others: list[str], texts: st.SearchStrategy[str]) -> str:
    """Placeholders in any order, with texts around them."""
    some = draw(st.lists(st.sampled_from(others), unique=True))
    return draw(texts) + "".join(one + draw(texts) for one in draw(st.permutations([*wanted, *some])))


NAMES = joined(["${partition}", "${offset}"], ["${topic}", "${time}"], TEXTS).filter(
    lambda one: name_fault(one) is None
)
FOLDERS = joined([], ["${topic}", "${directory}"], st.sampled_from(["/", "raw", "a/", "/1", "-", ""])).filter(
    lambda one: directory_fault(one) is None
)
FILES = st.tuples(
    st.sampled_from(["a", "a-1", "1", "a-1-2", "x"]), st.integers(0, 22), st.sampled_from(["d", "", "a/1", "k=a-1"]),
    st.sampled_from([0, 1, 2, 11, 12, 21, 112, 10**11]),
)  # fmt: skip


def key(names: TemplateNames, file: tuple[str, int, str, int]) -> str:
    topic, partition, directory, offset = file
    return names.key(TopicPartition(topic, partition), directory, offset=offset, extension=".json")


@settings(max_examples=examples(150))
@given(
    NAMES,
    FOLDERS,
    st.sampled_from([1, 3]),
    st.lists(FILES, min_size=2, max_size=8, unique_by=lambda one: (one[0], one[1], one[3])),
)
def test_files_of_different_offsets_never_share_a_key_under_templates_without_fault(
    name: str, folder: str, width: int, files: list[tuple[str, int, str, int]]
) -> None:
    assume("${topic}" in name + folder)
    names = TemplateNames("t", folder, name, width).at_time(1_705_312_800_000)
    assert len({key(names, file) for file in files}) == len(files)
    for file in files:
        assert key(names, file).startswith(names.prefix_of(file[0]))
        encoded = file[2] if "${directory}" in folder else ""
        assert names.read(key(names, file), file[0]) == (TopicPartition(file[0], file[1]), encoded, file[3], ".json")
        assert key(names.at_time(0).with_time_of(key(names, file)), file) == key(names, file)


def test_a_template_says_what_a_key_is() -> None:
    names = TemplateNames("topics", "raw/${directory}", "${time}_${topic}_p${partition}_o${offset}", 4).at_time(
        1_705_312_800_000
    )
    assert key(names, ("orders", 2, "y=1/m=2", 7)) == "topics/raw/y=1/m=2/20240115T100000Z_orders_p2_o0007.json"
    assert names.prefix_of("orders") == "topics/raw/"
    found = names.read("topics/raw/y=1/20240115T100000Z_orders_p2_o0007.keys.avro", "orders")
    assert found == (TopicPartition("orders", 2), "y=1", 7, ".keys.avro")
    assert names.read("topics/raw/y=1/20240115T100000Z_other_p2_o0007.json", "orders") is None
    assert TemplateNames(" ", "all", "${partition}-${offset}", 1).prefix_of("orders") == "all/"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("${topic}-${offset}", "partition"), ("${topic}-${partition}", "offset"), ("${partition}${offset}", "digit"),
        ("${partition}1${offset}", "digit"), ("a/${partition}-${offset}", "slash"), ("${partition}-${offset}-${host}", "none of"),
        ("${partition}-${offset}-${offset}", "twice"), ("${partition}-${offset}-${", "none of"),
    ],
)  # fmt: skip
def test_a_name_that_two_files_could_get_says_why(template: str, says: str) -> None:
    assert says in str(name_fault(template))


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("/a", "empty"),
        ("a//b", "empty"),
        ("a/", "empty"),
        ("${topic}-${directory}", "one part"),
        ("${partition}", "none of"),
    ],
)
def test_a_folder_that_cannot_be_says_why(template: str, says: str) -> None:
    assert says in str(directory_fault(template))
