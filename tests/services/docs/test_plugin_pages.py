"""Do the pages on plugins work as they stand? Their files are written, the package is installed, and the commands run in order.

A block of `bash` is run; the block of `text` after it is what it prints.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

PAGES = ("own-partitioners", "own-transforms", "own-formats")
BY_DAY = "own-transforms"
FILES = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "pip": '-m pip --disable-pip-version-check -q "$@" --no-deps --no-build-isolation --target {site}',
    "pytest": '-m pytest -p no:cacheprovider --import-mode=importlib "$@"',
    "kafka-s3": '-m kafka_s3 "$@"',
}


def environment(folder: Path) -> dict[str, str]:
    """Programs that are those of this run; what pip installs goes into a folder that Python searches, as it does its own."""
    programs, site = folder / "bin", folder / "site"
    programs.mkdir()
    for name, words in PROGRAMS.items():
        script = programs / name
        script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {words.format(site=site)}\n")
        script.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT / 'bundle'}{os.pathsep}{site}", "COLUMNS": "200"}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one == BY_DAY else pytest.mark.nightly) for one in PAGES]
)
def test_a_reader_who_follows_a_page_on_plugins_gets_what_it_says(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    for file, content in FILES.findall(page):
        (work / file).write_text(content, encoding="utf-8")
    variables, ran, compared = environment(tmp_path), set(), 0
    for command, printed in COMMANDS.findall(page):
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=work,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ran.add(command.split()[0])
        if printed:
            assert done.stdout == printed, command
            compared += 1
    assert ran == set(PROGRAMS)
    assert compared
