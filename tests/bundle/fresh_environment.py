"""How does the wheel get built and installed as a platform would do it? Into an environment that shares its other packages with ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.integration.support import ROOT


def build_wheel(folder: Path) -> Path:
    """Builds the wheel from a copy of the sources, so that nothing is left in the repository."""
    sources = folder / "sources"
    shutil.copytree(ROOT / "bundle", sources / "bundle", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            *_QUIET,
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            folder,
            sources,
        ]
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Makes an environment with the wheel; gives its Python. The packages of this environment can be seen from it, the sources cannot."""
    _run([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    _run([sys.executable, "-m", "pip", "--python", python, "install", *_QUIET, "--no-deps", "--no-compile", wheel])
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "of-the-tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


_QUIET = ("--quiet", "--disable-pip-version-check")


def _run(command: list[str | Path]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
