"""Where does what tests read of the project lie?"""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboard"


def copy_checkout(folder: Path) -> None:
    """Copy all files that git knows, or would take in, into a new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
