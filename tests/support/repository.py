"""Where does what tests read of the project lie?"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboard"
