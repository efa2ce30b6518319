"""How does the wheel get built and installed as a platform would do it? Into an environment that shares its other packages with ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.repository import ROOT

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "wheels", ".*_cache")
"""What git ignores, too."""


def copied_sources(folder: Path) -> Path:
    """A copy of all that the wheel is made of."""
    sources = folder / "sources"
    for name in ("bundle", "dashboard", "examples"):
        shutil.copytree(ROOT / name, sources / name, ignore=LEFT_OUT)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    return sources


def build_wheel(folder: Path, project: str = ".") -> Path:
    """Build the wheel of the pyproject.toml in folder `project`, from a copy of the sources, so that nothing is left in the repository."""
    sources = copied_sources(folder)
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
            sources / project,
        ]
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Makes an environment with the wheel; gives its Python. The packages of this environment can be seen from it, the sources cannot."""
    _run([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    add_wheel(python, wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "of-the-tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    _hand_on_machine_code(site)
    return python


def add_wheel(python: Path, wheel: Path) -> None:
    """Install a wheel into the environment of a Python, without its dependencies."""
    _run([sys.executable, "-m", "pip", "--python", python, "install", *_QUIET, "--no-deps", "--no-compile", wheel])


def _hand_on_machine_code(site: Path) -> None:
    """The loops' machine code, as far as this checkout has it: each environment's first processes would compile it anew, side by side.

    It is taken for that of a module of the same time of change.
    """
    sources = ROOT / "bundle"
    for code in sources.glob("kafka_s3/**/__pycache__/*.nb[ci]"):
        target = site / code.relative_to(sources)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(code, target)
        module = code.parents[1] / f"{code.name.partition('.')[0]}.py"
        changed = module.stat()
        os.utime(site / module.relative_to(sources), ns=(changed.st_atime_ns, changed.st_mtime_ns))


def install_requirements(python: Path, folder: Path) -> None:
    """Installs what a folder's requirements.txt names, without a look into the network: all but our wheel must be here already.

    Streamlit's script is made anew, as an installation would have.
    """
    arguments = ("--no-index", "--no-deps", "-r", "requirements.txt")
    _run([sys.executable, "-m", "pip", "--python", python, "install", *_QUIET, *arguments], folder)
    script = python.with_name("streamlit")
    script.write_text(f"#!{python}\nfrom streamlit.web.cli import main\n\nmain(prog_name='streamlit')\n")
    script.chmod(0o755)


_QUIET = ("--quiet", "--disable-pip-version-check")


def _run(command: list[str | Path], folder: Path | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
