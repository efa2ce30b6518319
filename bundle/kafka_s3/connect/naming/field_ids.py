"""By which number do Iceberg's readers find a column? One that its path settles, in every file and every table of every topic.

Iceberg finds columns by number, not by name. Numbers that are counted depend on the order in which a table met its columns: a table that
is made again would count otherwise, and read files that have the old numbers wrongly. So ours come from the path (`at.street`,
`tags.element`, `prices.key`, `prices.value`), and tasks know them without a table.
"""

from __future__ import annotations

import hashlib
from typing import Final

MOST: Final = 2**30
"""Numbers are below it: half of what Iceberg takes is left for columns that others add."""


def path_of(folder: str, name: str) -> str:
    """The path of a member of a struct; `folder` is that of the struct, blank for a column."""
    return f"{folder}.{name}" if folder else name


def field_id(path: str) -> int:
    """The number of a column by its path: from 1 to `MOST`."""
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") % MOST + 1
