"""What does DuckDB read? In a process of its own: beside Spark its module complains at the end of the tests' process.

python -m tests.services.objects.duckdb_reader FUNCTION FILE     (the rows, pickled, on stdout)
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.repository import ROOT


def duckdb_rows(function: str, path: Path) -> list[dict[str, Any]]:
    """The rows that a table function of DuckDB gives for a file."""
    command = [sys.executable, "-m", "tests.services.objects.duckdb_reader", function, str(path)]
    rows: list[dict[str, Any]] = pickle.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    return rows


def main(function: str, path: str) -> None:
    """Reads and writes."""
    import duckdb

    with duckdb.connect() as connection:
        found = connection.sql(f"from {function}('{path}')")
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    sys.stdout.buffer.write(pickle.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
