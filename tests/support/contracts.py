"""Who may import whom? One table in pyproject.toml (`tool.contracts`) for the wheel, the dashboard and the jobs; this finds what breaks it.

    python -m tests.support.contracts            # as `make contracts` does

Three tables, over every import statement, also those inside functions and for type checkers:

- layers: a package imports only what is below its own line. Every package has a line, so that a new one must be given its layer.
- only: what is named there, a library or a package of ours, is imported by the packages named beside it and by nobody else.
- extras: a library is a dependency of all, or of one of the extras named beside the package.

And no module is part of a circle of imports, also not within its package, and no package at the top of `bundle/kafka_s3` is.

A module belongs to the longest name of the table that it is in: `kafka_s3.store`, `kafka_s3.engine.loop`, `kafka_s3_dashboard.page`.
This is a program of its own because jobs are scripts, and linters of imports know packages only.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final, TypeAlias

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
TREES: Final = {"bundle": "", "dashboard": "", "jobs": "jobs."}
"""The folders with the product's modules, and what stands before a module's name to make it unique."""
TABLE: Final = "pyproject.toml"
TESTING: Final = "bundle/pyproject.toml"
"""The second distribution, `kafka-s3-testing`; in the table it counts as an extra of that name."""
CALLED: Final = re.compile("import_module|__import__")
"""Imports that are calls, and so may be anywhere in an expression."""
Tree: TypeAlias = Mapping[str, str]
"""The texts of the modules and of the file with the table, by their paths from the root."""


@dataclass(frozen=True, slots=True)
class Module:
    """Module by the unique name that it is imported by (`kafka_s3.store.s3`, `jobs.run_sink`), and its path from the root."""

    name: str
    path: str
    is_package: bool

    @property
    def top(self) -> str:
        """What it is in at the top of its tree: `kafka_s3.engine`, `kafka_s3_dashboard.page`, `jobs.run_sink`."""
        return _prefixes(self.name)[-2:][0]


@dataclass(frozen=True, slots=True)
class Contracts:
    """The line of each package, 0 at the top; who alone imports what; the extras of a package; the libraries of each extra ("" for all)."""

    lines: Mapping[str, int]
    only: Mapping[str, Sequence[str]]
    extras: Mapping[str, Sequence[str]]
    libraries: Mapping[str, frozenset[str]]

    def package_of(self, module: Module) -> str | None:
        """The longest name of the table that a module is in, None where it is in none."""
        found = next((name for name in _prefixes(module.name) if name in self.lines), None)
        return None if found == "kafka_s3" and module.name != found else found

    def has(self, module: Module, library: str) -> bool:
        """Whether a library is there where the module is used."""
        extras = (extra for name, extras in self.extras.items() if _within(module.name, name) for extra in extras)
        return any(library in self.libraries[extra] for extra in ("", *extras))


@dataclass(frozen=True, eq=False)
class Project:
    """Tree of modules: its contracts, and its modules by their names."""

    contracts: Contracts
    by_name: Mapping[str, Module]


@dataclass(frozen=True, slots=True)
class Imports:
    """Of one module: line and reason of each import that is refused, and the names of the modules of ours that it imports."""

    refused: tuple[tuple[int, str], ...]
    targets: frozenset[str]


def main() -> int:
    """Prints every breach; the exit code says whether there is one."""
    found = breaches(read_tree())
    print("\n".join(found) or "Imports: every contract is kept.")
    return 1 if found else 0


def read_tree() -> Tree:
    """The repository's own."""
    paths = [
        ROOT / TABLE,
        ROOT / TESTING,
        *(path for folder in TREES for path in sorted((ROOT / folder).rglob("*.py"))),
    ]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def breaches(tree: Tree) -> list[str]:
    """Every import in a tree that the tree's own table does not allow, as `file:line why`."""
    modules = tuple(modules_of(tree))
    project, by_name = _project(tree[TABLE], tree[TESTING], modules), {module.name: module for module in modules}
    found = [f"{name}: has no line in tool.contracts" for name in sorted(_without_line(project.contracts, modules))]
    edges, tops = {}, defaultdict[str, set[str]](set)
    for module in modules:
        imports = _imports(project, module, tree[module.path])
        found += [f"{module.path}:{line} {why}" for line, why in imports.refused]
        edges[module.name] = imports.targets
        tops[module.top] |= {by_name[target].top for target in imports.targets} - {module.top, "kafka_s3"}
    return [*found, *_circle(edges), *_circle(tops)]


@cache
def _project(table: str, testing: str, modules: tuple[Module, ...]) -> Project:
    return Project(contracts_of(table, testing), {module.name: module for module in modules})


@cache
def _imports(project: Project, module: Module, text: str) -> Imports:
    """What a module's text imports. Kept, so that a tree in which one file has changed is soon looked at again."""
    refused, targets = [], set()
    for line, name in imported_names(text, module.name, module.is_package):
        target = _target(name, project.by_name)
        shown = f"{module.name} imports {target.name if target else name}"
        refused += [(line, f"{shown}: {why}") for why in _refused(module, target, name, project.contracts)]
        if target is not None and not _within(target.name, module.name):
            targets.add(target.name)
    return Imports(tuple(refused), frozenset(targets))


def contracts_of(text: str, testing: str) -> Contracts:
    """Return the table of a tree's pyproject.toml; `testing` is the text of the second distribution's."""
    content: dict[str, Any] = tomllib.loads(text)
    project, table = content["project"], content["tool"]["contracts"]
    named = {"": project["dependencies"], **project["optional-dependencies"]}
    testing_project = tomllib.loads(testing)["project"]
    named[testing_project["name"]] = testing_project["dependencies"]
    libraries = {extra: _importable(texts) for extra, texts in named.items()}
    lines = {name: number for number, names in enumerate(table["layers"]) for name in names}
    return Contracts(lines, table["only"], table["extras"], libraries)


def _importable(requirements: Sequence[str]) -> frozenset[str]:
    """The names by which distributions are imported: those of what is installed, else as they are written."""
    wanted = {canonicalize_name(Requirement(text).name) for text in requirements}
    installed = {name for name, parts in _distributions().items() if wanted & {*map(canonicalize_name, parts)}}
    return frozenset({*installed, *(name.replace("-", "_") for name in wanted)})


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


def modules_of(paths: Iterable[str]) -> list[Module]:
    """The modules among the paths of a tree, in their order."""
    return [_module(path) for path in paths if path.endswith(".py")]


@cache
def _module(path: str) -> Module:
    folder, *parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    name = TREES[folder] + ".".join(parts[:-1] if is_package else parts)
    return Module(name, path, is_package)


@cache
def imported_names(text: str, module: str, is_package: bool) -> tuple[tuple[int, str], ...]:
    """Line and full name of everything that a text imports: `from a import b` gives `a.b`, for b may be a module."""
    tree = ast.parse(text)
    nodes = ast.walk(tree) if CALLED.search(text) else _statements(tree)
    return tuple((node.lineno, name) for node in nodes for name in _names(node, module, is_package=is_package))


def _statements(outer: ast.AST) -> Iterator[ast.AST]:
    """All statements, at any depth: a tenth of the nodes."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(outer, part, ()):
            yield inner
            yield from _statements(inner)


def _names(node: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=source, names=names, level=level):
            parts = module.split(".")
            above = parts[: len(parts) - level + is_package] if level else []
            origin = ".".join([*above, *([source] if source else [])])
            yield from (f"{origin}.{alias.name}" for alias in names)
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name


def _target(name: str, by_name: Mapping[str, Module]) -> Module | None:
    """The module of ours that a full name means, None for a library's."""
    return next((by_name[part] for part in _prefixes(name) if part in by_name), None)


def _refused(module: Module, target: Module | None, name: str, contracts: Contracts) -> Iterator[str]:
    library = name.split(".")[0]
    if target is None and library not in sys.stdlib_module_names and not contracts.has(module, library):
        yield f"{library} is no dependency there. Name its distribution, or the package's extra, in pyproject.toml."
    if target is not None:
        mine, other = contracts.package_of(module), contracts.package_of(target)
        if mine is not None and other is not None and mine != other and contracts.lines[other] <= contracts.lines[mine]:
            yield f"{other} is not below {mine}. Move what both need below them."
    for closed in contracts.only.keys() & _prefixes(target.name if target else name):
        open_to = {*contracts.only[closed], *([closed] if target else [])}
        if not open_to & {*_prefixes(module.name)}:
            yield f"only {', '.join(contracts.only[closed])} may."


@cache
def _prefixes(name: str) -> tuple[str, ...]:
    """A name and those that it stands below: `a.b.c`, `a.b`, `a`."""
    parts = name.split(".")
    return tuple(".".join(parts[:length]) for length in range(len(parts), 0, -1))


def _within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}.")


def _without_line(contracts: Contracts, modules: Sequence[Module]) -> set[str]:
    return {module.top for module in modules if contracts.package_of(module) is None}


def _circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [f"a circle of imports: {' <- '.join(error.args[1])}. Move what they share below them."]
    return []


if __name__ == "__main__":
    sys.exit(main())
