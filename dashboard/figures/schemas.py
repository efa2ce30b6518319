"""Where did schemas change, and how often do two of them take turns? Pure functions of the log's files."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from kafka_s3.followers.ddl.table import LoggedObject
from reading.frames import data_files

CHANGES_OF: Final = ("version", "committed_ms", "topic", "partition", "first_offset", "schema")
OBJECTS_OF: Final = ("topic", "schema", "folder", "name", "bytes", "encoded", "format")
"""The columns of files that `changes` and `newest_object` look at, beside KINDS."""


def changes(files: pd.DataFrame) -> pd.DataFrame:
    """Where a topic-partition's files changed their schema: entry, time, the schema before and after."""
    rows = data_files(files, *CHANGES_OF)
    if len(rows["schema"].cat.remove_unused_categories().cat.categories) < 2:
        return rows.iloc[:0].assign(before="", after="").drop(columns="schema")
    rows = rows.sort_values(["topic", "partition", "version", "first_offset"], kind="stable")
    codes = rows["schema"].cat.codes.to_numpy()
    place = rows["partition"].to_numpy() + rows["topic"].cat.codes.to_numpy().astype(np.int64) * (1 << 31)
    changed = np.flatnonzero((codes[1:] != codes[:-1]) & (place[1:] == place[:-1])) + 1
    names = rows["schema"].astype(object).to_numpy()
    found = rows.iloc[changed][["version", "committed_ms", "topic", "partition", "first_offset"]]
    return found.assign(before=names[changed - 1], after=names[changed]).reset_index(drop=True)


def pairs(found: pd.DataFrame) -> pd.DataFrame:
    """The changes of `changes` between the same two schemas of a topic, whichever came first, together; most of them first.

    Columns `topic`, `before` and `after` (as they followed each other first), `changes`, of which `back` in the other direction,
    `partitions`, `first_ms`, `last_ms`.
    """
    texts = found.assign(**{name: found[name].astype(str) for name in ("topic", "before", "after")})
    low, high = texts[["before", "after"]].min(axis=1), texts[["before", "after"]].max(axis=1)
    rows = []
    for (topic, *_), own in texts.groupby(["topic", low, high], sort=False):
        first, times = own.iloc[int(own["committed_ms"].to_numpy().argmin())], own["committed_ms"]
        back = int((own["before"] == first["after"]).sum())
        rows.append(
            (
                topic,
                first["before"],
                first["after"],
                len(own),
                back,
                own["partition"].nunique(),
                times.min(),
                times.max(),
            )
        )
    names = ["topic", "before", "after", "changes", "back", "partitions", "first_ms", "last_ms"]
    return pd.DataFrame(rows, columns=names).sort_values("changes", ascending=False, ignore_index=True, kind="stable")


def newest_object(files: pd.DataFrame, topic: str, schema: str) -> LoggedObject | None:
    """The newest object with values of a topic's schema, None where there is none."""
    rows = data_files(files, *OBJECTS_OF)
    own = rows[((rows["topic"] == topic) & (rows["schema"] == schema)).to_numpy()]
    if own.empty:
        return None
    last = own.iloc[-1]
    return LoggedObject(
        f"{last['folder']}{last['name']}", int(last["bytes"]), str(last["encoded"]), str(last["format"])
    )
