"""Whatever the repository refers to is there: sections of the specification, documents, links, files, functions; and nothing outside."""

from __future__ import annotations

import builtins
import os
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch, translate
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = "bundle/kafka_s3/"
PLACES = ("", PACKAGE, "dashboard/*")
SPECIFICATION = "docs/semantics.md"
OWN = "tests/unit/docs/test_citations.py"
GUIDES = [
    "README",
    "CONTRIBUTING",
    "docs/architecture",
    "docs/glossary",
    "docs/worked-examples",
    "docs/dashboard",
]
"""Every file, folder and function that they name in backticks must exist; classes, too, if the glossary names them."""
ALLOWED = {"Makefile": "CONFORMANCE_DIR ?= ../shared/conformance"}
"""The one way out of the repository, and only a default: the cases of the original connectors, which `make conformance` skips if absent."""
HEADING = re.compile(r"^#+ (?:Part )?([A-D](?:\d+(?:\.\d+)*)?)\.? ", re.MULTILINE)
NUMBER = r"[A-D](?:\d+(?:\.\d+)*)?\b"
CITATION = re.compile(rf"SEMANTICS\b(?:\s+(?:Part\s+)?({NUMBER}(?:(?:,|\s+and|,\s+and)\s+{NUMBER})*))?")
DOCUMENT = re.compile(r"(?<![\w./{}*-])((?:[\w-]+/|\.\./)*[\w-]+\.md)\b")
OTHER_DESIGN = re.compile(r"\b(?:DESIGN|BUNDLE|STYLE)(?:\.md\b|,? section\b|,? §|,? \d+(?:\.\d+)*\b)|\bseeds?/\w")
CLIMB = re.compile(r"(?<![\w./])(?:\.\./)+[\w./*-]+")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`([\w./*-]+\.(?:py|md|yml|toml|txt)|[a-z][\w-]*(?:/[\w-]+)*/|[\w.-]+file)(?:::([\w.]+))?`")
RAISED = re.compile(r"Raises ((?:[A-Z]\w+(?:, | and | or )?)+)")
DOTTED_CLASS = re.compile(r"`(?!(?:io|org|com|google|java)\.)((?:[a-z_]+\.)+)([A-Z]\w+)(?:\.\w+)?`")
DEFINED = re.compile(
    r"^(?:class (?P<outer>\w+)|    def (?P<method>\w+)|def (?P<function>\w+)|(?P<constant>\w+)(?:: .*?)? = )",
    re.MULTILINE,
)
"""What a module defines, by the beginnings of its lines: parsing the whole product takes a second."""
CLASS = re.compile(r"`([A-Z]\w+)(?:\.(\w+))?`")


@cache
def tracked() -> dict[str, str]:
    """Every text file of the repository, by its path from the root; what `.gitignore` names is left out."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    ignored = [line.strip("/") for line in lines if not line.startswith("#")] + [".git"]
    found = {}
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT).as_posix()
        paths = {name: f"{here}/{name}".removeprefix("./") for name in [*folders, *files]}
        kept = {n for n, path in paths.items() if not any(fnmatch(n, i) or path == i for i in ignored)}
        folders[:] = [name for name in folders if name in kept]
        for path in (paths[name] for name in files if name in kept):
            try:
                found[path] = (ROOT / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:  # an image
                continue
    return found


def scanned() -> dict[str, str]:
    """All texts but this one, which has wrong citations as examples."""
    return {path: text for path, text in tracked().items() if path != OWN}


@cache
def sections() -> tuple[str, ...]:
    return tuple(HEADING.findall((ROOT / SPECIFICATION).read_text(encoding="utf-8")))


def unknown_sections(text: str) -> list[str]:
    """The citations of a text that lead nowhere; a citation without a section is one of them."""
    wrong = []
    for cited in CITATION.finditer(text):
        numbers = re.findall(NUMBER, cited[1] or "")
        wrong += [f"SEMANTICS {number}" for number in numbers if number not in sections()]
        wrong += [] if numbers else [text[cited.start() : cited.end() + 30]]
    return wrong


def missing_documents(path: str, text: str) -> list[str]:
    """Documents that a file names, and that are neither beside it, nor at the top, nor in docs/."""
    places = (PurePosixPath(path).parent, PurePosixPath(), PurePosixPath("docs"))
    named = [name for line in text.splitlines() if ".md" in line for name in DOCUMENT.findall(line)]
    return [name for name in named if not any(_exists(place / name) for place in places)]


def ways_out(path: str, text: str) -> list[str]:
    """Where a text refers to what lies outside of the repository."""
    found = [match[0] for match in OTHER_DESIGN.finditer(text)]
    if "../" in text and not path.startswith("tests/"):  # tests have keys like ../x as data
        climbs = [match[0] for match in CLIMB.finditer(text)]
        found += [climb for climb in climbs if ".." in _normal(PurePosixPath(path).parent / climb).parts]
    return found


def dead_links(path: str, text: str) -> Iterator[str]:
    """The links of a page that lead to no file of the repository, or to no heading of it."""
    for target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        page = _normal(PurePosixPath(path).parent / file) if file else PurePosixPath(path)
        if not _exists(page) or (anchor and anchor not in anchors((ROOT / page).read_text(encoding="utf-8"))):
            yield target


def missing_names(text: str) -> Iterator[str]:
    """Files, folders and functions (`path.py::Class.method`) that a guide names, and that are not there."""
    for name, function in dict.fromkeys(NAMED_FILE.findall(text)):
        places = _places(name)
        if not places or (function and function not in functions_in(places[0])):
            yield f"{name}::{function}" if function else name


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as they are made of their texts."""
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def functions_in(path: str) -> set[str]:
    """Functions, classes and constants of a module, methods as `Class.method`."""
    found, outer = set[str](), ""
    for match in DEFINED.finditer(tracked()[path]):
        name = match[match.lastindex or 0]
        outer = match["outer"] or outer
        found.add(f"{outer}.{name}" if match["method"] else name)
    return found


@cache
def classes() -> dict[str, set[str]]:
    """The classes, methods and functions of each module of the product and its dashboard, by the module's path."""
    sources = [path for path in tracked() if path.endswith(".py") and path.startswith(("bundle/", "dashboard/"))]
    return {path: functions_in(path) for path in sources}


@cache
def _known_classes() -> frozenset[str]:
    return frozenset({"ArrowInvalid", *dir(builtins)}.union(*classes().values()))


def unknown_classes(text: str) -> Iterator[str]:
    """Classes that a module says it raises, or names in backticks with their module (`module.Class`), and that are not there."""
    known = _known_classes()
    for names in RAISED.findall(text):
        yield from (name for name in re.split(r", | and | or ", names) if name and name not in known)
    for module, name in DOTTED_CLASS.findall(text):
        end = "/" + module.replace(".", "/").rstrip("/") + ".py"
        if not any(name in names for path, names in classes().items() if path.endswith(end)):
            yield module + name


@cache
def _places(name: str) -> list[str]:
    """The paths that a guide may mean by a name."""
    patterns = [re.compile(translate(place + name)) for place in PLACES]
    return [path for path in _all_paths() if any(pattern.match(path) for pattern in patterns)]


@cache
def _all_paths() -> tuple[str, ...]:
    files = tracked()
    return (*files, *{f"{parent}/" for path in files for parent in PurePosixPath(path).parents})


@cache
def _exists(path: PurePosixPath) -> bool:
    normal = _normal(path)
    return ".." not in normal.parts and (ROOT / normal).exists()


def _normal(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(path))


def test_every_cited_section_of_the_specification_exists() -> None:
    wrong = {path: unknown_sections(text) for path, text in scanned().items()}
    assert {path: cited for path, cited in wrong.items() if cited} == {}


def test_the_sections_of_the_specification_are_numbered_without_a_hole() -> None:
    assert len(set(sections())) == len(sections()) > 40
    for number in sections():
        above, last = re.findall(r"^(.*?)(\d*)$", number)[0]
        before = above.rstrip(".") if last in ("", "1") else f"{above}{int(last) - 1}"
        assert before in sections(), f"{number} without {before}"


def test_every_document_that_is_named_exists() -> None:
    wrong = {path: missing_documents(path, text) for path, text in scanned().items()}
    assert {path: names for path, names in wrong.items() if names} == {}


def test_nothing_refers_to_what_lies_outside_of_the_repository() -> None:
    texts = {path: text.replace(ALLOWED.get(path, "\0"), "") for path, text in scanned().items()}
    wrong = {path: ways_out(path, text) for path, text in texts.items()}
    assert {path: found for path, found in wrong.items() if found} == {}


PAGES = sorted(path for path in tracked() if path.endswith(".md"))
DECISIONS = [path for path in PAGES if re.fullmatch(r"docs/decisions/\d{4}-[\w-]+\.md", path)]


@pytest.mark.parametrize("path", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(path: str) -> None:
    assert list(dead_links(path, tracked()[path])) == []


@pytest.mark.parametrize("path", DECISIONS)
def test_a_decision_is_one_short_page_of_context_decision_and_consequence(path: str) -> None:
    text = tracked()[path]
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text.splitlines()) <= 40


def test_the_index_has_every_decision_by_its_number_and_title() -> None:
    titles = {Path(path).name: tracked()[path].splitlines()[0].removeprefix("# ") for path in DECISIONS}
    rows = re.findall(r"^- \[(\d{4})\]\((.*)\) (.*)$", tracked()["docs/decisions/README.md"], re.MULTILINE)
    assert {name: f"{int(number)}. {title}" for number, name, title in rows} == titles
    numbers = [number for number, _, _ in rows]
    assert sorted(numbers) == sorted({path[:4] for path in titles})


@pytest.mark.parametrize("guide", [*GUIDES, *(path.removesuffix(".md") for path in DECISIONS)])
def test_every_file_and_function_that_a_guide_names_exists(guide: str) -> None:
    assert list(missing_names(tracked()[f"{guide}.md"])) == []


def test_every_class_that_a_docstring_names_exists() -> None:
    wrong = {path: list(unknown_classes(tracked()[path])) for path in classes()}
    assert {path: names for path, names in wrong.items() if names} == {}


def test_every_class_and_method_that_the_glossary_names_exists() -> None:
    terms = re.findall(r"^\| \*\*.*\| (.*) \|$", tracked()["docs/glossary.md"], re.MULTILINE)
    named = [f"{name}.{method}".rstrip(".") for cell in terms for name, method in CLASS.findall(cell)]
    known = set().union(*classes().values())
    assert 30 <= len(terms) <= 45
    assert [name for name in named if name not in known] == []


def test_the_architecture_has_a_line_for_each_package_in_the_order_of_the_imports() -> None:
    rows = re.findall(r"^\| `([\w/]+)/` \|", tracked()["docs/architecture.md"], re.MULTILINE)
    layers = tomllib.loads(tracked()["pyproject.toml"])["tool"]["contracts"]["layers"]
    names = [
        name.removeprefix("kafka_s3.").replace(".", "/")
        for line in layers
        for name in line
        if name.startswith("kafka_s3.")
    ]
    assert rows == [name for name in names if name != "__main__" and (ROOT / PACKAGE / name).is_dir()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as in SEMANTICS A3.2, A3.3 and B5.", []),
        ("(SEMANTICS Part B)", []),
        ("SEMANTICS A3.9", ["SEMANTICS A3.9"]),
        ("SEMANTICS A3.2, A99 and B5", ["SEMANTICS A99"]),
        ("SEMANTICS says so", ["SEMANTICS says so"]),
    ],
)
def test_a_citation_of_a_section_that_does_not_exist_is_found(text: str, found: list[str]) -> None:
    assert unknown_sections(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see DESIGN section 3", ["DESIGN section"]),
        ("as BUNDLE.md says", ["BUNDLE.md"]),
        ("path: ../../elsewhere/x.md", ["../../elsewhere/x.md"]),
        ("path: ../dist/*.whl, or a/../b", []),
    ],
)
def test_a_way_out_of_the_repository_is_found(text: str, found: list[str]) -> None:
    assert ways_out("resources/x.job.yml", text) == found


def test_links_and_names_that_lead_nowhere_are_found() -> None:
    page = "[a](semantics.md#a2-units-of-state) [b](none.md) [c](semantics.md#none) [d](https://example.org/none.md)"
    assert list(dead_links("docs/x.md", page)) == ["none.md", "semantics.md#none"]
    assert missing_documents("docs/x.md", "`semantics.md`, README.md, docs/none.md, ../CHANGELOG.md") == [
        "docs/none.md"
    ]
    names = "`tests/unit/docs/test_named_tests.py::functions_in` `tests/unit/` `tests/unit/none.py` `tests/conftest.py::none` `none/`"
    assert list(missing_names(names)) == ["tests/unit/none.py", "tests/conftest.py::none", "none/"]


def linked(path: str) -> list[str]:
    """The documents that a document links to, in order."""
    here = PurePosixPath(path).parent
    links = [link.partition("#")[0] for link in LINK.findall(tracked()[path]) if "://" not in link]
    return [os.path.normpath(here / link) for link in links if link.endswith(".md")]


def test_every_page_is_in_the_index_and_the_quick_starts_are_first() -> None:
    index = linked("docs/README.md")
    assert index[:3] == ["README.md", "docs/quick-start-avro.md", "docs/quick-start-cloud.md"]
    pages = {path for path in tracked() if path.startswith("docs/") and path.endswith(".md")}
    of_the_reference = {path for path in linked("docs/configuration.md") if path.startswith("docs/configuration")}
    assert pages - set(index) - of_the_reference - set(DECISIONS) == {"docs/README.md"}
    assert "docs/README.md" in linked("README.md")


def test_the_first_screen_of_the_readme_says_for_whom_it_is_and_why_it_is_not_the_connector() -> None:
    first = tracked()["README.md"].partition("```")[0]
    assert len(first.splitlines()) < 30
    for word in ("For whom", "Why not the connector?", "cost", "licence", "operation"):
        assert word in first


@pytest.mark.parametrize("phrase", ["told(?! apart)", "heard of", "storeys?", "own words"])
def test_the_pages_say_who_does_what(phrase: str) -> None:
    """Passives that leave open who speaks to whom had to be read twice."""
    pages = [path for path in tracked() if path.startswith("docs/") or path == "README.md"]
    assert [path for path in pages if re.search(rf"\b{phrase}\b", tracked()[path])] == []
