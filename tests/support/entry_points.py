"""A package of the user's own, as pip would have installed it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, module: str, source: str, group: str, entry: str) -> None:
    """The module is on the path, and `entry` (`name = module:attribute`) in a group of entry points, as long as the patch holds."""
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(module, None)
