"""`python -m tests.support.bundle.validate`: what does the vendor's command say of the bundle? Without one it tells what is not checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.support.bundle.files import VARIABLES, read_yaml
from tests.support.repository import ROOT

LOGIN = ("DATABRICKS_HOST", "DATABRICKS_CONFIG_PROFILE")


def main() -> int:
    """Validates every target; the exit code is 1 where one is refused."""
    command = shutil.which("databricks")
    if command is None:
        print(
            "bundle-validate: no `databricks` command on PATH: not checked are its schema, its warnings, and names in a workspace."
        )
        return 0
    if not any(os.environ.get(name) for name in LOGIN):
        print(f"bundle-validate: `databricks` needs a workspace, none of {', '.join(LOGIN)} is set: not checked by it.")
        return 0
    targets = list(read_yaml(ROOT / "databricks.yml")["targets"])
    return max(int(_validate(command, target) != 0) for target in targets)


def _validate(command: str, target: str) -> int:
    variables = [part for name, value in VARIABLES.items() for part in ("--var", f"{name}={value}")]
    print(f"bundle-validate: {target}", flush=True)
    return subprocess.run(
        [command, "bundle", "validate", "--strict", "--target", target, *variables], cwd=ROOT
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
