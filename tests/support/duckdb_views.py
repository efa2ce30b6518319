"""What does DuckDB give by statements of ours? In a process of its own: beside Spark its module complains at the tests' end.

python -m tests.support.duckdb_views     (statements as JSON on stdin, the last one a query; its rows as JSON on stdout)
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.support.repository import ROOT


def rows_by(statements: Sequence[str]) -> list[list[Any]]:
    """The rows of the last statement, after the others."""
    command = [sys.executable, "-m", "tests.support.duckdb_views"]
    done = subprocess.run(command, input=json.dumps(statements), text=True, capture_output=True, check=True, cwd=ROOT)
    rows: list[list[Any]] = json.loads(done.stdout)
    return rows


def main() -> None:
    """Reads and writes."""
    import duckdb

    with duckdb.connect() as connection:
        for statement in json.load(sys.stdin):
            found = connection.execute(statement)
        print(json.dumps([list(row) for row in found.fetchall()]))


if __name__ == "__main__":
    main()
