"""How does the repository become a site? Hooks of MkDocs: the menu is that of docs/README.md, and the README is the first page.

Pages link to each other as files of the repository, so that they can be read there, too. Links to what lies outside of docs/ are turned:
the README, the changelog and the policies are pages of the site, other files are copied beside them, a folder's link becomes plain text.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
INDEX: Final = "docs/README.md"
PAGES: Final = {
    source: f"{page}.md"
    for source, page in {
        "README.md": "index",
        INDEX: "pages",
        "CHANGELOG.md": "changelog",
        "CONTRIBUTING.md": "contributing",
        "SECURITY.md": "security-policy",
        "CODE_OF_CONDUCT.md": "code-of-conduct",
    }.items()
}
"""Files that are pages under other names; MkDocs would take docs/README.md for the first page."""
BELOW: Final = {"configuration.md": "configuration-*", "decisions/README.md": "decisions/0*"}
"""Pages that have others below them in the menu."""
VERSIONS: Final = "versions.md"
API: Final = VERSIONS.replace("versions", "api")
SOURCES: Final = {site: source for source, site in PAGES.items()}
LINK: Final = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The menu: a section for each heading of the index, a page for each link of its tables."""
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    config["nav"] = [
        {heading: [entry(link) for link in LINK.finditer(section)]}
        for heading, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    ]
    config["nav"][0]["Start"].append({"All pages": PAGES[INDEX]})
    return config


def entry(link: re.Match[str]) -> dict[str, Any]:
    """A page of the menu, with those that belong to it below."""
    path = site_path(posixpath.normpath(posixpath.join("docs", link["target"])))
    found = sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob(BELOW.get(path, "no-page"))
    )
    below = [*found, *([API] if path == VERSIONS else [])]
    return {link["text"]: [path, *below] if below else path}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that lie elsewhere, and the files that pages link to."""
    index = files.get_file_from_path("README.md")
    assert index is not None
    files.remove(index)
    for source, site in PAGES.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, API, content=reference()))
    for page in list(files.documentation_pages()):
        for link in LINK.finditer(page.content_string):
            target = in_repository(page.src_uri, link["target"])
            if target and is_copied(target) and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, content=(ROOT / target).read_bytes()))
    return files


def is_copied(path: str) -> bool:
    """Whether a file of the repository is no page, and lies outside of docs/."""
    return not path.startswith("docs/") and path not in PAGES and (ROOT / path).is_file()


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links of the repository become links of the site."""

    def turned(link: re.Match[str]) -> str:
        target = in_repository(page.file.src_uri, link["target"])
        if target is None:
            return link[0]
        path, _, anchor = target.partition("#")
        if (ROOT / path).is_dir():
            return link["text"]
        relative = posixpath.relpath(site_path(path), posixpath.dirname(page.file.src_uri) or ".")
        return f"{link['mark']}[{link['text']}]({relative}{'#' * bool(anchor)}{anchor})"

    return LINK.sub(turned, markdown)


def in_repository(page: str, target: str) -> str | None:
    """The path from the root that a page's link means, with its anchor; None for what is no file."""
    if target.startswith(("#", "http:", "https:", "mailto:")):
        return None
    source = SOURCES.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def site_path(path: str) -> str:
    """Where a file of the repository lies in the site."""
    return PAGES.get(path, path.removeprefix("docs/"))


def reference() -> str:
    """The page of the public names, from their docstrings."""
    spec = importlib.util.spec_from_file_location("kafka_s3", ROOT / "bundle" / "kafka_s3" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)  # imports nothing else
    names = [name for name in package.__all__ if name in package._MODULES]
    described = "\n".join(f"::: {package._MODULES[name]}.{name}\n" for name in names)
    first = f"`from kafka_s3 import ...` offers these names; which of them is for what: [versions]({VERSIONS})."
    return f"# Python API\n\n{first}\n\n{described}"


os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
