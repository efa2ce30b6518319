"""Which share of the branches did the tests take? Of the whole package, and of what makes records appear exactly once, which has a limit.

    python -m tests.support.branches REPORT

`REPORT` is what `coverage json` wrote. Lines count for nothing here: coverage's own limit takes lines and branches together.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LIMIT = 95.0
LIMITED = ("engine/log", "engine/loop", "engine/task", "engine/open_files")


def share(files: Mapping[str, Any], package: str = "") -> float:
    """The percentage of the branches of a package's files that were taken. Raises ZeroDivisionError where it has none."""
    chosen = [one["summary"] for name, one in files.items() if f"kafka_s3/{package}" in name]
    return 100 * sum(one["covered_branches"] for one in chosen) / sum(one["num_branches"] for one in chosen)


def report(files: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """The packages with a limit, and their shares."""
    return [(package, share(files, f"{package}/")) for package in LIMITED]


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())["files"]
    print(f"branches taken: {share(found):.1f} %")
    for package, percent in report(found):
        print(f"  {package}: {percent:.1f} %{'' if percent >= LIMIT else f', below {LIMIT:.0f} %'}")
    sys.exit(any(percent < LIMIT for _, percent in report(found)))
